"""Find how work-items of a sub-group can exchange values on a device.

OpenCL has two extensions for it, and NVIDIA's driver none, but its compiler takes inline PTX. A
probe kernel tells which of them works: an extension's name is a promise.
"""

from functools import lru_cache

import numpy as np
import pyopencl as cl

from common import device as devices
from common.buffers import GuardedBuffer
from common.errors import OpenCLFailure, Unsupported
from common.program import build, builds_only
from common.text import one_line

KHR, INTEL, PTX = 1, 2, 3  # SHUFFLE in the kernels
_NAMES = {KHR: "cl_khr_subgroup_shuffle", INTEL: "cl_intel_subgroups", PTX: "inline PTX"}
_EXTENSIONS = {**_NAMES, PTX: "cl_nv_compiler_options"}
# SHUFFLE and build options of what may work, the standard's own first.
_WAYS = (
    (KHR, ("-cl-std=CL3.0",)), (KHR, ("-cl-std=CL2.0",)),
    (INTEL, ()), (INTEL, ("-cl-std=CL2.0",)),
    (PTX, ()),
)


def require(device, limits, path, defines, local, lanes, dtype):
    """Return (more defines, build options) of shuffles that work in the kernel file `path`.

    It is built with `defines` as well, and has a kernel `probe`, which stores for each work-item of
    a work-group `local` the numbers, as `dtype`, of the neighbours that its values came from: as
    many as the define named `lanes` says. Raises Unsupported.
    """
    why = None
    for how, flags in _WAYS:
        if _EXTENSIONS[how] not in limits.extensions:
            continue
        wrong = _probe(device, how, flags, path, tuple(defines.items()), local, lanes, dtype)
        if wrong is None:
            return {"SHUFFLE": how}, flags
        why = why or wrong
    why = why or f"the device has neither {_NAMES[KHR]} nor {_NAMES[INTEL]}"
    raise Unsupported(f"{path.stem} needs sub-group shuffles: {why}")


@lru_cache(None)
def _probe(device, how, flags, path, defines, local, option, dtype):
    """Return what is wrong with a way to shuffle, or None."""
    queue, name, items = devices.open_queue(device), _NAMES[how], int(np.prod(local))
    lanes = dict(defines)[option]
    try:
        program = build(queue.context, path, {**dict(defines), "SHUFFLE": how}, flags)
        kernel = cl.Kernel(program, "probe")
        if builds_only():
            return None
        got = GuardedBuffer(queue, (items, lanes), dtype)
        kernel.set_args(got.device)
        cl.enqueue_nd_range_kernel(queue, kernel, local, local).wait()
    except (OpenCLFailure, cl.Error) as error:
        return f"the device has {name}, but the probe kernel fails: {one_line(error)}"
    first = np.arange(items)[:, np.newaxis] // lanes * lanes
    if (got.read() == first + np.arange(lanes)).all():
        return None
    return f"{name} cannot shuffle among {lanes} lanes here; try --{option} {max(lanes // 2, 1)}"
