"""Kernels for warps, matrix units and warpgroups of NVIDIA's GPUs: parameters that follow the size,
and what a device must have. A function takes what a Kernel's `start`, `more` or `groups` takes."""

from common.device import type_of
from common.errors import Unsupported
from common.planning import tiles

EXTENSION = "cl_nv_compiler_options"  # its compiler takes inline PTX


def require(label, limits, device, ok, needs):
    """Raise Unsupported unless the compiler takes PTX, and `ok` the compute capability (9, 0)."""
    if EXTENSION not in limits.extensions:
        raise Unsupported(f"{label} needs inline PTX of NVIDIA's compiler: the device has no "
                          f"{EXTENSION}")
    has = device.compute_capability_major_nv, device.compute_capability_minor_nv
    if not ok(has):
        text = ".".join(map(str, has))
        raise Unsupported(f"{label} needs compute capability {needs}: the device has {text}")


def groups(problem, params, device):
    """Return the work-groups of kernels 13 and 14."""
    return (tiles.groups(problem.size, params, device.max_compute_units),)


def _adding(params, limits, device):
    """Return whether the last work-group of a tile adds up its parts."""
    return {"LAST_ADDS": tiles.last_adds(params) if _may_add(limits, device) else 0}


def _may_add(limits, device):
    """Tell whether last.cl was tried here: it needs more than OpenCL C 1.2 promises."""
    return EXTENSION in limits.extensions or type_of(device) == "cpu"


# 13: warps.


def warps(problem, limits, device):
    """Return (seconds, parameters) of the fastest tile."""
    itemsize, found = problem.dtype.itemsize, tiles.MODEST
    if EXTENSION in limits.extensions:
        aligned = set(_widths(problem).values()) == {4}
        found = tiles.DOUBLE if itemsize == 8 else tiles.single(problem.batch, aligned)
    return tiles.best(problem.size, found, device.max_compute_units, itemsize, 0, problem.batch,
                      _may_add(limits, device))


def warps_start(given, problem, limits, device):
    """Return the fastest tile."""
    return {**warps(problem, limits, device)[1], "BAND": 8}


def warps_more(problem, params, limits, device):
    """Return how wide loads may be, and how many work-items load side by side from a row of A."""
    defines = {**_widths(problem), **_adding(params, limits, device)}
    if defines["WIDTH_A"] == 1:
        defines["ACROSS_A"] = _across(params, problem.size.K)
    return defines, ()


