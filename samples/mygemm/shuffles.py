"""Whether work-items of a sub-group can pass values to each other here, and how: for kernel 8.

OpenCL has two extensions for it, and NVIDIA's driver none, but its compiler takes inline PTX. A
probe kernel tells which of them works here: an extension's name is a promise.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import pyopencl as cl
from launch import KERNELS, REAL, options

from common import device as devices
from common.buffers import GuardedBuffer
from common.errors import OpenCLFailure, Unsupported
from common.program import build

NONE, KHR, INTEL, PTX = range(4)  # SHUFFLE in the kernels
_NAMES = {KHR: "cl_khr_subgroup_shuffle", INTEL: "cl_intel_subgroups", PTX: "inline PTX"}


class Shuffles(NamedTuple):
    """A way that works: SHUFFLE's value, and build options."""

    how: int
    options: tuple


def rules(params, columns):
    """Rules of kernel 8: WPTM neighbours of a row of work-items pass values to each other."""
    WPTM = params["WPTM"]
    if WPTM & (WPTM - 1):
        return [f"{options(params, 'WPTM')}: shuffles need a power of 2"]
    if columns % WPTM:
        text = f"{options(params, 'WPTM', 'TSN', 'WPTN')}: WPTM must divide TSN / WPTN = {columns}"
        return [text]
    return []


def require(device, limits, dtype, params):
    """Return the Shuffles that work for kernel 8 with these parameters. Raises Unsupported."""
    reasons = []
    for how, flags in _ways(limits):
        wrong = _probe(device, how, flags, np.dtype(dtype), tuple(params.items()))
        if wrong is None:
            return Shuffles(how, flags)
        reasons.append(wrong)
    lacking = f"the device has neither {_NAMES[KHR]} nor {_NAMES[INTEL]}"
    raise Unsupported(f"08_shuffles needs sub-group shuffles: {reasons[0] if reasons else lacking}")


def _ways(limits):
    """Return what may work as (SHUFFLE, build options), the standard's own first."""
    ways = []
    if _NAMES[KHR] in limits.extensions:
        ways += [(KHR, ("-cl-std=CL3.0",)), (KHR, ("-cl-std=CL2.0",))]
    if _NAMES[INTEL] in limits.extensions:
        ways += [(INTEL, ()), (INTEL, ("-cl-std=CL2.0",))]
    if "cl_nv_compiler_options" in limits.extensions:
        ways.append((PTX, ()))
    return ways


@cache
def _probe(device, how, flags, dtype, params):
    """Return what is wrong with a way to shuffle, or None."""
    queue, name, params = devices.open_queue(device), _NAMES[how], dict(params)
    local = params["TSN"] // params["WPTN"], params["TSM"] // params["WPTM"]
    lanes, items = params["WPTM"], local[0] * local[1]
    try:
        defines = {"REAL": REAL[dtype], "SHUFFLE": how, **params}
        program = build(queue.context, KERNELS / "08_shuffles.cl", defines, flags)
        kernel = cl.Kernel(program, "probe")
        got = GuardedBuffer(queue, (items, lanes), dtype)
        kernel.set_args(got.device)
        cl.enqueue_nd_range_kernel(queue, kernel, local, local).wait()
    except (OpenCLFailure, cl.Error) as error:
        return f"the device has {name}, but the probe kernel fails: {' '.join(str(error).split())}"
    first = np.arange(items)[:, np.newaxis] // lanes * lanes
    if (got.read() == first + np.arange(lanes)).all():
        return None
    return f"{name} does not reach {lanes} neighbours here: --WPTM {max(lanes // 2, 1)} may do"
