"""What compilers made of kernels with --build-only: kernels x boards."""

from common import mesa

OPTION = "--build-only"
NOTE = (
    "The compiler's figures for each kernel; no kernel ran. Cycles are Mesa's static model of a "
    "work-item's program, each loop counted once: they are not times, and do not hold for Arm's "
    "compiler. The busiest unit limits a kernel: green for arithmetic, yellow for memory."
)
_NAMED = ("instructions", "registers", "threads", "bytes")
_MEMORY = ("load_store", "texture")


def table(points):
    """Return (boards, [(name of a kernel, cells)]) of the points that were built.

    A cell is ([(what binds it or its status, its badge)], None, what else is known).
    """
    kernels, found = {}, {}
    for point in points:
        if OPTION in point.argv:  # where nothing could be built, no status tells
            kernels.setdefault((point.sample, point.case, point.kernel), []).append(point)
    for names, built in kernels.items():
        differing = _differing(built)
        for point in built:
            words = [word for word in point.words if word.partition("=")[0] in differing]
            found.setdefault(" ".join((*names, *words)), {})[point.board] = _cell(point)
    boards = sorted({board for cells in found.values() for board in cells})
    return boards, [
        (key, [found[key].get(b, ((), None, "")) for b in boards]) for key in sorted(found)
    ]


def _differing(points):
    """Return the names of the parameters in which points of the same board differ."""
    boards = {}
    for point in points:
        boards.setdefault(point.board, []).append(set(point.words))
    return {word.partition("=")[0] for words in boards.values()
            for word in set.union(*words) - set.intersection(*words)}


def _cell(point):
    if point.status != "built":
        return [(point.status, point.status)], None, point.reason
    figures = {name: point.metric(f"compiler.{name}") for name in (*mesa.UNITS, *_NAMED)}
    told = [f"{figures[name]:.0f} {name}" for name in _NAMED if figures[name] is not None]
    if spilled := sum(point.metric(f"compiler.{name}") or 0 for name in ("spills", "fills")):
        told.append(f"{spilled:.0f} spills and fills")
    if not told:
        kernel = {name: point.metric(f"kernel.{name}") for name in ("private", "local")}
        told = [f"{value:.0f} bytes {name}" for name, value in kernel.items() if value is not None]
    badge = "built", "built"
    if unit := mesa.binds(figures):
        cycles = f"{figures[unit]:.4g} cycles of {unit.replace('_', '/')}"
        badge = "memory" if unit in _MEMORY else "arithmetic", cycles
    return [badge], None, ", ".join(told)
