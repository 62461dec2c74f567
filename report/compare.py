"""Compare points with those of a baseline: better, same or worse, beyond the noise.

RULE has the rule. Points of equal parameters belong together. Parameters that a sample chooses
itself, such as tiles, may differ, and are unknown of a kernel that could not be built: then points
belong together by their options. Noise from one run to the next shows in a spread only where
several runs were pooled.
"""

from collections import Counter
from typing import NamedTuple

from common.errors import UsageError
from common.manifest import as_asked
from common.record import GOOD, STATUSES
from common.stats import FEWEST, LEAST, Spread, grouped, noise
from report import gemm
from report.points import NO_KERNEL, Point
from report.values import case_of

COLUMNS = (("Verdict", ""), ("Change of time", "%"), ("Now", "ms"), ("Spread", "%"),
           ("Baseline", "ms"), ("Spread", "%"), ("Sample", ""), ("Case", ""), ("Kernel", ""),
           ("Why", ""), ("Parameters", ""))
VERDICTS = ("worse", "better", "same", "unsure", "new", "gone")
RULE = (
    "Worse (better): the median time is longer (shorter) by more than the sum of both spreads, and "
    f"by more than {LEAST:.0%}. A spread is the distance from the 10th to the 90th percentile of "
    f"all launches. With fewer than {FEWEST} launches on a side a point is unsure. A worse status "
    f"than before is worse; from best to worst: {', '.join(STATUSES)}. A missing point is gone, or "
    "worse if its kernel did not pass elsewhere."
)


class Comparison(NamedTuple):
    """A point beside the one of the baseline; None where one side has none.

    `times` are the Spreads of both where the verdict is by these; `why` explains one that is not.
    """

    new: Point | None
    old: Point | None
    verdict: str
    times: tuple[Spread, Spread] | None = None
    why: str = ""

    @property
    def point(self):
        return self.new or self.old

    @property
    def change(self):
        """The ratio of the median times minus 1: +0.1 is a tenth slower. None without times."""
        return self.times and self.times[0].median / self.times[1].median - 1


def compare(points, baseline):
    """Return the Comparisons of two lists of points, the worst first. Raises UsageError."""
    pairs, new, old = _paired(points, baseline, _boards(points, baseline))
    found = [_judged(*pair) for pair in pairs]
    # What ended early does not say which points are missing for it.
    broken = {_case(p): p for p in new if p.status not in GOOD}
    broken |= {_case(p): p for p, before in pairs if p.status != "passed" == before.status}
    lost = [_judged_gone(point, broken) for point in old]
    if not pairs and not any(each.verdict == "worse" for each in lost):
        raise UsageError("nothing to compare: the baseline has no case in common with the results")
    found += lost + [Comparison(point, None, "new") for point in new]
    return sorted(found, key=lambda c: (VERDICTS.index(c.verdict), -abs(c.change or 0)))


def judge(new, old):
    """Return the verdict on two Spreads of times."""
    allowed, difference = noise(new, old), new.median - old.median
    if allowed is None:
        return "unsure"
    if abs(difference) <= allowed:
        return "same"
    return "worse" if difference > 0 else "better"


def _judged(new, old):
    if new.status != "passed" or old.status != "passed":
        before, now = (STATUSES.index(point.status) for point in (old, new))
        if now > before:
            return Comparison(new, old, "worse", why=f"{new.status}: {new.reason}")
        if new.status == "passed":
            return Comparison(new, old, "better", why=f"was {old.status}: {old.reason}")
        was = "as before" if now == before else f"was {old.status}"
        return Comparison(new, old, "same", why=f"{new.status}, {was}")
    times = new.spread, old.spread
    if None in times:
        return Comparison(new, old, "unsure", why="no times")
    return Comparison(new, old, judge(*times), times)


def _boards(points, baseline):
    """Return which board of the results each board of the baseline is compared with."""
    ours, theirs = ({p.board for p in side} for side in (points, baseline))
    if ours & theirs:
        return {name: name for name in theirs}
    if len(ours) == len(theirs) == 1:
        return {min(theirs): min(ours)}
    raise UsageError(
        f"the baseline has {', '.join(sorted(theirs))} and the results have "
        f"{', '.join(sorted(ours))}: name the folder of one board on each side"
    )


def _paired(points, baseline, boards):
    """Return [(point, that of the baseline)], and the points of either side that are left."""
    names = {id(p): boards[p.board] for p in baseline}
    pairs, left = [], [list(points), list(baseline)]

    def kernel(point):
        return names.get(id(point), point.board), *_case(point)

    def take(key):
        """Pair points of an equal key that is not None; of several in the baseline the newest."""
        known = grouped(sorted(left[1], key=lambda p: p.started), key)
        found = [(p, same.pop()) for p in left[0] if (of := key(p)) and (same := known.get(of))]
        pairs.extend(found)
        used = {id(point) for pair in found for point in pair}
        left[:] = [[p for p in side if id(p) not in used] for side in left]

    def alone(key):
        """Return the key where only one point of each side has it, else None."""
        counts = [Counter(map(key, side)) for side in (points, baseline)]
        return lambda point: key(point) if all(c[key(point)] == 1 for c in counts) else None

    def asked(point):
        return *kernel(point), *map(str, as_asked(point.argv[1:]))

    def of_size(point):
        size, precision = point.params.get("size"), gemm.precision(point.params)
        return size and (*asked(point), str(size), precision)

    # Equal parameters first: of several that of the same device, else the newest.
    take(lambda p: (*kernel(p), case_of(p.params), p.device_name))
    take(lambda p: (*kernel(p), case_of(p.params)))
    # Then equal options, where one point has them.
    take(alone(of_size))
    # Last the records of crashes, which have not even a size.
    single = alone(asked)
    for side in (points, baseline):
        sized = {id(p) for p in side if p.params.get("size")}
        take(lambda p, sized=sized: None if id(p) in sized else single(p))
    return pairs, *left


def _case(point):
    return point.sample, point.case, point.kernel


def _judged_gone(point, broken):
    """Return the Comparison of a point that only the baseline has."""
    kernels = (_case(point), (point.sample, point.case, NO_KERNEL))
    if point.status == "passed" and (new := next(filter(None, map(broken.get, kernels)), None)):
        return Comparison(None, point, "worse", why=f"gone, {new.status}: {new.reason or ''}")
    return Comparison(None, point, "gone")


def rows(comparisons):
    """Return a row of COLUMNS for each; parameters of the baseline that differ come last."""
    found = []
    for c in comparisons:
        times = [n for t in c.times or () for n in (1e3 * t.median, 100 * t.relative)] or [None] * 4
        words = c.point.words
        was = [word for word in c.old.words if word not in words] if c.new and c.old else []
        words += [f"(was {' '.join(was)})"] if was else []
        change = c.times and 100 * c.change
        found.append((c.verdict, change, *times, c.point.sample, c.point.case, c.point.kernel,
                      c.why, " ".join(words)))
    return found


def line(comparison):
    """Return a line for a terminal on a Comparison."""
    point = comparison.point
    named = filter(None, (point.sample, point.case, point.kernel))
    what = f"{point.board}: {' '.join(named)}"
    if comparison.times is None:
        return f"{what}: {comparison.why}"
    new, old = (times.median * 1e3 for times in comparison.times)
    return f"{what}: {new:.4g} ms, was {old:.4g} ms ({100 * comparison.change:+.1f} %)"
