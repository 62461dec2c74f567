"""The matrices of gemm_intel, drawn in the order of the original."""

import numpy as np

from common import gemm, hard, rng


def draw(order, dtype, seed, data, nn):
    """Return (alpha, beta, A, B, C), all of type `dtype`.

    The original draws line by line, as the matrices lie in memory: `order` elements of A, then as
    many of B. A line is a column, but for nt a line of B is a row. Then it draws alpha and beta;
    here C follows, which is zero in the original. All lie in [0, 1], as `(T)rand() / RAND_MAX`
    gives them. With `data` integer they are whole: -4 .. 4 in the matrices, 1 .. 4 for alpha and
    beta. For scaled and cancelling, common/hard.py changes the matrices.
    """
    draws = rng.rand(seed, 3 * order**2 + 2)
    pairs, scalars, rest = np.split(draws, [2 * order**2, 2 * order**2 + 2])
    pairs = pairs.reshape(order, 2, order)
    A, B, C = pairs[:, 0].T, pairs[:, 1], rest.reshape(order, order).T
    if nn:
        B = B.T
    if data == "integer":
        span = np.uint32(2 * gemm.INTEGER_LIMIT + 1)
        whole = ((each % span).astype(dtype) - dtype.type(gemm.INTEGER_LIMIT) for each in (A, B, C))
        return *(scalars % np.uint32(4) + np.uint32(1)).astype(dtype), *whole
    scale = dtype.type(rng.RAND_MAX)  # (float)RAND_MAX rounds to 2^31
    scalars, A, B, C = (each.astype(dtype) / scale for each in (scalars, A, B, C))
    return *scalars, *hard.made(data, seed, A, B, C)


def padded(matrix, rows, columns):
    """Return a matrix with zeros added below and on the right."""
    more = rows - matrix.shape[0], columns - matrix.shape[1]
    return np.pad(matrix, [(0, n) for n in more])
