"""samples/mygemm: other libraries, where they are, what they are given and how they are checked."""

import ctypes
import gc
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import modules_of

from common.errors import OpenCLFailure, UsageError
from common.gemm import Size

NAMES = ("checking", "launch", "loading", "peers")


@pytest.fixture(scope="module")
def sample():
    """The sample's modules."""
    with modules_of("mygemm") as module:
        yield SimpleNamespace(**{name: module(name) for name in NAMES})


@pytest.mark.parametrize("kind", [RuntimeError, MemoryError])
def test_a_library_that_fails_is_a_failure_of_it_alone(sample, kind):
    def fail(*stream):
        raise kind("CUDA out of\n memory")

    peer = sample.peers.Peer("cublas", "1", lambda stream: fail, fail, fail)
    for call in (peer.launcher(0), lambda: peer.finish([0]), lambda: peer.result(0)):
        with pytest.raises(OpenCLFailure, match="cublas: CUDA out of memory"):
            call()


def test_a_library_that_is_not_there_is_said(sample, queue, monkeypatch):
    monkeypatch.setattr(sample.peers.ctypes.util, "find_library", lambda name: None)
    problem = sample.launch.Problem(Size(4, 4, 4), np.dtype(np.float16), 4, 4, 4)
    inputs = [np.ones((4, 4), np.float16)] * 3
    found, reasons = sample.peers.find(sample.peers.NAMES, queue.device, problem, inputs)
    assert found == []
    assert reasons["numpy"] == "numpy has no BLAS for half precision"
    assert reasons["clblast"] == "libclblast is not installed (Debian: libclblast1)"
    assert "cuBLAS" in reasons["cublas"]


def test_numpys_matrices_begin_on_cache_lines(sample, queue):
    problem = sample.launch.Problem(Size(5, 7, 3), np.dtype(np.float64), 3, 7, 7)
    rng = np.random.default_rng(1)
    inputs = [rng.random(shape) for shape in ((5, 3), (3, 7), (5, 7))]
    for copies in zip(*(map(sample.peers._on_cache_lines, inputs) for _ in range(9))):
        assert {copy.ctypes.data % 64 for copy in copies} == {0}
    (peer,), _ = sample.peers.find(("numpy",), queue.device, problem, inputs)
    peer.launcher(None)()
    product, clean = peer.result(None)
    assert product == pytest.approx(inputs[0] @ inputs[1])
    assert clean
    assert (inputs[2] < 1).all()  # left as it was


LIBBLAS = "libblas.so.3"  # comes with Debian's numpy; whichever BLAS that is, it has CBLAS


def libblas(sample):
    """Return it as a Cblas; skip where it is not, or is one without CBLAS."""
    try:
        return sample.loading.cblas(LIBBLAS)
    except UsageError as missing:
        pytest.skip(f"{missing} (Debian: libblas3)")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_library_with_the_interface_cblas(sample, queue, dtype):
    library = libblas(sample)
    problem = sample.launch.Problem(Size(150, 170, 130), np.dtype(dtype), 130, 170, 170)
    rng = np.random.default_rng(1)
    inputs = [rng.random(shape).astype(dtype) for shape in ((150, 130), (130, 170), (150, 170))]
    (peer,), reasons = sample.peers.find((), queue.device, problem, inputs, library)
    assert reasons == {}
    assert peer.name.startswith("lib")
    assert not peer.queued
    launch, product = peer.launcher(None), inputs[0] @ inputs[1]
    gc.collect()
    others = [np.full((160, 160), np.nan, dtype) for _ in range(50)]  # where A and B were, if so
    launch()
    result, clean = peer.result(None)
    assert result == pytest.approx(product, rel=1e-5)
    assert clean
    assert (inputs[2] < 1).all()  # left as it was
    assert np.isnan(others).all()


def test_integers_of_cblas_are_as_wide_as_a_register(sample, queue):
    given = []

    def gemm(*args):
        given.extend(gemm.argtypes)

    library = sample.loading.Cblas("libx", "x", SimpleNamespace(cblas_sgemm=gemm))
    problem = sample.launch.Problem(Size(4, 5, 6), np.dtype(np.float32), 6, 5, 5)
    inputs = [np.ones(shape, np.float32) for shape in ((4, 6), (6, 5), (4, 5))]
    (peer,), _ = sample.peers.find((), queue.device, problem, inputs, library)
    peer.launcher(None)()
    integer, pointer, real = ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_float
    matrix = [pointer, integer]
    want = [ctypes.c_int] * 3 + [integer] * 3 + [real, *matrix, *matrix, real, *matrix]
    assert given == want


