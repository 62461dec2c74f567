"""GEMM of baseline libraries: each is optional, and named with its version.

Every library computes C = A * B on what the kernels compute on, in the same precision. numpy and
what has the interface CBLAS run on the host, CLBlast on the same queues, cuBLAS on the same GPU
through PyTorch.
"""

import argparse
import ctypes
import ctypes.util
import os
import re
from contextlib import suppress
from functools import partial
from math import prod
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common.device import type_of
from common.errors import OpenCLFailure, Unsupported, UsageError
from common.files import regular
from common.interleaved import Contender, finish
from common.text import one_line, printable

NAMES = ("numpy", "clblast", "cublas")
_LINE = 64  # bytes
_ROW_MAJOR, _AS_IT_IS = 101, 111  # CBLAS's numbers of layouts and transposes, and CLBlast's
_HALF_ONE = 0x3C00  # 1 in half precision
_LETTERS = {np.dtype(np.float32): "S", np.dtype(np.float64): "D", np.dtype(np.float16): "H"}
_REALS = {"S": ctypes.c_float, "D": ctypes.c_double, "H": ctypes.c_ushort}


def parse(text):
    """Return the NAMES that a list between commas, `all` or `none` stands for: an argparse type."""
    chosen = {"all": NAMES, "none": ()}.get(text, tuple(text.split(",")))
    if wrong := set(chosen) - set(NAMES):
        have = ", ".join(NAMES)
        raise argparse.ArgumentTypeError(
            f"'{min(wrong)}' is not a library: choose from {have}, all, none")
    return tuple(dict.fromkeys(chosen))


class Library(Contender):
    """A library that is here. `version` is its name in full.

    `launcher(stream)` returns a function that starts one GEMM, `finish(streams)` waits for all,
    `result(stream)` returns C. A stream has a `queue` and the Matrices `A`, `B` and `C` on the
    device; only what is queued, in OpenCL's queues, makes use of it.
    """

    def __init__(self, name, version, launcher, finish, result, **more):
        super().__init__(name, launcher, finish, **more)
        self.version, self.result = version, result


def _elsewhere(name, version, multiply, result, finish=lambda: None):
    """Return a Library that has matrices of its own, and no use for streams."""
    return Library(name, version, lambda _: multiply, lambda _: finish(), lambda _: result(),
                   queued=False)


def find(names, device, inputs, library=None, caches="warm"):
    """Return (libraries, reasons): the named ones that are here, and why the others are not.

    `inputs` are A, B and C on the host, of three dimensions for a batch; `library` is a Cblas that
    takes part as well. With `caches` flushed, those of the device are: what runs on the host takes
    part if the device is its CPU.
    """
    makers = {"numpy": _numpy, "clblast": _clblast, "cublas": _cublas}
    if library:
        makers[library.name] = partial(_of_cblas, library)
        names = (*names, library.name)
    if (dtype := inputs[0].dtype) not in _LETTERS:
        return [], dict.fromkeys(names, f"it does not multiply {dtype}")
    found, reasons = [], {}
    for name in names:
        try:
            on_host = name not in ("clblast", "cublas")
            if on_host and caches == "flushed" and type_of(device) != "cpu":
                raise Unsupported("--caches flushed does not flush the host's caches")
            found.append(makers[name](device, *inputs))
        except Unsupported as missing:
            reasons[name] = str(missing)
    return found, reasons


def _numpy(_device, *inputs):
    if inputs[0].dtype == np.float16:
        raise Unsupported("numpy has no BLAS for half precision")
    A, B, C = map(on_cache_lines, inputs)
    return _elsewhere("numpy", _numpys_blas(), partial(np.matmul, A, B, out=C), lambda: C)


