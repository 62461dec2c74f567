"""The fourteen kernels as data: parameters, constraints, and NDRange.

An expression such as "TSM // WPTM" stands for a number that follows from the parameters; see
common/constraints.py. Dimension 0 of every NDRange goes along the columns of C, dimension 1 along
its rows: neighbours in a work-group write neighbours in memory. What kernels 12 to 14 need
beside their parameters is below the table.
"""

from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import plans
from plans import Kernel, Work

from common import constraints, selection, subgroups
from common.constraints import VECTORS, Space
from common.device import type_of
from common.errors import SampleError, Unsupported, UsageError
from common.gemm import REAL, padded
from common.machine import blocking
from common.tuned import find

# What a search tries for a parameter; where a kernel has others, they stand there.
_SIDES, _TILES, _PER_ITEM = (16, 32, 64, 128), (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16)
_VALUES = {
    **dict.fromkeys(("TS", "TSDK"), _TILES),
    **dict.fromkeys(("TSM", "TSN"), _SIDES),
    **dict.fromkeys(("WPT", "WPTM", "WPTN", "RY", "THREADSX", "THREADSY"), _PER_ITEM),
    **dict.fromkeys(("WIDTH", "RX", "RK"), VECTORS),
    "TSK": (4, 8, 16, 32),
    "PAD": (0, 1, 2),
}
_UNROLLED = "{} <= 8192"  # products of a work-item in a step of k: more takes a compiler minutes


def _space(defaults, rules, local, local_bytes="0", **values):
    """Return a Space: what OpenCL C has as vectors are vectors, and only PAD may be 0."""
    own = [
        f"{name} in {VECTORS}" if _VALUES.get(name) is VECTORS else f"{name} >= 1"
        for name in defaults
        if name != "PAD"
    ]
    values = {name: values.get(name) or _VALUES[name] for name in defaults}
    return Space(defaults, values, (*own, *rules), local, local_bytes)


# 01 to 05: a work-group makes a tile of TS x TS. Some work-items make WPT rows, or WIDTH columns.

_TS, _TS_BYTES = ("TS", "TS", "TS"), "2 * TS * TS * itemsize"
_WIDE = ("WIDTH", "WIDTH", "WIDTH")

NAIVE = Kernel(1, "naive", _space({"TS": 32}, (), ("TS", "TS")))
TILES = Kernel(2, "tiles", _space({"TS": 32}, (), ("TS", "TS"), _TS_BYTES), multiple=_TS)
MORE_WORK = Kernel(
    3,
    "more_work",
    _space({"TS": 32, "WPT": 8}, ("TS % WPT == 0",), ("TS", "TS // WPT"), _TS_BYTES),
    per_item=("1", "WPT"),
    multiple=_TS,
)
WIDE = Kernel(
    4,
    "wide",
    _space({"TS": 32, "WIDTH": 4}, ("TS % WIDTH == 0",), ("TS // WIDTH", "TS"), _TS_BYTES),
    per_item=("WIDTH", "1"),
    multiple=_TS,
    align=_WIDE,
)
TRANSPOSED = Kernel(
    5,
    "transposed",
    _space(
        {"TS": 32, "WPT": 8, "TSDK": 16, "PAD": 2},
        ("TS % WPT == 0", "TSDK % (TS // WPT) == 0"),
        ("TS", "TS // WPT"),
        "(TS * (TSDK + PAD) + TSDK * TS) * itemsize",
    ),
    per_item=("1", "WPT"),
    multiple=("TS", "TS", "TSDK"),
    transpose_a=True,
)

# 06 to 10: a work-item makes WPTM x WPTN elements of a tile of TSM x TSN, in steps of TSK.

_BLOCK = {"TSM": 128, "TSN": 128, "TSK": 16, "WPTM": 8, "WPTN": 8}
_BLOCK_RULES = ("TSM % WPTM == 0", "TSN % WPTN == 0", _UNROLLED.format("TSK * WPTM * WPTN"))
_BLOCK_LOCAL = ("TSN // WPTN", "TSM // WPTM")
_BLOCK_BYTES = "TSK * (TSM + TSN) * itemsize"
_EACH_LOADS = tuple(  # each work-item loads as many elements of a tile, or vectors of them
    f"TSK * {side} % (TSM // WPTM * (TSN // WPTN)) == 0" for side in ("TSM", "TSN")
)
_VECTOR_RULES = (
    *("WPTN % WIDTH == 0", "TSM % WIDTH == 0", *_BLOCK_RULES),
    *(rule.replace("WPTN))", "WPTN) * WIDTH)") for rule in _EACH_LOADS),
)
_BLOCKED = {"per_item": ("WPTN", "WPTM"), "multiple": ("TSM", "TSN", "TSK"), "transpose_a": True}


