"""Kernels 1 to 11 as data: they are for every device. Those that follow are in special.py.

    number, name  of the source: 6 and "registers" are kernels/06_registers.cl
    params        what the source gets as -D options, with the defaults
    rules         constraints on them, beside the limits of the device
    local_size    of a work-group: along the columns of C, then along its rows
    local_bytes   of local memory for a work-group
    per_item      columns and rows of C that a work-item computes
    multiple      what must divide M, N and K: else the host pads copies of the matrices
    align         what must divide lda, ldb and ldc
    transpose_a   whether the kernel takes A as K x M: the host transposes a copy

Texts are expressions over the parameters and itemsize, the bytes of an element: with TSM = 128 and
WPTM = 8, "TSM // WPTM" is 16. In an NDRange dimension 0 goes along the columns of C: neighbours in
a work-group write neighbours in memory. For kernel 6 and order 1000 the copies have order 1024, and
the NDRange has 1024 / 8 = 128 work-items each way, in work-groups of 16 x 16. The module
common/planning/plans.py makes build options and the NDRange of all this.
"""

from functools import partial
from pathlib import Path

from common import constraints, subgroups
from common.gemm import REAL
from common.planning import plans

define = partial(plans.define, Path(__file__).with_name("kernels"))

UNROLLED = "{} <= 8192"  # products of a work-item in a step of k: more takes a compiler minutes

# 1 to 5: a work-group computes a tile of TS x TS; a work-item may take WPT rows or WIDTH columns.

_TILES = {"local_bytes": "2 * TS * TS * itemsize", "multiple": ("TS", "TS", "TS")}

NAIVE = define(1, "naive", params={"TS": 32}, local_size=("TS", "TS"))
TILES = define(2, "tiles", params={"TS": 32}, local_size=("TS", "TS"), **_TILES)
MORE_WORK = define(
    3, "more_work", params={"TS": 32, "WPT": 8}, rules=["TS % WPT == 0"],
    local_size=("TS", "TS // WPT"), per_item=("1", "WPT"), **_TILES,
)
WIDE = define(
    4, "wide", params={"TS": 32, "WIDTH": 4}, rules=["TS % WIDTH == 0"],
    local_size=("TS // WIDTH", "TS"), per_item=("WIDTH", "1"), align=("WIDTH",) * 3, **_TILES,
)
TRANSPOSED = define(
    5, "transposed", params={"TS": 32, "WPT": 8, "TSDK": 16, "PAD": 2},
    rules=["TS % WPT == 0", "TSDK % (TS // WPT) == 0"],
    local_size=("TS", "TS // WPT"), local_bytes="(TS * (TSDK + PAD) + TSDK * TS) * itemsize",
    per_item=("1", "WPT"), multiple=("TS", "TS", "TSDK"), transpose_a=True,
)

# 6: a work-item computes WPTM x WPTN elements of a tile of TSM x TSN, in steps of TSK.

REGISTERS = define(
    6, "registers",
    params={"TSM": 128, "TSN": 128, "TSK": 16, "WPTM": 8, "WPTN": 8, "PAD": 2},
    rules=[
        "TSM % WPTM == 0", "TSN % WPTN == 0", UNROLLED.format("TSK * WPTM * WPTN"),
        # Each work-item loads as many elements of the tile of A, and of that of B.
        "TSK * TSM % (TSM // WPTM * (TSN // WPTN)) == 0",
        "TSK * TSN % (TSM // WPTM * (TSN // WPTN)) == 0",
    ],
    local_size=("TSN // WPTN", "TSM // WPTM"),  # 16 x 16 work-items
    local_bytes="(TSM * (TSK + PAD) + TSK * TSN) * itemsize",
    per_item=("WPTN", "WPTM"),  # 8 columns and 8 rows of C
    multiple=("TSM", "TSN", "TSK"), transpose_a=True,
)

# 7 to 10: as 6, in vectors of WIDTH elements.

_WIDE = {"TSM": 128, "TSN": 128, "TSK": 16, "WPTM": 8, "WPTN": 8, "WIDTH": 4}
_BLOCK_ITEMS = "TSM // WPTM * (TSN // WPTN)"  # of a work-group
_RULES = [
    "WPTN % WIDTH == 0", "TSM % WPTM == 0", "TSN % WPTN == 0", UNROLLED.format("TSK * WPTM * WPTN"),
    *(f"TSK * {side} % ({_BLOCK_ITEMS} * WIDTH) == 0" for side in ("TSM", "TSN")),
]
_RULES_OF_A = ["TSM % WIDTH == 0", *_RULES]  # where vectors of A are along M
_BLOCK = {"local_size": ("TSN // WPTN", "TSM // WPTM"), "per_item": ("WPTN", "WPTM")}
_WHOLE = {**_BLOCK, "multiple": ("TSM", "TSN", "TSK"), "align": ("WIDTH",) * 3, "transpose_a": True}
_TILE_BYTES = "TSK * (TSM + TSN) * itemsize"


def _shuffles(problem, params, limits, device):
    """Return which way to pass values within a sub-group works. Raises Unsupported."""
    defines = {"REAL": REAL[problem.dtype], **params}
    local = constraints.local_size(SHUFFLES.space, params)
    return subgroups.require(
        device, limits, SHUFFLES.file, defines, local, "WPTM", problem.dtype)


WIDE_REGISTERS = define(
    7, "wide_registers", params=_WIDE, rules=_RULES_OF_A, local_bytes=_TILE_BYTES, **_WHOLE,
)
SHUFFLES = define(
    8, "shuffles", params=_WIDE,
    rules=[*_RULES_OF_A, "WPTM in (1, 2, 4, 8, 16, 32, 64)", "TSN // WPTN % WPTM == 0"],
    local_bytes=_TILE_BYTES, more=_shuffles, **_WHOLE,
)
PREFETCH = define(
    9, "prefetch", params=_WIDE, rules=_RULES_OF_A, local_bytes=f"2 * {_TILE_BYTES}", **_WHOLE,
)
ANY_SIZE = define(  # it takes the matrices as they are, and reads A along K
    10, "any_size", params={**_WIDE, "PAD": 2}, rules=["TSK % WIDTH == 0", *_RULES],
    local_bytes="2 * (TSK * (TSM + PAD) + TSK * TSN) * itemsize", **_BLOCK,
)

# 11: registers only.

REGISTERS_ONLY = define(
    11, "registers_only", params={"RX": 8, "RY": 4, "RK": 4, "THREADSX": 8, "THREADSY": 8},
    rules=[UNROLLED.format("RX * RY * RK")],
    local_size=("THREADSX", "THREADSY"), per_item=("RX", "RY"),
    multiple=("THREADSY * RY", "THREADSX * RX", "RK"), align=("RK", "RX", "RX"),
)

FIRST = (
    NAIVE, TILES, MORE_WORK, WIDE, TRANSPOSED, REGISTERS,
    WIDE_REGISTERS, SHUFFLES, PREFETCH, ANY_SIZE, REGISTERS_ONLY,
)
