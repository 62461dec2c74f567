"""The size of a GEMM, C = alpha * A * B + beta * C: its operations and bytes, and the message where
a device has too little memory. No OpenCL.
"""

import re
from typing import NamedTuple

from common.errors import UsageError
from common.text import size_text

FLOP_CONVENTION = "2*M*N*K + 3*M*N"  # product; alpha, beta and the final addition


class Size(NamedTuple):
    """The order of a product, in elements."""

    M: int
    N: int
    K: int

    def __str__(self):
        return f"{self.M}x{self.N}x{self.K}"

    def flop(self):
        """Return the floating-point operations of one GEMM, by FLOP_CONVENTION."""
        return 2 * self.M * self.N * self.K + 3 * self.M * self.N

    def moved(self, beta=0):
        """Return the elements of A, B and C, those of C twice where it is read as well."""
        return self.M * self.K + self.K * self.N + self.M * self.N * (2 if beta else 1)


def parsed(text):
    """Return the Size of `1024` (square) or `640x48x1000` (M x N x K), None of any other text."""
    if not re.fullmatch(r"\d{1,19}(x\d{1,19}x\d{1,19})?", text, re.ASCII):
        return None
    numbers = [int(number) for number in text.split("x")]
    return Size(*(numbers * 3)[:3])


def buffer_bytes(problem):
    """Return how many bytes each matrix of a common.gemm.Problem takes, by its name."""
    (M, _, K), (lda, ldb, ldc), batch = problem.size, problem.leading, problem.batch
    size = batch * problem.dtype.itemsize
    c_size = batch * problem.c_dtype.itemsize
    return {"matrix A": M * lda * size, "matrix B": K * ldb * size, "matrix C": M * ldc * c_size}


def require_matrices(problem, limits, more=()):
    """Raise UsageError where the matrices of a Problem, or `more` {name: bytes}, have no room."""
    todo = "choose a smaller size"
    if problem.batch > 1:
        todo += " or --batch"
    if problem.leading != (problem.size.K, problem.size.N, problem.size.N):
        todo += ", or smaller leading dimensions"
    require_room(problem, {**buffer_bytes(problem), **dict(more)}, limits, todo)


def require_room(what, need, limits, todo):
    """Raise UsageError where one of the buffers that `what` needs is too large, or all are.

    `need` has the bytes of each by its name, `limits` are common.device.Limits, and `todo` ends the
    message: what to do.
    """
    name = max(need, key=need.get)
    whole = sum(need.values())
    if need[name] > limits.max_mem_alloc_size:
        wanted = f"{name} takes {size_text(need[name])}"
        has = f"allocates at most {size_text(limits.max_mem_alloc_size)} at once"
    elif whole > limits.global_mem_size:
        wanted = f"{', '.join(need)} take {size_text(whole)} together"
        has = f"has {size_text(limits.global_mem_size)}"
    else:
        return
    raise UsageError(f"{what}: {wanted}, but the device {has}: {todo}")
