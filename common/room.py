"""The memory that buffers need on a device, and the message if there is too little."""

from common.errors import UsageError
from common.text import size_text


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
