"""The fourteen kernels as data: their parameters, what these must keep, and their NDRange.

An expression such as "TSM // WPTM" stands for a number that follows from the parameters; see
common/constraints.py. Dimension 0 of every NDRange goes along the columns of C, dimension 1 along
its rows: neighbours in a work-group write neighbours in memory. What kernels 12 to 14 need
beside their parameters is below the table.
"""

from argparse import ArgumentTypeError
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import launch

from common import cli, constraints, subgroups
from common.constraints import VECTORS, Space
from common.device import type_of
from common.errors import SampleError, Unsupported, UsageError
from common.gemm import REAL, padded
from common.machine import blocking
from common.tuned import find

FOLDER = Path(__file__).with_name("kernels")


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel: its parameters, the NDRange they lead to, and the matrices that it takes.

    `space` has the parameters, and the local size. A work-item makes `per_item` (columns, rows) of
    C. M, N and K must be multiples of `multiple`, and lda, ldb and ldc of `align`; with
    `transpose_a` A is given as K x M. Copies make it so. What no expression can say is a function:
    `start` gives defaults that follow the device and the size, in place of those that are 0; `more`
    gives further (defines, build options), or raises Unsupported; `groups` gives the work-groups of
    the NDRange; `work` gives the Work that goes before. `local_least` are bytes of local memory
    that the device has, whatever its driver tells. A source without REAL is in `real` only.
    """

    number: int
    name: str
    space: Space
    per_item: tuple = ("1", "1")
    multiple: tuple = ("1", "1", "1")
    align: tuple = ("1", "1", "1")
    transpose_a: bool = False
    start: Callable | None = None
    more: Callable | None = None
    groups: Callable | None = None
    work: Callable | None = None
    local_least: int = 0
    real: str | None = None

    @property
    def label(self):
        """The name with its number: `01_naive`."""
        return f"{self.number:02}_{self.name}"

    @property
    def file(self):
        """The path of its source."""
        return FOLDER / f"{self.label}.cl"


class Work(NamedTuple):
    """What kernel 14 launches before its main kernel; both get a further buffer of `nbytes`."""

    entry: str
    global_size: tuple
    local_size: tuple
    nbytes: int


# What constraints have in common.

_TILES, _SIDES = (1, 2, 4, 8, 16, 32), (16, 32, 64, 128)
_PER_ITEM, _PADS = (1, 2, 4, 8, 16), (0, 1, 2)
_VECTOR = "{} in (1, 2, 4, 8, 16)"  # elements of a vector; 1 is a scalar
_UNROLLED = "{} <= 8192"  # products of a work-item in a step of k: more takes a compiler minutes


def _positive(*names):
    return tuple(f"{name} >= 1" for name in names)


# 01 to 05: a tile of TS x TS.


def _square(number, name, local, local_bytes="2 * TS * TS * itemsize", rules=(), **more):
    """Return a kernel whose work-groups make TS x TS of C."""
    choice = {"TS": _TILES, "WPT": _PER_ITEM, "WIDTH": VECTORS, "TSDK": _TILES, "PAD": _PADS}
    defaults = {"TS": 32, **more.pop("defaults", {})}
    space = Space(
        defaults, {n: choice[n] for n in defaults}, (*_positive("TS"), *rules), local, local_bytes
    )
    return Kernel(number, name, space, **more)


NAIVE = _square(1, "naive", ("TS", "TS"), "0")
TILES = _square(2, "tiles", ("TS", "TS"), multiple=("TS", "TS", "TS"))
MORE_WORK = _square(
    3, "more_work", ("TS", "TS // WPT"), defaults={"WPT": 8},
    rules=(*_positive("WPT"), "TS % WPT == 0"), per_item=("1", "WPT"), multiple=("TS", "TS", "TS"),
)  # fmt: skip
WIDE = _square(
    4, "wide", ("TS // WIDTH", "TS"), defaults={"WIDTH": 4},
    rules=(_VECTOR.format("WIDTH"), "TS % WIDTH == 0"), per_item=("WIDTH", "1"),
    multiple=("TS", "TS", "TS"), align=("WIDTH", "WIDTH", "WIDTH"),
)  # fmt: skip
TRANSPOSED = _square(
    5, "transposed", ("TS", "TS // WPT"), "(TS * (TSDK + PAD) + TSDK * TS) * itemsize",
    defaults={"WPT": 8, "TSDK": 16, "PAD": 2},
    rules=(*_positive("WPT", "TSDK"), "TS % WPT == 0", "TSDK % (TS // WPT) == 0"),
    per_item=("1", "WPT"), multiple=("TS", "TS", "TSDK"), transpose_a=True,
)  # fmt: skip

# 06 to 10: each work-item makes WPTM x WPTN elements of a tile of TSM x TSN, in steps of TSK.


def _blocked(number, name, local_bytes, rules=(), defaults=(), **more):
    """Return a kernel whose work-groups make TSM x TSN of C.

    `defaults` are those of WIDTH and PAD, for a kernel that has them.
    """
    space = Space(
        {"TSM": 128, "TSN": 128, "TSK": 16, "WPTM": 8, "WPTN": 8, **dict(defaults)},
        {"TSM": _SIDES, "TSN": _SIDES, "TSK": (4, 8, 16, 32), "WPTM": _PER_ITEM,
         "WPTN": _PER_ITEM, **{n: {"WIDTH": VECTORS, "PAD": _PADS}[n] for n in dict(defaults)}},
        (*_positive("TSM", "TSN", "TSK", "WPTM", "WPTN"), *rules,
         "TSM % WPTM == 0", "TSN % WPTN == 0", _UNROLLED.format("TSK * WPTM * WPTN")),
        ("TSN // WPTN", "TSM // WPTM"), local_bytes,
    )  # fmt: skip
    width = "WIDTH" if "WIDTH" in space.defaults else "1"
    # Each work-item loads the same number of vectors of a tile.
    share = f"(TSM // WPTM * (TSN // WPTN) * {width}) == 0"
    loads = (f"TSK * TSM % {share}", f"TSK * TSN % {share}")
    space = replace(space, constraints=(*space.constraints, *loads))
    return Kernel(number, name, space, ("WPTN", "WPTM"), **more)


_TILED = {"multiple": ("TSM", "TSN", "TSK"), "transpose_a": True}
_WIDE = {**_TILED, "align": ("WIDTH", "WIDTH", "WIDTH"), "defaults": {"WIDTH": 4}}
_IN_VECTORS = (_VECTOR.format("WIDTH"), "WPTN % WIDTH == 0", "TSM % WIDTH == 0")
_BOTH_TILES = "TSK * (TSM + TSN) * itemsize"


def _shuffles(problem, params, limits, device):
    """Return which way to pass values within a sub-group works. Raises Unsupported."""
    defines = {"REAL": REAL[problem.dtype], **params}
    local, lanes = constraints.local_size(SHUFFLES.space, params), params["WPTM"]
    args = (device, limits, SHUFFLES.file, defines, local, lanes, problem.dtype)
    found = subgroups.require(*args)
    return {"SHUFFLE": found.how}, found.options


REGISTERS = _blocked(
    6, "registers", "(TSM * (TSK + PAD) + TSK * TSN) * itemsize", defaults={"PAD": 2}, **_TILED
)
WIDE_REGISTERS = _blocked(7, "wide_registers", _BOTH_TILES, _IN_VECTORS, **_WIDE)
SHUFFLES = _blocked(
    8, "shuffles", _BOTH_TILES,
    (*_IN_VECTORS, "WPTM in (1, 2, 4, 8, 16, 32, 64)", "TSN // WPTN % WPTM == 0"),
    more=_shuffles, **_WIDE,
)  # fmt: skip
PREFETCH = _blocked(9, "prefetch", f"2 * {_BOTH_TILES}", _IN_VECTORS, **_WIDE)
ANY_SIZE = _blocked(  # it takes the matrices as they are, and reads A along K
    10, "any_size", "2 * (TSK * (TSM + PAD) + TSK * TSN) * itemsize",
    (_VECTOR.format("WIDTH"), "WPTN % WIDTH == 0", "TSK % WIDTH == 0"),
    defaults={"WIDTH": 4, "PAD": 2},
)  # fmt: skip

# 11: registers only.

REGISTERS_ONLY = Kernel(
    11, "registers_only",
    Space(
        {"RX": 8, "RY": 4, "RK": 4, "THREADSX": 8, "THREADSY": 8},
        {"RX": VECTORS, "RY": _PER_ITEM, "RK": VECTORS, "THREADSX": _PER_ITEM,
         "THREADSY": _PER_ITEM},
        (*_positive("RY", "THREADSX", "THREADSY"), _VECTOR.format("RX"), _VECTOR.format("RK")),
        ("THREADSX", "THREADSY"),
    ),
    per_item=("RX", "RY"), multiple=("THREADSY * RY", "THREADSX * RX", "RK"),
    align=("RK", "RX", "RX"),
)  # fmt: skip

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
    12, "packed",
    Space(
        {"WIDTH": 0, "MR": 0, "NR": 0, "KC": 0, "NC": 0, "GROUPS": 1},
        {"WIDTH": VECTORS, "MR": (4, 6, 8, 12), "NR": (8, 16, 32, 48), "KC": (96, 176, 352, 512),
         "NC": (48, 96, 192, 384, 768), "GROUPS": (1, 2, 4)},
        (*_positive("MR", "NR", "KC", "NC", "GROUPS"), _VECTOR.format("WIDTH"),
         "NR % WIDTH == 0", "KC % WIDTH == 0", "NC % NR == 0"),
        ("1", "1"), "(KC * NC + MR * (KC + WIDTH)) * itemsize",
    ),
    start=_packed_start, more=_packed_more, groups=_packed_groups,
)  # fmt: skip

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
    13, "warps",
    Space(
        {**dict.fromkeys(_LARGE, 0), "BAND": 8},
        {"TSM": (32, 64, 128, 256), "TSN": (32, 64, 128, 256), "TSK": (4, 8, 16, 32),
         "WPTM": (4, 8, 16), "WPTN": (4, 8, 16), "SLICES": (1, 2, 4), "BAND": (1, 4, 8, 16)},
        (*_positive(*_LARGE), "WPTM % 4 == 0", "WPTN % 4 == 0", "TSK % 4 == 0",
         "TSM % (8 * WPTM) == 0", "TSN % (4 * WPTN) == 0",
         f"TSK * TSM % (4 * {_SLICE}) == 0", f"TSK * TSN % (4 * {_SLICE}) == 0",
         f"{_SLICE} % (TSN // 4) == 0", f"{_SLICE} % (TSK // 4) == 0",
         _UNROLLED.format("TSK * WPTM * WPTN")),
        (f"{_SLICE} * SLICES",),
        "4 * max(2 * SLICES * TSK * (TSM // 4 + 1 + TSN // 4), "
        f"(SLICES - 1) * WPTN // 4 * {_SLICE}) * itemsize",
    ),
    start=_warps_start, more=_warps_more, groups=_tiles,
)  # fmt: skip

# 14: matrix units. A tile is small, so that two work-groups share a compute unit: while one of them
# waits, the matrix units work for the other. With 3 stages three would, and NVIDIA's compiler would
# leave a work-item too few registers.

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
    14, "matrix_units",
    Space(
        {"PART_BITS": 16, "TSM": 64, "TSN": 128, "WARP_M": 32, "WARP_N": 64, "STAGES": 4,
         "BAND": 8},
        {"PART_BITS": (16, 32), "TSM": (32, 64, 128), "TSN": (32, 64, 128, 256),
         "WARP_M": (16, 32, 64), "WARP_N": (16, 32, 64), "STAGES": (2, 3, 4), "BAND": (4, 8, 16)},
        ("PART_BITS in (16, 32)", *_positive("TSM", "TSN", "WARP_M", "WARP_N", "BAND"),
         "STAGES >= 2", "WARP_M % 16 == 0", "WARP_N % 8 == 0", "TSM % WARP_M == 0",
         "TSN % WARP_N == 0", f"8 * TSM % {_ITEMS} == 0", f"8 * TSN % {_ITEMS} == 0",
         _UNROLLED.format("WARP_M * WARP_N"), f"max_work_group_size >= {_SPLIT_ITEMS}",
         f"max_work_items_0 >= {_SPLIT_ITEMS}"),
        (_ITEMS,), "STAGES * (TSM + TSN) * 128 + 4",  # 4: whether a line fits
    ),
    # NVIDIA's OpenCL tells of 48 KiB of local memory, and gives what CUDA's does: 99 KiB, or more,
    # from compute capability 8.0 on (CUDA C++ Programming Guide, Technical Specifications).
    more=_require_units, groups=_tiles, work=_split_work, local_least=99 * 2**10, real="float",
)  # fmt: skip

KERNELS = (
    NAIVE, TILES, MORE_WORK, WIDE, TRANSPOSED, REGISTERS, WIDE_REGISTERS, SHUFFLES, PREFETCH,
    ANY_SIZE, REGISTERS_ONLY, PACKED, WARPS, MATRIX_UNITS,
)  # fmt: skip
PARAMETERS = tuple(dict.fromkeys(name for each in KERNELS for name in each.space.defaults))

# Which of them, and with which parameters.

TUNED = Path(__file__).with_name("tuned")
_BY_NAME = {key: each for each in KERNELS for key in (each.number, each.name, each.label)}


def add_options(parser):
    """Add --kernel, --tuned, and an option for each parameter."""
    parser.add_argument("--kernel", type=parse, default="best",
                        help="numbers or names between commas, all, or best (default)")  # fmt: skip
    parser.add_argument("--tuned", type=Path, default=TUNED, metavar="FOLDER",
                        help="where best finds the parameters that a search found")  # fmt: skip
    group = parser.add_argument_group("parameters of the kernels; what is not given is chosen")
    for name in PARAMETERS:
        having = [each for each in KERNELS if name in each.space.defaults]
        shown = ", ".join(f"{each.number}: {each.space.defaults[name]}" for each in having)
        group.add_argument(f"--{name}", type=cli.count(0), metavar="N", help=f"(default {shown})")


def parse(text):
    """Return the kernels that `text` names, or the text `best`: an argparse type."""
    if text == "best":
        return text
    if text == "all":
        return list(KERNELS)
    chosen = []
    for name in text.split(","):
        key = int(name) if name.isascii() and name.isdigit() else name
        if name in ("all", "best"):
            raise ArgumentTypeError(f"'{name}' stands alone, or not at all")
        if key not in _BY_NAME:
            have = ", ".join(f"{each.number} {each.name}" for each in KERNELS)
            raise ArgumentTypeError(f"'{name}' is no kernel; give all, best, or some of: {have}")
        chosen.append(_BY_NAME[key])
    return list(dict.fromkeys(chosen))


def named(args):
    """Return the (kernel, parameters given for it) to run; nothing where the best is wanted.

    Raises UsageError for a parameter that none of them has.
    """
    given = {name: getattr(args, name) for name in PARAMETERS if getattr(args, name) is not None}
    if args.kernel == "best":
        if given:
            raise UsageError(f"--{min(given)} is of some kernels only: name one with --kernel")
        if args.tuned != TUNED and not args.tuned.is_dir():
            raise UsageError(f"--tuned {args.tuned}: there is no such folder")
        return []
    for name in given:
        if not any(name in each.space.defaults for each in args.kernel):
            have = ", ".join(f"--{key}" for each in args.kernel for key in each.space.defaults)
            labels = ", ".join(each.label for each in args.kernel)
            raise UsageError(f"--{name} is no parameter of {labels}, which has {have}")
    return [
        (each, {n: v for n, v in given.items() if n in each.space.defaults}) for each in args.kernel
    ]


def best(args, problem, about, limits, device):
    """Return [(kernel, parameters)] of what `--kernel best` means; says which it is.

    What a search found comes first, where it is legal here; else the first default that is.
    """
    kind = about["type"], "nvidia" in about["vendor"].lower()
    what, defaults = {
        ("cpu", False): ("CPUs", (PACKED,)), ("gpu", True): ("NVIDIA's GPUs", (MATRIX_UNITS, WARPS))
    }.get(kind, ("", ()))  # fmt: skip
    untuned = "nothing is tuned for it, the default for"
    candidates = [
        *((_BY_NAME.get(name), params, why)
          for name, params, why in find(args.tuned, about, args.precision, str(problem.size))),
        *((each, {}, f"{untuned} {what}") for each in defaults),
        (REGISTERS_ONLY, {}, f"{untuned} every device"),
    ]  # fmt: skip
    for kernel, params, why in candidates:
        if kernel and set(params) <= set(kernel.space.defaults):
            with suppress(SampleError):
                launch.plan(kernel, params, problem, limits, device)
                print(f"best: {kernel.label}, {why}", flush=True)
                return [(kernel, params)]
    raise Unsupported("no kernel suits this device")