def test_cblas_is_not_asked_for_half_precision(sample, queue):
    problem = sample.launch.Problem(Size(4, 4, 4), np.dtype(np.float16), 4, 4, 4)
    inputs = [np.ones((4, 4), np.float16)] * 3
    library = sample.loading.Cblas("libblis", "libblis.so.4", None)
    found, reasons = sample.peers.find((), queue.device, problem, inputs, library)
    assert found == []
    assert reasons == {"libblis": "CBLAS is asked for single and double precision only"}


class Torch(SimpleNamespace):
    """As much of PyTorch as is used, on the host."""

    def __init__(self, available, gpus):
        class Tensor(np.ndarray):
            device = "cuda"

            def cuda(self):
                assert available, "Torch not compiled with CUDA enabled"
                return self

            def cpu(self):
                return self

            def numpy(self):
                return np.asarray(self)

        super().__init__(
            __version__="2.0",
            version=SimpleNamespace(cuda="13.0"),
            backends=SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace())),
            cuda=SimpleNamespace(
                is_available=lambda: available,
                device_count=lambda: gpus,
                synchronize=lambda: None,
            ),
            from_numpy=lambda matrix: matrix.view(Tensor),
            empty=lambda shape, dtype, device: np.empty(shape, dtype).view(Tensor),
            mm=lambda A, B, out: np.matmul(A, B, out=out),
        )


@pytest.mark.parametrize(
    ("available", "gpus", "reason"),
    [
        (True, 1, None),
        (True, 2, "CUDA sees 2 GPUs: leave one with CUDA_VISIBLE_DEVICES"),
        (False, 0, "PyTorch is built without CUDA, or finds no GPU"),
    ],
)
def test_cublas_through_a_stand_in_for_pytorch(sample, monkeypatch, available, gpus, reason):
    gpu = SimpleNamespace(vendor="NVIDIA Corporation")
    problem = sample.launch.Problem(Size(4, 4, 4), np.dtype(np.float32), 4, 4, 4)
    inputs = [np.full((4, 4), 2, np.float32)] * 3
    torch = Torch(available, gpus)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", None)
    found, reasons = sample.peers.find(("cublas",), gpu, problem, inputs)
    if reason:
        assert reasons["cublas"] == f"CUDA does not work here: {reason}"
        return
    assert found[0].version == "cuBLAS of CUDA 13.0 through PyTorch 2.0"
    assert torch.backends.cuda.matmul.allow_tf32 is False
    found[0].launcher(None)()
    found[0].finish([])
    assert (found[0].result(None)[0] == 16).all()


def test_cublas_is_asked_for_on_nvidias_gpus_only(sample, queue, monkeypatch):
    gpu = SimpleNamespace(vendor="NVIDIA Corporation")
    problem = sample.launch.Problem(Size(4, 4, 4), np.dtype(np.float32), 4, 4, 4)
    inputs = [np.full((4, 4), 2, np.float32)] * 3
    for name in ("torch", "cupy"):
        monkeypatch.setitem(sys.modules, name, None)
    _, reasons = sample.peers.find(("cublas",), gpu, problem, inputs)
    assert reasons["cublas"] == "cuBLAS needs PyTorch or CuPy, which are not installed"
    _, reasons = sample.peers.find(("cublas",), queue.device, problem, inputs)
    assert reasons["cublas"] == "cuBLAS is for NVIDIA's GPUs"


def test_a_library_that_writes_outside_of_c_is_wrong(sample):
    problem = sample.launch.Problem(Size(4, 5, 6), np.dtype(np.float32), 6, 5, 5)
    expected = sample.checking.Expected(problem, "sdk", 1, 1.0, 0.0)
    product = expected.inputs[0] @ expected.inputs[1]
    assert expected.check_host(product, True).reason is None
    assert expected.check_host(product, False).reason == "it wrote outside of C"
    assert "C[0][0]" in expected.check_host(product + 9, False).reason
