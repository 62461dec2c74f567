"""Kernels 12 to 26, as data in the same way as kernels.py; which of all kernels may be the best.

Kernel 12 is for CPUs, 13 to 15 are for NVIDIA's GPUs, 16 and 17 for vectors, 21 to 26 for Mali.
Their parameters follow the device and the size: common/planning/ says how.
"""

from contextlib import suppress
from math import inf
from pathlib import Path

from kernels import FIRST, REGISTERS_ONLY, UNROLLED, define

from common import constraints, selection
from common.arguments import a_path
from common.device import type_of
from common.errors import SampleError, Unsupported, UsageError
from common.planning import blocking, nvidia, plans, tiles, vectors
from common.planning.plans import Pass, over, up
from common.text import listed
from common.tuned import find

# 12 to 17: SPLITS work-groups may share the k's of a part of C.

_COUNT = "4 * (SPLITS > 1)"  # bytes of local memory: how many work-groups came before
# 12, 16 and 17: each such part has a counter.
_COUNTERS_OF_PARTS = "4 * work_groups // SPLITS * (SPLITS > 1)"
_VECTOR_SOURCES = "vector", "last"

# 12: packed panels, for CPUs.


def _packed_start(given, problem, limits, device):
    """Return the fastest parameters that are legal, those that are given among them."""
    known = constraints.facts(limits, problem.dtype.itemsize)
    about = problem, limits, device
    wishes = list(blocking.blocks(given, *about)) or list(blocking.blocks({}, *about))
    wishes = [{**wish, "GROUPS": 1, "SPLITS": 1, **given} for wish in wishes]
    legal = (wish for wish in wishes
             if not constraints.broken(PACKED.space, {"STEAL": 0, **wish}, known))
    params = dict(next(legal, wishes[0]))
    params["SPLITS"] = given.get("SPLITS") or blocking.splits(problem, params, device)
    return {**params, "STEAL": blocking.steal(problem, params, device)}


_PANELS_OF_12 = "(KC * NC + MR * (KC + WIDTH)) * itemsize"  # bytes for a work-group

PACKED = define(
    12, "packed",
    params={**dict.fromkeys(("WIDTH", "MR", "NR", "KC", "NC"), 0), "GROUPS": 1, "GLOBAL": 1,
            "SPLITS": 0, "STEAL": 1},
    rules=["NR % WIDTH == 0", "KC % WIDTH == 0", "NC % NR == 0", "GLOBAL in (0, 1)",
           "STEAL <= 1", "STEAL < 1 or SPLITS == 1", UNROLLED.format("4 * MR * NR")],
    local_size=("1", "1"), local_bytes=f"{_PANELS_OF_12} * (1 - GLOBAL) + {_COUNT}",
    values={"MR": (4, 6, 8, 12, 13), "NR": (8, 16, 32, 48), "KC": (96, 176, 352, 512),
            "NC": (48, 96, 192, 384, 768), "GROUPS": (1, 2, 4), "GLOBAL": (0, 1),
            "SPLITS": (1, 2, 4, 8), "STEAL": (0, 1)},
    start=_packed_start, more=blocking.more, groups=blocking.groups,
    work=f"work_groups * {_PANELS_OF_12} * GLOBAL", parts="SPLITS * M * N",
    counters=f"{_COUNTERS_OF_PARTS} + (24 * work_groups + 4) * STEAL",
    before=(*_VECTOR_SOURCES, "12_tile", "12_in_place", "12_steal"),
)

# 13 to 15: where the last work-group that shares a tile adds up the parts, each tile has a counter.
# BAND times the tiles in a row of C must fit in an int, whatever C may be.

_TILE_SOURCES = "last", "parts", "rows"
_COUNTERS = "4 * shared * LAST_ADDS"  # bytes
_BAND = "BAND <= 16"

# 13: warps. The tile follows the size, by common/planning/tiles.py.

_SLICE = "(TSM // WPTM * (TSN // WPTN))"  # work-items

