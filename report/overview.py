"""The overview: cases that did not pass, and boards x samples with their key figures."""

import re
from dataclasses import dataclass

from common import files
from common.errors import UsageError
from common.record import GOOD
from common.text import figures
from report.inputs import NO_CASE
from report.points import RATES, SEVERITY

LOG_TAIL = 40  # lines
_LOG_BYTES = 16 * 1024
MOST_PROBLEMS = 100


@dataclass(frozen=True)
class Problem:
    """What did not pass: the points, and [(reason, kernels)], the commonest first.

    They are of one case, or of all `cases` where a sample is not supported.
    """

    points: list
    cases: list
    reasons: list
    log: str | None

    @property
    def first(self):
        return self.points[0]


@dataclass(frozen=True)
class Cell:
    """A sample on a board: how many records have which status, and the fastest that passed."""

    counts: dict
    key: str | None
    of: str | None
    spread: float | None

    @property
    def worst(self):
        return max(self.counts, key=SEVERITY.index)


def problems(points):
    """Return (Problems, how many there are): the worst first, at most MOST_PROBLEMS."""
    groups = {}
    for point in points:
        if point.status not in GOOD:
            case = None if point.status == "unsupported" else point.case
            groups.setdefault((point.board, point.sample, case, point.status), []).append(point)
    worst = sorted(groups.values(), key=lambda own: -SEVERITY.index(own[0].status))
    return [_problem(own) for own in worst[:MOST_PROBLEMS]], len(worst)


def _problem(points):
    groups = {}
    for point in points:
        # Reasons that differ in names and numbers only are one.
        alike = re.sub(r"\d+", "#", (point.reason or "").replace(point.kernel, "#"))
        groups.setdefault(alike, []).append(point)
    ranked = sorted(groups.values(), key=len, reverse=True)
    reasons = [(own[0].reason or "no reason given", [p.kernel for p in own]) for own in ranked]
    cases = list(dict.fromkeys(p.case for p in points))
    return Problem(points, cases, reasons, _tail(points[0].source.log))


def _tail(path):
    """Return the last lines of a log, or None where there is none."""
    try:
        with files.opened(path) as file:
            file.seek(max(0, file.seek(0, 2) - _LOG_BYTES))
            lines = file.read().decode(errors="replace").splitlines()[-LOG_TAIL:]
    except (OSError, TypeError, UsageError):
        return None
    shown = ("".join(c if c.isprintable() else " " for c in line).rstrip() for line in lines)
    return "\n".join(shown).strip("\n") or None


def table(points):
    """Return (columns, [(row, Cells or None)]): boards and samples, the fewer across."""
    cells = {}
    for point in points:
        cells.setdefault((point.board, point.sample), []).append(point)
    cells = {key: _cell(own) for key, own in cells.items()}
    boards, samples = (sorted({key[side] for key in cells}) for side in (0, 1))
    if len(boards) > len(samples):
        return samples, [(board, [cells.get((board, s)) for s in samples]) for board in boards]
    return boards, [(sample, [cells.get((b, sample)) for b in boards]) for sample in samples]


def _cell(points):
    counts = {}
    for point in points:
        for status, count in zip(SEVERITY, point.counts):
            if count:
                counts[status] = counts.get(status, 0) + count
    for metric, unit in RATES.items():
        found = [p for p in points
                 if p.status == "passed" and p.typical(metric) and not p.is_library]  # fmt: skip
        if found:
            point = max(found, key=lambda p: p.typical(metric))
            rate = point.rate(metric)
            figure = f"{figures(rate.median)} {unit}"
            of = point.kernel if point.case == NO_CASE else f"{point.kernel}, {point.case}"
            return Cell(counts, figure, of, rate.relative)
    return Cell(counts, None, None, None)
