"""Makes a plan's kernels and buffers, and launches them: copies before and after, and the GEMM.

What is launched at the same time must not share what it writes: a Stream is a queue that has a C
and room for copies of its own.
"""

from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
import pyopencl as cl
from launch import KERNELS, REAL, choose, padded, require_memory

from common.buffers import GuardedBuffer
from common.errors import OpenCLFailure
from common.program import build

_SIDE = 16  # of the work-groups that copy
_ATTEMPTS = 8  # at parameters for which the built kernel can have its work-group
_GAP = -4096  # between the rows of C; every type holds it


class Matrices:
    """A, B and C on the device, each between guard bands, with its leading dimension.

    Between the end of a row and the next one lies NaN in A and B, which no kernel may use, and in C
    a number that no kernel may change.
    """

    def __init__(self, queue, problem, inputs=()):
        """Make the buffers; `inputs` are those of A and B where others have them already."""
        (M, N, K), self.dtype = problem.size, problem.dtype
        self.shapes = ((M, K), (K, N), (M, N))
        self.strides = (problem.lda, problem.ldb, problem.ldc)
        new = list(zip(self.shapes, self.strides))[len(inputs) :]
        made = [GuardedBuffer(queue, (rows, ld), problem.dtype) for (rows, _), ld in new]
        self.buffers = [*inputs, *made]

    def write(self, number, values):
        """Fill matrix 0, 1 or 2 (A, B, C) from an array, or with one value; mend guard bands."""
        for each in self.buffers:  # what one kernel damaged is no fault of the next
            each.guard()
        buffer = self.buffers[number]
        whole = np.full(buffer.shape, _GAP if number == 2 else np.nan, self.dtype)
        whole[:, : self.shapes[number][1]] = values
        buffer.write(whole)

    def result(self):
        """Return C, and whether the gaps in C and all guard bands are as they were."""
        whole = self.buffers[2].read()
        columns = self.shapes[2][1]
        clean = bool((whole[:, columns:] == _GAP).all())
        result = np.ascontiguousarray(whole[:, :columns])
        return result, clean and all(buffer.intact() for buffer in self.buffers)


class Scratch:
    """Buffers for copies, shared by the kernels of one context: they take turns with them."""

    def __init__(self, context):
        self._context, self._buffers = context, {}

    def get(self, role, size):
        """Return a buffer of at least `size` bytes for that role."""
        if role not in self._buffers or self._buffers[role].size < size:
            self._buffers[role] = cl.Buffer(self._context, cl.mem_flags.READ_WRITE, size)
        return self._buffers[role]

    def bytes(self):
        """Return how many bytes its buffers have."""
        return sum(buffer.size for buffer in self._buffers.values())


class Stream:
    """A queue with the matrices of a problem, and room for copies of them.

    What is launched in a stream comes one after the other. Streams do not wait for each other.
    """

    def __init__(self, queue, problem, inputs=()):
        self.queue, self._problem = queue, problem
        self.matrices = Matrices(queue, problem, inputs)
        self.scratch = Scratch(queue.context)

    def own_bytes(self):
        """Return how many bytes it has that others do not share: of C and of copies."""
        return self.matrices.buffers[2].device.size + self.scratch.bytes()

    def beside(self):
        """Return another stream on the same device: A and B are shared, C and copies are not."""
        queue = cl.CommandQueue(self.queue.context, properties=self.queue.properties)
        return Stream(queue, self._problem, self.matrices.buffers[:2])


def finish(streams):
    """Wait until all that was launched in the streams is done."""
    for stream in streams:
        stream.queue.flush()
    for stream in streams:
        stream.queue.finish()


class Step(NamedTuple):
    """A launch of one kernel, whose arguments are set, and what it is for."""

    what: str
    kernel: cl.Kernel
    global_size: tuple
    local_size: tuple


class Launch:
    """One GEMM: its steps, one after the other on a queue."""

    def __init__(self, queue, steps, kept):
        self._queue, self._steps = queue, steps
        self._kept = kept  # a set argument does not keep its buffer alive

    def enqueue(self):
        """Launch every step; return their events."""
        return [
            cl.enqueue_nd_range_kernel(self._queue, kernel, total, local)
            for _, kernel, total, local in self._steps
        ]


