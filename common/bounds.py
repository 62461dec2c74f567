"""What a GEMM must make of its inputs, and how near to it a result must be.

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

from typing import NamedTuple

import numpy as np

from common import gemm

LAMBDA = 4
_UNIT, _TINY = np.finfo(np.float16).eps / 2, np.finfo(np.float16).tiny
_OTHERS = 3  # roundings: those of alpha and beta, and of the final sum


class Spread:
    """How far errors of C = alpha * A * B + beta * C spread, with inputs that are random, of mean
    0, and float16."""

    def __init__(self, alpha, A, B, beta, C):
        K = A.shape[-1]
        squares_of_A, squares_of_B = (x.astype(np.float32) ** 2 for x in (A, B))
        squares = (squares_of_A @ squares_of_B).astype(float)
        addend = np.abs(C.astype(float))
        self._deviation = _UNIT * np.sqrt(alpha**2 * squares + (beta * addend) ** 2)
        # What flushing of subnormal numbers may cost, as in gemm.reference().
        self._flushed = _TINY * (np.sqrt(K * squares) + addend + abs(alpha) * K + 3)

    def bounds(self, chain):
        """Return the bound of each element, and that of the root mean square of all errors.

        `chain` products are added up in half precision, and what comes of them in a wider one.
        """
        deviation = np.sqrt(chain + _OTHERS) * self._deviation
        few = LAMBDA**2 / np.sqrt(deviation.size)  # of a few elements one may be far out
        mean = np.sqrt(np.mean(((1 + few) * deviation / np.sqrt(6) + self._flushed) ** 2))
        return LAMBDA**2 * deviation + self._flushed, float(mean)


class Case(NamedTuple):
    """What a GEMM must make: `result` in float64, each element within its `bound`.

    For random data in half precision, `spread` has closer bounds.
    """

    beta: float
    result: np.ndarray
    bound: np.ndarray
    spread: Spread | None

    def check(self, product, chain, intact=True):
        """Return the Check of what a kernel made that adds up `chain` products in A's precision.

        Where it did not leave the guards of the matrices `intact`, it failed.
        """
        if self.spread is None:
            return gemm.check(product, self.result, self.bound, intact)
        each, mean = self.spread.bounds(chain)
        return gemm.check(product, self.result, np.minimum(each, self.bound), intact, mean)


class Expected:
    """The inputs A, B, C of a GEMM, and what it must make of them.

    `cases` has a Case for each of gemm.checked_betas(). `unread` is what C is full of where no
    kernel may read it. That is NaN; but of integers none shows that it was read and multiplied by
    0, and 77 shows only that beta was forgotten.
    """

    def __init__(self, size, dtype, data, seed, alpha, beta, nearest=True, batch=1):
        """Draw the inputs, of a batch for each product; `data` is of gemm.INPUTS.

        `nearest` tells whether the device rounds half precision to nearest. Raises UsageError where
        the result overflows.
        """
        self.inputs = gemm.INPUTS[data](size, seed, dtype, batch)
        self._alpha, self._exact, self._nearest = alpha, data == "integer", nearest
        self.unread = 77 if self.inputs[2].dtype.kind == "i" else np.nan
        self.cases = [self._case(alpha, each) for each in gemm.checked_betas(data, beta)]

    def _case(self, alpha, beta):
        A, B, C = self.inputs
        result, bound = gemm.reference(alpha, A, B, beta, C)
        random_halves = A.dtype == np.float16 and not self._exact
        spread = Spread(alpha, A, B, beta, C) if random_halves and self._nearest else None
        return Case(beta, result, bound * (not self._exact), spread)

    def product(self):
        """Return the Case of A * B, which is what libraries make."""
        first = self.cases[0]
        return first if (self._alpha, first.beta) == (1, 0) else self._case(1, 0)
