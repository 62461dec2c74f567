"""Kernels for warps, matrix units and warpgroups of NVIDIA's GPUs: parameters that follow the size,
and what a device must have. A function takes what a Kernel's `start`, `more` or `groups` takes."""

from common.device import type_of
from common.errors import Unsupported
from common.planning import tiles

EXTENSION = "cl_nv_compiler_options"  # its compiler takes inline PTX
# Of the model of the time, as in tiles.py: fitted to times on an H200.
_SPLIT_RATE = 4.5e11  # elements of A and B that split() of 14 or 15 splits in a second
_BEFORE_14, _BEFORE_15 = 5.7e-6, 3.7e-6  # seconds that its launch takes besides
_UNALIGNED_SPLIT = 1.5e-6  # and where that of 15 loads rows of A, or of B, element by element
# In a batch DIRECT reaches this share of its rate: no tile shares what it reads with many others.
_ALONE_14, _ALONE_15 = 0.85, 0.66
# Where rows are not aligned, DIRECT loads them element by element, at this share of its rate for
# either of A and B.
_UNALIGNED_ROWS = 0.88
# To store such rows of C, or those at odd elements, takes as long as so many k's, times the rate.
_UNALIGNED_TILES, _ODD_TILES = 30, 80
# The share of the rate if sums are taken from the unit more often, in short chunks: by TSN and KC.
_SHORT_CHUNKS = {(128, 32): 0.65, (64, 32): 0.8, (128, 64): 0.75, (64, 64): 0.89}


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
    """Return the widths of accesses, how far a load from B may reach, and who adds up parts."""
    narrow = {"NARROW": min(problem.size.N, 4)}
    return {**_widths(problem), **narrow, **_adding(params, limits, device)}, ()


def _widths(problem):
    """Return how many elements an access to A may have, and one to B and C: 4 if all their rows
    begin at multiples of that, else 1."""
    (_, N, K), lda, ldb, ldc = problem.size, *problem.leading
    widths = {"WIDTH_A": (K, lda), "WIDTH_N": (N, ldb, ldc)}
    return {name: 1 if any(n % 4 for n in each) else 4 for name, each in widths.items()}


def _slowed(problem, found):
    """Return the tiles of 14 or 15, slower where rows of A, B or C are not aligned."""
    unaligned = {name: width == 1 for name, width in _widths(problem).items()}
    slower = []
    for tile in found:
        if tile.params["DIRECT"]:
            rows_of_a = unaligned["WIDTH_A"] and not tile.params.get("SWAPPED")  # it has few
            rate = tile.rate * _UNALIGNED_ROWS ** (rows_of_a + unaligned["WIDTH_N"])
            slower.append(tile._replace(rate=rate))
        else:
            late = _ODD_TILES * (problem.ldc % 2) if "KC" in tile.params else (
                _UNALIGNED_TILES * unaligned["WIDTH_N"])
            slower.append(tile._replace(start=tile.start + late * tile.rate))
    return slower


# 14: matrix units.


def units(problem, device, direct=None):
    """Return (seconds, parameters) of the fastest tile, with the time of split(), or with DIRECT.

    `direct`, 0 or 1, asks for one of them.
    """
    (M, N, K), batch, times = problem.size, problem.batch, []
    if direct != 1:
        before = _BEFORE_14 + batch * (M + N) * K / _SPLIT_RATE
        times.append((_slowed(problem, tiles.UNITS), before))
    if direct != 0:
        alone = _ALONE_14 if batch > 1 else 1
        times.append(([tile._replace(rate=tile.rate * alone)
                       for tile in _slowed(problem, tiles.DIRECT)], 0))
    return min((tiles.best(problem.size, found, device.max_compute_units, 4, before, batch)
                for found, before in times), key=lambda pair: pair[0])


def units_start(given, problem, limits, device):
    """Return the fastest tile."""
    params = units(problem, device, given.get("DIRECT"))[1]
    return {"PART_BITS": 16, **params, "BAND": 8}


def units_more(problem, params, limits, device):
    """Return what split() takes at a time, the widths of accesses, and who adds up parts.

    Raises Unsupported where there are no matrix units.
    """
    require("14_matrix_units", limits, device, lambda has: has >= (8, 0), "8.0 or more")
    return {**tiles.split(problem.size, params, device.max_compute_units), **_widths(problem),
            **_adding(params, limits, device)}, ()


# 15: warpgroups. Its target, sm_90a, is for one compute capability only.

_KEPT = 4  # chunks of 8 k's that a work-item of split() keeps at most
_FEW_ROWS = 32  # of C: with 64, 96 and 128 other tiles were faster than SWAPPED ones
_TWO_WAVES = 1.9  # tiles for each compute unit, or more, up to 2: they fill it twice


def _rows(params):
    """Return the rows of a tile, by name."""
    return {"TSM": 32 if params["SWAPPED"] else 64 if params["DIRECT"] else 128}


def _chunk(size, units):
    """Return the k's that the unit sums up: few enough that truncation costs less than rounding
    does in float32, for which others take K in slices where the tiles of C do not fill the device.
    """
    tiles_of_c = tiles.count(size, {"TSM": 128, "TSN": 128})
    full = _TWO_WAVES * units <= tiles_of_c <= 2 * units
    most = 64 if tiles_of_c <= 48 else 128 if tiles_of_c <= 320 and not full else 256
    steps = ((2048, 256), (384, 128), (64, 64), (0, 32))
    return min(most, next(chunk for least, chunk in steps if least <= size.K))


def warpgroups(problem, device, given=()):
    """Return (seconds, parameters) of the fastest tile, with the time of split().

    Where DIRECT, SWAPPED or TSN are `given`, tiles that agree with most of them come first.
    """
    (M, N, K), batch, found = problem.size, problem.batch, []
    lines = sum(-(-side // 128) * 128 for side in (M, N))
    unaligned = list(_widths(problem).values()).count(1)
    for tile in _slowed(problem, tiles.WARPGROUPS):
        params = {**tile.params, **_rows(tile.params)}
        if params["SWAPPED"] and M > _FEW_ROWS and not dict(given).get("SWAPPED"):
            continue
        params["KC"] = params["KC"] or _chunk(problem.size, device.max_compute_units)
        before, rate = 0, tile.rate
        if params["DIRECT"] and batch > 1:
            rate *= _ALONE_15
        if not params["DIRECT"]:
            before = _BEFORE_15 + unaligned * _UNALIGNED_SPLIT + batch * lines * K / _SPLIT_RATE
            rate *= _SHORT_CHUNKS.get((params["TSN"], params["KC"]), 1)
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
    """Return the rows of a tile, what split() takes at a time, the widths, and who adds up parts.

    Raises Unsupported for other devices than Hopper's.
    """
    require("15_warpgroups", limits, device, lambda has: has == (9, 0), "9.0, Hopper's")
    chunks = -(-problem.size.K // 32) * 4
    items = min(256, max(4, 1 << (-(-chunks // _KEPT) - 1).bit_length()))
    params = {**params, **_rows(params)}
    return {**_rows(params), **_widths(problem), **_adding(params, limits, device),
            "ROW_ITEMS": items, "KEPT_A": min(_KEPT, -(-chunks // items))}, ()


def warpgroups_groups(problem, params, device):
    """Return the work-groups: with DIRECT one for each tile or part, else at most one for each
    compute unit."""
    units = device.max_compute_units
    found = tiles.groups(problem.size, {**_rows(params), **params}, units)
    return (found if params["DIRECT"] else min(units, found),)
