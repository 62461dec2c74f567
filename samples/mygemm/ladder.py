"""The rungs 1 to 11: their parameters, the rules these must keep, and their launches; all rungs.

Dimension 0 of every NDRange walks along the columns of C, dimension 1 along its rows: neighbours
in a work-group write neighbours in memory.
"""

from functools import partial

import shuffles
from cpu import PACKED
from gpu import MATRIX_UNITS, WARPS
from launch import (
    REAL,
    VECTORS,
    Plan,
    Rung,
    at_least,
    broken,
    can_unroll,
    divides,
    group_fits,
    is_vector,
    local_fits,
    options,
    padded,
    require,
)

_TILES = (1, 2, 4, 8, 16, 32)
_SIDES = (16, 32, 64, 128)
_PER_ITEM = (1, 2, 4, 8, 16)


def _plan(rung, problem, params, limits, local, per_item, **more):
    """Return the Plan of work-groups `local`, whose work-items make `per_item` (columns, rows)."""
    require(rung, params, limits, problem.dtype)
    P = padded(problem.size, more.get("multiple", (1, 1, 1)))
    items = [-(-n // each) for n, each in zip((P.N, P.M), per_item)]
    total = tuple(-(-n // side) * side for n, side in zip(items, local))
    defines = {"REAL": REAL[problem.dtype], **params, **more.pop("defines", {})}
    return Plan(defines, total, local, **more)


# 01: a work-item for each element of C.


def _naive_rules(params, limits, dtype):
    TS = params["TS"]
    return broken(at_least(params, 1, "TS")) or broken(group_fits(params, limits, (TS, TS), "TS"))


def _naive_plan(problem, params, limits, device):
    TS = params["TS"]
    return _plan(NAIVE, problem, params, limits, (TS, TS), (1, 1))


NAIVE = Rung(1, "naive", {"TS": 32}, {"TS": _TILES}, _naive_rules, _naive_plan)


# 02 to 04: square tiles of A and B in local memory.


def _tile_bytes(params, dtype):
    return 2 * params["TS"] ** 2 * dtype.itemsize


def _tiles_rules(params, limits, dtype):
    TS = params["TS"]
    return broken(at_least(params, 1, "TS")) or broken(
        group_fits(params, limits, (TS, TS), "TS"),
        local_fits(params, limits, _tile_bytes(params, dtype), "TS"),
    )


def _tiles_plan(problem, params, limits, device):
    TS, size = params["TS"], _tile_bytes(params, problem.dtype)
    more = {"local_bytes": size, "multiple": (TS, TS, TS)}
    return _plan(TILES, problem, params, limits, (TS, TS), (1, 1), **more)


TILES = Rung(2, "tiles", {"TS": 32}, {"TS": _TILES}, _tiles_rules, _tiles_plan)


def _more_work_rules(params, limits, dtype):
    TS, WPT = params["TS"], params["WPT"]
    if wrong := broken(at_least(params, 1, "TS", "WPT")) or broken(divides(params, "WPT", "TS")):
        return wrong
    return broken(
        group_fits(params, limits, (TS, TS // WPT), "TS", "WPT"),
        local_fits(params, limits, _tile_bytes(params, dtype), "TS"),
    )


def _more_work_plan(problem, params, limits, device):
    TS, WPT = params["TS"], params["WPT"]
    more = {"local_bytes": _tile_bytes(params, problem.dtype), "multiple": (TS, TS, TS)}
    return _plan(MORE_WORK, problem, params, limits, (TS, TS // max(WPT, 1)), (1, WPT), **more)


MORE_WORK = Rung(
    3, "more_work", {"TS": 32, "WPT": 8}, {"TS": _TILES, "WPT": _PER_ITEM},
    _more_work_rules, _more_work_plan,
)  # fmt: skip


def _wide_rules(params, limits, dtype):
    TS, WIDTH = params["TS"], params["WIDTH"]
    if wrong := broken(at_least(params, 1, "TS"), is_vector(params, "WIDTH")):
        return wrong
    if wrong := broken(divides(params, "WIDTH", "TS")):
        return wrong
    return broken(
        group_fits(params, limits, (TS // WIDTH, TS), "TS", "WIDTH"),
        local_fits(params, limits, _tile_bytes(params, dtype), "TS"),
    )


def _wide_plan(problem, params, limits, device):
    TS, WIDTH = params["TS"], params["WIDTH"]
    more = {"local_bytes": _tile_bytes(params, problem.dtype), "multiple": (TS, TS, TS)}
    local, per_item = (TS // max(WIDTH, 1), TS), (WIDTH, 1)
    return _plan(WIDE, problem, params, limits, local, per_item, align=(WIDTH,) * 3, **more)


WIDE = Rung(
    4, "wide", {"TS": 32, "WIDTH": 4}, {"TS": _TILES, "WIDTH": VECTORS}, _wide_rules, _wide_plan
)


# 05: A transposed, tiles that are not square.


def _transposed_bytes(params, dtype):
    TS, TSDK = params["TS"], params["TSDK"]
    return (TS * (TSDK + params["PAD"]) + TSDK * TS) * dtype.itemsize


def _transposed_rules(params, limits, dtype):
    TS, WPT = params["TS"], params["WPT"]
    if wrong := broken(
        at_least(params, 1, "TS", "WPT", "TSDK"), at_least(params, 0, "PAD")
    ) or broken(divides(params, "WPT", "TS")):
        return wrong
    if params["TSDK"] % (TS // WPT):
        return [f"{options(params, 'TSDK', 'TS', 'WPT')}: TS / WPT = {TS // WPT} must divide TSDK"]
    return broken(
        group_fits(params, limits, (TS, TS // WPT), "TS", "WPT"),
        local_fits(params, limits, _transposed_bytes(params, dtype), "TS", "TSDK", "PAD"),
    )


def _transposed_plan(problem, params, limits, device):
    TS, WPT = params["TS"], params["WPT"]
    more = {
        "local_bytes": _transposed_bytes(params, problem.dtype),
        "multiple": (TS, TS, params["TSDK"]),
        "transpose_a": True,
    }
    return _plan(TRANSPOSED, problem, params, limits, (TS, TS // max(WPT, 1)), (1, WPT), **more)


TRANSPOSED = Rung(
    5, "transposed", {"TS": 32, "WPT": 8, "TSDK": 16, "PAD": 2},
    {"TS": _TILES, "WPT": _PER_ITEM, "TSDK": _TILES, "PAD": (0, 1, 2)},
    _transposed_rules, _transposed_plan,
)  # fmt: skip


# 06 to 10: each work-item makes WPTM x WPTN elements of a tile of TSM x TSN, in steps of TSK.

_2D = {"TSM": 128, "TSN": 128, "TSK": 16, "WPTM": 8, "WPTN": 8}
_2D_VALUES = {"TSM": _SIDES, "TSN": _SIDES, "TSK": (4, 8, 16, 32), "WPTM": _PER_ITEM,
              "WPTN": _PER_ITEM}  # fmt: skip
_STAGES = {6: 1, 7: 1, 8: 1, 9: 2, 10: 2}  # tiles of A and B that are in local memory at a time


def _2d_bytes(number, params, dtype):
    TSM, TSN, TSK, PAD = (params.get(name, 0) for name in ("TSM", "TSN", "TSK", "PAD"))
    # 06 keeps its tile of A by rows, padded rows of TSK; the others by columns.
    a = TSM * (TSK + PAD) if number == 6 else TSK * (TSM + PAD)
    return _STAGES[number] * (a + TSK * TSN) * dtype.itemsize


def _2d_local(params):
    return params["TSN"] // params["WPTN"], params["TSM"] // params["WPTM"]


def _2d_rules(number, params, limits, dtype):
    width = params.get("WIDTH", 1)
    if wrong := broken(
        at_least(params, 1, *_2D),
        at_least(params, 0, "PAD") if "PAD" in params else None,
        is_vector(params, "WIDTH") if "WIDTH" in params else None,
    ):
        return wrong
    wide = [divides(params, "WIDTH", name) for name in _wide_sides(number)] if width > 1 else []
    if wrong := broken(divides(params, "WPTM", "TSM"), divides(params, "WPTN", "TSN"), *wide):
        return wrong
    if wrong := broken(can_unroll(params, "TSK", "WPTM", "WPTN")):
        return wrong
    columns, rows = _2d_local(params)
    for a, b in (("TSK", "TSM"), ("TSK", "TSN")):
        if params[a] * params[b] % (columns * rows * width):
            return [
                f"{options(params)}: a tile of {a} x {b} does not divide into whole "
                f"{'vectors' if width > 1 else 'elements'} for {columns * rows} work-items"
            ]
    wrong = broken(
        group_fits(params, limits, (columns, rows), "TSM", "TSN", "WPTM", "WPTN"),
        local_fits(params, limits, _2d_bytes(number, params, dtype), "TSM", "TSN", "TSK"),
    )
    return wrong or (shuffles.rules(params, columns) if number == 8 else [])


def _wide_sides(number):
    """Return the parameters that must be whole vectors. 10 reads A along K, the others along M."""
    return ("WPTN", "TSK") if number == 10 else ("WPTN", "TSM")


def _2d_plan(number, problem, params, limits, device):
    rung = _BY_NUMBER[number]
    require(rung, params, limits, problem.dtype)
    more = {"local_bytes": _2d_bytes(number, params, problem.dtype)}
    if number < 10:  # 10 takes the matrices as they are
        more["multiple"] = (params["TSM"], params["TSN"], params["TSK"])
        more["align"], more["transpose_a"] = (params.get("WIDTH", 1),) * 3, True
    if number == 8:
        found = shuffles.require(device, limits, problem.dtype, params)
        more["defines"], more["options"] = {"SHUFFLE": found.how}, found.options
    per_item = (params["WPTN"], params["WPTM"])
    return _plan(rung, problem, params, limits, _2d_local(params), per_item, **more)


def _2d_rung(number, name, **more):
    values = {"WIDTH": VECTORS, "PAD": (0, 1, 2)}
    return Rung(
        number, name, {**_2D, **more}, {**_2D_VALUES, **{key: values[key] for key in more}},
        partial(_2d_rules, number), partial(_2d_plan, number),
    )  # fmt: skip


REGISTERS = _2d_rung(6, "registers", PAD=2)
WIDE_REGISTERS = _2d_rung(7, "wide_registers", WIDTH=4)
SHUFFLES = _2d_rung(8, "shuffles", WIDTH=4)
PREFETCH = _2d_rung(9, "prefetch", WIDTH=4)
ANY_SIZE = _2d_rung(10, "any_size", WIDTH=4, PAD=2)
_BY_NUMBER = {r.number: r for r in (REGISTERS, WIDE_REGISTERS, SHUFFLES, PREFETCH, ANY_SIZE)}


# 11: registers only.


def _only_rules(params, limits, dtype):
    if wrong := broken(
        at_least(params, 1, "RY", "THREADSX", "THREADSY"),
        is_vector(params, "RX"), is_vector(params, "RK"),
    ):  # fmt: skip
        return wrong
    local = params["THREADSX"], params["THREADSY"]
    return broken(group_fits(params, limits, local, "THREADSX", "THREADSY"))


def _only_plan(problem, params, limits, device):
    RX, RY, RK = (params[name] for name in ("RX", "RY", "RK"))
    local = columns, rows = params["THREADSX"], params["THREADSY"]
    more = {"multiple": (rows * RY, columns * RX, RK), "align": (RK, RX, RX)}
    return _plan(REGISTERS_ONLY, problem, params, limits, local, (RX, RY), **more)


REGISTERS_ONLY = Rung(
    11, "registers_only", {"RX": 8, "RY": 4, "RK": 4, "THREADSX": 8, "THREADSY": 8},
    {"RX": VECTORS, "RY": _PER_ITEM, "RK": VECTORS, "THREADSX": _PER_ITEM, "THREADSY": _PER_ITEM},
    _only_rules, _only_plan,
)  # fmt: skip

RUNGS = [
    NAIVE, TILES, MORE_WORK, WIDE, TRANSPOSED, *_BY_NUMBER.values(), REGISTERS_ONLY, PACKED, WARPS,
    MATRIX_UNITS,
]  # fmt: skip
