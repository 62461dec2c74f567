"""Build a kernel, choose its NDRange, set its arguments."""

import numpy as np
import pyopencl as cl

from common.errors import OpenCLFailure, Unsupported, UsageError
from common.program import build

_ARGUMENTS = {"n": "A, B, C, alpha, beta, n", "mnk": "A, B, C, alpha, beta, M, N, K, lda, ldb, ldc"}


def require_support(meta, limits):
    """Raise Unsupported where the device lacks what the kernel's type needs."""
    if meta.double() and "cl_khr_fp64" not in limits.extensions:
        raise Unsupported(f"{meta.name} needs cl_khr_fp64, which this device does not have")


def build_kernel(context, meta):
    """Return the entry point `gemm` of the kernel's file, built with its options.

    Raises OpenCLFailure where the file does not build, or its entry point is another, UsageError
    where the driver does not take the options.
    """
    try:
        program = build(context, meta.source, options=[meta.opts] if meta.opts else [])
    except cl.Error as error:
        if error.code != cl.status_code.INVALID_BUILD_OPTIONS:
            raise
        text = f"{meta.path.name}: opts: this driver does not take '{meta.opts}'"
        raise UsageError(text) from error
    try:
        kernel = cl.Kernel(program, "gemm")
    except cl.Error as error:
        raise OpenCLFailure(f"{meta.source.name} has no kernel that is called gemm") from error
    wanted = _ARGUMENTS[meta.shape]
    if kernel.num_args != wanted.count(",") + 1:
        raise OpenCLFailure(
            f"{meta.source.name}: gemm has {kernel.num_args} arguments, but with shape "
            f"{meta.shape} it is called as gemm({wanted})"
        )
    return kernel


def ndrange(meta, size, lws, kernel, device, limits):
    """Return (global size, local size) of a launch, columns first.

    As in the original the global size is N / dj by M / di, rounded down; here at least 1, and the
    last work-item of a dimension makes what is left over. `lws` is the local size, or None to let
    the driver choose. Raises UsageError where it does not divide the global size or is too large.
    """
    total = (max(1, size.N // meta.dj), max(1, size.M // meta.di))
    info = cl.kernel_work_group_info
    required = tuple(kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, device))[:2]
    if lws is None:
        lws = required if all(required) else None
    if lws is None:
        return total, None
    named = f"-lws {lws[0]},{lws[1]}"
    for side, (local, whole) in enumerate(zip(lws, total)):
        if whole % local:
            fits = max(n for n in range(1, local + 1) if whole % n == 0)
            raise UsageError(
                f"{named}: {local} does not divide the {whole} work-items of dimension {side} "
                f"({meta.name}, {size}); {fits} does"
            )
        if local > limits.max_work_item_sizes[side]:
            most = limits.max_work_item_sizes[side]
            raise UsageError(f"{named}: the device takes at most {most} in dimension {side}")
    of_kernel = kernel.get_work_group_info(info.WORK_GROUP_SIZE, device)
    most = min(limits.max_work_group_size, of_kernel)
    if lws[0] * lws[1] > most:
        raise UsageError(
            f"{named}: {lws[0] * lws[1]} work-items, but a work-group of {meta.name} has at most "
            f"{most} on this device"
        )
    if all(required) and lws != required:
        only = "x".join(map(str, required))
        raise UsageError(f"{named}: {meta.name} is compiled for work-groups of {only} only")
    return total, lws


def require_local_memory(meta, kernel, device, limits):
    """Raise Unsupported where the kernel needs more local memory than there is."""
    need = kernel.get_work_group_info(cl.kernel_work_group_info.LOCAL_MEM_SIZE, device)
    if need > limits.local_mem_size:
        have = limits.local_mem_size
        raise Unsupported(f"{meta.name} needs {need} bytes of local memory, the device has {have}")


def set_arguments(kernel, meta, size, scalars, buffers, strides):
    """Set the arguments of `gemm`: matrices, alpha and beta, then the orders.

    Raises UsageError where alpha and beta have another size than the kernel's.
    """
    orders = size[:1] if meta.shape == "n" else (*size, *strides)
    try:
        kernel.set_args(*buffers, *scalars, *map(np.uint32, orders))
    except cl.Error as error:
        if error.code != cl.status_code.INVALID_ARG_SIZE:
            raise
        text = f"{meta.path.name}: type {meta.type}, but gemm in {meta.source.name}"
        raise UsageError(f"{text} takes other scalars") from error


def require_shape(meta, size):
    """Raise UsageError where a kernel for square matrices is to multiply others."""
    if meta.shape == "n" and not size.M == size.N == size.K:
        text = f"{meta.name} takes square matrices only, not {size}"
        raise UsageError(f'{text}: give one order, or a kernel with "shape": "mnk"')
