"""What is launched beside a GEMM kernel: copies of the matrices, its passes, and sums of parts.

A kernel that wants whole tiles gets copies where the matrices have none: pad.cl and transpose.cl
make them before it, and take C out of its copy again. A Pass of its own file goes before it as
well, and add.cl after it. A plan says what is needed.
"""

from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np
import pyopencl as cl

from common.gemm import REAL
from common.program import build
from common.sizes import buffer_bytes, require_matrices


class Copy(NamedTuple):
    """A buffer with a padded or transposed copy of a Matrix, or of those of a batch.

    `rows`, `columns` and `ld` are those of one matrix, in elements.
    """

    device: cl.Buffer
    rows: int
    columns: int
    ld: int


class Step(NamedTuple):
    """A launch of one kernel, and what it is for.

    It holds the arguments: a kernel does not keep alive the buffers that are set.
    """

    what: str
    kernel: cl.Kernel
    global_size: tuple
    local_size: tuple
    arguments: tuple

    def times(self, products, each=1):
        """Return it for a batch: dimension 2 of its NDRange goes over the products.

        A work-group computes `each` of them.
        """
        if products == 1:
            return self
        ones = (1,) * (2 - len(self.local_size))
        return self._replace(global_size=(*self.global_size, *ones, -(-products // each)),
                             local_size=(*self.local_size, *ones, 1))


def wanted(plan):
    """Return {name: (rows, columns)} of the copies that a plan needs."""
    M, N, K = plan.problem.size
    P, transposed = plan.size, plan.kernel.transpose_a
    own = {"A": None if transposed else (M, K), "B": (K, N), "C": (M, N)}
    given = (P.K, P.M) if transposed else (P.M, P.K), (P.K, P.N), (P.M, P.N)
    each = zip(own, given, plan.problem.leading, plan.align)
    return {name: shape for name, shape, ld, unit in each if shape != own[name] or ld % unit}


def _copied(plan):
    """Return {name: bytes} of the copies that a plan needs."""
    each = plan.problem.batch * plan.problem.dtype.itemsize
    return {name: prod(shape) * each for name, shape in wanted(plan).items()}


def of_batch(plan):
    """Return (defines, files before its own) by which a kernel finds what a product of a batch has.

    The defines are the bytes from there to what the next one has.
    """
    products = plan.problem.batch
    if products == 1:
        return {}, ()
    own = dict(zip("ABC", buffer_bytes(plan.problem).values()))
    taken = {**own, **_copied(plan), **plan.room}
    strides = {f"STRIDE_{name}": size // products for name, size in taken.items()}
    return strides, (plan.kernel.path("batch"),)


def copies(built, stream, beta):
    """Return (A, B, C, steps before, steps after): what the kernel is given, and what makes it so.

    Without need of a copy, A, B and C are those of the stream. With beta = 0, C is not read.
    """
    taken, before, after = {name: getattr(stream, name) for name in "ABC"}, [], []
    for name, (rows, columns) in wanted(built.plan).items():
        own, room = taken[name], stream.room(name, _copied(built.plan)[name])
        made = taken[name] = Copy(room, rows, columns, columns)
        if name != "C" or beta:
            entry = _copier(built.plan, name)
            before.append(_copy(built, f"{entry} {name}", entry, own, made))
        if name == "C":
            after.append(_copy(built, "unpad C", "pad", made, own))
    return *taken.values(), before, after


def _copier(plan, name):
    """Return the kernel that fills the copy of a matrix."""
    return "transpose" if name == "A" and plan.kernel.transpose_a else "pad"


def around(built, stream, first):
    """Return (all that gemm() gets, steps before it, steps after it), from its `first` arguments.

    Behind them come the buffers and images that the plan asks for. Its passes get them as well.
    add.cl follows where work-groups share tiles and do not add up the parts themselves.
    """
    plan, items = built.plan, built.side**2
    rooms = {role: stream.room(role, need) for role, need in plan.room.items()}
    every = *first, *rooms.values()
    passes = [Step(entry, cl.Kernel(built.program, entry), *sizes, every)
              for entry, *sizes in plan.passes]
    if not plan.shared:
        return every, passes, []
    arguments = *first, rooms["parts"], np.int32(plan.shared)
    vectors = plan.shared * plan.defines["TSM"] * plan.defines["TSN"] // 4
    total = whole((vectors * _adders(built),), (items,))
    return every, passes, [Step("add", _beside(built, "add"), total, (items,), arguments)]


def _adders(built):
    """Return how many work-items of add.cl share the parts of an element: a power of two."""
    return min(built.side**2, next(n for n in (16, 4, 1) if n <= built.plan.params["SPLITS"]))


def _copy(built, what, entry, source, target):
    """Return the Step that copies a matrix into another one."""
    local = built.side, built.side
    total = whole((target.columns, target.rows), local)
    return Step(what, _beside(built, entry), total, local, (
        np.int32(source.rows), np.int32(source.columns), source.device, np.int32(source.ld),
        np.int32(target.rows), np.int32(target.columns), target.device, np.int32(target.ld),
    ))


def others(built):
    """Return {name: kernel} of what is launched before and after gemm()."""
    plan = built.plan
    found = {entry: cl.Kernel(built.program, entry) for entry, *_ in plan.passes}
    entries = [_copier(plan, name) for name in wanted(plan)] + ["add"] * bool(plan.shared)
    return {**found, **{entry: _beside(built, entry) for entry in entries}}


def _beside(built, entry):
    """Return a kernel of another file: `pad`, `transpose` or `add`."""
    plan, defines, files = built.plan, {"TILE": built.side}, ()
    if entry == "add":
        defines, files = of_batch(plan)
        defines.update((name, plan.defines[name]) for name in ("TSM", "TSN", "BAND", "SPLITS"))
        defines.update(ADDERS=_adders(built), ITEMS=built.side**2)
    defines["REAL"] = REAL[plan.problem.dtype]
    path = plan.kernel.path(entry)
    return cl.Kernel(_program(built.program.context, path, (*defines.items(),), files), entry)


@lru_cache(maxsize=8)
def _program(context, path, defines, files):
    return build(context, path, dict(defines), before=files)


def require_memory(plan, limits):
    """Raise UsageError where the copies that a plan needs are too large, with the matrices."""
    need = {f"a copy of {name}": size for name, size in _copied(plan).items()}
    for role, each in plan.room.items():
        if isinstance(each, int):
            need[f"the buffer {role}"] = each
        else:
            need[f"the image {role}"] = 16 * prod(each[1:])  # 4 channels of 4 bytes
    require_matrices(plan.problem, limits, need)


def whole(items, local):
    """Return the sizes of an NDRange of at least so many `items`, in whole work-groups."""
    return tuple(-(-n // side) * side for n, side in zip(items, local))
