"""The three matrices on the device: guarded buffers, and what lies between their rows."""

import time

import matrices
import numpy as np

from common.buffers import GuardedBuffer


class Places:
    """Buffers for A, B and C of one kernel.

    What is no element of a matrix holds NaN, so that a read there spoils the result: the bands
    around each buffer, and the ends of the rows where the kernel takes leading dimensions.
    """

    def __init__(self, queue, meta, stored):
        self._stored, self._padded = stored, meta.shape == "mnk"
        shapes = {name: self._lines(name, np.nan).shape for name in stored}
        self._buffers = {n: GuardedBuffer(queue, s, meta.dtype) for n, s in shapes.items()}

    def _lines(self, name, beyond):
        matrix = self._stored[name]
        return matrices.strided(matrix, name, beyond) if self._padded else matrix

    def fill(self, around=None):
        """Write the matrices; around each lies what `around` has for its name, or NaN.

        Returns the seconds that the writing of the matrices took.
        """
        around = around or {}
        seconds = 0.0
        for name, buffer in self._buffers.items():
            value = around.get(name)
            lines = self._lines(name, np.nan if value is None else value)
            start = time.perf_counter()
            buffer.write(lines)
            seconds += time.perf_counter() - start
            buffer.guard(None if value is None else np.array([value], buffer.dtype))
        return seconds

    def devices(self):
        """Return the buffers to give to a kernel."""
        return [buffer.device for buffer in self._buffers.values()]

    def strides(self):
        """Return lda, ldb and ldc."""
        return [buffer.shape[1] for buffer in self._buffers.values()]

    def result(self):
        """Return C."""
        columns = self._stored["C"].shape[1]
        return np.ascontiguousarray(self._buffers["C"].read()[:, :columns])

    def intact(self):
        """Tell whether nothing was written but C, after fill() with NaN around everything."""
        bands = all(buffer.intact() for buffer in self._buffers.values())
        inputs = all(self._same(name) for name in "AB")
        ends = self._buffers["C"].read()[:, self._stored["C"].shape[1] :]
        return bands and inputs and bool(np.isnan(ends).all())

    def _same(self, name):
        kept = self._buffers[name].read()
        return kept.tobytes() == self._lines(name, np.nan).tobytes()
