"""Simulate the arithmetic of kernel 14 on the host, to measure how exact its products are.

python tests/samples/mygemm/split_model.py        errors for elements of many magnitudes

A float32 becomes two parts of 11 bits, after a power of 2 has scaled its line, a row of A or a
column of B. Three products of parts make one: H. Ootomo and R. Yokota, Recovering single precision
accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance, 2022. The matrix
unit is taken to sum up a step of products exactly and then to truncate, towards zero, what a
float32 does not hold: M. Fasi, N. Higham, M. Mikaitis and S. Pranesh, Numerical behavior of NVIDIA
tensor cores, 2021, found that it truncates some bits further down.
"""

from typing import NamedTuple

import numpy as np

TOP = 14  # as in 14_matrix_units.cl: exponent of the largest element of a scaled line
SMALL_SCALE = np.float32(2048)
SPAN = {16: 26, 32: 65}  # by PART_BITS: exponents that a line may span; of float16 for K = 1
_LOWEST, _SMALLEST, _LARGEST = TOP - 127, -149, 127  # exponents
_FEW = 8  # below this K no line fits


class Parts(NamedTuple):
    """Lines of a matrix as float32 x = 2^exponent * (big + small / SMALL_SCALE).

    `big` and `small` have the matrix's shape, `exponents` and `fits` an element for each row.
    """

    big: np.ndarray
    small: np.ndarray
    exponents: np.ndarray
    fits: np.ndarray


def split(lines, bits=16):
    """Return the Parts of float32 `lines`, M x K, of 16 (float16) or 32 bits (tf32)."""
    K = lines.shape[1]
    finite = np.isfinite(lines)
    exponents = np.frexp(np.where(finite, lines, 1))[1] - 1
    exponents[exponents < -126] = _SMALLEST
    there = finite & (lines != 0)
    least = np.where(there, exponents, _LARGEST).min(axis=1)
    most = np.maximum(np.where(there, exponents, _LOWEST).max(axis=1), _LOWEST)
    span = -1 if K < _FEW else SPAN[bits] + (int(np.log2(K)) if bits == 16 else 0)
    fits = finite.all(axis=1) & ((most - least <= span) | ~there.any(axis=1))
    with np.errstate(invalid="ignore"):
        scaled = np.ldexp(lines, (TOP - most)[:, None])
        big = _rounded(scaled, bits)
        small = _rounded((scaled - big) * SMALL_SCALE, bits)
    return Parts(big, small, most - TOP, fits)


def product(A, B, bits=16):
    """Return A * B in float32 as kernel 14 makes it; A is M x K, B is K x N, both float32."""
    a, b = split(A, bits), split(np.ascontiguousarray(B.T), bits)
    chain = 512 // bits  # two steps of the unit
    sums = np.zeros((len(A), B.shape[1]), np.float32)
    with np.errstate(invalid="ignore", over="ignore"):
        for k in range(0, A.shape[1], chain):
            high, low = np.zeros((2, *sums.shape), np.float32)
            for step in (k, k + chain // 2):
                now = slice(step, step + chain // 2)
                high = _unit(a.big[:, now], b.big[:, now], high)
                low = _unit(a.small[:, now], b.big[:, now], low)
                low = _unit(a.big[:, now], b.small[:, now], low)
            sums += high + low / SMALL_SCALE
        result = np.ldexp(sums, a.exponents[:, None] + b.exponents)
        plain = A @ B
    return np.where(a.fits[:, None] & b.fits, result, plain)


def errors(A, B, bits=16):
    """Return (relative, over_bound) of product() against float64.

    `relative` is of Frobenius norms; `over_bound` is the largest error of an element relative to
    the bound of a float32 sum of K products in any order, 2 * K * eps * |A| |B|.
    """
    A64, B64 = A.astype(np.float64), B.astype(np.float64)
    exact = A64 @ B64
    error = np.abs(product(A, B, bits) - exact)
    bound = 2 * A.shape[1] * np.finfo(np.float32).eps * (np.abs(A64) @ np.abs(B64))
    return np.linalg.norm(error) / np.linalg.norm(exact), (error / bound).max()


def _rounded(x, bits):
    if bits == 16:
        with np.errstate(over="ignore"):
            return x.astype(np.float16).astype(np.float32)
    # To 10 bits of fraction, half away from zero: the bits below are dropped.
    return ((x.view(np.uint32) + 0x1000) & 0xFFFFE000).view(np.float32)


def _unit(a, b, c):
    """Return a * b.T + c, a step of the matrix unit."""
    exact = a.astype(np.float64) @ b.astype(np.float64).T + c
    rounded = exact.astype(np.float32)
    return np.where(np.abs(rounded) > np.abs(exact), np.nextafter(rounded, np.float32(0)), rounded)


def magnitudes(spread, shape, rng, lines_only=False):
    """Return float32 numbers of either sign, of magnitudes 10^-spread to 10^spread.

    With `lines_only` a whole row has one magnitude.
    """
    M, K = shape
    powers = rng.uniform(-spread, spread, (M, 1 if lines_only else K))
    return (rng.uniform(-1, 1, shape) * 10**powers).astype(np.float32)


def main():
    """Print the errors for elements and for lines of many magnitudes."""
    rng, K = np.random.default_rng(1), 1024
    print(f"K = {K}; the largest error over the bound of float32, and how many rows of A are split")
    print("magnitudes in A        float16         tf32")
    for name, lines_only in (("rows", True), ("elements", False)):
        for spread in (0, 3, 9, 15, 30):
            A = magnitudes(spread, (64, K), rng, lines_only)
            B = magnitudes(min(spread, 36 - spread), (64, K), rng, lines_only).T  # no overflow
            cells = []
            for bits in (16, 32):
                share = split(A, bits).fits.mean()
                cells.append(f"{errors(A, B, bits)[1]:9.1e} {share:4.0%}")
            print(f"{name:8} 1e-{spread:<2} .. 1e{spread:<2}{''.join(cells)}")


if __name__ == "__main__":
    main()
