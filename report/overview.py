"""What the page tells of boards: what did not pass, key figures, what was built only, machines."""

import hashlib
import json
import re
from collections import Counter

from common import files, mesa
from common.errors import UsageError
from common.manifest import ROOT
from common.record import GOOD, RATES, STATUSES
from common.stats import grouped
from common.text import figures
from report import gemm
from report.values import device_name, flat, text

LOG_TAIL = 40  # lines
_LOG_BYTES = 16 * 1024
MOST_PROBLEMS = 100
BUILT_NOTE = (
    "The compiler's figures for each kernel; no kernel ran. Cycles are Mesa's static model of a "
    "work-item's program, each loop counted once: they are not times, and do not hold for Arm's "
    "compiler. The busiest unit limits a kernel: green for arithmetic, yellow for memory."
)
_NAMED = ("instructions", "registers", "threads", "bytes")
_MEMORY = ("load_store", "texture")
_OURS = re.compile(r"(common|samples)(/(?!\.\.?/)[^/\0]+)+")
_LARGEST = 64 * 1024**2  # bytes of a file of the samples
_FACTS = {"platform": "platform", "version": "version", "driver": "driver", "OpenCL C": "opencl_c",
          "compute units": "compute_units"}


def problems(points):
    """Return what did not pass, the worst first: (at most MOST_PROBLEMS, how many there are).

    Each is (its first point, cases, [(reason, kernels)], the end of the log). It is of one case, or
    of all cases where a sample is not supported.
    """
    groups = grouped((p for p in points if p.status not in GOOD), lambda p: (
        p.board, p.sample, p.status, p.status == "unsupported" or p.case))
    worst = sorted(groups.values(), key=lambda own: -STATUSES.index(own[0].status))
    return [_problem(own) for own in worst[:MOST_PROBLEMS]], len(worst)


def _problem(points):
    # Reasons that differ in names and numbers only are one.
    alike = grouped(points, lambda p: re.sub(r"\d+", "#", (p.reason or "").replace(p.kernel, "#")))
    ranked = sorted(alike.values(), key=len, reverse=True)
    reasons = [(own[0].reason or "no reason given", [p.kernel for p in own]) for own in ranked]
    cases = list(dict.fromkeys(p.case for p in points))
    return points[0], cases, reasons, tail(points[0].source.log)


def tail(path):
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
    """Return (columns, [(row, cells)]): boards and samples, the fewer across.

    A cell is ([(status, its badge)], the rate of the fastest point that passed, which that is).
    """
    groups = grouped(points, lambda p: (p.board, p.sample))
    cells = {key: _cell(own) for key, own in groups.items()}
    boards, samples = (sorted({key[side] for key in cells}) for side in (0, 1))
    empty = (), None, "not run"
    if len(boards) > len(samples):
        return samples, [(b, [cells.get((b, s), empty) for s in samples]) for b in boards]
    return boards, [(s, [cells.get((b, s), empty) for b in boards]) for s in samples]


def _cell(points):
    counts = Counter()
    for point in points:
        counts.update(dict(zip(STATUSES, point.counts)))
    badges = [(status, f"{count} {status}") for status, count in counts.items() if count]
    passed = [p for p in points if p.status == "passed" and not p.is_library]
    for metric in RATES:
        if found := [p for p in passed if p.typical(metric)]:
            point = max(found, key=lambda p: p.typical(metric))
            rate = point.rate(metric)
            named = ", ".join(filter(None, (point.kernel, point.case)))
            spread = f"{100 * rate.relative:.{0 if rate.relative > 0.0995 else 1}f} %"
            unit = gemm.unit(metric, point.params)
            return badges, f"{figures(rate.median)} {unit}", f"{named}, spread {spread}"
    return badges, None, ""


def built(points):
    """Return (boards, [(name of a kernel, cells)]) of the points that were built.

    A cell is ([(what binds it or its status, its badge)], None, what else is known).
    """
    # Where nothing could be built, no status tells.
    only = (p for p in points if "--build-only" in p.argv)
    found = {}
    for names, same in grouped(only, lambda p: (p.sample, p.case, p.kernel)).items():
        differing = _differing(same)
        for point in same:
            words = [word for word in point.words if word.partition("=")[0] in differing]
            found.setdefault(" ".join((*names, *words)), {})[point.board] = _built_cell(point)
    boards = sorted({board for cells in found.values() for board in cells})
    return boards, [
        (key, [found[key].get(b, ((), None, "")) for b in boards]) for key in sorted(found)
    ]


def _differing(points):
    """Return the names of the parameters in which points of the same board differ."""
    boards = grouped(points, lambda p: p.board).values()
    words = [[set(point.words) for point in same] for same in boards]
    return {word.partition("=")[0] for each in words
            for word in set.union(*each) - set.intersection(*each)}


def _built_cell(point):
    if point.status != "built":
        return [(point.status, point.status)], None, point.reason
    known = {name: point.metric(f"compiler.{name}") for name in (*mesa.UNITS, *_NAMED)}
    told = [f"{known[name]:.0f} {name}" for name in _NAMED if known[name] is not None]
    if spilled := sum(point.metric(f"compiler.{name}") or 0 for name in ("spills", "fills")):
        told.append(f"{spilled:.0f} spills and fills")
    if not told:
        kernel = {name: point.metric(f"kernel.{name}") for name in ("private", "local")}
        told = [f"{value:.0f} bytes {name}" for name, value in kernel.items() if value is not None]
    badge = "built", "built"
    if unit := mesa.binds(known):
        cycles = f"{known[unit]:.4g} cycles of {unit.replace('_', '/')}"
        badge = "memory" if unit in _MEMORY else "arithmetic", cycles
    return [badge], None, ", ".join(told)


def machines(points):
    """Return (board, device, [(name, text)]) for each device with its drivers."""
    devices = {id(p.device): p.device for p in points if p.device}  # a few, shared by all
    told = {key: json.dumps([device_name(device), *map(device.get, _FACTS.values())])
            for key, device in devices.items()}
    groups = grouped((p for p in points if p.device), lambda p: (p.board, told[id(p.device)]))
    return [_machine(own) for own in groups.values()]


def _machine(points):
    first, about = points[0], {}
    facts = [(name, text(first.device[key])) for name, key in _FACTS.items() if key in first.device]
    for environment in {id(p.environment): p.environment for p in points}.values():
        for name, value in flat(environment):
            about.setdefault(name, {})[value] = None
    facts += [(name, ", ".join(values)) for name, values in about.items()]
    facts += [("run", _run(run)) for run in dict.fromkeys(p.run for p in points) if run]
    return first.board, first.device_name, facts


def _run(run):
    """Return what is known of a run: its name, its environment, and how its code differs."""
    env, deployed, said = run.plan.get("env"), run.plan.get("deployed"), text(run.name)
    if env and isinstance(env, dict):
        said += f", with {' '.join(f'{name}={value}' for name, value in flat(env))}"
    if isinstance(deployed, dict):
        differ = sum(_hash(path) != digest for path, digest in deployed.items())
        said += "; " + (f"{differ} of its {len(deployed)} files differ from" if differ
                        else "its code is that of") + " this checkout"
    return said


def _hash(path):
    """Return the SHA-256 of a file of this checkout; None where there is none of that name."""
    try:
        data = files.read_bytes(ROOT / path, _LARGEST) if _OURS.fullmatch(path) else None
    except UsageError:
        return None
    return data and hashlib.sha256(data).hexdigest()
