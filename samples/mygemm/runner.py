"""Makes a plan's kernels and buffers, and launches them: copies before and after, and the GEMM."""

from dataclasses import replace
from functools import lru_cache
from math import prod

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

    def __init__(self, queue, problem):
        (M, N, K), self.dtype = problem.size, problem.dtype
        self.shapes = ((M, K), (K, N), (M, N))
        self.strides = (problem.lda, problem.ldb, problem.ldc)
        self.buffers = [
            GuardedBuffer(queue, (rows, ld), problem.dtype)
            for (rows, _), ld in zip(self.shapes, self.strides)
        ]

    def write(self, number, values):
        """Fill matrix 0, 1 or 2 (A, B, C) from an array, or with one value."""
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


class Gemm:
    """One rung, built for one problem. `steps` are its launches, set_up() makes them.

    A step is (what it does, kernel, global size, local size).
    """

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
        self._extra = [(extra, cl.Kernel(self.program, extra.entry)) for extra in self.plan.extra]

    def group_limit(self):
        """Return how many work-items a work-group of the built kernel may have."""
        info = cl.kernel_work_group_info.WORK_GROUP_SIZE
        return self.kernel.get_work_group_info(info, self.queue.device)

    def set_up(self, matrices, scratch, alpha, beta):
        """Choose the launches for `matrices`, and set all arguments.

        With beta = 0 no kernel reads C, so it is not copied in either.
        """
        P, plan, dtype = padded(self.problem.size, self.plan.multiple), self.plan, matrices.dtype
        before, after, self._kept = [], [], [matrices]
        wanted = ((P.K, P.M) if plan.transpose_a else (P.M, P.K), (P.K, P.N), (P.M, P.N))
        given, taken = [], []
        for n, (name, want) in enumerate(zip("ABC", wanted)):
            own = (matrices.buffers[n].device, *matrices.shapes[n], matrices.strides[n])
            turned = name == "A" and plan.transpose_a
            fits = own[1:3] == want and own[3] % plan.align[n] == 0 and not turned
            copy = own
            if not fits:
                size = want[0] * want[1] * dtype.itemsize
                copy = (scratch.get(name, size), *want, want[1])
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
            args.append(scratch.get("work", plan.work_bytes))
        self.steps = before + self._main(args) + after

    def enqueue(self):
        """Launch every step; return their events."""
        return [
            cl.enqueue_nd_range_kernel(self.queue, kernel, total, local)
            for _, kernel, total, local in self.steps
        ]

    def _main(self, args):
        steps = [("gemm", self.kernel, self.plan.global_size, self.plan.local_size)]
        for extra, kernel in self._extra:
            step = (extra.entry, kernel, extra.global_size, extra.local_size)
            steps.insert(len(steps) if extra.when == "after" else 0, step)
        for _, kernel, *_ in steps:
            kernel.set_args(*args)
        self._kept.append(args)  # a set argument does not keep its buffer alive
        return steps

    def _copy(self, what, name, have, want):
        """Return the step that copies a matrix; each is (buffer, rows, columns, ld)."""
        device = self.queue.device
        side = min(self.limits.fit((_SIDE, _SIDE), device.max_work_group_size))
        entry = "transpose" if what == "transpose" else "pad"
        kernel = _copier(self.queue.context, entry, REAL[self.problem.dtype], side)
        sizes = [*map(np.int32, have[1:]), *map(np.int32, want[1:])]
        kernel.set_args(*sizes[:2], have[0], *sizes[2:5], want[0], sizes[5])
        self._kept.append((have, want))
        total = tuple(-(-n // side) * side for n in (want[2], want[1]))
        return f"{what} {name}", kernel, total, (side, side)


def _copier(context, entry, real, side):
    """Return a kernel of its own: arguments that are set belong to one step."""
    return cl.Kernel(_copy_program(context, entry, real, side), entry)


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
