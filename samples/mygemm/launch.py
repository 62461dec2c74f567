"""What a rung of the ladder says of its launch, and how its parameters are chosen.

A rung is one kernel: its file, its parameters with their defaults, the rules they must keep, and
the plan of its launch. The rules are stated once. What the command line gives is refused by them,
what it leaves open is chosen by them, and `tune` searches among what they allow.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from math import log2, prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common.device import size_text
from common.errors import Unsupported, UsageError
from common.gemm import Size

KERNELS = Path(__file__).with_name("kernels")
PRECISIONS = {"single": np.float32, "double": np.float64, "half": np.float16}
REAL = {np.dtype(np.float32): "float", np.dtype(np.float64): "double", np.dtype(np.float16): "half"}
_NEEDS = {"double": "cl_khr_fp64", "half": "cl_khr_fp16"}
VECTORS = (1, 2, 4, 8, 16)  # elements of a vector in OpenCL C; 1 is a scalar
MOST_PRODUCTS = 8192  # of a work-item in a step of k: more takes a compiler minutes


class Problem(NamedTuple):
    """One GEMM: `lda`, `ldb` and `ldc` in elements, at least K, N and N."""

    size: Size
    dtype: np.dtype
    lda: int
    ldb: int
    ldc: int


class Extra(NamedTuple):
    """A further entry point of the kernel's file; it takes the same arguments as `gemm`.

    `when` is `before` or `after` the main launch.
    """

    entry: str
    global_size: tuple
    local_size: tuple
    when: str = "after"


@dataclass(frozen=True)
class Plan:
    """How a problem is launched. Sizes of the NDRange in work-items.

    M, N and K are made multiples of `multiple`, and lda, ldb and ldc multiples of `align`, by
    copies that pad.cl makes; where these are (1, 1, 1), the kernel takes the matrices as they are.
    With `transpose_a` it is given A as K x M. Where `work_bytes` is not 0, the main kernel and the
    extra ones take a buffer of so many bytes as their last argument.
    """

    defines: dict
    global_size: tuple
    local_size: tuple
    local_bytes: int = 0
    multiple: tuple = (1, 1, 1)
    align: tuple = (1, 1, 1)
    transpose_a: bool = False
    options: tuple = ()
    extra: tuple = ()
    work_bytes: int = 0


@dataclass(frozen=True, eq=False)
class Rung:
    """A kernel of the ladder.

    `defaults` has a value for each parameter, `values` what a search tries. `rules(params, limits,
    dtype)` returns a message for each rule that is broken; `plan(problem, params, limits, device)`
    returns a Plan, or raises UsageError or Unsupported.
    """

    number: int
    name: str
    defaults: dict
    values: dict
    rules: Callable = field(repr=False)
    plan: Callable = field(repr=False)

    @property
    def label(self):
        """The name with its number: `01_naive`."""
        return f"{self.number:02}_{self.name}"

    @property
    def file(self):
        """The path of the kernel."""
        return KERNELS / f"{self.label}.cl"


# What rules are made of. Each function returns a message, or None where the rule is kept.


def options(params, *names):
    """Return the named parameters as the options that give them: `--TS 32 --WPT 8`."""
    return " ".join(f"--{name} {params[name]}" for name in names or params)


def divides(params, divisor, name, *others):
    """Rule: `divisor` (a parameter, or a number) divides the product of the named ones."""
    by = params.get(divisor, divisor)
    if by > 0 and prod(params[n] for n in (name, *others)) % by == 0:
        return None
    what = " x ".join((name, *others))
    named = [*([divisor] if divisor in params else []), name, *others]
    return f"{options(params, *named)}: {divisor} must divide {what}"


def at_least(params, least, *names):
    """Rule: each of the named parameters is at least `least`."""
    small = [name for name in names if params[name] < least]
    return f"{options(params, *small)}: at least {least} is needed" if small else None


def is_vector(params, name):
    """Rule: OpenCL C has a vector of that many elements."""
    if params[name] in VECTORS:
        return None
    return f"{options(params, name)}: a vector has 1, 2, 4, 8 or 16 elements"


def can_unroll(params, *names):
    """Rule: the product of the named parameters, which a kernel unrolls, is not too large."""
    products = prod(params[name] for name in names)
    if products <= MOST_PRODUCTS:
        return None
    text = f"{products} products, more than the {MOST_PRODUCTS} that are unrolled"
    return f"{options(params, *names)}: {text}"


def group_fits(params, limits, local, *names):
    """Rule: the work-group `local` is one that the device takes. `names` decide its shape."""
    for side, (count, most) in enumerate(zip(local, limits.max_work_item_sizes)):
        if count > most:
            return (
                f"{options(params, *names)}: {count} work-items in dimension {side}, "
                f"but the device takes at most {most}"
            )
    if prod(local) > limits.max_work_group_size:
        return (
            f"{options(params, *names)}: {prod(local)} work-items, but a work-group has at most "
            f"{limits.max_work_group_size}"
        )
    return None


def local_fits(params, limits, count, *names):
    """Rule: `count` bytes of local memory are there. `names` decide how many are needed."""
    if count <= limits.local_mem_size:
        return None
    return (
        f"{options(params, *names)}: {count} bytes of local memory, "
        f"but the device has {limits.local_mem_size} for a work-group"
    )


def broken(*messages):
    """Return the messages of the rules that are broken."""
    return [message for message in messages if message is not None]


# Choosing.


class Choice(NamedTuple):
    """Parameters that keep the rules. `why` says what was wrong with the defaults, if anything."""

    params: dict
    why: str | None


def choose(rung, given, limits, dtype):
    """Return the Choice for the parameters `given` (maybe none): the others are made to fit.

    They are as near to the defaults as the rules allow. Raises UsageError for a given value that
    no choice of the others makes legal; the message names the rule and a value that would do.
    """
    wish = {**rung.defaults, **given}
    problems = rung.rules(wish, limits, dtype)
    if not problems:
        return Choice(wish, None)
    fixed = {name: (value,) for name, value in given.items()}
    if found := nearest(rung, wish, {**rung.values, **fixed}, limits, dtype):
        return Choice(found, problems[0])
    # The defaults of the others may be at fault as well: name a rule that the given ones break.
    named = [p for p in problems if any(f"--{name} " in p for name in given)] or problems
    found = nearest(rung, wish, rung.values, limits, dtype)
    if found is None:
        raise Unsupported(f"{rung.label}: no choice of its parameters is legal here; {problems[0]}")
    other = {name: found[name] for name in given if found[name] != given[name]}
    raise UsageError(f"{rung.label}: {named[0]}; {options(other)} would do")


def nearest(rung, wish, values, limits, dtype):
    """Return the legal parameters that are nearest to `wish`, out of `values`; None without any.

    The distance is the sum of the factors between them, as powers of 2.
    """
    names = list(rung.defaults)

    def distance(candidate):
        return sum(abs(log2((v + 1) / (wish[n] + 1))) for n, v in zip(names, candidate))

    for candidate in sorted(product(*(values[name] for name in names)), key=distance):
        params = dict(zip(names, candidate))
        if not rung.rules(params, limits, dtype):
            return params
    return None


def require(rung, params, limits, dtype):
    """Raise UsageError for the first rule that the parameters break."""
    if problems := rung.rules(params, limits, dtype):
        raise UsageError(f"{rung.label}: {problems[0]}")


def require_precision(name, limits):
    """Raise Unsupported where the device cannot compute in the precision of that name."""
    extension = _NEEDS.get(name)
    if extension and extension not in limits.extensions:
        raise Unsupported(f"--precision {name} needs {extension}, which this device does not have")


def padded(size, multiple):
    """Return the Size whose numbers are rounded up to multiples of `multiple` (M, N, K)."""
    return Size(*(-(-n // m) * m for n, m in zip(size, multiple)))


def require_memory(problem, plan, limits):
    """Raise UsageError where the matrices, and the copies the plan needs, are too large.

    Without a plan, where the matrices alone are.
    """
    (M, _, K), item = problem.size, problem.dtype.itemsize
    need = {"A": M * problem.lda, "B": K * problem.ldb, "C": M * problem.ldc}
    if plan and needs_copy(problem, plan):
        P = padded(problem.size, plan.multiple)
        need |= {"padded A": P.M * P.K, "padded B": P.K * P.N, "padded C": P.M * P.N}
    need = {name: count * item for name, count in need.items()}
    need["the work space"] = plan.work_bytes if plan else 0
    name = max(need, key=need.get)
    if need[name] > limits.max_mem_alloc_size:
        text = f"{name} takes {size_text(need[name])}"
        most = f"allocates at most {size_text(limits.max_mem_alloc_size)} at once"
    elif sum(need.values()) > limits.global_mem_size:
        text = f"the matrices and their copies take {size_text(sum(need.values()))}"
        most = f"has {size_text(limits.global_mem_size)}"
    else:
        return
    smaller = "a smaller size"
    if problem[2:] != (K, problem.size.N, problem.size.N):
        smaller += ", or smaller leading dimensions"
    raise UsageError(f"{problem.size}: {text}, but the device {most}: choose {smaller}")


def needs_copy(problem, plan):
    """Tell whether the plan makes copies of matrices: padded, aligned or transposed ones."""
    strides = (problem.lda, problem.ldb, problem.ldc)
    stray = any(ld % unit for ld, unit in zip(strides, plan.align))
    return plan.transpose_a or stray or padded(problem.size, plan.multiple) != problem.size
