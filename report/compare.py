"""Compare points with those of a baseline: better, same or worse, beyond the noise.

RULE has the rule. Points of equal parameters belong together. Parameters that a sample chooses
itself, such as tiles, may differ, and are unknown of a kernel that could not be built: then points
belong together by their options. Noise from one run to the next shows in a spread only where
several runs were pooled.
"""

import json
from collections import Counter

from common.errors import UsageError
from common.manifest import as_asked
from common.record import GOOD, LIBRARY, STATUSES
from common.stats import FEWEST, LEAST, grouped, noise
from report.points import NO_KERNEL
from report.values import text

# Params of a kernel's code, of a library, and of how a process ended.
_OF_A_VERSION = {"author", "licence", "generator", *LIBRARY, "exit_status"}
VERDICTS = ("worse", "better", "same", "unsure", "new", "gone")
RULE = (
    "Worse (better): the median time is longer (shorter) by more than the sum of both spreads, and "
    f"by more than {LEAST:.0%}. A spread is the distance from the 10th to the 90th percentile of "
    f"all launches. With fewer than {FEWEST} launches on a side a point is unsure. A worse status "
    f"than before is worse; from best to worst: {', '.join(STATUSES)}. A missing point is gone, or "
    "worse if its kernel did not pass elsewhere."
)


def compare(points, baseline):
    """Return a row, values by heading, for each point of two lists of them, the worst first.

    Raises UsageError.
    """
    pairs, new, old = _paired(points, baseline)
    # What ended early does not say which points are missing for it.
    broken = {_case(p): p for p in new if p.status not in GOOD}
    broken |= {_case(p): p for p, before in pairs if p.status != "passed" == before.status}
    found = [_row(*pair, *_judged(*pair)) for pair in pairs]
    found += [_row(None, point, *_judged_gone(point, broken)) for point in old]
    if not pairs and not any(row["Verdict"] == "worse" for row in found):
        raise UsageError("nothing to compare: the baseline has no case in common with the results")
    found += [_row(point, None, "new") for point in new]
    return sorted(found, key=lambda row: (
        VERDICTS.index(row["Verdict"]), -abs(row["Change of time, %"] or 0)))


def judge(new, old):
    """Return the verdict on two Spreads of times."""
    allowed, difference = noise(new, old), new.median - old.median
    if allowed is None:
        return "unsure"
    if abs(difference) <= allowed:
        return "same"
    return "worse" if difference > 0 else "better"


def _judged(new, old):
    """Return the verdict on two points, and why where their times do not say."""
    before, now = (STATUSES.index(point.status) for point in (old, new))
    if now > before:
        return "worse", f"{new.status}: {new.reason}"
    if new.status != "passed":
        return "same", f"{new.status}, {'as before' if now == before else f'was {old.status}'}"
    if old.status != "passed":
        return "better", f"was {old.status}: {old.reason}"
    times = new.spread, old.spread
    return ("unsure", "no times") if None in times else (judge(*times), "")


def _judged_gone(point, broken):
    """Return the verdict on a point that only the baseline has, and why."""
    kernels = (_case(point), (point.sample, point.case, NO_KERNEL))
    if point.status == "passed" and (new := next(filter(None, map(broken.get, kernels)), None)):
        return "worse", f"gone, {new.status}: {new.reason or ''}"
    return "gone", ""


def _row(new, old, verdict, why=""):
    """Return a row on two points, one of which may be None; the times if both passed."""
    point, words, was, now, before = new or old, (new or old).words, [], None, None
    if new and old:
        was = [word for word in old.words if word not in words]
        if new.status == old.status == "passed":
            now, before = new.spread, old.spread
    words += [f"(was {' '.join(was)})"] if was else []
    return {
        "Verdict": verdict,
        "Change of time, %": now and before and 100 * (now.median / before.median - 1),
        "Now, ms": now and 1e3 * now.median, "Spread, %": now and 100 * now.relative,
        "Baseline, ms": before and 1e3 * before.median,
        "Its spread, %": before and 100 * before.relative, "Board": point.board,
        "Sample": point.sample, "Case": point.case, "Kernel": point.kernel,
        "Size": text(point.params.get("size") or "", 120), "Why": why,
        "Parameters": " ".join(words),
    }


def line(row):
    """Return a line for a terminal on a row."""
    named = " ".join(row[name] for name in ("Sample", "Case", "Kernel", "Size") if row[name])
    why, change = row["Why"], row["Change of time, %"]
    if change is not None:
        why = f"{row['Now, ms']:.4g} ms, was {row['Baseline, ms']:.4g} ms ({change:+.1f} %)"
    return f"{row['Board']}: {named}: {why}"


# Which points belong together.


def _paired(points, baseline):
    """Return [(point, that of the baseline)], and the points of either side that are left.

    By options, and not by parameters, belong together only points that are alone with theirs.
    Raises UsageError where the boards do not correspond.
    """
    ours, theirs = ({p.board for p in side} for side in (points, baseline))
    shared = bool(ours & theirs)
    if not shared and not len(ours) == len(theirs) == 1:
        raise UsageError(
            f"the baseline has {', '.join(sorted(theirs))} and the results have "
            f"{', '.join(sorted(ours))}: name the folder of one board on each side"
        )
    # Of several points with one key, the newest of one side belongs to the newest of the other.
    pairs = []
    new, old = (sorted(side, key=lambda p: p.started) for side in (points, baseline))
    keys = {id(p): _keys(p, shared and p.board) for p in (*points, *baseline)}
    for level, by_options in enumerate((False, False, True, True)):

        def key(point, level=level):
            return keys[id(point)][level]

        ours, theirs = Counter(map(key, points)), Counter(map(key, baseline))
        known, found = grouped(old, key), []
        for point in reversed(new):
            of = key(point)
            if known.get(of) and (ours[of] == theirs[of] == 1 or not by_options):
                found.append((point, known[of].pop()))
        if level == 3:  # without the size only what broke off before it was known
            found = [pair for pair in found if not all(p.params.get("size") for p in pair)]
        pairs += reversed(found)
        used = {id(point) for pair in found for point in pair}
        new, old = ([p for p in side if id(p) not in used] for side in (new, old))
    return pairs, new, old


def _keys(point, board):
    """Return the keys by which points belong together, the most exact first."""
    same = board, *_case(point), _chosen(point.params)
    asked = board, *_case(point), *map(str, as_asked(point.argv[1:]))
    return (*same, point.device_name), same, (*asked, str(point.params.get("size"))), asked


def _case(point):
    return point.sample, point.case, point.kernel


def _chosen(params):
    """Return parameters as a text, equal for the same case in another version.

    Left out are nested ones, and those of a version or an outcome. The caches of older records were
    warm.
    """
    return json.dumps({
        name: value for name, value in {"caches": "warm", **params}.items()
        if name not in _OF_A_VERSION and not name.endswith("sha256") and not isinstance(value, dict)
    }, sort_keys=True)
