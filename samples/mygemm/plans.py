"""From a kernel and its parameters to build options, NDRange, and copies of the matrices.

A kernel that wants whole tiles gets copies where the matrices have none: pad.cl and transpose.cl
make them before it, and take C out of its copy again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyopencl as cl

from common import constraints
from common.constraints import Space
from common.errors import OpenCLFailure
from common.gemm import REAL, Problem, Size, padded, require_room
from common.matrices import Matrix
from common.program import build

FOLDER = Path(__file__).with_name("kernels")
_ATTEMPTS = 8  # at parameters for which the built kernel can have its work-group
_SIDE = 16  # of the work-groups that copy


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel: its parameters, the NDRange they lead to, and the matrices that it takes.

    `space` has the parameters, and the local size. A work-item makes `per_item` (columns, rows) of
    C. M, N and K must be multiples of `multiple`, and lda, ldb and ldc of `align`; with
    `transpose_a` A is given as K x M. Copies make it so. What no expression can say is a function:
    `start` gives defaults that follow the device and the size, in place of those that are 0; `more`
    gives further (defines, build options), or raises Unsupported; `groups` gives the work-groups of
    the NDRange; `work` gives the Work that goes before. `local_least` are bytes of local memory
    that the device has, whatever its driver tells. A source without REAL is in `real` only.
    """

    number: int
    name: str
    space: Space
    per_item: tuple = ("1", "1")
    multiple: tuple = ("1", "1", "1")
    align: tuple = ("1", "1", "1")
    transpose_a: bool = False
    start: Callable | None = None
    more: Callable | None = None
    groups: Callable | None = None
    work: Callable | None = None
    local_least: int = 0
    real: str | None = None

    @property
    def label(self):
        """The name with its number: `01_naive`."""
        return f"{self.number:02}_{self.name}"

    @property
    def file(self):
        """The path of its source."""
        return FOLDER / f"{self.label}.cl"


class Work(NamedTuple):
    """What kernel 14 launches before its main kernel; both get a further buffer of `nbytes`."""

    entry: str
    global_size: tuple
    local_size: tuple
    nbytes: int


class Plan(NamedTuple):
    """How a kernel is built and launched for a problem; sizes of the NDRange in work-items.

    `size` is M, N and K as the kernel gets them: multiples of `multiple`. `why` says what was wrong
    with the defaults of its parameters, or is None.
    """

    kernel: Kernel
    problem: Problem
    params: dict
    why: str | None
    defines: dict
    options: tuple
    global_size: tuple
    local_size: tuple
    local_bytes: int
    size: Size
    multiple: tuple
    align: tuple
    work: Work | None


