"""The matrices of gemm_intel, drawn in the order of the original, and padded."""

import numpy as np

from common import gemm, hard, rng


def draw(order, dtype, seed, data, nn):
    """Return (alpha, beta, A, B, C): numbers of type `dtype`, and arrays of the lines in memory.

    Line by line, `order` elements of A, then as many of B; after all of them alpha, beta, and C,
    which is zero in the original. They lie in [0, 1], as `(T)rand() / RAND_MAX` gives them. With
    `data` integer they are whole: -4 .. 4 in the matrices, 1 .. 4 for alpha and beta. For other
    data than sdk, common/hard.py makes others of them.
    """
    draws = rng.rand(seed, 3 * order**2 + 2)
    pairs = draws[: 2 * order**2].reshape(order, 2, order)
    scalars = draws[2 * order**2 : 2 * order**2 + 2]
    rest = draws[2 * order**2 + 2 :].reshape(order, order)
    lines = (pairs[:, 0], pairs[:, 1], rest)
    if data == "integer":
        span = np.uint32(2 * gemm.INTEGER_LIMIT + 1)
        lines = [(line % span).astype(dtype) - dtype.type(gemm.INTEGER_LIMIT) for line in lines]
        return *(scalars % np.uint32(4) + np.uint32(1)).astype(dtype), *lines
    # (float)RAND_MAX rounds to 2^31.
    scale = dtype.type(rng.RAND_MAX)
    lines = transposed([line.astype(dtype) / scale for line in lines], nn)
    return *(scalars.astype(dtype) / scale), *transposed(hard.made(data, seed, *lines), nn)


def transposed(matrices, nn):
    """Return A, B and C by row and column, from their lines in memory; or the other way round."""
    A, B, C = matrices
    return A.T, B.T if nn else B, C.T


def padded(lines, size, nn):
    """Return A, B and C as they lie in memory: their lines, padded with 0 to the Size `size`."""
    M, N, K = size
    shapes = (K, M), (N, K) if nn else (K, N), (N, M)
    return [
        np.pad(own, [(0, more - there) for more, there in zip(shape, own.shape)])
        for own, shape in zip(lines, shapes)
    ]
