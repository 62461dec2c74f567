"""Inputs of a GEMM that are harder than random ones: badly scaled, and nearly cancelling.

They are made of the matrices that a sample draws, with elements from -1 to 1. Each element has its
own error bound, relative to |A||B|: it is right for both.
"""

from math import ceil, log2

import numpy as np

from common import rng
from common.errors import UsageError

HARD = {
    "scaled": "rows and columns scaled by powers of 2",
    "cancelling": "sums that nearly cancel",
}
_CANCEL_TO = 64  # times K * eps of the terms: what is left is well above the bound


def made(data, seed, A, B, C):
    """Return A, B and C as `data` wants them; for data that is not of HARD, as they are.

    Their last two dimensions are rows and columns. Raises UsageError for half precision.
    """
    if data in HARD and A.dtype == np.float16:
        raise UsageError(f"--data {data} needs single or double precision: half has too few bits")
    make = {"scaled": _scaled, "cancelling": _cancelling}.get(data, lambda _, *drawn: drawn)
    return make(seed, A, B, C)


def _scaled(seed, A, B, C):
    """Scale rows and columns of A and of B by powers of 2, and those of C with A's and B's.

    In single precision, rows of A and columns of B have factors from 2^-21 to 2^21, columns of A
    and rows of B from 2^-11 to 1: in a sum, most terms still count.
    """
    (M, K), N, about = A.shape[-2:], B.shape[-1], np.finfo(A.dtype)
    draws = rng.rand(seed + 1, M + N + 2 * K).astype(int)
    span = about.maxexp // 6  # the exponents of all products fit in the type
    rows, columns = np.split(draws[: M + N] % (span + 1), [M])
    of_A, of_B = (draws[M + N :] % (about.nmant // 2 + 1)).reshape(2, K)
    of_A[0] = of_B[0] = 0  # one product counts, however few there are

    def power(exponents):
        return np.ldexp(1.0, exponents).astype(A.real.dtype)

    rows, columns = power(2 * rows - span)[:, np.newaxis], power(2 * columns - span)
    return (A * rows * power(-of_A), B * columns * power(-of_B)[:, np.newaxis],
            C * rows * columns)


def _cancelling(_seed, A, B, C):
    """Let the second half of k subtract nearly all that the first half adds.

    What is left of each sum is as small, relative to its terms, as the precision can still tell;
    C is as small. Rows of A and columns of B differ by factors, so that results do.
    """
    K = A.shape[-1]
    half = K // 2
    left = 2.0 ** ceil(log2(_CANCEL_TO * K * np.finfo(A.dtype).eps))
    left = A.real.dtype.type(min(left, 0.5))
    A, B = (_positive(matrix) for matrix in (A, B))
    A = A * A[..., :, :1].real
    apart = left * B[..., :1, :].real
    A[..., half : 2 * half] = -A[..., :half]
    B[..., half : 2 * half, :] = B[..., :half, :] - apart
    B[..., 2 * half :, :] *= left  # of an odd K
    return A, B, C * (left * K)


def _positive(matrix):
    """Return the elements, of complex ones both parts, mapped to the numbers from 1/2 to 1."""
    matrix = np.ascontiguousarray(matrix)
    return ((1 + np.abs(matrix.view(matrix.real.dtype))) / 2).view(matrix.dtype)
