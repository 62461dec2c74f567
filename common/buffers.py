"""Buffers that the host and a device share, with guards around them.

A kernel may read and write a buffer, and nothing around it. Guards show what does: see GUARDS, and
guard_with(), which chooses one of them.
"""

import ctypes
import mmap
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyopencl as cl

from common.device import open_queue
from common.errors import Unsupported
from common.program import build

# bands: a pattern around each buffer. An out-of-bounds write changes it. For floating-point data it
#     is a NaN, so that an out-of-bounds read spoils the result. It is a signalling NaN: arithmetic
#     gives only quiet ones, so a write of such a result is detected as well.
# pages: each buffer ends at a guard page. Even a read without effect ends the process, and
#     common/isolation.py reports it. For CPU devices that use the host's memory, which is tested.
# pages-before: each buffer starts behind a guard page.
GUARDS = ("bands", "pages", "pages-before")
REACH = 1 << 20  # bytes of the guard pages, in front and behind: a multiple of every page size

_BAND = 4096  # bytes on each side, at least: more than any kernel's vector or tile row
_VECTOR = 128  # bytes of the largest vector, double16: a buffer starts at a multiple of it
_NO_ACCESS = 0  # PROT_NONE
_HUGE = 1 << 21  # bytes of a huge page
_LARGE = 1 << 22  # bytes of an array for which numpy asks for huge pages, at least
# By the bytes of a number: the exponent all ones, the quiet bit 0.
_SIGNALLING_NAN = {
    2: np.uint16(0x7C5A).tobytes(),
    4: np.uint32(0x7FA5A5A5).tobytes(),
    8: np.uint64(0x7FF5A5A5A5A5A5A5).tobytes(),
}
_chosen = "bands"


def guard_with(kind):
    """Choose one of GUARDS for all buffers that are made from now on."""
    global _chosen
    _chosen = kind


def guard_pattern(dtype):
    """Return the bytes that fill the bands around elements of that type: those of one number."""
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    value = _SIGNALLING_NAN[size] if dtype.kind in "fc" else b"\xa5"
    return np.frombuffer(value, np.uint8)


