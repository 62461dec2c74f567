"""What the page tells of boards: what did not pass, key figures, what was built only, machines."""

import hashlib
import re
from collections import Counter
from functools import cache
from operator import attrgetter

from common import files, mesa
from common.errors import UsageError
from common.manifest import ROOT
from common.record import GOOD, RATES, STATUSES, unit
from common.stats import grouped
from common.text import figures
from report.values import leaves, text

LOG_TAIL = 40  # lines
_LOG_BYTES = 16 * 1024
BUILT_NOTE = (
    "The compiler's figures for each kernel; no kernel ran. Cycles are Mesa's static model of a "
    "work-item's program, each loop counted once: they are not times, and do not hold for Arm's "
    "compiler. The busiest unit limits a kernel: green for arithmetic, yellow for memory."
)
_BY_COMPILER = {f"compiler.{name}": name for name in (
    "instructions", "registers", "threads", "bytes", "spills", "fills")}
_BY_DRIVER = {"kernel.private": "bytes private", "kernel.local": "bytes local"}
_MEMORY = ("load_store", "texture")
_FACTS = {"platform": "platform", "version": "version", "driver": "driver", "OpenCL C": "opencl_c",
          "compute units": "compute_units"}


def problems(points):
    """Return what did not pass, the worst first.

    Each is (its first point, cases, [(reason, kernels)], the end of the log). It is of one case, or
    of all cases where a sample is not supported.
    """
    groups = grouped((p for p in points if p.status not in GOOD), lambda p: (
        p.board, p.sample, p.status, p.status == "unsupported" or p.case))
    worst = sorted(groups.values(), key=lambda own: -STATUSES.index(own[0].status))
    return list(map(_problem, worst))


def _problem(points):
    # Reasons that differ in names and numbers only are one.
    alike = grouped(points, lambda p: re.sub(r"\d+", "#", (p.reason or "").replace(p.kernel, "#")))
    ranked = sorted(alike.values(), key=len, reverse=True)
    reasons = [(own[0].reason or "no reason given", [p.kernel for p in own]) for own in ranked]
    source = points[0].source
    log = tail(source.path.with_suffix(".log")) if source.run else None
    return points[0], list(dict.fromkeys(p.case for p in points)), reasons, log


def tail(path):
    """Return the last lines of a log, or None where there is none."""
    try:
        with files.opened(path) as file:
            file.seek(max(0, file.seek(0, 2) - _LOG_BYTES))
            lines = file.read().decode(errors="replace").splitlines()[-LOG_TAIL:]
    except (OSError, UsageError):
        return None
    shown = ("".join(c if c.isprintable() else " " for c in line).rstrip() for line in lines)
    return "\n".join(shown).strip("\n") or None


def table(points):
    """Return (columns, [(row, cells)]): boards and samples, the fewer across.

    A cell is ([(status, its badge)], the rate of the fastest point that passed, which that is).
    """
    boards, samples = ({getattr(p, name) for p in points} for name in ("board", "sample"))
    names = ("sample", "board") if len(boards) <= len(samples) else ("board", "sample")
    groups = grouped(points, attrgetter(*names))
    return _matrix({at: _cell(own) for at, own in groups.items()}, "not run")


def _matrix(cells, nothing):
    """Return (columns, [(row, its cells)]) of cells by (row, column)."""
    down, across = (sorted({at[side] for at in cells}) for side in (0, 1))
    empty = (), None, nothing
    return across, [(row, [cells.get((row, column), empty) for column in across]) for row in down]