def plan(kernel, given, problem, limits, device):
    """Return the Plan of a kernel with the parameters `given`, the others made to fit.

    Raises UsageError for a parameter that cannot be, Unsupported for what the device lacks.
    """
    choice = choose(kernel, given, problem, limits, device)
    params = choice.params
    defines, options = kernel.more(problem, params, limits, device) if kernel.more else ({}, ())
    real = {} if kernel.real else {"REAL": REAL[problem.dtype]}
    multiple = _values(kernel.multiple, params)
    size = padded(problem.size, multiple)

    # The NDRange: a work-item for each `per_item` elements of C, in whole work-groups.
    local = constraints.local_size(kernel.space, params)
    if kernel.groups:
        groups = kernel.groups(problem, params, device)
    else:
        columns, rows = _values(kernel.per_item, params)
        items = -(-size.N // columns), -(-size.M // rows)
        groups = [-(-n // side) for n, side in zip(items, local)]
    total = tuple(n * side for n, side in zip(groups, local))
    used = constraints.local_bytes(kernel.space, params, {"itemsize": problem.dtype.itemsize})
    return Plan(
        kernel, problem, params, choice.why,
        {**real, **params, **defines}, options, total, local, used, size, multiple,
        _values(kernel.align, params), kernel.work and kernel.work(problem, params),
    )  # fmt: skip


def _values(expressions, params):
    return tuple(constraints.evaluate(text, params) for text in expressions)


def choose(kernel, given, problem, limits, device):
    """Return the constraints.Choice for the parameters `given`, the others made to fit.

    A parameter that is 0 by default, and given as 0, is left open.
    """
    given = {name: value for name, value in given.items() if value or kernel.space.defaults[name]}
    facts = facts_of(kernel, problem, limits)
    space = space_of(kernel, given, problem, limits, device)
    if not constraints.is_legal(space, {**space.defaults, **given}, facts):
        space = space_of(kernel, {}, problem, limits, device)  # whose defaults would do
    return constraints.choose(space, given, facts, kernel.label)


def space_of(kernel, given, problem, limits, device):
    """Return the Space of a kernel, with the defaults that suit the device and the size."""
    if kernel.start is None:
        return kernel.space
    return replace(kernel.space, defaults=kernel.start(given, problem, limits, device))


def facts_of(kernel, problem, limits):
    """Return what the constraints of a kernel may name beside its parameters."""
    if limits.profile == "device":  # only a smaller one is taken at its word
        local = max(limits.local_mem_size, kernel.local_least)
        limits = replace(limits, local_mem_size=local)
    return constraints.facts(limits, problem.dtype.itemsize)


@dataclass
class Built:
    """A kernel, built as its Plan says. `steps` names the launches of a GEMM, copies included."""

    plan: Plan
    program: cl.Program
    side: int  # of the work-groups that copy
    steps: list = field(default_factory=list)


def build_kernel(queue, limits, kernel, given, problem):
    """Return the Built kernel, with the parameters `given` and the others made to fit.

    A kernel's own limit of work-items is known when it is built, and may ask for other parameters.
    Raises UsageError, Unsupported or OpenCLFailure.
    """
    device = queue.device
    side = min(limits.fit((_SIDE, _SIDE), device.max_work_group_size))
    for _ in range(_ATTEMPTS):
        made = plan(kernel, given, problem, limits, device)
        require_memory(made, limits)
        program = build(queue.context, kernel.file, made.defines, made.options)
        most = group_limit(program, device)
        if prod(made.local_size) <= most:
            return Built(made, program, side)
        limits = replace(limits, max_work_group_size=most)
    raise OpenCLFailure(f"{kernel.label}: a work-group of it has at most {most} work-items")


def group_limit(program, device):
    """Return how many work-items a work-group of the built kernel may have."""
    info = cl.kernel_work_group_info.WORK_GROUP_SIZE
    return cl.Kernel(program, "gemm").get_work_group_info(info, device)


class Stream:
    """A queue with A, B and C, and room for copies of them.

    What is launched in a stream comes one after the other. Streams do not wait for each other: what
    is launched at the same time must not share what it writes.
    """

    def __init__(self, queue, problem, inputs=()):
        """Make the matrices; `inputs` are A and B where another stream has them already."""
        (M, N, K), dtype = problem.size, problem.dtype
        self.queue, self.problem = queue, problem
        self.A, self.B = inputs or (
            Matrix(queue, M, K, dtype, problem.lda), Matrix(queue, K, N, dtype, problem.ldb)
        )  # fmt: skip
        self.C = Matrix(queue, M, N, dtype, problem.ldc)
        self._copies = {}

    def write(self, A, B, C):
        """Fill the matrices, from arrays or with one value, and mend the guards around them."""
        for matrix, values in zip((self.A, self.B, self.C), (A, B, C)):
            matrix.write(values)

    def intact(self):
        """Tell whether all guards are as they were."""
        return all(matrix.intact() for matrix in (self.A, self.B, self.C))

    def buffer(self, role, nbytes):
        """Return a buffer of at least so many bytes, which kernels use one after the other."""
        if role not in self._copies or self._copies[role].size < nbytes:
            context, flags = self.queue.context, cl.mem_flags.READ_WRITE
            self._copies[role] = cl.Buffer(context, flags, nbytes)
        return self._copies[role]

    def own_bytes(self):
        """Return how many bytes it has that others do not share: of C and of copies."""
        return self.C.nbytes + sum(buffer.size for buffer in self._copies.values())

    def beside(self):
        """Return another stream on the same device: A and B are shared, C and copies are not."""
        queue = cl.CommandQueue(self.queue.context, properties=self.queue.properties)
        return Stream(queue, self.problem, (self.A, self.B))


class Copy(NamedTuple):
    """A matrix that a copy fills: as much of a Matrix as a kernel is given."""

    device: cl.Buffer
    rows: int
    columns: int
    ld: int


class Step(NamedTuple):
    """A launch of one kernel, whose arguments are set, and what it is for."""

    what: str
    kernel: cl.Kernel
    global_size: tuple
    local_size: tuple


def copies(built, stream, beta):
    """Return (A, B, C, steps before, steps after): what the kernel is given, and what makes it so.

    Without need of a copy, A, B and C are those of the stream. With beta = 0, C is not read.
    """
    plan, before, after, taken = built.plan, [], [], []
    (M, N, K), transpose_a = plan.size, plan.kernel.transpose_a
    shapes = (K, M) if transpose_a else (M, K), (K, N), (M, N)
    for name, (rows, columns), unit in zip("ABC", shapes, plan.align):
        own = getattr(stream, name)
        transposed = name == "A" and transpose_a
        if not transposed and (own.rows, own.columns) == (rows, columns) and own.ld % unit == 0:
            taken.append(own)
            continue
        buffer = stream.buffer(name, rows * columns * plan.problem.dtype.itemsize)
        copy = Copy(buffer, rows, columns, columns)
        taken.append(copy)
        if name != "C" or beta:
            what = "transpose" if transposed else "pad"
            before.append(_step(stream.queue.context, built, f"{what} {name}", own, copy))
        if name == "C":
            after.append(_step(stream.queue.context, built, "unpad C", copy, own))
    return *taken, before, after


def split(built, stream, arguments):
    """Return the steps that kernel 14 needs first: they split A and B into a buffer of its own.

    The buffer is a further one of the `arguments`, for the main kernel as well.
    """
    if built.plan.work is None:
        return []
    entry, total, local, nbytes = built.plan.work
    arguments.append(stream.buffer("work", nbytes))
    kernel = cl.Kernel(built.program, entry)
    kernel.set_args(*arguments)
    return [Step(entry, kernel, total, local)]


def _step(context, built, what, source, target):
    """Return the Step that copies a matrix into another one."""
    entry = "transpose" if what.startswith("transpose") else "pad"
    path, real = built.plan.kernel.file.with_name(f"{entry}.cl"), REAL[built.plan.problem.dtype]
    kernel, side = cl.Kernel(_copy_program(context, path, real, built.side), entry), built.side
    kernel.set_args(
        np.int32(source.rows), np.int32(source.columns), source.device, np.int32(source.ld),
        np.int32(target.rows), np.int32(target.columns), target.device, np.int32(target.ld),
    )  # fmt: skip
    total = tuple(-(-n // side) * side for n in (target.columns, target.rows))
    return Step(what, kernel, total, (side, side))


@lru_cache(maxsize=8)
def _copy_program(context, path, real, side):
    tile = {"TILE": side} if path.stem == "transpose" else {}
    return build(context, path, {"REAL": real, **tile})


def require_memory(plan, limits):
    """Raise UsageError where the copies that a plan needs are too large, with the matrices."""
    (M, _, K), lda, ldb, ldc = plan.problem.size, *plan.problem[2:]
    need = {"matrix A": M * lda, "matrix B": K * ldb, "matrix C": M * ldc}
    if needs_copy(plan):
        P = plan.size
        need |= {"padded A": P.M * P.K, "padded B": P.K * P.N, "padded C": P.M * P.N}
    need = {name: count * plan.problem.dtype.itemsize for name, count in need.items()}
    if plan.work:
        need["the work space"] = plan.work.nbytes
    require_room(plan.problem, need, limits)


def needs_copy(plan):
    """Tell whether the plan makes copies of matrices: padded, aligned or transposed ones."""
    aligned = all(ld % unit == 0 for ld, unit in zip(plan.problem[2:], plan.align))
    return plan.kernel.transpose_a or not aligned or plan.size != plan.problem.size
