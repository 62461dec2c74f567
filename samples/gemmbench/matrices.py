"""The inputs of gemmbench, drawn in the order of the original, and their place in memory."""

from dataclasses import dataclass

import numpy as np

from common import gemm, rng

# Elements from one row to the next beyond the row's own: for kernels that take lda, ldb and ldc.
# Odd, so that a kernel that mixes the three up, or with an order, is wrong.
_PADDING = {"A": 3, "B": 5, "C": 7}
_WHOLE = (2, -3)  # alpha and beta of integer data


@dataclass(frozen=True)
class Inputs:
    """alpha and beta as numpy scalars, and A, B, C as M x K, K x N and M x N arrays."""

    alpha: object
    beta: object
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray


def draw(size, dtype, scalar, seed, integer):
    """Return the Inputs of a Size, with alpha and beta of type `scalar`.

    After srand(seed) alpha and beta are drawn, then for each element index an element of A, of B
    and of C, all from [-0.5, 0.5]; those of an element that does not exist are thrown away. Of a
    complex type each number takes two draws. Elements are counted as the matrices lie in memory, so
    that NN and NT kernels get the same memory. With `integer`: whole numbers from -4 to 4.
    """
    M, N, K = size
    numbers = 2 + 3 * max(M * K, K * N, M * N)
    parts = 2 if dtype.kind == "c" else 1
    draws = rng.rand(seed, numbers * parts)
    if integer:
        whole = (draws % np.uint32(2 * gemm.INTEGER_LIMIT + 1)).astype(np.float64)
        values = whole - gemm.INTEGER_LIMIT
    else:
        values = draws / rng.RAND_MAX - 0.5
    if parts == 2:
        values = values.view(np.complex128)
    alpha, beta = _WHOLE if integer else values[:2]
    a, b, c = values[2:].astype(dtype).reshape(-1, 3).T
    return Inputs(
        scalar.type(alpha), scalar.type(beta),
        a[: M * K].reshape(M, K), b[: K * N].reshape(K, N), c[: M * N].reshape(M, N),
    )  # fmt: skip


def as_stored(inputs, meta, size):
    """Return A, B and C by name as the kernel gets them: transposed, A is K x M and B is N x K.

    What was drawn keeps its place in memory; it is the meaning that changes with the layout.
    """
    M, N, K = size
    A = inputs.A.reshape(K, M) if meta.transA == "T" else inputs.A
    B = inputs.B.reshape(N, K) if meta.transB == "T" else inputs.B
    return {"A": A, "B": B, "C": inputs.C}


def strided(matrix, name, beyond=np.nan):
    """Return the matrix in rows of ld elements, `beyond` in those that are not its own."""
    rows, columns = matrix.shape
    wide = np.full((rows, columns + _PADDING[name]), beyond, matrix.dtype)
    wide[:, :columns] = matrix
    return wide


def flop(size, dtype):
    """Return the floating-point operations of one GEMM; a complex product is 6, a sum 2."""
    M, N, K = size
    return 8 * M * N * K + 14 * M * N if dtype.kind == "c" else size.flop()


def flop_convention(dtype):
    """Return how flop() counts."""
    return "8*M*N*K + 14*M*N" if dtype.kind == "c" else gemm.FLOP_CONVENTION


def result_and_bound(inputs, meta, size, data, tolerance):
    """Return the reference result and what each element may differ by.

    That is the bound of common/gemm.py, nothing for integer data, or the tolerance, if it is given.
    Raises UsageError where integer data would need rounding.
    """
    alpha, beta = inputs.alpha.item(), inputs.beta.item()
    A, B = (as_stored(inputs, meta, size)[name] for name in "AB")
    used = (A.T if meta.transA == "T" else A, B.T if meta.transB == "T" else B)
    expected, bound = gemm.reference(alpha, *used, beta, inputs.C, arithmetic=meta.sums)
    gemm.require_exact(data, size, alpha, [beta], meta.dtype)
    if data == "integer":
        bound[:] = 0
    if tolerance is not None:
        bound[:] = tolerance
    return expected, bound
