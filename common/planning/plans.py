"""From a kernel and its parameters to build options, NDRange, and what is launched beside it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import prod
from pathlib import Path
from typing import Callable, NamedTuple

import pyopencl as cl

from common import constraints
from common.constraints import VECTORS, Space
from common.errors import OpenCLFailure, Unsupported
from common.gemm import REAL, Problem, Size, padded
from common.planning import steps, tiles
from common.planning.steps import whole
from common.program import build, group_limit

_ATTEMPTS = 8  # at parameters for which the built kernel can have its work-group
_SIDE = 16  # of the work-groups that copy


class Pass(NamedTuple):
    """A kernel of the same file that is launched before gemm(), with the same arguments.

    `items` are work-items, rounded up to whole work-groups: of `local`, or else as gemm() has them.
    With a `channel`, of cl.channel_type, it fills an image: of 4 channels, a pixel a work-item.
    """

    entry: str
    items: tuple
    channel: str | None = None
    local: tuple = ()


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel: its parameters, the NDRange they lead to, and the matrices that it takes.

    Texts such as "TSN // WPTN" are expressions over its parameters: see common/constraints.py.

    With a parameter SPLITS, work-groups may share a tile: gemm() then gets a buffer for parts,
    which add.cl adds up. With `counters`, unless they are 0 bytes, it gets those as a last
    argument, and adds up any parts itself.
    """

    number: int
    name: str
    folder: Path  # of its source
    space: Space  # the parameters, their constraints, and the local size
    per_item: tuple = ("1", "1")  # columns and rows of C that a work-item makes
    multiple: tuple = ("1", "1", "1")  # M, N and K must be multiples of these: copies are padded
    align: tuple = ("1", "1", "1")  # so must lda, ldb and ldc
    transpose_a: bool = False  # A is given as K x M
    passes: tuple = ()  # of Pass
    work: str = "0"  # bytes of a buffer that gemm() and the passes get as a further argument
    parts: str = "SPLITS * TSM * TSN * shared"  # elements
    counters: str = "0"  # bytes: ints for work-groups that share a tile (last.cl) or steal
    # What no expression can say. `start` returns defaults that follow the device and the size, in
    # place of those that are 0; `more` returns further (defines, build options), or raises
    # Unsupported; `groups` returns the work-groups of the NDRange.
    start: Callable | None = None
    more: Callable | None = None
    groups: Callable | None = None
    local_least: int = 0  # bytes of local memory that the device has, whatever its driver says
    precisions: tuple = ("single", "double", "half")  # a source for only one has no REAL
    before: tuple = ()  # names of sources that stand before its own
    chain: str = "K"  # products that are added up in the precision of A, their sums in a wider one

    @property
    def label(self):
        """The name with its number: `01_naive`."""
        return f"{self.number:02}_{self.name}"

    @property
    def file(self):
        """The path of its source."""
        return self.path(self.label)

    def path(self, name):
        """Return the path of another source beside it."""
        return self.folder / f"{name}.cl"


# What a search tries for a parameter; where a kernel has others, they stand there.
_SIDES, _TILES, _PER_ITEM = (16, 32, 64, 128), (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16)
_VALUES = {
    **dict.fromkeys(("TS", "TSDK"), _TILES),
    **dict.fromkeys(("TSM", "TSN"), _SIDES),
    **dict.fromkeys(("WPT", "WPTM", "WPTN", "RY", "THREADSX", "THREADSY"), _PER_ITEM),
    **dict.fromkeys(("WIDTH", "RX", "RK", "M0", "N0", "UNROLL", "LANES", "ROWS"), VECTORS),
    "TSK": (4, 8, 16, 32),
    "PAD": (0, 1, 2),
    "CHAIN": (0, 16, 32, 64, 128),
}
_MAY_BE_0 = ("PAD", "CHAIN", "DIRECT", "EARLY", "SWAPPED", "GLOBAL", "STEAL")


