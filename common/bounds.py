"""The expected result of a GEMM, and the error bound of a computed one.

The bound of gemm.reference() is the worst case: n roundings may add up to n * u of all terms, with
u the unit roundoff. In half precision u is 2^-11, and from about K = 500 that is more than the
result: a C of zeros would pass. For random data two facts make the bound smaller. Roundings to
nearest go up as often as down, so n of them add up to only λ * sqrt(n) * u (N. Higham and T. Mary,
A New Approach to Probabilistic Rounding Error Analysis, 2019). And where the data has mean 0, a
partial sum is within λ * sqrt(V), with V the sum of the squares of all terms (the same authors,
Sharper Probabilistic Backward Error Analysis for Basic Linear Algebra Kernels with Random Data,
2020). So an error is within λ^2 * sqrt(n * V) * u. The root mean square of many errors is at most
sqrt(n * V / 6) * u: the square of a rounding is a third of u^2 in the mean, and a partial sum has
half of V.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from common import gemm

LAMBDA = 4
_UNIT, _TINY = np.finfo(np.float16).eps / 2, np.finfo(np.float16).tiny
_OTHERS = 3  # roundings: those of alpha and beta, and of the final sum


class Case(NamedTuple):
    """The expected `result` in float64, and a `bound` for the error of each element.

    `C` is what C holds before the launch. Where beta is 0 no kernel may read it: it is NaN then, or
    77 in integers, which shows only whether beta was forgotten. For random data in half precision
    `spread` gives tighter bounds: for each element the deviation due to one rounding of every
    product, and the error due to flushed subnormal numbers.
    """

    beta: float
    C: np.ndarray | float
    result: np.ndarray
    bound: np.ndarray
    spread: tuple | None

    def check(self, product, chain, intact=True):
        """Return the Check of a kernel's result; `intact` tells whether no guard was changed.

        The kernel adds up `chain` products in A's precision, and these sums in a wider one.
        """
        bound, mean = self.bound, np.inf
        if self.spread is not None:
            one, flushed = self.spread
            deviation = np.sqrt(chain + _OTHERS) * one
            bound = np.minimum(LAMBDA**2 * deviation + flushed, self.bound)
            few = LAMBDA**2 / np.sqrt(deviation.size)  # of a few elements one may be far out
            mean = float(np.sqrt(np.mean(((1 + few) * deviation / np.sqrt(6) + flushed) ** 2)))
        found = gemm.check(product, self.result, bound, intact, mean)
        if found.reason and self.beta:
            found = replace(found, reason=f"with --beta {self.beta:g}, {found.reason}")
        return found


def _spread(alpha, A, B, beta, C):
    """Return the `spread` of a Case whose inputs are random, of mean 0, and float16."""
    squares_of_A, squares_of_B = (x.astype(np.float32) ** 2 for x in (A, B))
    squares = (squares_of_A @ squares_of_B).astype(float)
    addend, K = np.abs(C.astype(float)), A.shape[-1]
    # Flushing costs what it does in gemm.reference().
    return (_UNIT * np.sqrt(alpha**2 * squares + (beta * addend) ** 2),
            _TINY * (np.sqrt(K * squares) + addend + abs(alpha) * K + 3))


class Expected:
    """The inputs A, B, C of a GEMM, and what it must make of them.

    `cases` has a Case for each of gemm.checked_betas().
    """

    def __init__(self, size, dtype, data, seed, alpha, beta, nearest=True, batch=1):
        """Draw the inputs, of a batch for each product; `data` is of gemm.INPUTS.

        `nearest` tells whether the device rounds half precision to nearest. Raises UsageError where
        the result overflows.
        """
        self.inputs = gemm.INPUTS[data](size, seed, dtype, batch)
        self._alpha, self._data, self._nearest = alpha, data, nearest
        self.cases = [self._case(alpha, each) for each in gemm.checked_betas(data, beta)]

    def _case(self, alpha, beta):
        A, B, C = self.inputs
        result, bound = gemm.reference(alpha, A, B, beta, C, data=self._data)
        random_halves = A.dtype == np.float16 and self._data != "integer"
        spread = _spread(alpha, A, B, beta, C) if random_halves and self._nearest else None
        unread = 77 if C.dtype.kind == "i" else np.nan
        return Case(beta, C if beta else unread, result, bound, spread)

    def product(self):
        """Return the Case of A * B, which is what libraries make."""
        first = self.cases[0]
        return first if (self._alpha, first.beta) == (1, 0) else self._case(1, 0)