def _of_cblas(library, _device, *inputs):
    letter, batch = _LETTERS[inputs[0].dtype], inputs[0].shape[:-2]
    if letter == "H":
        raise Unsupported("CBLAS has single and double precision only")
    name = f"cblas_{letter.lower()}gemm{'_batch_strided' if batch else ''}"
    # As wide as a register: right where the library takes 32 bits of it, and where it takes 64.
    size, place = ctypes.c_ssize_t, [ctypes.c_void_p]
    function = _function(library.handle, name, inputs, size, place)
    A, B, C = (on_cache_lines(matrix) for matrix in inputs)
    given = [(each.ctypes.data, each.shape[-1], *[prod(each.shape[-2:])] * len(batch))
             for each in (A, B, C)]

    def multiply(kept=(A, B)):  # of which the library has only addresses
        function(*given)

    return _elsewhere(library.name, library.version, multiply, lambda: C)


def _function(handle, name, inputs, size, place, last=()):
    """Return a library's GEMM as a function of the arguments for A, B and C, and the last ones.

    `size` is the C type of an order, `place` are the types of the arguments that locate a matrix.
    Its leading dimension follows, and for a batch the stride in elements. Raises Unsupported.
    """
    A, _, C = inputs
    orders, batch, real = (*C.shape[-2:], A.shape[-1]), C.shape[:-2], _REALS[_LETTERS[A.dtype]]
    try:
        function = getattr(handle, name)
    except AttributeError as error:
        raise Unsupported(f"it has no {name}") from error
    of_batch = [size] * len(batch)
    matrix = [*place, size, *of_batch]
    function.argtypes = [*[ctypes.c_int] * 3, *[size] * 3, real, *matrix, *matrix, real, *matrix,
                         *of_batch, *last]
    one = _HALF_ONE if A.dtype == np.float16 else 1

    def multiply(a, b, c, *more):
        layout = _ROW_MAJOR, _AS_IT_IS, _AS_IT_IS
        return function(*layout, *orders, one, *a, *b, 0, *c, *batch, *more)

    return multiply


def on_cache_lines(matrix):
    """Return a copy that begins on a cache line; otherwise a BLAS's rate depends on chance."""
    room = np.empty(matrix.nbytes + _LINE, np.uint8)
    start = -room.ctypes.data % _LINE
    copy = room[start : start + matrix.nbytes].view(matrix.dtype).reshape(matrix.shape)
    copy[...] = matrix
    return copy


def _numpys_blas():
    """Return numpy's version and that of the BLAS that it loaded."""
    name = f"numpy {np.__version__}"
    try:  # from numpy 1.25 on
        blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{name}, {blas['name']} {blas['version']}"
    except (TypeError, KeyError):
        files = (Path(file).name for _, file in loaded_files())
        return f"{name}, {next((f for f in files if 'blas' in f and '.so' in f), 'BLAS unknown')}"


def _clblast(_device, *inputs):
    file = ctypes.util.find_library("clblast")
    if file is None:
        raise Unsupported("libclblast is not installed (Debian: libclblast1)")
    try:
        library = ctypes.CDLL(file)
    except OSError as error:
        raise Unsupported(f"libclblast does not load: {error}") from error
    letter, batch = _LETTERS[inputs[0].dtype], inputs[0].shape[:-2]
    name = f"CLBlast{letter}gemm{'StridedBatched' if batch else ''}"
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    function = _function(library, name, inputs, size, [pointer, size], [pointer, pointer])

    def launcher(stream):
        matrices, queue = (stream.A, stream.B, stream.C), pointer(stream.queue.int_ptr)
        given = [(each.device.int_ptr, 0, each.ld, *[each.rows * each.ld] * len(batch))
                 for each in matrices]

        def enqueue(kept=matrices):  # of which the library has only addresses
            if status := function(*given, ctypes.byref(queue), None):
                raise OpenCLFailure(f"CLBlast fails with status {status}")

        return enqueue

    version = f"CLBlast {version_in(file_of(getattr(library, name))) or 'of unknown version'}"
    return Library("clblast", version, launcher, finish, lambda stream: stream.C.read())


def _cublas(device, *inputs):
    if "nvidia" not in device.vendor.lower():
        raise Unsupported("cuBLAS is for NVIDIA's GPUs")
    try:
        return _by_torch(*inputs[:2])
    except ImportError as error:
        raise Unsupported("cuBLAS needs PyTorch, which is not installed") from error
    except (OSError, RuntimeError, MemoryError, Unsupported) as error:
        raise Unsupported(f"CUDA does not work here: {one_line(error)}") from error


