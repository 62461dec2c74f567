"""Zero-copy buffers between guard bands.

The bands hold a pattern that a kernel may not touch. Beside floating-point data it is a NaN, so
that a value read there spoils the result; a signalling one, which no arithmetic can give, so that a
NaN that came of such a read is still seen when it is written there.
"""

from contextlib import contextmanager

import numpy as np
import pyopencl as cl

_BAND = 4096  # bytes on each side, at least: more than any kernel's vector or tile row
# By the bytes of a number: the exponent all ones, the quiet bit 0.
_SIGNALLING_NAN = {
    2: np.uint16(0x7C5A).tobytes(),
    4: np.uint32(0x7FA5A5A5).tobytes(),
    8: np.uint64(0x7FF5A5A5A5A5A5A5).tobytes(),
}


def guard_pattern(dtype):
    """Return the bytes that fill the bands around elements of that type: those of one number."""
    size = dtype.itemsize // (2 if dtype.kind == "c" else 1)
    value = _SIGNALLING_NAN[size] if dtype.kind in "fc" else b"\xa5"
    return np.frombuffer(value, np.uint8)


class GuardedBuffer:
    """A device buffer of the given shape and type, host-visible without a copy.

    `device` is the buffer to give to a kernel. Keep this object as long as a kernel may use it: a
    kernel argument that is set does not keep its buffer alive.
    """

    def __init__(self, queue, shape, dtype=np.float32):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        self._queue = queue
        # A sub-buffer must start on this boundary, which OpenCL gives in bits.
        align = max(queue.device.mem_base_addr_align // 8, 1)
        # Oclgrind watches the ends of buffers itself: bands would hide them from it.
        self._watched = "oclgrind" in queue.device.platform.name.lower()
        self._band = 0 if self._watched else -(-_BAND // align) * align
        self._bytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        # ALLOC_HOST_PTR lets a driver with unified memory map the buffer instead of copying it.
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.ALLOC_HOST_PTR
        self._whole = cl.Buffer(queue.context, flags, size=self._bytes + 2 * self._band)
        self.device = self._whole.get_sub_region(self._band, self._bytes)
        self.guard()

    @contextmanager
    def map(self, flags):
        """Map the buffer for the host: gives an array in the buffer's own memory, then unmaps."""
        array, _ = cl.enqueue_map_buffer(
            self._queue, self.device, flags, 0, self.shape, self.dtype, is_blocking=True
        )
        try:
            yield array
        finally:
            array.base.release(self._queue)

    def write(self, values):
        """Fill the buffer from a host array, or with one value."""
        if self._watched:  # Oclgrind would call what is written through a mapping uninitialised
            whole = np.ascontiguousarray(np.broadcast_to(values, self.shape), self.dtype)
            cl.enqueue_copy(self._queue, self.device, whole)
            return
        with self.map(cl.map_flags.WRITE) as array:
            array[...] = values

    def read(self):
        """Return a copy of the buffer as a host array."""
        with self.map(cl.map_flags.READ) as array:
            return array.copy()

    def guard(self, values=None):
        """Fill the bands with `values` over and over, an array of elements; with NaN by default.

        A result that depends on what the bands hold was made of a read outside of the buffer.
        """
        values = guard_pattern(self.dtype) if values is None else values
        self._guard = np.resize(np.ascontiguousarray(values).view(np.uint8), self._band)
        with self._map_bands(cl.map_flags.WRITE) as bands:
            for band in bands:
                band[:] = self._guard

    def intact(self):
        """Tell whether nothing was written into the guard bands."""
        with self._map_bands(cl.map_flags.READ) as bands:
            return all((band == self._guard).all() for band in bands)

    @contextmanager
    def _map_bands(self, flags):
        mapped = [
            cl.enqueue_map_buffer(
                self._queue, self._whole, flags, start, (self._band,), np.uint8, is_blocking=True
            )[0]
            for start in (0, self._band + self._bytes)
            if self._band
        ]
        try:
            yield mapped
        finally:
            for array in mapped:
                array.base.release(self._queue)