WARPS = define(
    13, "warps",
    params={**dict.fromkeys((*tiles.WARP_NAMES, "SPLITS"), 0), "BAND": 8, "EARLY": 1},  # as in 15
    rules=[
        "WPTM % 4 == 0", "WPTN % 4 == 0", "TSK % 4 == 0",
        "TSM % (8 * WPTM) == 0", "TSN % (4 * WPTN) == 0",
        f"TSK * TSM % (4 * {_SLICE}) == 0", f"TSK * TSN % (4 * {_SLICE}) == 0",
        f"{_SLICE} % (TSN // 4) == 0", f"{_SLICE} % TSK == 0",
        UNROLLED.format("TSK * WPTM * WPTN"), _BAND,
        "SLICES <= 15",  # each has one of PTX's 16 barriers, and barrier() has one
        "EARLY <= 1",
    ],
    local_size=(f"{_SLICE} * SLICES",),
    local_bytes="4 * max(2 * SLICES * TSK * (TSM // 4 + 1 + TSN // 4), "
                f"(SLICES - 1) * WPTN // 4 * {_SLICE}, {_SLICE} * (WPTN + 2) // 4) * itemsize "
                f"+ {_COUNT}",
    values={"TSM": (32, 64, 96, 128, 192, 256), "TSN": (16, 32, 48, 64, 96, 128, 256),
            **dict.fromkeys(("WPTM", "WPTN"), (4, 8, 12, 16)), "SLICES": (1, 2, 3, 4),
            "SPLITS": (1, 2, 4), "BAND": (1, 4, 8, 16), "EARLY": (0, 1)},
    start=nvidia.warps_start, more=nvidia.warps_more, groups=nvidia.groups,
    counters=_COUNTERS, before=_TILE_SOURCES,
)

# 14: matrix units. A tile is small, so that two work-groups share a compute unit: while one of them
# waits, the matrix units work for the other. With 3 stages three would, and NVIDIA's compiler would
# leave a work-item too few registers.

_ITEMS = "(TSM // WARP_M * (TSN // WARP_N) * 32)"  # of a work-group: warps of 32
_LINES = f"({up('M', 'TSM')} + {up('N', 'TSN')})"  # rows of A and columns of B
_SLABS = over("K", "(512 // PART_BITS)")  # 64 bytes of a part, for each line

MATRIX_UNITS = define(
    14, "matrix_units",
    params={"PART_BITS": 16, **dict.fromkeys((*tiles.UNIT_NAMES, "SPLITS"), 0), "BAND": 8,
            "DIRECT": 1},
    rules=[
        "PART_BITS in (16, 32)", "DIRECT <= 1", "STAGES >= 2", "STAGES <= 2 or DIRECT < 1", _BAND,
        "WARP_M % 16 == 0", "WARP_N % 8 == 0",
        "TSM % WARP_M == 0", "TSN % WARP_N == 0", UNROLLED.format("WARP_M * WARP_N"),
        f"4 * TSM % {_ITEMS} == 0", f"4 * TSN % {_ITEMS} == 0",  # as many strips for each warp
        *(f"{most} >= {tiles.SPLIT_ITEMS}" for most in ("max_work_group_size", "max_work_items_0")),
    ],
    local_size=(_ITEMS,),
    # 8: do lines fit?
    local_bytes=f"STAGES * (TSM + TSN) * 128 + 8 + DIRECT * 8 * (TSM + TSN) + {_COUNT}",
    values={"PART_BITS": (16, 32), "TSM": (16, 32, 64, 128), "TSN": (16, 32, 64, 128, 256),
            **dict.fromkeys(("WARP_M", "WARP_N"), (16, 32, 64)), "STAGES": (2, 3, 4),
            "SPLITS": (1, 2, 4), "BAND": (4, 8, 16), "DIRECT": (0, 1)},
    start=nvidia.units_start, more=nvidia.units_more, groups=nvidia.groups,
    passes=(Pass("split", (f"{_LINES} // 8 * PARTS * SPLIT_ITEMS * (1 - DIRECT)",), None,
                 ("SPLIT_ITEMS",)),),
    work=f"{_LINES} * ({_SLABS} * 128 + 4 * PARTS) * (1 - DIRECT)",  # panels, an exponent a line
    # NVIDIA's OpenCL tells of 48 KiB of local memory, and gives what CUDA's does: 99 KiB, or more,
    # from compute capability 8.0 on (CUDA C++ Programming Guide, Technical Specifications).
    local_least=99 * 2**10, precisions=("single",),
    counters=_COUNTERS, before=(*_TILE_SOURCES, "nvidia", "store", "split"),
)

# 15: warpgroups. A compute unit has one work-group, which stays.

_PARTS_OF_A, _COLUMNS_OF_B = up("M", "128"), up("N", "TSN")
_COLUMN_ITEMS = "max(4, KC // 32)"  # work-items of split() for a column in KC