def _across(params, K):
    """Return how many work-items load side by side from a row of A.

    All that a step of k's has, or half as many, which then load two elements of each row: that was
    found to be faster where each takes four rows only, and computes 8 rows of C.
    """
    tsm, slices, step = params["TSM"], params["SLICES"], params["TSK"] * params["SLICES"]
    items = slices * (tsm // params["WPTM"]) * (params["TSN"] // params["WPTN"])
    whole_tiles = slices == 1 or slices % 2 == 0  # ACROSS_A divides TSK, or TSK divides it
    half = params["WPTM"] == 8 and 2 * items == step * tsm // 4 and whole_tiles and step <= K
    return step // 2 if half else step


def _widths(problem):
    (_, N, K), lda, ldb, ldc = problem.size, *problem.leading
    widths = {"WIDTH_A": (K, lda), "WIDTH_N": (N, ldb, ldc)}
    return {name: 1 if any(n % 4 for n in each) else 4 for name, each in widths.items()}


# 14: matrix units.


def units_start(given, problem, limits, device):
    """Return the fastest tile."""
    about = problem.size, device.max_compute_units, problem.batch, given.get("DIRECT")
    params = tiles.best_units(*about)[1]
    return {"PART_BITS": 16, **params, "BAND": 8}


def units_more(problem, params, limits, device):
    """Return how split() goes about. Raises Unsupported where there are no matrix units for it."""
    require("14_matrix_units", limits, device, lambda has: has >= (8, 0), "8.0 or more")
    return {**tiles.split(problem.size, params, device.max_compute_units), **_widths(problem),
            **_adding(params, limits, device)}, ()


# 15: warpgroups. Its target, sm_90a, is for one compute capability only.

_KEPT = 4  # chunks of 8 k's that a work-item of split() keeps at most
_FEW_ROWS = 32  # of C: with 64, 96 and 128 other tiles were faster than SWAPPED ones


def _rows(params):
    return {"TSM": 32 if params["SWAPPED"] else 64 if params["DIRECT"] else 128}  # of a tile


def _chunk(size):
    """Return the k's that the unit sums up: few enough that truncation costs less than rounding
    does in float32, for which others take K in slices where C is small."""
    tiles_of_c = tiles.count(size, {"TSM": 128, "TSN": 128})
    most = 64 if tiles_of_c <= 48 else 128 if tiles_of_c <= 64 else 256
    steps = ((2048, 256), (384, 128), (64, 64), (0, 32))
    return min(most, next(chunk for least, chunk in steps if least <= size.K))


def warpgroups(problem, device, given=()):
    """Return (seconds, parameters) of the fastest tile, with the time of split().

    Those that are `given` are kept, if they can be.
    """
    (M, N, K), batch, found = problem.size, problem.batch, []
    lines = sum(-(-side // 128) * 128 for side in (M, N))
    unaligned = (K % 4 > 0) + (N % 4 > 0)
    for tile in tiles.slowed(problem.size, tiles.WARPGROUPS):
        params = {**tile.params, **_rows(tile.params)}
        if params["SWAPPED"] and M > _FEW_ROWS and not dict(given).get("SWAPPED"):
            continue
        params["KC"] = params["KC"] or _chunk(problem.size)
        before, rate = 0, tile.rate
        if params["DIRECT"] and batch > 1:
            rate *= 0.66  # no tile shares with another one what it reads
        if not params["DIRECT"]:
            # split(): it loads rows that are not aligned element by element.
            before = 3e-6 + unaligned * 1.5e-6 + batch * lines * K / 4.5e11
            if params["KC"] <= 64:  # sums are taken from the unit more often
                rate *= 0.65 if params["TSN"] == 128 else 0.8
        tile = tile._replace(params=params, rate=rate)
        found.append(tiles.best(problem.size, [tile], device.max_compute_units, 4, before, batch))

    def differs(params):
        wanted = dict(given)
        names = "DIRECT", "SWAPPED", "TSN"
        return sum(params[name] != wanted.get(name, params[name]) for name in names)

    return min(found, key=lambda pair: (differs(pair[1]), pair[0]))


def warpgroups_start(given, problem, limits, device):
    """Return the parameters of the fastest tile."""
    if "SLICES" in given or given.get("SWAPPED"):
        given = {"DIRECT": 1, **given}
    elif {"KC", "STAGES"} & set(given):
        given = {"DIRECT": 0, **given}
    params = warpgroups(problem, device, given)[1]
    return {**{name: n for name, n in params.items() if name != "TSM"}, "BAND": 8}


def warpgroups_more(problem, params, limits, device):
    """Return how parts are made. Raises Unsupported for other devices than Hopper's."""
    require("15_warpgroups", limits, device, lambda has: has == (9, 0), "9.0, Hopper's")
    chunks = -(-problem.size.K // 32) * 4
    items = min(256, max(4, 1 << (-(-chunks // _KEPT) - 1).bit_length()))
    params = {**params, **_rows(params)}
    return {**_rows(params), **_widths(problem), **_adding(params, limits, device),
            "ROW_ITEMS": items, "KEPT_A": min(_KEPT, -(-chunks // items))}, ()


def warpgroups_groups(problem, params, device):
    """Return the work-groups: one for each compute unit, if there are enough tiles."""
    units = device.max_compute_units
    found = tiles.groups(problem.size, {**_rows(params), **params}, units)
    return (found if params["DIRECT"] else min(units, found),)
