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
        return *(scalars % 4 + 1).astype(dtype), *(gemm.whole(each, dtype) for each in (A, B, C))
    scale = dtype.type(rng.RAND_MAX)  # (float)RAND_MAX rounds to 2^31
    scalars, A, B, C = (each.astype(dtype) / scale for each in (scalars, A, B, C))
    return *scalars, *hard.made(data, seed, A, B, C)


def lines(matrices, size, nn):
    """Return A, B and C, padded with zeros to the Size, by lines: columns, for nt the rows of B."""
    M, N, K = size
    A, B, C = (np.pad(matrix, [(0, more - n) for more, n in zip(shape, matrix.shape)])
               for matrix, shape in zip(matrices, ((M, K), (K, N), (M, N))))
    return A.T, B.T if nn else B, C.T


def show(name, order, padded, matrices, alpha, beta):
    """Print what the original prints before it runs a kernel; `matrices` are three Matrix."""
    line, sizes = matrices[0].ld * matrices[0].dtype.itemsize, {each.nbytes for each in matrices}
    print(f"Running {name} kernel with matrix size: {order}x{order}\n"
          f"Memory row stride to ensure necessary alignment: {line} bytes\n"
          f"Size of memory region for {'the largest' if len(sizes) > 1 else 'one'} matrix: "
          f"{max(sizes)} bytes")
    if max(padded) > order:
        print("Padded to M = {}, N = {}, K = {}".format(*padded))
    print(f"Using alpha = {alpha:g} and beta = {beta:g}", flush=True)
