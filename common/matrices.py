"""A matrix on the device, or a batch of them: rows of `ld` elements, between guard bands."""

import time

import numpy as np

from common.buffers import GuardedBuffer, guard_pattern


class Matrix:
    """A buffer for a matrix of `rows` x `columns` elements, row-major, with a leading dimension.

    A `batch` is so many matrices of this size, the rows of one after those of another.

    What is no element of the matrix is guarded: the bands around the buffer, and the gaps between
    the end of a row and the start of the next, where `ld` is larger than `columns`. Both hold a NaN
    that no arithmetic gives, so that a value read there spoils the result, and one written is seen.
    `device` is the buffer to give to a kernel; keep this object as long as a kernel may use it.
    """

    def __init__(self, queue, rows, columns, dtype, ld=None, batch=1):
        self.rows, self.columns, self.ld = rows, columns, ld or columns
        self.dtype, self._shape = np.dtype(dtype), (rows, columns)
        self._all = batch * rows
        if batch > 1:
            self._shape = (batch, *self._shape)
        self._buffer = GuardedBuffer(queue, (self._all, self.ld), self.dtype)
        self._around = self._guard(None)
        self.device = self._buffer.device

    @property
    def nbytes(self):
        """The bytes of the buffer that a kernel is given."""
        return self._all * self.ld * self.dtype.itemsize

    def _guard(self, around):
        """Return what a guarded element holds, as an array of one."""
        if around is not None:
            return np.array([around], self.dtype)
        return np.resize(guard_pattern(self.dtype), self.dtype.itemsize).view(self.dtype)

    def write(self, values, around=None):
        """Fill the matrix from an array of its shape, or with one value, and mend its guards.

        The bands and the gaps then hold the number `around`, NaN by default. Returns the seconds
        that the copy of the matrix took, without its guards.
        """
        self._around = self._guard(around)
        if np.ndim(values) == 3:
            values = values.reshape(self._all, self.columns)
        if self.ld != self.columns:
            with_gaps = np.full((self._all, self.ld), self._around, self.dtype)
            with_gaps[:, : self.columns] = values
            values = with_gaps
        start = time.perf_counter()
        self._buffer.write(values)
        seconds = time.perf_counter() - start
        self._buffer.guard(self._around)
        return seconds

    def read(self):
        """Return the matrix as a contiguous array, a batch as one of three dimensions."""
        return np.ascontiguousarray(self._buffer.read()[:, : self.columns]).reshape(self._shape)

    def intact(self):
        """Tell whether nothing was written into the bands and the gaps since write()."""
        if not self._buffer.intact():
            return False
        if self.ld == self.columns:
            return True
        gaps = np.ascontiguousarray(self._buffer.read()[:, self.columns :])
        return gaps.tobytes() == np.full(gaps.shape, self._around, self.dtype).tobytes()