def define(folder, number, name, *, params, local_size, rules=(), local_bytes="0", values=(),
           **more):
    """Return a Kernel whose `params` have these defaults, and keep these `rules`.

    A parameter is at least 1; one for which a search tries VECTORS must be one of them. `values`
    are what it tries for others, where that is not as usual. `more` are fields of a Kernel.
    """
    tried = {**_VALUES, **dict(values)}
    tried = {name: tried[name] for name in params}
    own = [
        f"{name} in {VECTORS}" if tried[name] is VECTORS else f"{name} >= 1"
        for name in params
        if name not in _MAY_BE_0
    ]
    space = Space(params, tried, (*own, *rules), local_size, local_bytes)
    return Kernel(number, name, folder, space, **more)


def over(count, unit):
    """Return an expression: how many units `count` needs."""
    return f"(({count} + {unit} - 1) // ({unit}))"


def up(count, unit):
    """Return an expression: `count`, rounded up to whole units."""
    return f"({over(count, unit)} * ({unit}))"


class Plan(NamedTuple):
    """How a kernel is built and launched for a problem."""

    kernel: Kernel
    problem: Problem
    params: dict
    why: str | None  # the defaults are not used, or None
    defines: dict
    options: tuple  # of the build, beside the defines
    global_size: tuple  # of the NDRange, in work-items
    local_size: tuple
    local_bytes: int  # of local memory
    size: Size  # M, N and K as the kernel gets them
    align: tuple
    passes: tuple  # (entry, global size, local size) of what is launched before it
    room: dict  # by role, the bytes of a buffer, or the (channel, width, height) of an image
    shared: int  # tiles that several work-groups share, and whose parts add.cl adds up
    chain: int

    @property
    def products(self):
        """How many products of a batch a work-group computes, one after the other."""
        return self.defines.get("PRODUCTS", 1)

    def lines(self):
        """Return the lines that say how the kernel is launched, and why not with its defaults."""
        total, local = (" x ".join(map(str, n)) for n in (self.global_size, self.local_size))
        products = "product" if self.products == 1 else f"{self.products} products"
        each = f" for every {products}" if self.problem.batch > 1 else ""
        memory = f", {self.local_bytes} bytes of local memory" if self.local_bytes else ""
        return [f"{self.kernel.label}: {constraints.options(self.params)}",
                f"    NDRange {total}{each}, work-groups of {local}{memory}",
                *([f"    not with the defaults: {self.why}"] if self.why else [])]