def _shuffles(problem, params, limits, device):
    """Return which way to pass values within a sub-group works. Raises Unsupported."""
    defines = {"REAL": REAL[problem.dtype], **params}
    local, lanes = constraints.local_size(SHUFFLES.space, params), params["WPTM"]
    args = (device, limits, SHUFFLES.file, defines, local, lanes, problem.dtype)
    found = subgroups.require(*args)
    return {"SHUFFLE": found.how}, found.options


REGISTERS = Kernel(
    6,
    "registers",
    _space(
        {**_BLOCK, "PAD": 2},
        (*_BLOCK_RULES, *_EACH_LOADS),
        _BLOCK_LOCAL,
        "(TSM * (TSK + PAD) + TSK * TSN) * itemsize",
    ),
    **_BLOCKED,
)
WIDE_REGISTERS = Kernel(
    7,
    "wide_registers",
    _space({**_BLOCK, "WIDTH": 4}, _VECTOR_RULES, _BLOCK_LOCAL, _BLOCK_BYTES),
    align=_WIDE,
    **_BLOCKED,
)
SHUFFLES = Kernel(
    8,
    "shuffles",
    _space(
        {**_BLOCK, "WIDTH": 4},
        (*_VECTOR_RULES, "WPTM in (1, 2, 4, 8, 16, 32, 64)", "TSN // WPTN % WPTM == 0"),
        _BLOCK_LOCAL,
        _BLOCK_BYTES,
    ),
    align=_WIDE,
    more=_shuffles,
    **_BLOCKED,
)
PREFETCH = Kernel(
    9,
    "prefetch",
    _space({**_BLOCK, "WIDTH": 4}, _VECTOR_RULES, _BLOCK_LOCAL, f"2 * {_BLOCK_BYTES}"),
    align=_WIDE,
    **_BLOCKED,
)
ANY_SIZE = Kernel(  # it takes the matrices as they are, and reads A along K
    10,
    "any_size",
    _space(
        {**_BLOCK, "WIDTH": 4, "PAD": 2},
        tuple(rule.replace("TSM % WIDTH", "TSK % WIDTH") for rule in _VECTOR_RULES),
        _BLOCK_LOCAL,
        "2 * (TSK * (TSM + PAD) + TSK * TSN) * itemsize",
    ),
    per_item=("WPTN", "WPTM"),
)

# 11: registers only.

REGISTERS_ONLY = Kernel(
    11,
    "registers_only",
    _space({"RX": 8, "RY": 4, "RK": 4, "THREADSX": 8, "THREADSY": 8}, (), ("THREADSX", "THREADSY")),
    per_item=("RX", "RY"),
    multiple=("THREADSY * RY", "THREADSX * RX", "RK"),
    align=("RK", "RX", "RX"),
)

# 12: packed panels, for CPUs.


def _packed_start(given, problem, limits, device):
    """Return the fastest parameters that are legal, those that are given among them."""
    known = constraints.facts(limits, problem.dtype.itemsize)
    native = getattr(device, f"native_vector_width_{REAL[problem.dtype]}")
    about = native, problem.dtype.itemsize, limits.local_mem_size, type_of(device) == "cpu"
    wishes = list(blocking.blocks(given, *about)) or list(blocking.blocks({}, *about))
    wishes = [{**wish, "GROUPS": 1, **given} for wish in wishes]
    legal = (wish for wish in wishes if not constraints.broken(PACKED.space, wish, known))
    return next(legal, wishes[0])


def _packed_groups(problem, params, device):
    return blocking.shares(problem.size, params, device.max_compute_units * params["GROUPS"])


def _packed_more(problem, params, limits, device):
    return {"PREFETCH": 1} if type_of(device) == "cpu" else {}, ()


PACKED = Kernel(
    12,
    "packed",
    _space(
        {"WIDTH": 0, "MR": 0, "NR": 0, "KC": 0, "NC": 0, "GROUPS": 1},
        ("NR % WIDTH == 0", "KC % WIDTH == 0", "NC % NR == 0"),
        ("1", "1"),
        "(KC * NC + MR * (KC + WIDTH)) * itemsize",
        MR=(4, 6, 8, 12),
        NR=(8, 16, 32, 48),
        KC=(96, 176, 352, 512),
        NC=(48, 96, 192, 384, 768),
        GROUPS=(1, 2, 4),
    ),
    start=_packed_start,
    more=_packed_more,
    groups=_packed_groups,
)

