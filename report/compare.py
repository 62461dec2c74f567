"""Compare points with those of a baseline: better, same or worse, beyond the noise.

The rule, for the times of all launches: a point is worse (better) when its median time is longer
(shorter) than the baseline's by more than both spreads together, and by more than LEAST. A spread
is the distance from the 10th to the 90th percentile. With fewer than FEWEST launches on a side
nothing is said. A point whose status is worse than before (passed, built, unsupported, error,
failed: the last is the worst) is worse, whatever its times; so is one that passed and is not there
any more, beside a new point of its kernel that did not pass.

Points belong together by what was asked for: what a sample chooses or finds while it runs, such as
tiles and local sizes, is not in the record of a kernel that could not be built.

Noise from one run to the next shows in a spread only where several runs were pooled.
"""

import itertools
from collections import Counter
from dataclasses import dataclass

from common.record import GOOD
from common.stats import Spread
from report import gemm
from report.errors import ReportError
from report.points import NO_KERNEL, SEVERITY, Point
from report.replay import as_asked
from report.values import case_of, flat_case

LEAST = 0.03
FEWEST = 3
VERDICTS = ("worse", "better", "same", "unsure", "new", "gone")
RULE = (
    "Worse (better): the median time is longer (shorter) by more than both spreads together, and "
    f"by more than {LEAST:.0%}. A spread is the distance from the 10th to the 90th percentile of "
    f"all launches. With fewer than {FEWEST} launches on a side a point is unsure. A worse status "
    f"than before is worse; from best to worst: {', '.join(SEVERITY)}. A missing point is gone, or "
    "worse if its kernel did not pass elsewhere."
)


@dataclass(frozen=True)
class Comparison:
    """A point beside the one of the baseline; None where one side has none.

    `change` is the ratio of the median times minus 1: +0.1 is a tenth slower. `why` explains a
    verdict that times do not.
    """

    new: Point | None
    old: Point | None
    verdict: str
    new_times: Spread | None = None
    old_times: Spread | None = None
    why: str = ""

    @property
    def point(self):
        return self.new or self.old

    @property
    def change(self):
        if self.new_times is None or self.old_times is None:
            return None
        return self.new_times.median / self.old_times.median - 1


def compare(points, baseline):
    """Return the Comparisons of two lists of points, the worst first. Raises ReportError."""
    pairs, new, old = _paired(points, baseline, _boards(points, baseline))
    found = [_judged(*pair) for pair in pairs]
    # What ended early does not say which points are missing for it.
    broken = {_case(p): p for p in new if p.status not in GOOD}
    broken |= {_case(p): p for p, before in pairs if p.status != "passed" == before.status}
    lost = [_judged_gone(point, broken) for point in old]
    if not pairs and not any(each.verdict == "worse" for each in lost):
        raise ReportError("nothing to compare: the baseline has no case in common with the results")
    found += lost + [Comparison(point, None, "new") for point in new]
    return sorted(found, key=lambda c: (VERDICTS.index(c.verdict), -abs(c.change or 0)))


def judge(new, old):
    """Return the verdict on two Spreads of times."""
    if min(new.count, old.count) < FEWEST:
        return "unsure"
    noise = (new.high - new.low) + (old.high - old.low)
    difference = new.median - old.median
    if abs(difference) <= max(noise, LEAST * old.median):
        return "same"
    return "worse" if difference > 0 else "better"


def _judged(new, old):
    if new.status != "passed" or old.status != "passed":
        before, now = (SEVERITY.index(point.status) for point in (old, new))
        if now > before:
            return Comparison(new, old, "worse", why=f"{new.status}: {new.reason}")
        if new.status == "passed":
            return Comparison(new, old, "better", why=f"was {old.status}: {old.reason}")
        was = "as before" if now == before else f"was {old.status}"
        return Comparison(new, old, "same", why=f"{new.status}, {was}")
    times = new.spread, old.spread
    if None in times:
        return Comparison(new, old, "unsure", why="no times")
    return Comparison(new, old, judge(*times), *times)


def _boards(points, baseline):
    """Return which board of the baseline each board of the results is compared with."""
    ours, theirs = ({p.board for p in side} for side in (points, baseline))
    if common := ours & theirs:
        return {name: name for name in common}
    if len(ours) == len(theirs) == 1:
        return {min(ours): min(theirs)}
    raise ReportError(
        f"the baseline has {', '.join(sorted(theirs))} and the results have "
        f"{', '.join(sorted(ours))}: name the folder of one board on each side"
    )


def _paired(points, baseline, boards):
    """Return [(point, that of the baseline)], and the points of either side that are left."""
    theirs = {id(p): boards.get(p.board, p.board) for p in points}
    pairs, left = [], (list(points), list(baseline))

    def kernel(point):
        return theirs.get(id(point), point.board), *_case(point)

    def take(key, sides=None):
        """Pair points of an equal key; of several in the baseline the newest."""
        ours, others = left if sides is None else sides
        known = {}
        for point in sorted(others, key=lambda p: p.started):
            known.setdefault(key(point), []).append(point)
        found = [(p, same.pop()) for p in ours if (same := known.get(key(p)))]
        pairs.extend(found)
        used = {id(point) for pair in found for point in pair}
        for side in left:
            side[:] = [p for p in side if id(p) not in used]

    def asked(point):
        size, precision = point.params.get("size"), gemm.precision(point.params)
        return *kernel(point), str(size), precision, *_asked(point)

    # The very same first: of equal ones that of the same device, else the newest.
    take(lambda p: (*kernel(p), case_of(p.params), p.device_name))
    take(lambda p: (*kernel(p), case_of(p.params)))
    # Then those that agree in all that both records have: an early end leaves some unknown.
    cases = {id(p): flat_case(p.params) for side in left for p in side}
    for more in (_asked, lambda p: ()):
        names = [{frozenset(cases[id(p)]) for p in side} for side in left]
        for ours, others in itertools.product(*names):
            if ours == others:
                continue
            both = sorted(ours & others)

            def known(point, more=more, both=both):
                return *kernel(point), *more(point), *(cases[id(point)][n] for n in both)

            take(known, [[p for p in side if cases[id(p)].keys() == own]
                         for side, own in zip(left, (ours, others))])  # fmt: skip
    # Then those for which something else was chosen, where there was one choice.
    counts = [Counter(map(asked, side)) for side in (points, baseline)]
    single = [[p for p in side if all(c[asked(p)] == 1 for c in counts)] for side in left]
    take(asked, single)
    return pairs, *left


def _case(point):
    return point.sample, point.case, point.kernel


def _asked(point):
    """Return the options of a point, as given."""
    return tuple(map(str, as_asked(point.argv[1:])))


def _judged_gone(point, broken):
    """Return the Comparison of a point that only the baseline has."""
    kernels = (_case(point), (point.sample, point.case, NO_KERNEL))
    if point.status == "passed" and (new := next(filter(None, map(broken.get, kernels)), None)):
        return Comparison(None, point, "worse", why=f"gone, {new.status}: {new.reason or ''}")
    return Comparison(None, point, "gone")


def line(comparison):
    """Return a line for a terminal on a Comparison."""
    point = comparison.point
    named = filter(None, (point.sample, point.case, point.kernel))
    what = f"{point.board}: {' '.join(named)}"
    if comparison.change is None:
        return f"{what}: {comparison.why}"
    old, new = (times.median * 1e3 for times in (comparison.old_times, comparison.new_times))
    return f"{what}: {new:.4g} ms, was {old:.4g} ms ({100 * comparison.change:+.1f} %)"
