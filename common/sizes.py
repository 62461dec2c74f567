"""The size of a GEMM, C = alpha * A * B + beta * C: its operations and bytes. No OpenCL."""

import re
from typing import NamedTuple

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
