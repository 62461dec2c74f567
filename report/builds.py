"""What compilers made of kernels with --build-only: kernels x boards."""

from dataclasses import dataclass

from common import mesa

OPTION = "--build-only"
NOTE = (
    "What a compiler made of each kernel; nothing ran. Cycles are Mesa's static model of a "
    "work-item's program, each loop counted once: not times, and not Arm's compiler."
)
_NAMED = ("instructions", "registers", "threads", "bytes")
_MEMORY = ("load_store", "texture")


@dataclass(frozen=True)
class Cell:
    """A kernel on a board. `tone` is memory or arithmetic, what binds it; else the status."""

    tone: str
    head: str
    lines: list


def table(points):
    """Return (boards, [(name of a kernel, Cells or None)]) of the points that were built."""
    found = {}
    for point in points:
        if OPTION in point.argv:
            key = " ".join((point.sample, point.case, point.kernel))
            found.setdefault(key, {})[point.board] = _cell(point)
    boards = sorted({board for cells in found.values() for board in cells})
    return boards, [(key, [found[key].get(b) for b in boards]) for key in sorted(found)]


def _cell(point):
    if point.status != "built":
        return Cell(point.status, point.status, [point.reason])
    figures = {name: point.metric(f"compiler.{name}") for name in (*mesa.UNITS, *_NAMED)}
    told = [f"{figures[name]:.0f} {name}" for name in _NAMED if figures[name] is not None]
    if spilled := sum(point.metric(f"compiler.{name}") or 0 for name in ("spills", "fills")):
        told.append(f"{spilled:.0f} spills and fills")
    if not told:
        kernel = {name: point.metric(f"kernel.{name}") for name in ("private", "local")}
        told = [f"{value:.0f} bytes {name}" for name, value in kernel.items() if value is not None]
    unit = mesa.binds(figures)
    if unit is None:
        return Cell("built", "built", told)
    cycles = f"{figures[unit]:.4g} cycles of {unit.replace('_', '/')}"
    return Cell("memory" if unit in _MEMORY else "arithmetic", cycles, told)