# 13: warps. Measured on an H200: large tiles take 128 of its multiplications in a clock for 6 reads
# of local memory, and need about as many tiles as there are compute units; below, small ones whose
# work-items share the k's. Elsewhere registers may be few: 16 sums for each work-item.

NVIDIA = "cl_nv_compiler_options"  # its compiler takes inline PTX
_LARGE = {"TSM": 128, "TSN": 128, "TSK": 8, "WPTM": 16, "WPTN": 8, "SLICES": 1, "BAND": 8}
_LARGE_DOUBLE = {**_LARGE, "TSM": 64, "WPTM": 8}  # as many registers
_SMALL = {"TSM": 64, "TSN": 64, "TSK": 8, "WPTM": 8, "WPTN": 8, "SLICES": 2, "BAND": 8}
_MODEST = {"TSM": 64, "TSN": 64, "TSK": 16, "WPTM": 4, "WPTN": 4, "SLICES": 1, "BAND": 8}
_SLICE = "(TSM // WPTM * (TSN // WPTN))"  # work-items


def _tiles(problem, params, device=None):
    """Return how many tiles of TSM x TSN C has: as many work-groups, in one dimension."""
    return (-(-problem.size.M // params["TSM"]) * -(-problem.size.N // params["TSN"]),)


def _warps_start(given, problem, limits, device):
    if NVIDIA not in limits.extensions:
        return _MODEST
    large = _LARGE_DOUBLE if problem.dtype.itemsize == 8 else _LARGE
    return large if _tiles(problem, large)[0] >= 1.5 * device.max_compute_units else _SMALL


def _warps_more(problem, params, limits, device):
    lengths = problem.size.N, problem.size.K, problem.lda, problem.ldb, problem.ldc
    return {"WIDTH": 1 if any(n % 4 for n in lengths) else 4}, ()


WARPS = Kernel(
    13,
    "warps",
    _space(
        {**dict.fromkeys(_LARGE, 0), "BAND": 8},
        (
            *("WPTM % 4 == 0", "WPTN % 4 == 0", "TSK % 4 == 0"),
            *("TSM % (8 * WPTM) == 0", "TSN % (4 * WPTN) == 0"),
            *(f"TSK * TSM % (4 * {_SLICE}) == 0", f"TSK * TSN % (4 * {_SLICE}) == 0"),
            *(f"{_SLICE} % (TSN // 4) == 0", f"{_SLICE} % (TSK // 4) == 0"),
            _UNROLLED.format("TSK * WPTM * WPTN"),
        ),
        (f"{_SLICE} * SLICES",),
        "4 * max(2 * SLICES * TSK * (TSM // 4 + 1 + TSN // 4), "
        f"(SLICES - 1) * WPTN // 4 * {_SLICE}) * itemsize",
        **dict.fromkeys(("TSM", "TSN"), (32, 64, 128, 256)),
        **dict.fromkeys(("WPTM", "WPTN"), (4, 8, 16)),
        SLICES=(1, 2, 4),
        BAND=(1, 4, 8, 16),
    ),
    start=_warps_start,
    more=_warps_more,
    groups=_tiles,
)

# 14: matrix units. A tile is small, so that two work-groups share a compute unit: while one of them
# waits, the matrix units work for the other. With 3 stages three would, and NVIDIA's compiler would
# leave a work-item too few registers.

_WARP = {"WARP_M": 32, "WARP_N": 64}
_SPLIT_ITEMS = 256  # of a work-group of split(), as in the kernel
_ITEMS = "(TSM // WARP_M * (TSN // WARP_N) * 32)"  # of a work-group: warps of 32
_CAPABILITY = 8


def _require_units(problem, params, limits, device):
    """Raise Unsupported where the device has no matrix units that the kernel can use."""
    if REAL[problem.dtype] != MATRIX_UNITS.real:
        raise Unsupported("14_matrix_units computes in single precision only")
    if NVIDIA not in limits.extensions:
        lacking = f"the device has no {NVIDIA}"
        raise Unsupported(f"14_matrix_units needs inline PTX, by NVIDIA's compiler: {lacking}")
    capability = device.compute_capability_major_nv, device.compute_capability_minor_nv
    if capability[0] < _CAPABILITY:
        has = ".".join(map(str, capability))
        raise Unsupported(f"14_matrix_units needs compute capability {_CAPABILITY}.0, it is {has}")
    return {}, ()


def _split_work(problem, params):
    """Return the Work of split(): panels, and an exponent a line."""
    slab = 512 // params["PART_BITS"]  # its depth: 64 bytes of a part
    P = padded(problem.size, (params["TSM"], params["TSN"], slab))
    strips = (P.M + P.N) // 8
    nbytes = strips * 8 * (P.K // slab * 128 + 4)
    return Work("split", (strips * _SPLIT_ITEMS,), (_SPLIT_ITEMS,), nbytes)


MATRIX_UNITS = Kernel(
    14,
    "matrix_units",
    _space(
        {"PART_BITS": 16, "TSM": 64, "TSN": 128, **_WARP, "STAGES": 4, "BAND": 8},
        (
            *("PART_BITS in (16, 32)", "STAGES >= 2", "WARP_M % 16 == 0", "WARP_N % 8 == 0"),
            *("TSM % WARP_M == 0", "TSN % WARP_N == 0", _UNROLLED.format("WARP_M * WARP_N")),
            *(f"8 * TSM % {_ITEMS} == 0", f"8 * TSN % {_ITEMS} == 0"),
            *(f"{most} >= {_SPLIT_ITEMS}" for most in ("max_work_group_size", "max_work_items_0")),
        ),
        (_ITEMS,),
        "STAGES * (TSM + TSN) * 128 + 4",  # 4: whether a line fits
        PART_BITS=(16, 32),
        TSM=(32, 64, 128),
        TSN=(32, 64, 128, 256),
        **dict.fromkeys(_WARP, (16, 32, 64)),
        STAGES=(2, 3, 4),
        BAND=(4, 8, 16),
    ),
    more=_require_units,
    groups=_tiles,
    work=_split_work,
    # NVIDIA's OpenCL tells of 48 KiB of local memory, and gives what CUDA's does: 99 KiB, or more,
    # from compute capability 8.0 on (CUDA C++ Programming Guide, Technical Specifications).
    local_least=99 * 2**10,
    real="float",
)

KERNELS = (
    NAIVE, TILES, MORE_WORK, WIDE, TRANSPOSED, REGISTERS, WIDE_REGISTERS, SHUFFLES, PREFETCH,
    ANY_SIZE, REGISTERS_ONLY, PACKED, WARPS, MATRIX_UNITS,
)  # fmt: skip
TUNED = Path(__file__).with_name("tuned")
_BY_NAME = {each.name: each for each in KERNELS}


def add_options(parser):
    """Add --kernel, --tuned, and an option for each parameter."""
    selection.add_options(parser, KERNELS, default="best")
    parser.add_argument("--tuned", type=Path, default=TUNED, metavar="FOLDER",
                        help="folder in which best finds tuned parameters")  # fmt: skip


def named(args):
    """Return the (kernel, parameters given for it) to run; nothing where the best is wanted."""
    if args.kernel == "best" and args.tuned != TUNED and not args.tuned.is_dir():
        raise UsageError(f"--tuned {args.tuned}: there is no such folder")
    return selection.named(args, KERNELS)


def best(args, problem, about, limits, device):
    """Return [(kernel, parameters)] of what `--kernel best` means; says which it is.

    What a search found comes first, where it is legal here; else the first default that is.
    """
    untuned = "nothing is tuned for it, the default for"
    stored = find(args.tuned, about, args.precision, str(problem.size))
    candidates = [(_BY_NAME.get(name), params, why) for name, params, why in stored]
    if about["type"] == "cpu":
        candidates.append((PACKED, {}, f"{untuned} CPUs"))
    elif about["type"] == "gpu" and "nvidia" in about["vendor"].lower():
        candidates += [(each, {}, f"{untuned} NVIDIA's GPUs") for each in (MATRIX_UNITS, WARPS)]
    candidates.append((REGISTERS_ONLY, {}, f"{untuned} every device"))
    for kernel, params, why in candidates:
        if kernel and set(params) <= set(kernel.space.defaults):
            with suppress(SampleError):
                plans.plan(kernel, params, problem, limits, device)
                print(f"best: {kernel.label}, {why}", flush=True)
                return [(kernel, params)]
    raise Unsupported("no kernel suits this device")


def described(named, problem, limits, device):
    """Return what cli.describe() tells of the kernels that are named, or of all."""
    found = []
    for kernel in [kernel for kernel, _ in named] or KERNELS:
        space = plans.space_of(kernel, {}, problem, limits, device)
        if kernel.local_least:  # more than a reader of the device's limits would know of
            most = plans.facts_of(kernel, problem, limits)["local_mem_size"]
            fits = f"{space.local_bytes} <= {most}"
            space = replace(space, constraints=(*space.constraints, fits), local_bytes="0")
        found.append({
            "name": kernel.label, "options": ["--kernel", str(kernel.number)],
            "space": asdict(space), "flags": {name: f"--{name}" for name in space.defaults},
            "itemsize": problem.dtype.itemsize,
        })  # fmt: skip
    return found
