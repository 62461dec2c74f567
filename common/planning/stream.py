"""A, B and C of a GEMM, or of a batch, on the device, in a command queue with room for copies."""

from copy import copy

import numpy as np
import pyopencl as cl

from common.matrices import Matrix

_FILLED = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR


class Stream:
    """A queue with A, B and C, and room for copies of them.

    What is launched in a stream comes one after the other. Streams do not wait for each other: what
    is launched at the same time must not share what it writes.
    """

    def __init__(self, queue, problem, inputs=()):
        """Make the matrices; `inputs` are A and B where another stream has them already."""
        (M, N, K), dtype, batch = problem.size, problem.dtype, problem.batch
        self.queue, self.problem = queue, problem
        self.A, self.B = inputs or (
            Matrix(queue, M, K, dtype, problem.lda, batch),
            Matrix(queue, K, N, dtype, problem.ldb, batch),
        )
        self.C = Matrix(queue, M, N, problem.c_dtype, problem.ldc, batch)
        self.held = {}

    def write(self, A, B, C):
        """Fill the matrices, from arrays or with one value, and mend the guards around them.

        Counters are made anew: a launch that broke off may have left them counted.
        """
        self.held.pop("counters", None)
        for matrix, values in zip((self.A, self.B, self.C), (A, B, C)):
            matrix.write(values)

    def intact(self):
        """Tell whether all guards are as they were."""
        return all(matrix.intact() for matrix in (self.A, self.B, self.C))

    def room(self, role, need):
        """Return a buffer of at least `need` bytes, or an image of `need` (channel, w, h).

        Kernels use it one after the other. A new one has all bits set: NaN, or -1 for counters.
        """
        held = self.held.get(role)
        if isinstance(need, int):
            if held is None or held.size < need:
                filled = np.full(need, 255, np.uint8)
                self.held[role] = cl.Buffer(self.queue.context, _FILLED, hostbuf=filled)
        elif held is None or held.shape != need[1:]:
            self.held[role] = _image(self.queue.context, *need)
        return self.held[role]

    def own_bytes(self):
        """Return how many bytes it has that others do not share: of C and of copies."""
        return self.C.nbytes + sum(each.size for each in self.held.values())

    def bare(self):
        """Return this stream with another queue, which does not take the times of its commands."""
        stream = copy(self)
        stream.queue = cl.CommandQueue(self.queue.context)
        return stream

    def beside(self):
        """Return another stream on the same device: A and B are shared, C and copies are not."""
        queue = cl.CommandQueue(self.queue.context, properties=self.queue.properties)
        return Stream(queue, self.problem, (self.A, self.B))


def _image(context, channel, width, height):
    kind = cl.ImageFormat(cl.channel_order.RGBA, getattr(cl.channel_type, channel))
    pixels = np.full((height, width, 4), 2**32 - 1, np.uint32)
    make = getattr(cl, "create_image", cl.Image)  # the older name
    return make(context, _FILLED, kind, (width, height), hostbuf=pixels)