class GuardedBuffer:
    """A device buffer of the given shape and type, host-visible without a copy.

    `device` is the buffer to give to a kernel, of `nbytes`. Keep this object as long as a kernel
    may use it: a kernel argument that is set does not keep its buffer alive. Raises Unsupported
    where guard pages are chosen and do not work on the device. Under Oclgrind there are no guards:
    it watches the ends of buffers itself.
    """

    def __init__(self, queue, shape, dtype=np.float32):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self._queue = queue
        # A sub-buffer must start on this boundary, which OpenCL gives in bits.
        align = max(queue.device.mem_base_addr_align // 8, _VECTOR)
        self.nbytes = size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        flags, before, after, room = cl.mem_flags.READ_WRITE, 0, 0, None
        # Oclgrind watches the ends of buffers itself: bands would hide them from it.
        self._watched = "oclgrind" in queue.device.platform.name.lower()
        if not self._watched and _chosen == "bands":
            after = -(-_BAND // align) * align
            before = 0 if _forgets_origins(queue.device) else after
            if size >= _LARGE and queue.device.type & cl.device_type.CPU:
                room = in_huge_pages(before + size + after)
                flags |= cl.mem_flags.USE_HOST_PTR
            else:  # this lets a driver with unified memory map the buffer, not copy it
                flags |= cl.mem_flags.ALLOC_HOST_PTR
        elif not self._watched:
            require_guard_pages(queue.device)
            room = between_guard_pages(size)
            before = 0 if _chosen == "pages-before" else (room.size - size) // align * align
            after = room.size - size - before  # less than `align`, with "pages"
            flags |= cl.mem_flags.USE_HOST_PTR
        self._whole = cl.Buffer(queue.context, flags, before + size + after, room)
        self.device = self._whole.get_sub_region(before, size) if before else self._whole
        # What can be mapped: (buffer, offset, shape, type).
        self._numbers = self.device, 0, self.shape, self.dtype
        self._bands = [(self._whole, at, (n,), np.uint8)
                       for at, n in ((0, before), (before + size, after)) if n]
        self.guard()

    def write(self, values):
        """Fill the buffer from a host array, or with one value."""
        if self._watched:  # Oclgrind would call what is written through a mapping uninitialised
            whole = np.ascontiguousarray(np.broadcast_to(values, self.shape), self.dtype)
            cl.enqueue_copy(self._queue, self.device, whole)
            return
        with self._mapped(self._numbers, cl.map_flags.WRITE) as array:
            array[...] = values

    def read(self):
        """Return a copy of the buffer as a host array."""
        with self._mapped(self._numbers, cl.map_flags.READ) as array:
            return array.copy()

    def guard(self, values=None):
        """Fill the bands with `values` over and over, an array of elements; with NaN by default.

        If a result depends on these values, the kernel read outside of the buffer. Guard pages have
        no values; the bytes between them and the buffer are a band.
        """
        values = guard_pattern(self.dtype) if values is None else values
        self._guard = np.ascontiguousarray(values).view(np.uint8)
        for band in self._bands:
            with self._mapped(band, cl.map_flags.WRITE) as array:
                array[:] = self.guards_of(array.size)

    def guards_of(self, size):
        """Return the bytes of so large a band, as an array."""
        return np.tile(self._guard, -(-size // self._guard.size))[:size]

    def intact(self):
        """Tell whether nothing was written into the guard bands."""
        for band in self._bands:
            with self._mapped(band, cl.map_flags.READ) as array:
                if not np.array_equal(array, self.guards_of(array.size)):
                    return False
        return True

    @contextmanager
    def _mapped(self, part, flags):
        """Map a part for the host: gives an array, in the buffer's own memory where it can be."""
        buffer, *about = part
        array, _ = cl.enqueue_map_buffer(self._queue, buffer, flags, *about, is_blocking=True)
        try:
            yield array
        finally:
            array.base.release(self._queue)


def in_huge_pages(size):
    """Return `size` bytes as an array, in huge pages if Linux has some left.

    numpy requests them for its arrays, the drivers for CPUs do not. Without them a kernel waits for
    address translations, and a BLAS does not.
    """
    room = np.empty(size + _HUGE, np.uint8)
    start = -room.ctypes.data % _HUGE
    return room[start:start + size]


def _forgets_origins(device):
    """Tell whether the driver launches a kernel a second time as if a sub-buffer began at 0."""
    return "pocl 1." in device.platform.version


def between_guard_pages(size):
    """Return `size` bytes as an array, rounded up to whole pages, with guard pages on both sides.

    The guard pages are REACH bytes in front of it and behind it. Raises Unsupported.
    """
    room = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, room + 2 * REACH)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    for at in (start, start + REACH + room):
        if libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(REACH), _NO_ACCESS):
            raise Unsupported("--guards pages: this system cannot protect pages; "
                              "use --guards bands")
    return np.frombuffer(memory, np.uint8, room, REACH)


@lru_cache
def require_guard_pages(device):
    """Raise Unsupported where a kernel on `device` can touch guard pages and go on."""
    if not device.type & cl.device_type.CPU:
        why = "for CPU devices only"
    elif _forgets_origins(device):
        why = "not with PoCL 1"
    else:
        why = None if _shares_memory(open_queue(device)) else "this driver copies buffers"
    if why:
        raise Unsupported(f"--guards pages: {why}; use --guards bands")


def _shares_memory(queue):
    """Tell whether a kernel is given the host's own memory, at the host's address."""
    room = between_guard_pages(8)
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.USE_HOST_PTR
    memory = cl.Buffer(queue.context, flags, hostbuf=room)
    kernel = cl.Kernel(build(queue.context, Path(__file__).with_suffix(".cl")), "where")
    kernel.set_args(memory)
    cl.enqueue_nd_range_kernel(queue, kernel, (1,), None).wait()
    return int(room[:8].view(np.uint64)[0]) == room.ctypes.data