def plan(kernel, given, problem, limits, device):
    """Return the Plan of a kernel with the parameters `given`, the others made to fit.

    Raises UsageError for a parameter that cannot be, Unsupported for what the device lacks.
    """
    choice = choose(kernel, given, problem, limits, device)
    params = choice.params
    defines, options = kernel.more(problem, params, limits, device) if kernel.more else ({}, ())
    real = {"REAL": REAL[problem.dtype]} if len(kernel.precisions) > 1 else {}
    size = padded(problem.size, _values(kernel.multiple, params))
    known = {**params, **defines, **size._asdict(), "itemsize": problem.dtype.itemsize}
    # The NDRange: a work-item for each `per_item` elements of C, in whole work-groups.
    local = constraints.local_size(kernel.space, params)
    if kernel.groups:
        groups = kernel.groups(problem, params, device)
        total = tuple(n * side for n, side in zip(groups, local))
        known["work_groups"] = prod(groups)
    else:
        columns, rows = _values(kernel.per_item, params)
        total = whole((-(-size.N // columns), -(-size.M // rows)), local)
    # Matrices that are read in place need no panels.
    in_place = "IN_PLACE" in defines
    used = 0 if in_place else constraints.local_bytes(kernel.space, params, known)
    tiled = "SPLITS" in params and "TSM" in known
    shared = tiles.shared(size, known, device.max_compute_units) if tiled else 0
    passes, room = _beside(kernel, known, local, problem.batch, shared, device)
    return Plan(
        kernel, problem, params, why=choice.why, defines={**real, **params, **defines},
        options=options, global_size=total, local_size=local, local_bytes=used, size=size,
        align=_values(kernel.align, params), passes=passes, room=room,
        shared=0 if known.get("LAST_ADDS") else shared,
        chain=constraints.evaluate(kernel.chain, known),
    )


def _beside(kernel, known, local, batch, shared, device):
    """Return the `passes` and the `room` of a Plan. `known` are the names of expressions."""
    passes = []
    for each in kernel.passes:
        group = _values(each.local, known) or local
        items = whole(_values(each.items, known), group)
        passes += [(each.entry, items, group)] if all(items) else []
    work = batch * constraints.evaluate(kernel.work, known)
    room = {each.entry: (each.channel, *_values(each.items, known))
            for each in kernel.passes if each.channel}
    require_images(kernel, room, device)
    room = {"work": work, **room} if work else room
    known = {**known, "shared": shared}
    needs = {"counters": kernel.counters}
    if known.get("SPLITS", 1) > 1:
        known["shared"] = shared or 1
        needs = {"parts": f"{kernel.parts} * itemsize", **needs}
    for role, need in needs.items():
        if size := batch * constraints.evaluate(need, known):
            room[role] = size
    return tuple(passes), room


def _values(expressions, known):
    return tuple(constraints.evaluate(text, known) for text in expressions)


def require_images(kernel, images, device):
    """Raise Unsupported where the device has no images, or none of as many pixels."""
    if images and not device.image_support:
        raise Unsupported(f"{kernel.label} needs images, which this device does not have")
    for _, *shape in images.values():
        most = device.image2d_max_width, device.image2d_max_height
        if any(side > limit for side, limit in zip(shape, most)):
            has, may = ("{} x {}".format(*sides) for sides in (shape, most))
            raise Unsupported(f"{kernel.label} needs an image of {has} pixels, but the device "
                              f"takes at most {may}: choose a smaller size")


def choose(kernel, given, problem, limits, device):
    """Return the constraints.Choice for the parameters `given`, the others made to fit.

    A parameter that is 0 by default, and given as 0, is left open. Raises UsageError for one that
    cannot be, Unsupported for a precision or a batch that the kernel does not have.
    """
    if problem.precision not in kernel.precisions:
        raise Unsupported(f"{kernel.label} is for --precision {', '.join(kernel.precisions)}")
    if problem.batch > 1 and any(each.channel for each in kernel.passes):
        raise Unsupported(f"{kernel.label} does not support --batch: its images hold one product")
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


def described(kernels, problem, limits, device):
    """Return what cli.describe() tells of the kernels."""
    found = []
    for kernel in kernels:
        space = space_of(kernel, {}, problem, limits, device)
        if kernel.local_least:  # more than a reader of the device's limits would know of
            fits = f"{space.local_bytes} <= {facts_of(kernel, problem, limits)['local_mem_size']}"
            space = replace(space, constraints=(*space.constraints, fits), local_bytes="0")
        found.append({
            "name": kernel.label, "options": ["--kernel", str(kernel.number)],
            "space": asdict(space), "flags": {name: f"--{name}" for name in space.defaults},
            "itemsize": problem.dtype.itemsize,
        })
    return found


class Built(NamedTuple):
    """A kernel, built as its Plan says."""

    plan: Plan
    program: cl.Program
    side: int  # of the work-groups that copy


def build_kernel(queue, limits, kernel, given, problem):
    """Return the Built kernel, with the parameters `given` and the others made to fit.

    A kernel's own limit of work-items is known when it is built, and may ask for other parameters.
    Raises UsageError, Unsupported or OpenCLFailure.
    """
    device = queue.device
    side = min(limits.fit((_SIDE, _SIDE), device.max_work_group_size))
    for _ in range(_ATTEMPTS):
        made = plan(kernel, given, problem, limits, device)
        steps.require_memory(made, limits)
        strides, files = steps.of_batch(made)
        before = (*files, *map(kernel.path, kernel.before))
        defines = {**made.defines, **strides}
        program = build(queue.context, kernel.file, defines, made.options, before)
        most, compiled_for = group_limits(program, device)
        if prod(made.local_size) <= most or prod(made.local_size) == compiled_for:
            return Built(made, program, side)
        limits = replace(limits, max_work_group_size=most)
    raise OpenCLFailure(f"{kernel.label}: its work-groups have at most {most} work-items")


def group_limits(program, device):
    """Return how many work-items a work-group of gemm() may have, and how many it was built for."""
    kernel, compiled = cl.Kernel(program, "gemm"), cl.kernel_work_group_info.COMPILE_WORK_GROUP_SIZE
    return group_limit(kernel), prod(kernel.get_work_group_info(compiled, device))
