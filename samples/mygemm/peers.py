"""Other libraries' GEMM, to compare with in the same run: each is optional, and named by version.

Every peer computes C = A * B on what the kernels compute on, in the same precision. numpy and what
has the interface CBLAS run on the host, CLBlast on the same queues, cuBLAS on the same GPU through
PyTorch or CuPy.
"""

import ctypes
import ctypes.util
import re

import numpy as np
from loading import file_of, version_in
from runner import finish

from common.errors import OpenCLFailure, Unsupported

NAMES = ("numpy", "clblast", "cublas")
_LINE = 64  # bytes
_ROW_MAJOR, _AS_IT_IS = 101, 111  # CBLAS's numbers of layouts and transposes, and CLBlast's
_SETTLE = 0.25  # seconds: OpenMP's threads spin on for 0.2 when there is nothing to do
_LETTERS = {np.dtype(np.float32): "S", np.dtype(np.float64): "D", np.dtype(np.float16): "H"}
_REALS = {"S": ctypes.c_float, "D": ctypes.c_double, "H": ctypes.c_ushort}


class Peer:
    """A library that is here. `version` is its name in full.

    `launcher(stream)` returns a function that starts one GEMM, `finish(streams)` waits for all,
    `result(stream)` returns (C, whether what is around C is as it was). Only what is `queued`, in
    OpenCL's queues, makes use of the stream. `settle`: for so many seconds after a launch threads
    of it may spin on, and slow what comes next.
    """

    queued, settle = True, 0

    def __init__(self, name, version, launcher, finish, result):
        self.name, self.version = name, version
        self.launcher = lambda stream: self._guarded(launcher(stream))
        self.finish, self.result = self._guarded(finish), self._guarded(result)

    def _guarded(self, call):
        """Return `call` with what CUDA raises, such as too little memory, as an OpenCLFailure."""

        def guarded(*args):
            try:
                return call(*args)
            except (RuntimeError, MemoryError) as error:
                raise OpenCLFailure(f"{self.name}: {' '.join(str(error).split())}") from error

        return guarded


def _elsewhere(name, version, multiply, finish, result):
    """Return a Peer that has matrices of its own, and no use for streams."""
    peer = Peer(name, version, lambda _: multiply, lambda _: finish(), lambda _: (result(), True))
    peer.queued = False
    return peer


def find(names, device, problem, inputs, library=None):
    """Return (peers, reasons): the named ones that are here, and why the others are not.

    `library` is a Cblas that is a peer as well.
    """
    makers = {"numpy": _numpy, "clblast": _clblast, "cublas": _cublas}
    if library:
        makers[library.name] = lambda *args: _of_cblas(library, *args)
        names = (*names, library.name)
    found, reasons = [], {}
    for name in names:
        try:
            found.append(makers[name](device, problem, inputs))
        except Unsupported as missing:
            reasons[name] = str(missing)
    return found, reasons


def _numpy(_device, problem, inputs):
    if problem.dtype == np.float16:
        raise Unsupported("numpy has no BLAS for half precision")
    A, B, C = map(_on_cache_lines, inputs)
    multiply = lambda: np.matmul(A, B, out=C)  # noqa: E731
    peer = _elsewhere("numpy", _numpys_blas(), multiply, lambda: None, lambda: C)
    peer.settle = _SETTLE
    return peer


def _of_cblas(library, _device, problem, inputs):
    letter = _LETTERS[problem.dtype]
    if letter == "H":
        raise Unsupported("CBLAS is asked for single and double precision only")
    function, real = getattr(library.handle, f"cblas_{letter.lower()}gemm"), _REALS[letter]
    # As wide as a register: right where the library takes 32 bits of it, and where it takes 64.
    size = ctypes.c_ssize_t
    matrix = (ctypes.c_void_p, size)  # elements, ld
    function.argtypes = [ctypes.c_int] * 3 + [size] * 3 + [real, *matrix, *matrix, real, *matrix]
    function.restype = None
    A, B, C = map(_on_cache_lines, inputs)
    M, N, K = problem.size
    a, b, c = (matrix.ctypes.data for matrix in (A, B, C))

    def multiply(kept=(A, B, C)):  # of which the library has but addresses
        function(_ROW_MAJOR, _AS_IT_IS, _AS_IT_IS, M, N, K, 1, a, K, b, N, 0, c, N)

    peer = _elsewhere(library.name, library.version, multiply, lambda: None, lambda: C)
    peer.settle = _SETTLE
    return peer


