"""What a kernel must give: the inputs, the float64 result and its bound, and the verdict."""

from dataclasses import replace

import numpy as np

from common import gemm

INPUTS = {"sdk": gemm.sdk_inputs, "integer": gemm.integer_inputs}
BETA = 0.5  # of a second check, where the beta that was asked for is 0
_OUTSIDE = "it wrote outside of C"


def require_exact(problem, data, alpha, beta):
    """Raise UsageError where `data` is to give exact results, and these scalars cannot."""
    gemm.require_exact(data, problem.size, alpha, _betas(data, beta), problem.dtype)


def _betas(data, beta):
    return [beta] if beta else [0, 1 if data == "integer" else BETA]


class Expected:
    """The inputs A, B, C of a problem, and what GEMM must make of them.

    Every kernel is checked with a beta that is not 0: where the one asked for is 0 it is checked
    twice. With beta = 0, C is full of NaN, which no kernel may read.
    """

    def __init__(self, problem, data, seed, alpha, beta):
        """Draw the inputs. Raises UsageError where the result overflows."""
        size, dtype = problem.size, problem.dtype
        exact, betas = data == "integer", _betas(data, beta)
        self.inputs = INPUTS[data](size, seed, dtype)
        self.alpha, self.beta = alpha, beta
        self._wanted = []
        for b in betas:
            result, bound = gemm.reference(alpha, *self.inputs[:2], b, self.inputs[2])
            self._wanted.append((b, result, bound * (not exact)))

    def check(self, launch, matrices):
        """Return (Check, C): `launch(beta)` runs the kernel on `matrices` and waits for it."""
        found = []
        for beta, wanted, bound in self._wanted:
            matrices.write(2, self.inputs[2] if beta else np.nan)
            launch(beta)
            result, clean = matrices.result()
            check = gemm.check(result, wanted, bound)
            if check.reason and len(self._wanted) > 1:
                check = replace(check, reason=f"with --beta {beta:g}, {check.reason}")
            elif not clean:
                check = replace(check, reason=_OUTSIDE)
            found.append((check, result))
        # The first that is wrong, else the one that was asked for.
        return next((pair for pair in found if pair[0].reason), found[0])

    def check_host(self, result, clean=True):
        """Return the Check of a library's A * B, its `result`, against alpha = 1 and beta = 0.

        `clean` says whether it left alone what is around C.
        """
        if (self.alpha, self.beta) == (1, 0):
            _, product, bound = self._wanted[0]
        else:
            product, bound = gemm.reference(1, *self.inputs[:2], 0, self.inputs[2])
        check = gemm.check(result, product, bound)
        return check if clean or check.reason else replace(check, reason=_OUTSIDE)