def _cell(points):
    counts = Counter()
    for point in points:
        counts.update(point.counts)
    badges = [(status, f"{counts[status]} {status}") for status in STATUSES if counts[status]]
    passed = [p for p in points if p.status == "passed" and not p.is_library]
    for metric in RATES:
        if found := [p for p in passed if p.metric(metric)]:
            point = max(found, key=lambda p: p.metric(metric))
            rate = point.rate(metric)
            named = ", ".join(filter(None, (point.kernel, point.case)))
            spread = f"spread {100 * rate.relative:.{0 if rate.relative > 0.0995 else 1}f} %"
            spread = spread if rate.count > 1 else "1 launch, no spread"
            shown = f"{figures(rate.median)} {unit(metric, point.params)}"
            return badges, shown, f"{named}, {spread}"
    return badges, None, ""


def built(points):
    """Return (boards, [(name of a kernel, cells)]) of the points that were built.

    A cell is ([(what binds it or its status, its badge)], None, what else is known).
    """
    # Where nothing could be built, no status tells.
    only = (p for p in points if "--build-only" in p.argv)
    cells = {}
    for names, same in grouped(only, attrgetter("sample", "case", "kernel")).items():
        differing = _differing(same)
        for point in same:
            words = [word for word in point.words if word.partition("=")[0] in differing]
            cells[" ".join((*names, *words)), point.board] = _built_cell(point)
    return _matrix(cells, "")


def _differing(points):
    """Return the names of the parameters in which points of the same board differ."""
    boards = grouped(points, lambda p: p.board).values()
    words = [[set(point.words) for point in same] for same in boards]
    return {word.partition("=")[0] for each in words
            for word in set.union(*each) - set.intersection(*each)}


def _built_cell(point):
    if point.status != "built":
        return [(point.status, point.status)], None, point.reason
    badge = "built", "built"
    cycles = {unit: point.metric(f"compiler.{unit}") for unit in mesa.UNITS}
    if busiest := mesa.binds(cycles):
        shown = f"{cycles[busiest]:.4g} cycles of {busiest.replace('_', '/')}"
        badge = "memory" if busiest in _MEMORY else "arithmetic", shown
    return [badge], None, _told(point, _BY_COMPILER) or _told(point, _BY_DRIVER)


def _told(point, names):
    values = {words: point.metric(name) for name, words in names.items()}
    return ", ".join(f"{value:.0f} {words}" for words, value in values.items() if value is not None)


def machines(points):
    """Return (board, device, [(name, text)]) for each device with its drivers."""
    # Of many points that share all of it one is enough.
    found = {(p.board, id(p.device), id(p.settings), p.source.run): p for p in points if p.device}
    groups = grouped(found.values(), lambda p: (p.board, p.device_name, _driver(p.device)))
    return [(board, device, [*driver, *_machine(own)])
            for (board, device, driver), own in groups.items()]


def _driver(device):
    return tuple((name, text(device[key])) for name, key in _FACTS.items() if key in device)


def _machine(points):
    about = {}
    for point in points:
        run = {"run": _run(point.source.run)} if point.source.run else {}
        for name, value in (point.settings | run).items():
            about.setdefault(name, {})[value] = None
    return [(name, ", ".join(values)) for name, values in about.items()]


@cache
def _run(run):
    """Return what is known of a run: its name, its environment, and how its code differs."""
    env, deployed, said = run.plan.get("env"), run.plan.get("deployed"), text(run.name)
    if env and isinstance(env, dict):
        said += f", with {' '.join(f'{name}={text(value, 120)}' for name, value in leaves(env))}"
    if isinstance(deployed, dict):
        differ = sum(_digest(path) != digest for path, digest in deployed.items())
        said += "; " + (f"{differ} of its {len(deployed)} files differ from" if differ
                        else "its code is that of") + " this checkout"
    return said


@cache
def _ours():
    """Return the files of the samples in this checkout by their name there."""
    paths = (path for top in ("common", "samples") for path in (ROOT / top).rglob("*"))
    return {path.relative_to(ROOT).as_posix(): path for path in paths if path.is_file()}


def _digest(name):
    """Return the SHA-256 of a file of this checkout; None where there is none of that name."""
    path = _ours().get(name)
    return path and hashlib.sha256(path.read_bytes()).hexdigest()
