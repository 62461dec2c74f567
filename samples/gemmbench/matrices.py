"""The matrices of gemmbench: drawn in the order of the original, guarded, and compared."""

from typing import NamedTuple

import numpy as np

from common import gemm, hard, rng
from common.matrices import Matrix

# Elements between the rows for kernels that take lda, ldb and ldc. Odd, so that a kernel that
# mixes the three up, or with an order, is wrong.
_GAPS = {"A": 3, "B": 5, "C": 7}
_WHOLE = (2, -3)  # alpha and beta of integer data


class Inputs(NamedTuple):
    """alpha and beta as numpy scalars, and the matrices as M x K, K x N and M x N arrays.

    A kernel that takes A or B transposed gets the same memory, read as K x M or as N x K.
    """

    alpha: object
    beta: object
    A: np.ndarray
    B: np.ndarray
    C: np.ndarray

    def stored(self, meta):
        """Return A, B and C as the kernel gets them."""
        A, B = ((matrix.reshape(matrix.shape[::-1]) if trans == "T" else matrix)
                for matrix, trans in ((self.A, meta.transA), (self.B, meta.transB)))
        return A, B, self.C

    def multiplied(self, meta):
        """Return A, B and C as they are multiplied: M x K, K x N and M x N."""
        A, B, C = self.stored(meta)
        return A.T if meta.transA == "T" else A, B.T if meta.transB == "T" else B, C


def draw(size, meta, seed, data):
    """Return the Inputs of a Size for a kernel.

    After srand(seed) alpha and beta are drawn, then for each element index an element of A, of B
    and of C, all from [-0.5, 0.5]; those of an element that does not exist are thrown away. Of a
    complex type each number takes two draws. With `data` integer they are whole numbers from -4 to
    4; for scaled and cancelling, common/hard.py changes the matrices. Raises UsageError where
    integer data would need rounding.
    """
    parts = 2 if meta.dtype.kind == "c" else 1
    draws = rng.rand(seed, (2 + 3 * gemm.longest(size)) * parts)
    if data == "integer":
        span = np.uint32(2 * gemm.INTEGER_LIMIT + 1)
        values = (draws % span).astype(np.float64) - gemm.INTEGER_LIMIT
    else:
        values = draws / rng.RAND_MAX - 0.5
    if parts == 2:
        values = values.view(np.complex128)
    alpha, beta = map(meta.scalar.type, _WHOLE if data == "integer" else values[:2])
    gemm.require_exact(data, size, alpha, [beta], meta.dtype)
    drawn = Inputs(alpha, beta, *gemm.deal(values[2:].astype(meta.dtype), size))
    if data not in hard.HARD:
        return drawn
    A, B, C = hard.made(data, seed, *drawn.multiplied(meta))
    A, B = (A.T if meta.transA == "T" else A), (B.T if meta.transB == "T" else B)
    return drawn._replace(A=A.reshape(drawn.A.shape), B=B.reshape(drawn.B.shape), C=C)


def flop(size, dtype):
    """Return the floating-point operations of one GEMM, and how they are counted."""
    M, N, K = size
    if dtype.kind == "c":  # a product is 6 operations, a sum 2
        return 8 * M * N * K + 14 * M * N, "8*M*N*K + 14*M*N"
    return size.flop(), gemm.FLOP_CONVENTION


def reference(inputs, meta, data, eps=None):
    """Return the right result, by how much each element may differ, and that rule as text.

    The bound is that of common/gemm.py, nothing for integer data, or `eps`, if it is given.
    """
    A, B, C = inputs.multiplied(meta)
    alpha, beta = inputs.alpha.item(), inputs.beta.item()
    expected, bound = gemm.reference(alpha, A, B, beta, C, arithmetic=meta.sums)
    factor = "(K + 1)" if meta.dtype.kind == "c" else "K"
    rule = f"2 * {factor} * eps({meta.sums}) * (|alpha| |A||B| + |beta| |C|) for each element"
    if data == "integer":
        bound[:], rule = 0, "none: every sum is a whole number that the type can hold"
    if eps is not None:
        bound[:], rule = eps, f"at most {eps:g} for every element"
    return expected, bound, rule


def text(value):
    """Return alpha or beta as text."""
    if value.dtype.kind == "c":
        return f"({value.real:.6g} {value.imag:+.6g}i)"
    return f"{value:.6g}"


class Operands:
    """A, B and C on the device: each is a common.matrices.Matrix.

    Rows have gaps between them where the kernel takes leading dimensions.
    """

    def __init__(self, queue, meta, inputs):
        self._values = dict(zip("ABC", inputs.stored(meta)))
        self._matrices = {
            name: Matrix(queue, *values.shape, meta.dtype,
                         values.shape[1] + (_GAPS[name] if meta.shape == "mnk" else 0))
            for name, values in self._values.items()
        }
        self.A, self.B, self.C = self._matrices.values()

    def fill(self, around=None):
        """Write the matrices; around each lies what `around` has for its name, or NaN.

        Returns the seconds that the copies of the matrices took.
        """
        around = around or {}
        return sum(matrix.write(self._values[name], around.get(name))
                   for name, matrix in self._matrices.items())

    def touched(self, launch, first):
        """Return texts on what a kernel did outside of its matrices.

        `launch()` runs the kernel again; `first` is C of its first run, which had NaN around the
        matrices: a value from there spoils the result, as a rule.
        """
        same = all(self._matrices[name].read().tobytes() == self._values[name].tobytes()
                   for name in "AB")
        intact = same and all(matrix.intact() for matrix in self._matrices.values())

        def run(around):
            self.fill(around)
            launch()
            return self.C.read()

        wrote = None if intact else "the kernel wrote outside of C"
        return [*filter(None, [wrote, read_outside(run, first, self.C.dtype)])]


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
