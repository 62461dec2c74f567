"""Test whether a driver works: run a small program on one device, in a separate process.

python probe.py '{"device": ["PLATFORM", "VERSION", "NAME", "DRIVER", 0], "without": [],
                  "seconds": 20}'

common/drivers.py starts it. Each line that it prints says what it does next, so that the last line
tells where a driver crashed or hung. The line that begins with `@` is the answer: what was wrong,
or nothing after it. Without "device", the drivers are only loaded and asked for their devices; with
"wanted" there must be a platform.
"""

import json
import os
import re
import signal
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import pyopencl as cl

from common import drivers
from common.buffers import GuardedBuffer
from common.device import describe, limits
from common.program import build
from common.text import one_line

GROUPS = 16  # work-groups
LAUNCHES = 64  # one after the other: some drivers drop one now and then
VERSION = re.compile(r"OpenCL\s*\d+\.\d+")  # pyopencl makes no context for another
SOURCE = Path(__file__).with_name("probe.cl")


def probe(queue):
    """Return what is wrong with the driver of a queue's device, or an empty text."""
    context, device = queue.context, queue.device
    if missing := drivers.missing_limit(device):
        return missing
    describe(device, limits(device))  # as each sample does
    side = min(16, device.max_work_group_size, device.max_work_item_sizes[0])
    with_double = "cl_khr_fp64" in device.extensions
    with_atomics = "cl_khr_int64_base_atomics" in device.extensions
    defines = {"SIDE": side, "WITH_DOUBLE": int(with_double), "WITH_ATOMICS": int(with_atomics)}
    print("building a small program", flush=True)
    program = build(context, SOURCE, defines)
    print("running a small program", flush=True)
    items = GROUPS * side

    def launch(name, *arrays):
        """Launch a kernel with a buffer for each array; return what the last one then holds."""
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers = [cl.Buffer(context, flags, hostbuf=array) for array in arrays]
        kernel = cl.Kernel(program, name)
        kernel.set_args(*buffers)
        cl.enqueue_nd_range_kernel(queue, kernel, (items,), (side,))
        result = np.empty_like(arrays[-1])
        cl.enqueue_copy(queue, result, buffers[-1])
        return result

    def fma(name, dtype, width):
        given = np.arange(items * width, dtype=dtype) % 1000
        return np.array_equal(launch(name, given, np.zeros_like(given)), given * given + given)

    # In memory as that of the samples: a mapped sub-buffer.
    counts, add = GuardedBuffer(queue, (2, items), np.uint32), cl.Kernel(program, "add")

    def adds(numbers):
        """Launch add() with each of the numbers; tell whether their sum was added."""
        given = np.arange(2 * items, dtype=np.uint32).reshape(2, items)
        counts.write(given)
        for number in numbers:
            add.set_args(counts.device, np.uint32(number))
            cl.enqueue_nd_range_kernel(queue, add, (items, 2), (side, 1))
        return np.array_equal(counts.read(), given + sum(numbers)) and counts.intact()

    numbers = np.arange(items, dtype=np.float32)
    backwards = numbers.reshape(GROUPS, side)[:, ::-1].ravel()
    right = {"fma of float vectors": fma("fma_float", np.float32, 16)}
    came = launch("reverse", numbers, np.zeros_like(numbers))
    right["local memory behind a barrier"] = np.array_equal(came, backwards)
    right["mapped memory"] = adds([1]) and adds([2])
    right["launches one after the other"] = adds(range(LAUNCHES))
    if with_double:
        right["fma of double vectors"] = fma("fma_double", np.float64, 8)
    if with_atomics:
        total = sum(2**31 + i for i in range(items))
        right["64-bit atomics"] = int(launch("add_up", np.zeros(1, np.uint64))[0]) == total
    wrong = ", ".join(what for what, is_right in right.items() if not is_right)
    return wrong and f"computes wrong results: {wrong}"


def main(job):
    """Do the job; return what is wrong, or an empty text."""
    print("loading the drivers", flush=True)
    platforms = drivers.loaded(job["without"])
    if "wanted" in job and not platforms:
        return "offers no platform"
    for version in (platform.version for platform in platforms if "device" not in job):
        if not VERSION.match(version):
            return f"reports the platform version '{one_line(version)}', not OpenCL and a number"
    for name, device in drivers.every_device(platforms):
        if name == job.get("device"):
            print("opening the device", flush=True)
            context = cl.Context([device])  # Intel's queues do not keep theirs alive
            return probe(cl.CommandQueue(context))
    return "the device is gone" if "device" in job else ""


if __name__ == "__main__":
    job = json.loads(sys.argv[1])
    # What a driver prints goes elsewhere: it may end without a newline, or look like an answer.
    sys.stdout = os.fdopen(os.dup(1), "w", errors="replace")
    os.dup2(2, 1)
    signal.alarm(2 + int(job["seconds"]))  # should the parent be gone by then
    try:
        print(f"@{main(job)}", flush=True)
    except Exception as error:
        print(f"@fails: {one_line(error) or type(error).__name__}", flush=True)
