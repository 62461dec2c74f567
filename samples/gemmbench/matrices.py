"""The matrices of gemmbench: drawn in the order of the original, stored, guarded, and compared."""

from dataclasses import dataclass, replace

import numpy as np

from common import gemm, hard, rng
from common.matrices import Matrix

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
    parts = 2 if dtype.kind == "c" else 1
    draws = rng.rand(seed, (2 + 3 * gemm.longest(size)) * parts)
    if integer:
        whole = (draws % np.uint32(2 * gemm.INTEGER_LIMIT + 1)).astype(np.float64)
        values = whole - gemm.INTEGER_LIMIT
    else:
        values = draws / rng.RAND_MAX - 0.5
    if parts == 2:
        values = values.view(np.complex128)
    alpha, beta = _WHOLE if integer else values[:2]
    matrices = gemm.deal(values[2:].astype(dtype), size)
    return Inputs(scalar.type(alpha), scalar.type(beta), *matrices)


def flop(size, dtype):
    """Return the floating-point operations of one GEMM, and how they are counted."""
    M, N, K = size
    if dtype.kind == "c":  # a product is 6 operations, a sum 2
        return 8 * M * N * K + 14 * M * N, "8*M*N*K + 14*M*N"
    return size.flop(), gemm.FLOP_CONVENTION


def result_and_bound(inputs, meta, size, data, tolerance):
    """Return the reference result and what each element may differ by.

    That is the bound of common/gemm.py, nothing for integer data, or the tolerance, if it is given.
    Raises UsageError where integer data would need rounding.
    """
    alpha, beta = inputs.alpha.item(), inputs.beta.item()
    stored = _as_stored(inputs, meta, size)
    A, B = _transposed(stored["A"], stored["B"], meta)
    expected, bound = gemm.reference(alpha, A, B, beta, inputs.C, arithmetic=meta.sums)
    gemm.require_exact(data, size, alpha, [beta], meta.dtype)
    if data == "integer":
        bound[:] = 0
    if tolerance is not None:
        bound[:] = tolerance
    return expected, bound


def text(value):
    """Return alpha or beta as text."""
    if value.dtype.kind == "c":
        return f"({value.real:.6g} {value.imag:+.6g}i)"
    return f"{value:.6g}"


def tolerance(meta, data, eps):
    """Return the rule of the check."""
    if eps is not None:
        return f"at most {eps:g} for every element"
    if data == "integer":
        return "none: every sum is a whole number that the type can hold"
    factor = "(K + 1)" if meta.dtype.kind == "c" else "K"
    return f"2 * {factor} * eps({meta.sums}) * (|alpha| |A||B| + |beta| |C|) for each element"


def _as_stored(inputs, meta, size):
    """Return A, B and C by name as the kernel gets them: transposed, A is K x M and B is N x K.

    What was drawn keeps its place in memory; it is the meaning that changes with the layout.
    """
    M, N, K = size
    A = inputs.A.reshape(K, M) if meta.transA == "T" else inputs.A
    B = inputs.B.reshape(N, K) if meta.transB == "T" else inputs.B
    return {"A": A, "B": B, "C": inputs.C}


def _transposed(A, B, meta):
    """Return A and B as they are multiplied, from how they are stored; or the other way round."""
    return A.T if meta.transA == "T" else A, B.T if meta.transB == "T" else B


def hardened(inputs, meta, size, data, seed):
    """Return the Inputs with their matrices as common/hard.py makes them for `data`."""
    stored = _as_stored(inputs, meta, size)
    A, B, C = hard.made(data, seed, *_transposed(stored["A"], stored["B"], meta), inputs.C)
    A, B = _transposed(A, B, meta)
    return replace(inputs, A=A.reshape(inputs.A.shape), B=B.reshape(inputs.B.shape), C=C)


class Operands:
    """A, B and C on the device, as a kernel wants them.

    Each is a common.matrices.Matrix; rows have gaps between them where the kernel takes leading
    dimensions.
    """

    def __init__(self, queue, meta, size, inputs):
        self._values = _as_stored(inputs, meta, size)
        gaps = _PADDING if meta.shape == "mnk" else dict.fromkeys("ABC", 0)
        self.A, self.B, self.C = (
            Matrix(queue, *values.shape, meta.dtype, values.shape[1] + gaps[name])
            for name, values in self._values.items()
        )

    def fill(self, around=None):
        """Write the matrices; around each lies what `around` has for its name, or NaN.

        Returns the seconds that the copies of the matrices took.
        """
        around = around or {}
        return sum(
            getattr(self, name).write(values, around.get(name))
            for name, values in self._values.items()
        )

    def touched(self, launch, first):
        """Return texts on what a kernel did outside of its matrices; `first` is C of its first run.

        `launch()` runs the kernel again. The first run had NaN around the matrices: a value from
        there spoils the result, as a rule.
        """
        matrices = (self.A, self.B, self.C)
        same = all(getattr(self, name).read().tobytes() == self._values[name].tobytes()
                   for name in "AB")
        intact = same and all(matrix.intact() for matrix in matrices)

        def run(around):
            self.fill(around)
            launch()
            return self.C.read()

        read = read_outside(run, first, self.C.dtype)
        return ["the kernel wrote where C is not"] * (not intact) + [read] * (read is not None)


def read_outside(run, first, dtype):
    """Return what shows that values from outside of the matrices went into the result, or None.

    A kernel may drop a NaN: fmax(NaN, x) is x. So it runs again amid large numbers, once positive
    and once negative, and must give the bits of `first`. `run(around)` runs it with the values of
    `around` (by A, B, C) around its matrices, NaN where it names none, and returns C.
    """
    number = 3e4 if dtype == np.float16 else 1e30  # larger than any result of ours

    def changes(alike, *arounds):
        return any(run(around).tobytes() != alike.tobytes() for around in arounds)

    if not changes(first, *(dict.fromkeys("ABC", n) for n in (number, -number))):
        return None
    if changes(first, {}):
        return "two runs give different results: work-items race"
    ones = dict.fromkeys("ABC", 1.0)
    alike = run(ones)
    guilty = [name for name in "ABC"
              if changes(alike, {**ones, name: number}, {**ones, name: -number})]
    return f"the result depends on what lies outside of {' and '.join(guilty) or 'the matrices'}"


def unwritten(result, C):
    """Return a text on rows or columns of C that are as they were before the kernel, or None."""
    same = result == C
    for name, lines in (("rows", same.all(axis=1)), ("columns", same.all(axis=0))):
        if lines.any() and not lines.all():
            return f"{lines.sum()} of {lines.size} {name} of C were never written"
    return None