def _by_torch(A, B):
    import torch

    if not torch.cuda.is_available():
        raise Unsupported("PyTorch is built without CUDA, or finds no GPU")
    if (count := torch.cuda.device_count()) != 1:
        # CUDA's first need not be the GPU that the kernels run on.
        raise Unsupported(f"CUDA sees {count} GPUs: select one with CUDA_VISIBLE_DEVICES")
    # float32 in full: not by the matrix units' tf32.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    A, B = (torch.from_numpy(matrix).cuda() for matrix in (A, B))
    C = torch.empty((*A.shape[:-1], B.shape[-1]), dtype=A.dtype, device=A.device)
    version = f"cuBLAS of CUDA {torch.version.cuda} through PyTorch {torch.__version__}"
    multiply = partial(torch.mm if A.ndim == 2 else torch.bmm, A, B, out=C)
    return _elsewhere("cublas", version, _of_cuda(multiply), _of_cuda(lambda: C.cpu().numpy()),
                      _of_cuda(torch.cuda.synchronize))


def _of_cuda(function):
    """Return the function with errors of CUDA, as of too little memory, as OpenCLFailure."""

    def call():
        try:
            return function()
        except RuntimeError as error:
            raise OpenCLFailure(f"CUDA fails: {one_line(error)}") from error

    return call


# Shared libraries.


class Cblas(NamedTuple):
    """A library with the interface CBLAS: its name in tables, its name in full, itself."""

    name: str
    version: str
    handle: ctypes.CDLL


def cblas(file):
    """Return the Cblas of a path, or of a name that the linker finds. Raises UsageError."""
    # MKL looks beside itself for its other parts, and a link has none beside it.
    path = os.path.realpath(file) if os.sep in file else file
    if os.path.exists(path):
        regular(path)  # the linker would wait for a FIFO
    try:
        path.encode()  # ctypes stumbles later over a name that is no UTF-8
        handle = ctypes.CDLL(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"--blas: {one_line(error)}") from error
    for name in ("cblas_sgemm", "cblas_dgemm"):
        if not hasattr(handle, name):
            raise UsageError(f"--blas {_plain(file)}: it has no {name}")
    own = _plain(Path(file_of(handle.cblas_dgemm) or file).name)
    name = re.split(r"-r\d|\.so", own)[0]
    # With lib before it, it is the name of no kernel and of no other library.
    name = name if name.startswith("lib") else f"lib{name}"
    said = own_words(handle) or ("" if version_in(own) else "of unknown version")
    return Cblas(name, ", ".join(filter(None, (own, said))), handle)


def _plain(text):
    """Return `text` in letters that every terminal has."""
    return printable(text).encode("ascii", "replace").decode()


def own_words(handle):
    """Return the version that a BLAS reports, or an empty text if it reports none."""
    for name in ("openblas_get_config", "bli_info_get_version_str"):
        if function := getattr(handle, name, None):
            function.restype = ctypes.c_char_p
            return function().decode(errors="replace").strip()
    if function := getattr(handle, "MKL_Get_Version_String", None):
        text = ctypes.create_string_buffer(200)
        function(text, len(text))
        return text.value.decode(errors="replace").strip()
    return ""


def loaded_files():
    """Yield (range of addresses, path) of the parts of files that this process has loaded."""
    with suppress(OSError), open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        for line in maps:
            span, _, path = line.rstrip("\n").partition(" ")
            if "/" in path:
                path = path[path.index("/"):].replace(r"\012", "\n")
                yield range(*(int(end, 16) for end in span.split("-"))), path


def file_of(function):
    """Return the path of the library that has a function, or "" where the system does not tell."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    return next((path for span, path in loaded_files() if address in span), "")


def version_in(file):
    """Return the version in the name of a shared library, such as libclblast.so.1.5.3, or ''."""
    numbers = re.findall(r"\d+(?:\.\d+)+", Path(file).name)
    return numbers[-1] if numbers else ""