WARPGROUPS = define(
    15, "warpgroups",
    params={**dict.fromkeys((*tiles.WARPGROUP_NAMES, "SPLITS"), 0), "BAND": 8,
            "DIRECT": 1, "SWAPPED": 1},  # 0, if given, is a choice: it does not leave them open
    rules=["DIRECT <= 1", "SWAPPED <= 1", "DIRECT >= 1 or SWAPPED < 1", "TSN >= 64 or SWAPPED < 1",
           "KC in (32, 64, 128, 256)", "STAGES >= 2", "SLICES in (1, 2, 4)",
           "TSN in (64, 128) or DIRECT >= 1", "SLICES < 2 or DIRECT >= 1",
           "TSN in (32, 64) or DIRECT < 1", "KC <= 32 or DIRECT < 1", "STAGES <= 2 or DIRECT < 1",
           _BAND],
    local_size=("384 * (1 - DIRECT) + 128 * SLICES * DIRECT",),
    # Slabs, scales, barriers; or slabs of B, with SWAPPED of 32 rows of A, and their scales.
    local_bytes="(STAGES * (128 + TSN) * 128 + (STAGES + 1) * 4 * TSN + STAGES * 16) * "
                "(1 - DIRECT) + "
                f"(SLICES * (2 * (TSN - 32 * SWAPPED) * 132 + 8) + {_COUNT}) * DIRECT",
    values={"TSN": (32, 64, 128), "KC": (32, 64, 128, 256), "STAGES": (2, 3, 4, 5, 6),
            "SLICES": (1, 2, 4), "SPLITS": (1, 2, 4), "BAND": (4, 8, 16), "DIRECT": (0, 1),
            "SWAPPED": (0, 1)},
    start=nvidia.warpgroups_start, more=nvidia.warpgroups_more, groups=nvidia.warpgroups_groups,
    passes=(Pass("split", (f"({_PARTS_OF_A} * ROW_ITEMS + {_COLUMNS_OF_B} * ({_COLUMN_ITEMS}) * "
                           f"{over('K', 'KC')}) * (1 - DIRECT)",), None, ("256",)),),
    work=f"(({_PARTS_OF_A} + {_COLUMNS_OF_B}) * {over('K', '32')} * 128 + "
         f"4 * {_PARTS_OF_A} + 4 * {_COLUMNS_OF_B} * {over('K', 'KC')}) * (1 - DIRECT)",
    local_least=227 * 2**10,  # from the same table as for 14
    precisions=("single",),
    counters=_COUNTERS,
    before=(*_TILE_SOURCES, "nvidia", "hopper", "store", "15_split", "15_direct"),
)

# 16 and 17: where B has one column, or A one row. On a CPU a work-group is a single work-item.

_SPLITS = (1, 2, 4, 8, 16)
_MOST_DOWN = 65535  # work-groups that CUDA allows in dimension 1 of an NDRange


