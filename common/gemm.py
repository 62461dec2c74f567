"""GEMM on the host: sizes, inputs, options and flop count.

C = alpha * A * B + beta * C with A of M x K, B of K x N, C of M x N elements, all row-major.
"""

from __future__ import annotations

import argparse
from math import prod
from typing import NamedTuple

import numpy as np

from common import hard, networks, rng
from common.arguments import count, number
from common.errors import Unsupported, UsageError
from common.sizes import FLOP_CONVENTION, Size, parsed, require_matrices

LARGEST_ORDER = 2**30  # kernels count elements of a row or column in 32-bit integers
INTEGER_LIMIT = 4  # --data integer draws from -4 .. 4, or all that 8 bits hold
MOST_SIZES = 1000  # of a range
MOST_PRODUCTS = 65535  # of a batch: the work-groups that CUDA allows in dimension 2 of an NDRange
PRECISIONS = {"single": np.float32, "double": np.float64, "half": np.float16, "int8": np.int8}
REAL = dict(zip(map(np.dtype, PRECISIONS.values()), ("float", "double", "half", "char")))


class Problem(NamedTuple):
    """One GEMM: `lda`, `ldb` and `ldc` in elements, at least K, N and N.

    A `batch` is so many of them, with matrices of their own that follow each other in memory.
    """

    size: Size
    dtype: np.dtype
    lda: int
    ldb: int
    ldc: int
    batch: int = 1

    def __str__(self):
        return f"{self.size}{f', {self.batch} products' if self.batch > 1 else ''}"

    @property
    def leading(self):
        """lda, ldb and ldc."""
        return self.lda, self.ldb, self.ldc

    def flop(self):
        """Return the floating-point operations of all its products."""
        return self.batch * self.size.flop()

    @property
    def precision(self):
        """The name of its type among PRECISIONS."""
        return next(name for name, kind in PRECISIONS.items() if self.dtype == kind)

    @property
    def c_dtype(self):
        """The type of C, alpha and beta: wider than that of A and B where those are bytes."""
        return _of_c(self.dtype)

    @property
    def unit(self):
        """The unit of its rates: 10^9 operations a second, of integers or in floating point."""
        return "GOPS" if self.c_dtype.kind == "i" else "GFLOPS"


def _of_c(dtype):
    return np.dtype(np.int32 if np.dtype(dtype) == np.int8 else dtype)


def require_precision(name, limits, option="--precision"):
    """Raise Unsupported where the device cannot compute in the precision that `option` names."""
    extension = {"double": "cl_khr_fp64", "half": "cl_khr_fp16"}.get(name)
    if extension and extension not in limits.extensions:
        raise Unsupported(f"{option} {name} needs {extension}, which this device does not have")


def padded(size, multiple):
    """Return the Size whose numbers are rounded up to multiples of `multiple` (M, N, K)."""
    return Size(*(-(-n // m) * m for n, m in zip(size, multiple)))


def parse_size(text):
    """Return the Size that `text` names: `1024` (square), `640x48x1000` (M x N x K), or a layer of
    common/networks.py, such as `@resnet50.fc`.
    """
    if text.startswith("@"):
        text, *others = networks.layers(text)
        if others:
            raise argparse.ArgumentTypeError("give one size: a layer such as @resnet50.fc")
    size = parsed(text.lower())
    if size is None:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a size: give an order such as 1024, M x N x K such as 640x48x1000, "
            "or a layer such as @resnet50.fc"
        )
    if min(size) < 1 or max(size) > LARGEST_ORDER:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a size: every order must be from 1 to {LARGEST_ORDER}"
        )
    return size


def parse_sizes(text):
    """Return the Sizes that `text` names: an argparse type.

    It is a list between commas of orders (`1024`), M x N x K (`640x48x1000`), ranges of orders
    from:to:step, both ends included (`1024:4096:1024`), and layers or all layers of a network
    (`@resnet50`).
    """
    return list(dict.fromkeys(size for part in text.split(",") for size in _sizes(part)))


def _sizes(text):
    if text.startswith("@"):
        return list(map(parse_size, networks.layers(text)))
    if ":" not in text:
        return [parse_size(text)]
    ends = text.split(":")
    if len(ends) != 3 or any("x" in end.lower() for end in ends):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a range of sizes: give from:to:step such as 1024:4096:1024"
        )
    first, last, step = (parse_size(end).M for end in ends)
    if first > last:
        raise argparse.ArgumentTypeError(f"'{text}' is an empty range: {first} is above {last}")
    if (last - first) // step >= MOST_SIZES:
        raise argparse.ArgumentTypeError(f"'{text}' has more than {MOST_SIZES} sizes")
    return [parse_size(str(n)) for n in range(first, last + 1, step)]


def require_fit(size, dtype, limits):
    """Raise UsageError where a matrix of that size is more than the device can hold."""
    _, N, K = size
    require_matrices(Problem(size, np.dtype(dtype), K, N, N), limits)


def sdk_inputs(size, seed, dtype=np.float32, batch=1):
    """Return matrices A, B, C of [-1, 1] as the Mali SDK's sample draws them, in float32 there.

    Those of a batch are arrays of three dimensions, of which the first is the product.

    For each element index it draws for A, then for B, then for C. Where the three matrices differ
    in length, the draws for an element that does not exist are thrown away. float16 has the values
    of float32, rounded.
    """
    wide = np.promote_types(dtype, np.float32).type
    draws = rng.rand(seed, 3 * batch * longest(size)).astype(wide)
    # (float)RAND_MAX rounds to 2^31.
    draws = draws / wide(2**31) * wide(2) - wide(1)
    return deal(draws.astype(dtype), size, batch)


