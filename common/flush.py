"""The caches between timed launches: warm, or flushed."""

from pathlib import Path

import pyopencl as cl

from common.device import type_of
from common.machine.caches import all_bytes
from common.program import build
from common.text import size_text

CACHES = ("warm", "flushed")
LEAST = 128 * 2**20  # bytes: some drivers tell of less cache than the device has
_TIMES = 2  # the size of the caches
_VECTOR = 16  # bytes of a work-item


def flusher(queue, caches):
    """Return a function to call before each timed launch; it returns when the device is done.

    With `caches` warm it does nothing. With flushed a kernel overwrites a buffer of need() bytes.
    """
    if caches == "warm":
        return lambda: None
    size = need(queue.device)
    cells = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, size)
    kernel = cl.Kernel(build(queue.context, Path(__file__).with_name("flush.cl")), "flush")
    kernel.set_args(cells)
    print(f"Caches are flushed before each timed launch: a kernel overwrites {size_text(size)}")

    def flush(kept=cells):  # a set argument does not keep its buffer alive
        cl.enqueue_nd_range_kernel(queue, kernel, (size // _VECTOR,), None).wait()

    return flush


def need(device):
    """Return the bytes to overwrite: twice the caches, LEAST if that is more.

    It is no more than a buffer may have, or a quarter of the memory. The caches are those that
    OpenCL tells of; on a CPU, all of this machine's if they are more.
    """
    told = device.global_mem_cache_size
    if type_of(device) == "cpu":
        told = max(told, all_bytes())
    most = min(device.max_mem_alloc_size, device.global_mem_size // 4)
    size = min(max(_TIMES * told, LEAST), most)
    return size - size % _VECTOR
