"""The expected result of a GEMM, and the error bound of a computed one.

The bound of worst_case() is the worst case: n roundings may add up to n * u of all terms, with
u the unit roundoff. With a large K that is more than the result, in half precision from about
K = 500 on: a C of zeros would pass. For random data two facts make the bound smaller. Roundings to
nearest go up as often as down, so n of them add up to only λ * sqrt(n) * u (N. Higham and T. Mary,
A New Approach to Probabilistic Rounding Error Analysis, 2019). And where the data has mean 0, a
partial sum is within λ * sqrt(V), with V the sum of the squares of all terms (the same authors,
Sharper Probabilistic Backward Error Analysis for Basic Linear Algebra Kernels with Random Data,
2020). So an error is within λ^2 * sqrt(n * V) * u. The root mean square of many errors is at most
sqrt(n * V / 6) * u: the square of a rounding is a third of u^2 in the mean, and a partial sum has
half of V.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from common import gemm
from common.errors import UsageError
from common.hard import HARD
from common.outputs import digest

# c of the worst case: K * eps is two roundings a step, alpha and beta add three.
BOUND_FACTOR = 2.0
LAMBDA = 4
REFERENCE_ROWS = 512  # rows of C at a time, so that float64 copies of A and C stay small
_OTHERS = 3  # roundings: those of alpha and beta, and of the final sum


@dataclass(frozen=True)
class Check:
    """How far a result is from its reference. `reason` is None when it passed.

    A bound is `loose` where it exceeds most results, as that of random data with a large K does: a
    kernel that computes nothing would pass.
    """

    max_abs_error: float
    error_over_bound: float
    reason: str | None
    loose: bool = False

    def line(self, right="PASSED", wrong="FAILED"):
        """Return the line that tells a person what the check found; it begins with that word."""
        error = f"largest error {self.max_abs_error:.3g}, {self.error_over_bound:.3g} of its bound"
        if self.reason is not None:
            return f"{wrong}: {self.reason}; {error}"
        loose = ", which exceeds most results: check with --data integer" if self.loose else ""
        return f"{right}: {error}{loose}"

    def again(self, first, last):
        """Return this Check, or a failed one where two results, arrays, do not have the same bits.

        The last launch, after those that are timed, must give what the first gave.
        """
        if first.tobytes() == last.tobytes():
            return self
        why = "a launch after the timed ones gave another result than the first"
        return replace(self, reason=why)

    def values(self, inputs, output):
        """Return what a record keeps: the errors, and digests of the inputs and the output."""
        return {
            "max_abs_error": self.max_abs_error,
            "error_over_bound": self.error_over_bound,
            "inputs_sha256": digest(*inputs),
            "output_sha256": digest(output),
        }


def check(result, expected, bound, intact=True, mean=np.inf):
    """Compare a result with its reference, element by element.

    Where the bound is 0 the result must be equal. A NaN always fails, and so does what is right but
    did not leave the guards of the matrices `intact`. The root mean square of all errors is at most
    `mean`.
    """
    with np.errstate(invalid="ignore"):  # signalling NaN, from the guards
        error = np.abs(result.astype(expected.dtype) - expected)
    ok = error <= bound  # not `error > bound`: that would let NaN through
    with np.errstate(divide="ignore", invalid="ignore"):
        over = np.where(error == 0, 0.0, error / bound)
    reason = None if intact else "the kernel wrote outside of its buffers"
    if not ok.all():
        first = np.unravel_index(ok.argmin(), ok.shape)
        place = "".join(f"[{n}]" for n in first)
        reason = (f"{ok.size - ok.sum()} of {ok.size} elements are wrong, the first is C{place}: "
                  f"{result[first]:.9g} instead of {expected[first]:.9g}")
    elif (found := np.sqrt(np.mean(error**2))) > mean:
        reason = f"the root mean square of the errors is {found:.3g}, not at most {mean:.3g}"
    loose = np.mean((bound >= np.abs(expected)) & (expected != 0)) > 0.5
    return Check(float(error.max()), float(over.max()), reason, bool(loose))


@dataclass(frozen=True)
class Reference:
    """What a GEMM must give: the `result` in float64 or complex128, M x N elements, and a `bound`
    for the error of each; `rule` says in words which.

    For random data `spread` gives tighter bounds: for each element the deviation due to one
    rounding of every term, and the error due to flushed subnormal numbers and to storing. `chain`
    is K, and `wide` tells whether sums are in more than half precision.
    """

    result: np.ndarray
    bound: np.ndarray
    chain: int
    rule: str
    spread: tuple | None = None
    wide: bool = True

    def check(self, found, intact=True, chain=None):
        """Return the Check of a kernel's result; `intact` tells whether no guard was changed.

        The kernel adds up `chain` products in the precision of the bound, K if it is not given,
        and these sums in a wider one.
        """
        bound, mean = self.bound, np.inf
        if self.spread is not None:
            one, others = self.spread
            deviation = np.sqrt((chain or self.chain) + _OTHERS) * one
            bound = np.minimum(LAMBDA**2 * deviation + others, bound)
            # Of a few elements one may be far out. And there are libraries which split each float32
            # into parts of fewer bits: their results are rounded more often.
            factor = (LAMBDA if self.wide else 1) + LAMBDA**2 / np.sqrt(deviation.size)
            mean = float(np.sqrt(np.mean((factor * deviation / np.sqrt(6) + others) ** 2)))
        return check(found, self.result, bound, intact, mean)


def reference(alpha, A, B, beta, C, data, nearest, arithmetic=None, around_0=True):
    """Return the Reference of a GEMM whose inputs are `data`: integer, of hard.HARD, else random.

    `nearest` tells whether the device rounds to nearest, and `around_0` whether random data has
    mean 0. `arithmetic` is as in worst_case(), which raises UsageError where the result overflows.
    """
    result, bound = worst_case(alpha, A, B, beta, C, arithmetic, data)
    sums, chain = np.dtype(arithmetic or C.dtype), A.shape[-1]
    found = partial(Reference, result, bound, chain, wide=sums != np.float16)
    if sums.kind == "i" or data == "integer":
        return found("none: every sum is a whole number that the type can hold")
    terms = "(|alpha| |A||B| + |beta| |C|) for each element"
    if data in HARD or not nearest:
        steps = "(K + 1)" if sums.kind == "c" else "K"
        return found(f"{BOUND_FACTOR:g} * {steps} * eps({sums}) * {terms}")

    # A part of a complex product is a sum of two, and in double precision the reference is rounded
    # as often as the result.
    about, times = np.finfo(sums), 2 ** ((sums.kind == "c") + (np.finfo(sums).bits == 64))
    n = f"{times} * (K + {_OTHERS})" if times > 1 else f"(K + {_OTHERS})"
    squares, addend = _product(A, B, 2), np.abs(C).astype(float)
    if around_0:
        one = np.sqrt(abs(alpha) ** 2 * squares + (abs(beta) * addend) ** 2)
        rule = (f"{LAMBDA**2 // 2} * sqrt({n} * V) * eps({sums}) for each element, V: its terms "
                "squared and added up")
    else:  # a partial sum may be as large as the sum of all terms, but no larger
        one = (abs(alpha) * _product(A, B, 1) + abs(beta) * addend) / LAMBDA
        rule = f"{LAMBDA // 2} * sqrt({n}) * eps({sums}) * {terms}"

    # Flushing costs what it does in worst_case(); so does storing in another type.
    others = about.tiny * (np.sqrt(chain * squares) + addend + abs(alpha) * chain + 3)
    if sums != C.dtype:
        stored = np.finfo(C.dtype)
        others += stored.eps * np.abs(result) + stored.tiny
    return found(rule, spread=(np.sqrt(times) * about.eps / 2 * one, others))


def worst_case(alpha, A, B, beta, C, arithmetic=None, data=None):
    """Return (result, bound), M x N: the GEMM in float64 or complex128, and its error bound.

    Of a batch it does so for each product.

    The bound is per element, BOUND_FACTOR * K * eps * (|alpha| |A||B| + |beta| |C|) with the eps
    of A's type: the worst case of a dot product in any order of summation, N. Higham, Accuracy and
    Stability of Numerical Algorithms, section 3.1. A complex product has an error of its own, at
    most sqrt(8) roundings (section 3.6), which one step more covers. To it comes what underflow may
    cost, on a device that flushes subnormal numbers to zero.

    `arithmetic` is the type in which a kernel computes where A's only stores, such as float32 for
    float16 matrices: its eps then counts, and once that of the stored result. Raises UsageError
    where the result overflows C's type. Whole numbers are exact: of an integer type, and where
    `data` is `integer`, the bound is 0.
    """
    if A.ndim == 3:
        each = (worst_case(alpha, a, b, beta, c, arithmetic, data) for a, b, c in zip(A, B, C))
        return tuple(map(np.stack, zip(*each)))
    M, K = A.shape
    stored, limits = _finfo(C.dtype), _finfo(arithmetic or C.dtype)
    complex_ = A.dtype.kind == "c"
    wide, steps = (np.complex128, K + 1) if complex_ else (np.float64, K)
    alpha, beta, B = wide(alpha), wide(beta), B.astype(wide)
    magnitude_of_B = np.abs(B)
    result, bound = np.empty((M, B.shape[1]), wide), np.empty((M, B.shape[1]))
    for start in range(0, M, REFERENCE_ROWS):
        rows = slice(start, start + REFERENCE_ROWS)
        a, c = A[rows].astype(wide), C[rows].astype(wide)
        result[rows] = alpha * (a @ B) + beta * c
        products, addend = np.abs(a) @ magnitude_of_B, np.abs(c)
        rounding = BOUND_FACTOR * steps * limits.eps * (abs(alpha) * products + abs(beta) * addend)
        # alpha and beta themselves, each product, and the terms of the sum may be flushed.
        flushed = products + addend + abs(alpha) * K + 3
        bound[rows] = rounding + limits.tiny * flushed
    if np.abs(result).max() > stored.max:
        raise UsageError(f"the result overflows {C.dtype}: choose a smaller --alpha or --beta")
    if stored.eps != limits.eps:
        bound += stored.eps * np.abs(result) + stored.tiny
    bound *= data != "integer"
    return result, bound


def _finfo(dtype):
    if np.dtype(dtype).kind == "i":
        return SimpleNamespace(eps=0, tiny=0, max=np.iinfo(dtype).max)
    return np.finfo(dtype)


def _product(A, B, power):
    """Return |A|^power * |B|^power in float64, of a batch for each product."""
    if A.ndim == 3:
        return np.stack([_product(a, b, power) for a, b in zip(A, B)])
    wide = np.float32 if A.dtype == np.float16 else float
    A, B = np.abs(A), np.abs(B).astype(wide) ** power
    blocks = (A[n : n + REFERENCE_ROWS] for n in range(0, len(A), REFERENCE_ROWS))
    return np.concatenate([block.astype(wide) ** power @ B for block in blocks]).astype(float)


class Case(NamedTuple):
    """A Reference, the beta that it is for, and what `C` holds before the launch.

    Where beta is 0 no kernel may read C: it is NaN then, or 77 in integers, which shows only
    whether beta was forgotten.
    """

    beta: float
    C: np.ndarray | float
    right: Reference

    @property
    def result(self):
        return self.right.result

    def check(self, product, chain, intact=True):
        """Return the Check of a kernel's result: see Reference.check()."""
        found = self.right.check(product, intact, chain)
        if found.reason and self.beta:
            found = replace(found, reason=f"with --beta {self.beta:g}, {found.reason}")
        return found


class Expected:
    """The inputs A, B, C of a GEMM, and what it must make of them.

    `cases` has a Case for each of gemm.checked_betas().
    """

    def __init__(self, size, dtype, data, seed, alpha, beta, nearest=True, batch=1):
        """Draw the inputs, of a batch for each product; `data` is of gemm.INPUTS.

        `nearest` tells whether the device rounds to nearest. Raises UsageError where the result
        overflows.
        """
        self.inputs = gemm.INPUTS[data](size, seed, dtype, batch)
        self._alpha, self._data, self._nearest = alpha, data, nearest
        self.cases = [self._case(alpha, each) for each in gemm.checked_betas(data, beta)]

    def _case(self, alpha, beta):
        A, B, C = self.inputs
        right = reference(alpha, A, B, beta, C, self._data, self._nearest)
        unread = 77 if C.dtype.kind == "i" else np.nan
        return Case(beta, C if beta else unread, right)

    def product(self):
        """Return the Case of A * B, which is what libraries make."""
        first = self.cases[0]
        return first if (self._alpha, first.beta) == (1, 0) else self._case(1, 0)