def integer_inputs(size, seed, dtype=np.float32, batch=1):
    """Return matrices A, B, C of small whole numbers, drawn in the order of sdk_inputs.

    With whole alpha and beta every partial sum is exact, so all devices give the same bits; `exact`
    says whether that holds. In int8 they may be any, and C is int32.
    """
    A, B, C = deal(whole(rng.rand(seed, 3 * batch * longest(size)), dtype), size, batch)
    return A, B, C.astype(_of_c(dtype))


def whole(draws, dtype):
    """Return numbers of rng.rand() as the small whole numbers of that type: -4 to 4, or int8."""
    low, high = _integers(dtype)
    return ((draws % (high - low + 1)).astype(np.float32) + np.float32(low)).astype(dtype)


def _integers(dtype):
    """Return the least and the largest of integer_inputs()."""
    return (-128, 127) if np.dtype(dtype) == np.int8 else (-INTEGER_LIMIT, INTEGER_LIMIT)


def _hard_inputs(data):
    return lambda size, seed, *more: hard.made(data, seed, *sdk_inputs(size, seed, *more))


INPUTS = {"sdk": sdk_inputs, "integer": integer_inputs,
          **{data: _hard_inputs(data) for data in hard.HARD}}


def exact(size, alpha, beta, dtype=np.float32):
    """Tell whether no partial sum of a GEMM over integer_inputs can need rounding.

    Of a complex type real and imaginary parts are such inputs, and each part of a product is the
    sum of two products.
    """
    parts, most = 2 if np.dtype(dtype).kind == "c" else 1, -_integers(dtype)[0]
    whole = all(float(x).is_integer() for s in (alpha, beta) for x in (s.real, s.imag))
    alpha, beta = (abs(s.real) + abs(s.imag) for s in (alpha, beta))
    product = parts * size.K * most**2
    return whole and max(alpha * product + beta * most, product) <= _exact_up_to(dtype)


def _exact_up_to(dtype):
    kind = _of_c(dtype)
    return np.iinfo(kind).max if kind.kind == "i" else 2 ** (np.finfo(kind).nmant + 1)


def require_exact(data, size, alpha, betas, dtype=np.float32):
    """Raise UsageError where `data` is `integer`, and some partial sum would need rounding."""
    if data != "integer" or all(exact(size, alpha, beta, dtype) for beta in betas):
        return
    kind = np.dtype(dtype)
    needs = "--precision int8" if kind == np.int8 else "--data integer"
    for name, scalar in [("alpha", alpha), *(("beta", beta) for beta in betas)]:
        if not (float(scalar.real).is_integer() and float(scalar.imag).is_integer()):
            raise UsageError(
                f"{needs} needs whole --alpha and --beta: --{name} {scalar:g} is not whole")
    raise UsageError(f"{needs} needs sums of at most {_exact_up_to(dtype)}: at K = {size.K} they "
                     "can exceed that")


def add_options(parser):
    """Add the options that say which product is made."""
    add = parser.add_argument
    add("--size", type=parse_sizes, default="1024",
        help="comma-separated: N, MxNxK, from:to:step or @resnet50 (default %(default)s)")
    add("--precision", choices=PRECISIONS, default="single", help="(default %(default)s)")
    add("--alpha", type=number, default=1.0, help="(default %(default)s)")
    add("--beta", type=number, default=0.0, help="(default %(default)s)")
    for name, least in (("A", "K"), ("B", "N"), ("C", "N")):
        add(f"--ld{name.lower()}", type=count(1, LARGEST_ORDER), metavar="N",
            help=f"elements from one row of {name} to the next (default {least})")
    add("--data", choices=INPUTS, default="sdk", help="integer: exact results; always in int8")
    add("--batch", type=count(1, MOST_PRODUCTS), default=1, metavar="N",
        help="independent products of one size in one launch (default %(default)s)")


def problems(args, limits):
    """Return the Problem of each --size; make --data `integer` in int8. Raises UsageError."""
    dtype, found = np.dtype(PRECISIONS[args.precision]), []
    args.data = "integer" if args.precision == "int8" else args.data
    for size in args.size:
        leading = []
        for name, least in (("lda", size.K), ("ldb", size.N), ("ldc", size.N)):
            leading.append(getattr(args, name) or least)
            if leading[-1] < least:
                raise UsageError(f"--{name} {leading[-1]}: a row of {size} has {least} "
                                 f"elements; try --{name} {least}")
        found.append(Problem(size, dtype, *leading, args.batch))
        require_matrices(found[-1], limits)
        require_exact(args.data, size, args.alpha, checked_betas(args.data, args.beta), dtype)
    return found


def checked_betas(data, beta):
    """Return the betas to check a kernel with that is to run with `beta`: one of them is not 0."""
    return [beta] if beta else [0, 1 if data == "integer" else 0.5]


def metrics(size, times, unit="GFLOPS"):
    """Return the metrics of a record for one GEMM of that Size, or a Problem, with its Timing.

    The convention names the unit of the rate where that is not GFLOPS.
    """
    convention = FLOP_CONVENTION if unit == "GFLOPS" else f"{FLOP_CONVENTION}, in {unit}"
    return {"gflops": times.rate(size.flop() / 1e9).median, "flop_convention": convention}


def longest(size):
    """Return how many elements the largest of A, B and C has."""
    M, N, K = size
    return max(M * K, K * N, M * N)


def deal(draws, size, batch=1):
    """Return A, B and C from numbers that were drawn as A[0], B[0], C[0], A[1], B[1], ..."""
    M, N, K = size
    products = (batch,) if batch > 1 else ()
    shapes = [(*products, *shape) for shape in ((M, K), (K, N), (M, N))]
    return tuple(np.ascontiguousarray(column[: prod(shape)]).reshape(shape)
                 for column, shape in zip(draws.reshape(-1, 3).T, shapes))