def _on_cache_lines(matrix):
    """Return a copy that begins on a cache line: else chance says where, and a BLAS's rate."""
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
        pass
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            loaded = re.findall(r"/([^/\n]*blas[^/\n]*\.so[^/\n]*)$", maps.read(), re.M)
    except OSError:
        loaded = []
    return f"{name}, {loaded[0] if loaded else 'BLAS unknown'}"


def _clblast(_device, problem, _inputs):
    file = ctypes.util.find_library("clblast")
    if file is None:
        raise Unsupported("libclblast is not installed (Debian: libclblast1)")
    try:
        library = ctypes.CDLL(file)
    except OSError as error:
        raise Unsupported(f"libclblast does not load: {error}") from error
    letter = _LETTERS[problem.dtype]
    function, real = getattr(library, f"CLBlast{letter}gemm"), _REALS[letter]
    size, pointer = ctypes.c_size_t, ctypes.c_void_p
    matrix = (pointer, size, size)  # buffer, offset, ld
    function.argtypes = [ctypes.c_int] * 3 + [size] * 3 + [real, *matrix, *matrix, real, *matrix]
    function.argtypes += [pointer, pointer]
    (M, N, K), one = problem.size, problem.dtype.type(1)
    one = int(one.view(np.uint16)) if letter == "H" else float(one)

    def launcher(stream):
        matrices, queue = stream.matrices, pointer(stream.queue.int_ptr)
        a, b, c = (
            (buffer.device.int_ptr, 0, ld) for buffer, ld in zip(matrices.buffers, matrices.strides)
        )
        sizes, own = (_ROW_MAJOR, _AS_IT_IS, _AS_IT_IS, M, N, K), ctypes.byref(queue)

        def enqueue(kept=matrices):  # of which the library has but addresses
            if status := function(*sizes, one, *a, *b, 0, *c, own, None):
                raise OpenCLFailure(f"CLBlast fails with status {status}")

        return enqueue

    version = f"CLBlast {version_in(file_of(function)) or 'of unknown version'}"
    return Peer("clblast", version, launcher, finish, lambda stream: stream.matrices.result())


def _cublas(device, _problem, inputs):
    if "nvidia" not in device.vendor.lower():
        raise Unsupported("cuBLAS is for NVIDIA's GPUs")
    broken = []
    for make in (_by_torch, _by_cupy):
        try:
            return make(inputs[:2])
        except ImportError:
            continue
        except (OSError, RuntimeError, MemoryError, Unsupported) as error:
            broken.append(" ".join(str(error).split()))
    if broken:
        raise Unsupported(f"CUDA does not work here: {'; '.join(broken)}")
    raise Unsupported("cuBLAS needs PyTorch or CuPy, which are not installed")


def _require_one_gpu(count):
    # With several, CUDA's first need not be the GPU that the kernels run on.
    if count != 1:
        raise Unsupported(f"CUDA sees {count} GPUs: leave one with CUDA_VISIBLE_DEVICES")


def _by_torch(inputs):
    import torch

    if not torch.cuda.is_available():
        raise Unsupported("PyTorch is built without CUDA, or finds no GPU")
    _require_one_gpu(torch.cuda.device_count())
    # float32 in full: not by the matrix units' tf32.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    A, B = (torch.from_numpy(matrix).cuda() for matrix in inputs)
    C = torch.empty((A.shape[0], B.shape[1]), dtype=A.dtype, device=A.device)
    version = f"cuBLAS of CUDA {torch.version.cuda} through PyTorch {torch.__version__}"
    finish = torch.cuda.synchronize
    multiply = lambda: torch.mm(A, B, out=C)  # noqa: E731
    return _elsewhere("cublas", version, multiply, finish, lambda: C.cpu().numpy())


def _by_cupy(inputs):
    import cupy

    _require_one_gpu(cupy.cuda.runtime.getDeviceCount())
    A, B = (cupy.asarray(matrix) for matrix in inputs)
    C = cupy.empty((A.shape[0], B.shape[1]), A.dtype)
    number = cupy.cuda.cublas.getVersion(cupy.cuda.device.get_cublas_handle())
    version = f"cuBLAS {number} through CuPy {cupy.__version__}"
    finish = cupy.cuda.runtime.deviceSynchronize
    multiply = lambda: cupy.matmul(A, B, out=C)  # noqa: E731
    return _elsewhere("cublas", version, multiply, finish, lambda: cupy.asnumpy(C))