def _dots_groups(problem, params, device):
    """Return the work-groups of kernel 16, by dimension; on a CPU one for each core at most."""
    shares, most = -(-problem.size.M // (params["ROWS"] * params["TEAMS"])), _MOST_DOWN
    if type_of(device) == "cpu":
        most = max(1, vectors.cores(problem, device)[0] // params["SPLITS"])
    return problem.size.N * params["SPLITS"], min(shares, most)


def _sums_groups(problem, params, device):
    """Return the work-groups of kernel 17, by dimension."""
    return -(-problem.size.N // params["NC"]), problem.size.M * params["SPLITS"]


DOT_PRODUCTS = define(
    16, "dot_products", params=vectors.DOTS,
    rules=["LANES in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)",
           UNROLLED.format("ROWS * WIDTH")],
    local_size=("LANES", "TEAMS"),
    local_bytes=f"TEAMS * ROWS * LANES * itemsize + {_COUNT}",
    values={"LANES": (1, 4, 8, 16, 32, 64, 128, 256), "ROWS": (1, 2, 4, 8),
            "TEAMS": (1, 2, 4, 8, 16, 32), "SPLITS": _SPLITS},
    start=vectors.start_dots, more=vectors.more_dots, groups=_dots_groups,
    parts="SPLITS * M * N", counters=_COUNTERS_OF_PARTS, before=_VECTOR_SOURCES,
)
ROW_SUMS = define(
    17, "row_sums", params=vectors.SUMS,
    rules=["NC % (LANES * WIDTH) == 0", UNROLLED.format("UNROLL * WIDTH"),
           "NC // LANES <= 8192"],  # sums of a work-item: too many would overflow its stack
    local_size=("LANES", "SLICES"), local_bytes=f"SLICES * NC * itemsize * (SLICES > 1) + {_COUNT}",
    values={"UNROLL": (1, 2, 4, 8, 16, 32, 64), "LANES": (1, 16, 32, 64),
            "SLICES": (1, 2, 4, 8, 16, 32), "NC": (16, 32, 64, 128, 256, 512, 1024, 2048),
            "SPLITS": _SPLITS},
    start=vectors.start_sums, more=vectors.more_sums, groups=_sums_groups,
    parts="work_groups * NC", counters=_COUNTERS_OF_PARTS, before=_VECTOR_SOURCES,
)

# 21 to 26: for Mali. A work-item computes M0 x N0 elements of C; a missing parameter is 4. 22 to 26
# copy A and B first, in the order in which they are read, and fill them up with zeros.

_GROUP, _LOCAL = {"LANES": 16, "ROWS": 4}, {"local_size": ("LANES", "ROWS")}
_COPIED = {**_LOCAL, "before": ("mali",)}
_TILES = {
    "params": {"M0": 4, "N0": 4, "UNROLL": 4, **_GROUP}, "rules": ["M0 % 4 == 0", "N0 % 4 == 0"],
    "per_item": ("N0", "M0"), **_COPIED,
}
_ROWS, _COLUMNS, _DEPTH = up("M", "M0"), up("N", "LANES * N0"), up("K", "UNROLL")
_PANELS = Pass("pack_a", (_DEPTH, over("M", "M0")))
_IMAGE_A = Pass("pack_a", (f"{_ROWS} // 4", _DEPTH), "FLOAT")
_IMAGE_B = Pass("pack_b", (f"{_COLUMNS} // 4", _DEPTH), "FLOAT")
_HALVES = [
    Pass(entry, (over(side, "4"), f"{_DEPTH} // 2"), "UNSIGNED_INT32")
    for entry, side in (("pack_a", "M"), ("pack_b", "N"))
]
_QUADS = f"{up('K', '4 * UNROLL')} // 4"  # bytes
_BYTES = (
    Pass("pack_a", (_QUADS, f"{_ROWS} // 4")),
    Pass("pack_b", (over("N", "4"), _QUADS), "UNSIGNED_INT32"),
)


def _dot_products(problem, params, limits, device):
    """Return the type of C, and the option with which OpenCL C may have a dot product of bytes."""
    return {"REAL": "int"}, ("-cl-std=CL3.0",) if device.version >= "OpenCL 3" else ()


MALI_REGISTERS = define(
    21, "mali_registers", params={"M0": 4, "N0": 4, **_GROUP}, rules=["N0 % 4 == 0", "M0 <= 8"],
    values={"M0": (1, 2, 3, 4, 6, 8)}, per_item=("N0", "M0"), **_LOCAL,
    multiple=("M0", "LANES * N0", "4"), align=("4", "4", "4"),
)
MALI_PACKED = define(
    22, "mali_packed", passes=(_PANELS, _IMAGE_B._replace(channel=None)),
    work=f"({_ROWS} + {_COLUMNS}) * {_DEPTH} * itemsize", **_TILES,
)
MALI_IMAGE = define(
    23, "mali_image", passes=(_PANELS, _IMAGE_B), work=f"{_ROWS} * {_DEPTH} * 4",
    precisions=("single",), **_TILES,
)
MALI_IMAGES = define(
    24, "mali_images", passes=(_IMAGE_A, _IMAGE_B), precisions=("single",), **_TILES,
)
MALI_HALF = define(
    25, "mali_half", params={"UNROLL": 8, "CHAIN": 64, **_GROUP},
    rules=["UNROLL >= 2", "CHAIN % UNROLL == 0"], per_item=("4", "4"), **_COPIED,
    passes=_HALVES, precisions=("half",), chain="max(CHAIN, 1)",
    more=lambda *_: ({"REAL": "half", "SUM": "float"}, ()),
)
MALI_INT8 = define(
    26, "mali_int8", params={"M0": 4, "UNROLL": 4, **_GROUP}, rules=["M0 % 4 == 0"],
    per_item=("4", "M0"), **_COPIED, passes=_BYTES, work=f"{_ROWS} * 4 * {_QUADS}",
    more=_dot_products, precisions=("int8",),
)

KERNELS = (
    *FIRST, PACKED, WARPS, MATRIX_UNITS, WARPGROUPS, DOT_PRODUCTS, ROW_SUMS,
    MALI_REGISTERS, MALI_PACKED, MALI_IMAGE, MALI_IMAGES, MALI_HALF, MALI_INT8,
)
TUNED = Path(__file__).with_name("tuned")
CLOSE = 1.3  # times the least time by a model: a kernel with more is not run
# On a CPU kernel 17 may be the best for so few rows of C, kernel 16 for so few columns, and both of
# them for so few of both, or for so few flop: a launch costs more than the sums.
_FEW, _FEW_OF_BOTH, _FEW_FLOP = 4, 8, 2**15
_BY_NAME = {key: each for each in KERNELS for key in (each.name, each.label)}


def add_options(parser):
    """Add --kernel, --tuned, and an option for each parameter."""
    selection.add_options(parser, KERNELS, default="best")
    parser.add_argument("--tuned", type=a_path, default=TUNED, metavar="FOLDER",
                        help="folder in which --kernel best looks for parameters")


def named(args):
    """Return the (kernel, parameters given for it) to run; nothing where the best is wanted.

    Of all kernels, those for other precisions are left out.
    """
    if args.kernel == "best" and args.tuned != TUNED and not args.tuned.is_dir():
        raise UsageError(f"--tuned {args.tuned}: there is no such folder")
    found = selection.named(args, KERNELS)
    every = len(found) == len(KERNELS)
    return [pair for pair in found if not every or args.precision in pair[0].precisions]


def described(args, problem, limits, device):
    """Return what --describe says: of the kernels that are named, or all for the precision."""
    every = [kernel for kernel in KERNELS if args.precision in kernel.precisions]
    kernels = [kernel for kernel, _ in named(args)] or every
    return plans.described(kernels, problem, limits, device)


def best(args, problem, about, limits, device):
    """Return the [(kernel, parameters)] that `--kernel best` runs; say which they are.

    Stored parameters, if legal, are the only ones. Else these are the defaults of all kernels that
    may be the fastest, the favourite first; with --duration only that. Raises Unsupported where no
    kernel is legal.
    """
    M, N, K = problem.size
    stored = find(args.tuned, about, args.precision, str(problem.size), problem.batch,
                  usual=problem.leading == (K, N, N))
    vector = {M: ROW_SUMS, N: DOT_PRODUCTS}.get(1)
    if vector:  # what is stored for other sizes may be for matrices
        stored = [each for each in stored if each.exact or _BY_NAME.get(each.kernel) is vector]
    for kernel, params, why, _ in stored:
        kernel = _BY_NAME.get(kernel)
        if kernel and _legal(kernel, params, problem, limits, device):
            print(f"best: {kernel.label} ({why})", flush=True)
            return [(kernel, params)]
    seconds = {kernel: time for kernel, time in _likely(problem, vector, about, limits, device)
               if _legal(kernel, {}, problem, limits, device)}
    if not seconds:
        raise Unsupported("no kernel suits this device")
    close = [kernel for kernel in sorted(seconds, key=seconds.get)
             if seconds[kernel] <= CLOSE * min(seconds.values())]
    if args.duration:  # the next one would start on a hot board
        close = close[:1]
    may = "may be the best" if len(close) > 1 else "best"
    names = listed([kernel.label for kernel in close])
    print(f"{may}: {names} (no stored parameters apply)", flush=True)
    return [(kernel, {}) for kernel in close]


def _legal(kernel, params, problem, limits, device):
    if set(params) <= set(kernel.space.defaults):
        with suppress(SampleError):
            plans.plan(kernel, params, problem, limits, device)
            return True
    return False


def _likely(problem, vector, about, limits, device):
    """Yield (kernel, seconds) of kernels that may be the fastest; `vector` is one for a vector.

    The seconds are those of a model; 0 where there is none, and inf for a last resort.
    """
    from_nvidia = about["type"] == "gpu" and "nvidia" in about["vendor"].lower()
    if vector:
        yield vector, vectors.seconds(*vectors.about(problem, device)) if from_nvidia else 0
    if from_nvidia:
        yield WARPS, nvidia.warps(problem, limits, device)[0]
        yield MATRIX_UNITS, nvidia.units(problem, device)[0]
        yield WARPGROUPS, nvidia.warpgroups(problem, device)[0]
    if about["type"] == "cpu":
        yield PACKED, 0
        M, N, _ = problem.size
        small = max(M, N) <= _FEW_OF_BOTH or problem.flop() <= _FEW_FLOP
        for kernel, count in ((ROW_SUMS, M), (DOT_PRODUCTS, N)):
            if count <= _FEW or small:
                yield kernel, 0
    yield REGISTERS_ONLY, inf
    yield MALI_INT8, inf  # one of these two is for the precision
