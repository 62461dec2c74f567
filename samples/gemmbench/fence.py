"""Run a kernel once with its matrices against pages that may not be touched. Started by outside.py.

Prints `built`, then `ready` after a launch without trap pages, with the buffers of every point:
what crashes there crashes anyway. Then `clean` after two more: one with the trap pages right behind
the matrices, one with them right before. A kernel that reaches beyond ends this process. At last it
steps into a trap with a kernel of its own, since a device that copies the matrices elsewhere has no
trap.
"""

import ctypes
import json
import mmap
import resource
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import launch
import matrices
import metadata
import numpy as np
import outside
import pyopencl as cl
from places import Places

from common import device, gemm

_STEP = (
    "__kernel void gemm(__global const volatile int *x, int at, __global int *y) { *y = x[at]; }"
)
_LIBC = ctypes.CDLL(None, use_errno=True)
_NO_ACCESS = 0  # PROT_NONE
_ALIGNMENT = 128  # bytes of the largest vector, double16 or long16


def trapped(matrix, behind, alignment):
    """Return a copy of the matrix whose end (or start) meets pages that may not be touched.

    It starts at a multiple of `alignment` bytes, as a buffer does: a kernel may load whole vectors.
    So up to `alignment` - 1 bytes may lie between its end and the first of the pages.
    """
    reach = outside.REACH * 1024
    room = -(-matrix.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, room + 2 * reach)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for trap in (start, start + reach + room):
        if _LIBC.mprotect(ctypes.c_void_p(trap), ctypes.c_size_t(reach), _NO_ACCESS):
            sys.exit(f"mprotect fails: {ctypes.get_errno()}")
    offset = reach + ((room - matrix.nbytes) // alignment * alignment if behind else 0)
    copy = np.frombuffer(memory, matrix.dtype, matrix.size, offset).reshape(matrix.shape)
    copy[...] = matrix
    return copy


def main():
    # The end is a crash that is meant: it leaves no core file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    job = json.loads(sys.argv[1])
    chosen = device.devices(device.platforms()[job["platform"]])[job["device"]]
    queue = device.open_queue(chosen)
    meta, size = metadata.load(job["metadata"]), gemm.Size(*job["size"])
    inputs = matrices.draw(size, meta.dtype, meta.scalar, job["seed"], integer=False)
    stored = matrices.as_stored(inputs, meta, size)
    kernel = launch.build_kernel(queue.context, meta)
    lws = job["lws"] and tuple(job["lws"])
    total, local = launch.ndrange(meta, size, lws, kernel, chosen, device.limits(chosen))
    step = cl.Kernel(cl.Program(queue.context, _STEP).build(), "gemm")
    alignment = max(_ALIGNMENT, chosen.mem_base_addr_align // 8)  # which is in bits
    print("built", flush=True)

    def run(buffers, strides):
        scalars = (inputs.alpha, inputs.beta)
        launch.set_arguments(kernel, meta, size, scalars, buffers, strides)
        cl.enqueue_nd_range_kernel(queue, kernel, total, local).wait()

    places = Places(queue, meta, stored)
    places.fill()
    run(places.devices(), places.strides())
    print("ready", flush=True)

    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    for behind in (True, False):
        copies = [trapped(matrix, behind, alignment) for matrix in stored.values()]
        buffers = [cl.Buffer(queue.context, flags, hostbuf=copy) for copy in copies]
        run(buffers, [matrix.shape[1] for matrix in stored.values()])
    print("clean", flush=True)

    result = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4)
    step.set_args(buffers[0], np.int32(-1), result)
    cl.enqueue_nd_range_kernel(queue, step, (1,), None).wait()


if __name__ == "__main__":
    main()
