"""The rungs 13 and 14, for GPUs: shapes after the size of C, and what NVIDIA's matrix units need.

A parameter of 13 that is 0 is left to the plan, which knows the device and the size.
"""

from dataclasses import replace

import numpy as np
from launch import (
    REAL,
    Extra,
    Plan,
    Rung,
    at_least,
    broken,
    can_unroll,
    choose,
    divides,
    group_fits,
    local_fits,
    options,
    padded,
    require,
)

from common.errors import Unsupported
from common.gemm import Size

_NVIDIA = "cl_nv_compiler_options"  # its compiler takes inline PTX
_LANES = 32  # of a warp


def _tiles(size, params):
    """Return how many tiles C has, in rows and in columns."""
    return -(-size.M // params["TSM"]), -(-size.N // params["TSN"])


def _complete(rung, problem, params, limits, start):
    """Return the parameters with a value for those that are 0, as near to `start` as is legal."""
    given = {name: value for name, value in params.items() if value}
    return choose(replace(rung, defaults=start), given, limits, problem.dtype).params


# 13: warps. Measured on an H200: large tiles take 128 of its multiplications in a clock for 6 reads
# of local memory, and need about as many tiles as there are compute units; below, small ones whose
# work-items share the k's. Elsewhere registers may be few: 16 sums for each work-item.

_LARGE = {"TSM": 128, "TSN": 128, "TSK": 8, "WPTM": 16, "WPTN": 8, "SLICES": 1, "BAND": 8}
_LARGE_DOUBLE = {**_LARGE, "TSM": 64, "WPTM": 8}  # as many registers
_SMALL = {"TSM": 64, "TSN": 64, "TSK": 8, "WPTM": 8, "WPTN": 8, "SLICES": 2, "BAND": 8}
_MODEST = {"TSM": 64, "TSN": 64, "TSK": 16, "WPTM": 4, "WPTN": 4, "SLICES": 1, "BAND": 8}


def _warps_start(problem, limits, device):
    if _NVIDIA not in limits.extensions:
        return _MODEST
    large = _LARGE_DOUBLE if problem.dtype.itemsize == 8 else _LARGE
    tiles = np.prod(_tiles(problem.size, large))
    return large if tiles >= 1.5 * device.max_compute_units else _SMALL


def _warps_items(params):
    """Return the work-items of a slice."""
    return params["TSM"] // params["WPTM"] * (params["TSN"] // params["WPTN"])


def _warps_bytes(params, dtype):
    TSM, TSN, TSK, slices = (params[name] for name in ("TSM", "TSN", "TSK", "SLICES"))
    tiles = 2 * slices * TSK * (TSM // 4 + 1 + TSN // 4)
    sums = (slices - 1) * params["WPTN"] // 4 * _warps_items(params)
    return 4 * max(tiles, sums) * dtype.itemsize


def _warps_rules(params, limits, dtype):
    """State the rules. Where a parameter is 0, the plan's choice keeps them."""
    if wrong := broken(at_least(params, 0, *params)):
        return wrong
    if not all(params.values()):
        return []
    TSM, TSN, TSK, WPTM, WPTN = (params[n] for n in ("TSM", "TSN", "TSK", "WPTM", "WPTN"))
    if wrong := broken(*(divides(params, 4, name) for name in ("WPTM", "WPTN", "TSK"))):
        return wrong
    if TSM % (8 * WPTM):
        return [f"{options(params, 'TSM', 'WPTM')}: 8 x WPTM = {8 * WPTM} must divide TSM"]
    if TSN % (4 * WPTN):
        return [f"{options(params, 'TSN', 'WPTN')}: 4 x WPTN = {4 * WPTN} must divide TSN"]
    items = _warps_items(params)
    for name, side in (("TSM", TSM), ("TSN", TSN)):
        if TSK * side % (4 * items):
            what = options(params, "TSK", "TSM", "TSN", "WPTM", "WPTN")
            vectors = f"vectors for {items} work-items"
            return [f"{what}: a tile of TSK x {name} does not divide into whole {vectors}"]
    if items % (TSN // 4) or items % (TSK // 4):
        what = options(params, "TSK", "TSM", "TSN", "WPTM", "WPTN")
        return [f"{what}: TSN / 4 and TSK / 4 must divide the {items} work-items of a slice"]
    local = (items * params["SLICES"],)
    return broken(
        can_unroll(params, "TSK", "WPTM", "WPTN"),
        group_fits(params, limits, local, "TSM", "TSN", "WPTM", "WPTN", "SLICES"),
        local_fits(params, limits, _warps_bytes(params, dtype), "TSM", "TSN", "TSK", "SLICES"),
    )


def _warps_plan(problem, params, limits, device):
    start = _warps_start(problem, limits, device)
    used = _complete(WARPS, problem, params, limits, start)
    size, items = problem.size, _warps_items(used) * used["SLICES"]
    wide = any(n % 4 for n in (size.N, size.K, problem.lda, problem.ldb, problem.ldc))
    defines = {"REAL": REAL[problem.dtype], **used, "WIDTH": 1 if wide else 4}
    groups = int(np.prod(_tiles(size, used)))
    return Plan(defines, (groups * items,), (items,), _warps_bytes(used, problem.dtype))


WARPS = Rung(
    13, "warps", {**dict.fromkeys(_LARGE, 0), "BAND": 8},
    {"TSM": (32, 64, 128, 256), "TSN": (32, 64, 128, 256), "TSK": (4, 8, 16, 32),
     "WPTM": (4, 8, 16), "WPTN": (4, 8, 16), "SLICES": (1, 2, 4), "BAND": (1, 4, 8, 16)},
    _warps_rules, _warps_plan,
)  # fmt: skip


# 14: matrix units. A tile is small, so that two work-groups share a compute unit: while one of them
# waits, the matrix units work for the other. With 3 stages three would, and NVIDIA's compiler would
# leave a work-item too few registers.

_SPLIT_ITEMS = 256  # as in the kernel
# NVIDIA's OpenCL tells of 48 KiB of local memory, and gives what CUDA's does: 99 KiB, or more, from
# compute capability 8.0 on (CUDA C++ Programming Guide, Technical Specifications).
_LOCAL = 99 * 2**10
_CAPABILITY = 8


def _units_items(params):
    warps = params["TSM"] // params["WARP_M"] * (params["TSN"] // params["WARP_N"])
    return warps * _LANES


def _units_bytes(params):
    return params["STAGES"] * (params["TSM"] + params["TSN"]) * 128 + 4  # 4: whether a line fits


def _units_rules(params, limits, dtype):
    if params["PART_BITS"] not in (16, 32):
        return [f"{options(params, 'PART_BITS')}: a part has 16 or 32 bits"]
    if wrong := broken(at_least(params, 1, *params)):
        return wrong
    if wrong := broken(
        divides(params, 16, "WARP_M"), divides(params, 8, "WARP_N"),
        divides(params, "WARP_M", "TSM"), divides(params, "WARP_N", "TSN"),
        at_least(params, 2, "STAGES"),
    ):  # fmt: skip
        return wrong
    items = _units_items(params)
    for name in ("TSM", "TSN"):
        if 8 * params[name] % items:
            what = options(params, "TSM", "TSN", "WARP_M", "WARP_N")
            return [f"{what}: the {items} work-items of a group must divide 8 x {name}"]
    if limits.profile == "device":  # only a smaller one is taken at its word
        limits = replace(limits, local_mem_size=max(limits.local_mem_size, _LOCAL))
    return broken(
        can_unroll(params, "WARP_M", "WARP_N"),
        group_fits(params, limits, (max(items, _SPLIT_ITEMS),), "TSM", "TSN", "WARP_M", "WARP_N"),
        local_fits(params, limits, _units_bytes(params), "TSM", "TSN", "STAGES"),
    )


def require_units(device, limits, dtype):
    """Raise Unsupported where the device has no matrix units that the kernel can use."""
    if dtype != np.float32:
        raise Unsupported("14_matrix_units computes in single precision only")
    if _NVIDIA not in limits.extensions:
        lacking = f"the device has no {_NVIDIA}"
        raise Unsupported(f"14_matrix_units needs inline PTX, by NVIDIA's compiler: {lacking}")
    capability = device.compute_capability_major_nv, device.compute_capability_minor_nv
    if capability[0] < _CAPABILITY:
        has = ".".join(map(str, capability))
        raise Unsupported(f"14_matrix_units needs compute capability {_CAPABILITY}.0, it is {has}")


def _units_plan(problem, params, limits, device):
    require_units(device, limits, problem.dtype)
    require(MATRIX_UNITS, params, limits, problem.dtype)
    slab = 512 // params["PART_BITS"]  # its depth: 64 bytes of a part
    P = padded(problem.size, Size(params["TSM"], params["TSN"], slab))
    groups, items = int(np.prod(_tiles(problem.size, params))), _units_items(params)
    strips = (P.M + P.N) // 8
    return Plan(
        {**params}, (groups * items,), (items,), _units_bytes(params),
        extra=(Extra("split", (strips * _SPLIT_ITEMS,), (_SPLIT_ITEMS,), "before"),),
        work_bytes=strips * 8 * (P.K // slab * 128 + 4),  # panels, and an exponent a line
    )  # fmt: skip


MATRIX_UNITS = Rung(
    14, "matrix_units",
    {"PART_BITS": 16, "TSM": 64, "TSN": 128, "WARP_M": 32, "WARP_N": 64, "STAGES": 4, "BAND": 8},
    {"PART_BITS": (16, 32), "TSM": (32, 64, 128), "TSN": (32, 64, 128, 256),
     "WARP_M": (16, 32, 64), "WARP_N": (16, 32, 64), "STAGES": (2, 3, 4), "BAND": (4, 8, 16)},
    _units_rules, _units_plan,
)  # fmt: skip
