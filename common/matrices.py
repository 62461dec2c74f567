"""A matrix on the device, or a batch of them: rows of `ld` elements, between guard bands."""

import time

import numpy as np

from common.buffers import GuardedBuffer


class Matrix(GuardedBuffer):
    """A buffer for a matrix of `rows` x `columns` elements, row-major, with a leading dimension.

    A `batch` is so many matrices of this size, the rows of one after those of another.

    What is no element of the matrix is guarded: the bands around the buffer, and the gaps between
    the end of a row and the start of the next, where `ld` is larger than `columns`. Both hold a NaN
    that no arithmetic gives, so that a value read there spoils the result, and one written is seen.
    """

    def __init__(self, queue, rows, columns, dtype, ld=None, batch=1):
        self.rows, self.columns, self.ld = rows, columns, ld or columns
        self._product = (batch, rows, columns) if batch > 1 else (rows, columns)
        super().__init__(queue, (batch * rows, self.ld), dtype)

    def write(self, values, around=None):
        """Fill the matrix from an array of its shape, or with one value, and mend its guards.

        The bands and the gaps then hold the number `around`, NaN by default. Returns the seconds
        that the copy of the matrix took, without its guards.
        """
        self.guard(None if around is None else np.array([around], self.dtype))
        if np.ndim(values) == 3:
            values = values.reshape(-1, self.columns)
        if self.ld != self.columns:
            with_gaps = self.guards_of(self.nbytes).view(self.dtype).reshape(self.shape)
            with_gaps[:, : self.columns] = values
            values = with_gaps
        start = time.perf_counter()
        super().write(values)
        return time.perf_counter() - start

    def read(self):
        """Return the matrix as a contiguous array, a batch as one of three dimensions."""
        return np.ascontiguousarray(super().read()[:, : self.columns]).reshape(self._product)

    def intact(self):
        """Tell whether nothing was written into the bands and the gaps since write()."""
        if not super().intact():
            return False
        gaps = b"" if self.ld == self.columns else super().read()[:, self.columns :].tobytes()
        return gaps == self.guards_of(len(gaps)).tobytes()