class Gemm:
    """One rung, built for one problem. `steps` says what the launches of the last set_up() do."""

    def __init__(self, queue, limits, rung, choice, problem, options=()):
        """Plan and build with the Choice of parameters, and with further build options."""
        self.queue, self.limits, self.rung = queue, limits, rung
        self.choice, self.problem, self.steps = choice, problem, []
        self.plan = rung.plan(problem, choice.params, limits, queue.device)
        used = self.plan.defines  # a parameter that is 0 may have been left to the plan
        self.params = {name: used.get(name, value) for name, value in choice.params.items()}
        require_memory(problem, self.plan, limits)
        options = (*self.plan.options, *options)
        self.program = build(queue.context, rung.file, self.plan.defines, options)
        self.kernel = cl.Kernel(self.program, "gemm")

    def group_limit(self):
        """Return how many work-items a work-group of the built kernel may have."""
        info = cl.kernel_work_group_info.WORK_GROUP_SIZE
        return self.kernel.get_work_group_info(info, self.queue.device)

    def set_up(self, stream, alpha, beta):
        """Return the Launch for the matrices of a stream. With beta = 0 no kernel reads C."""
        P, plan, matrices = (
            padded(self.problem.size, self.plan.multiple),
            self.plan,
            stream.matrices,
        )
        dtype, before, after = matrices.dtype, [], []
        wanted = ((P.K, P.M) if plan.transpose_a else (P.M, P.K), (P.K, P.N), (P.M, P.N))
        given, taken = [], []
        for n, (name, want) in enumerate(zip("ABC", wanted)):
            own = (matrices.buffers[n].device, *matrices.shapes[n], matrices.strides[n])
            turned = name == "A" and plan.transpose_a
            fits = own[1:3] == want and own[3] % plan.align[n] == 0 and not turned
            copy = own
            if not fits:
                size = want[0] * want[1] * dtype.itemsize
                copy = (stream.scratch.get(name, size), *want, want[1])
                if name != "C" or beta:
                    before.append(self._copy("transpose" if turned else "pad", name, own, copy))
            given.append(own)
            taken.append(copy)
        if taken[2] is not given[2]:
            after.append(self._copy("cut", "C", taken[2], given[2]))
        (a, *_, lda), (b, *_, ldb), (c, *_, ldc) = taken
        args = [*map(np.int32, P), dtype.type(alpha), a, np.int32(lda), b, np.int32(ldb)]
        args += [dtype.type(beta), c, np.int32(ldc)]
        if plan.work_bytes:
            args.append(stream.scratch.get("work", plan.work_bytes))
        steps = before + self._main(args) + after
        self.steps = [step.what for step in steps]
        return Launch(stream.queue, steps, (matrices, args))

    def _main(self, args):
        plan = self.plan
        steps = [self._step("gemm", "gemm", plan.global_size, plan.local_size, args)]
        for entry, *sizes, when in plan.extra:
            step = self._step(entry, entry, *sizes, args)
            steps.insert(len(steps) if when == "after" else 0, step)
        return steps

    def _step(self, what, entry, global_size, local_size, args):
        """Return a Step with a kernel of its own: arguments that are set belong to one stream."""
        kernel = cl.Kernel(self.program, entry)
        kernel.set_args(*args)
        return Step(what, kernel, global_size, local_size)

    def _copy(self, what, name, have, want):
        """Return the Step that copies a matrix; each is (buffer, rows, columns, ld)."""
        device = self.queue.device
        side = min(self.limits.fit((_SIDE, _SIDE), device.max_work_group_size))
        entry = "transpose" if what == "transpose" else "pad"
        program = _copy_program(self.queue.context, entry, REAL[self.problem.dtype], side)
        kernel = cl.Kernel(program, entry)
        sizes = [*map(np.int32, have[1:]), *map(np.int32, want[1:])]
        kernel.set_args(*sizes[:2], have[0], *sizes[2:5], want[0], sizes[5])
        total = tuple(-(-n // side) * side for n in (want[2], want[1]))
        return Step(f"{what} {name}", kernel, total, (side, side))


@lru_cache(maxsize=8)
def _copy_program(context, entry, real, side):
    defines = {"REAL": real, **({"TILE": side} if entry == "transpose" else {})}
    return build(context, KERNELS / f"{entry}.cl", defines)


def prepare(queue, limits, rung, given, problem, options=()):
    """Return the Gemm of a rung with the parameters `given`, the others chosen.

    A kernel's own limit of work-items is known when it is built, and may ask for other parameters.
    Raises UsageError, Unsupported or OpenCLFailure.
    """
    for _ in range(_ATTEMPTS):
        choice = choose(rung, given, limits, problem.dtype)
        gemm = Gemm(queue, limits, rung, choice, problem, options)
        if prod(gemm.plan.local_size) <= (most := gemm.group_limit()):
            return gemm
        limits = replace(limits, max_work_group_size=most)
    raise OpenCLFailure(f"{rung.label}: a work-group of it has at most {most} work-items, whatever")
