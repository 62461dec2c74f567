"""The memory that a GEMM takes on a device, and what is said where there is too little."""

from common.errors import UsageError
from common.text import size_text


def buffer_bytes(problem):
    """Return how many bytes each matrix of a common.gemm.Problem takes, by its name."""
    (M, _, K), (lda, ldb, ldc), batch = problem.size, problem.leading, problem.batch
    size = batch * problem.dtype.itemsize
    c_size = batch * problem.c_dtype.itemsize
    return {"matrix A": M * lda * size, "matrix B": K * ldb * size, "matrix C": M * ldc * c_size}


def require_room(problem, need, limits):
    """Raise UsageError where one of the buffers that a Problem needs is too large, or all are.

    `need` has the bytes of each by its name.
    """
    name = max(need, key=need.get)
    whole = sum(need.values())
    if need[name] > limits.max_mem_alloc_size:
        most = f"allocates at most {size_text(limits.max_mem_alloc_size)} at once"
        wanted = f"{name} of {problem} takes {size_text(need[name])}"
    elif whole > limits.global_mem_size:
        most = f"has {size_text(limits.global_mem_size)}"
        copies = " and their copies" if len(need) > 3 else ""
        wanted = f"the matrices{copies} of {problem} take {size_text(whole)}"
    else:
        return
    smaller = "a smaller size"
    if problem.batch > 1:
        smaller += " or --batch"
    if problem.leading != (problem.size.K, problem.size.N, problem.size.N):
        smaller += ", or smaller leading dimensions"
    raise UsageError(f"{wanted}, but the device {most}: choose {smaller}")
