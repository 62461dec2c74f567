"""Other libraries' GEMM: where they are, what they are given, and what is said of them."""

import argparse
import ctypes
import gc
import os
import shutil
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import ANY

import numpy as np
import pyopencl as cl
import pytest

from common import libraries
from common.errors import UsageError


def test_a_library_that_fails_is_a_failure_of_it_alone(monkeypatch):
    def fail(*matrices, out):
        raise RuntimeError("CUDA out of memory")

    torch = Torch(True, 1)
    torch.mm = fail
    monkeypatch.setitem(sys.modules, "torch", torch)
    gpu = SimpleNamespace(vendor="NVIDIA Corporation")
    (found,), _ = libraries.find(("cublas",), gpu, [np.ones((4, 4), np.float32)] * 3)
    found.enter(0)
    assert found.attempt(found.sample, 1) is None
    assert str(found.error) == "CUDA fails: CUDA out of memory"


def test_a_library_that_is_not_there_is_said(queue, monkeypatch):
    monkeypatch.setattr(libraries.ctypes.util, "find_library", lambda name: None)
    inputs = [np.ones((4, 4), np.float16)] * 3
    found, reasons = libraries.find(libraries.NAMES, queue.device, inputs)
    assert found == []
    assert reasons["numpy"] == "numpy has no BLAS for half precision"
    assert reasons["clblast"] == "libclblast is not installed (Debian: libclblast1)"
    assert "cuBLAS" in reasons["cublas"]


def test_what_runs_on_the_host_is_left_out_where_only_a_gpus_caches_are_flushed(queue):
    inputs, other = [np.ones((4, 4))] * 3, libraries.Cblas("libown", "1", None)
    gpu = SimpleNamespace(type=cl.device_type.GPU, vendor="Arm")
    found, reasons = libraries.find(("numpy", "cublas"), gpu, inputs, other, "flushed")
    assert found == []
    assert reasons["numpy"] == reasons["libown"] == (
        "--caches flushed does not flush the host's caches"
    )
    assert "NVIDIA" in reasons["cublas"]
    assert libraries.find(("numpy",), queue.device, inputs, None, "flushed")[0]


def test_numpys_matrices_begin_on_cache_lines(queue):
    rng = np.random.default_rng(1)
    inputs = [rng.random(shape) for shape in ((5, 3), (3, 7), (5, 7))]
    for copies in zip(*(map(libraries.on_cache_lines, inputs) for _ in range(9))):
        assert {copy.ctypes.data % 64 for copy in copies} == {0}
    (found,), _ = libraries.find(("numpy",), queue.device, inputs)
    found.launcher(None)()
    product = found.result(None)
    assert product == pytest.approx(inputs[0] @ inputs[1])
    assert (inputs[2] < 1).all()  # left as it was


LIBBLAS = "libblas.so.3"  # comes with Debian's numpy; whichever BLAS that is, it has CBLAS


def libblas():
    """Return it as a Cblas; skip where it is not, or is one without CBLAS."""
    try:
        return libraries.cblas(LIBBLAS)
    except UsageError as missing:
        pytest.skip(f"{missing} (Debian: libblas3)")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_library_with_the_interface_cblas(queue, dtype):
    library = libblas()
    rng = np.random.default_rng(1)
    inputs = [rng.random(shape).astype(dtype) for shape in ((150, 130), (130, 170), (150, 170))]
    (found,), reasons = libraries.find((), queue.device, inputs, library)
    assert reasons == {}
    assert found.name.startswith("lib")
    found.enter(None)
    assert found.queues == 0
    launch, product = found.launcher(None), inputs[0] @ inputs[1]
    gc.collect()
    others = [np.full((160, 160), np.nan, dtype) for _ in range(50)]  # where A and B were, if so
    launch()
    result = found.result(None)
    assert result == pytest.approx(product, rel=1e-5)
    assert (inputs[2] < 1).all()  # left as it was
    assert np.isnan(others).all()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_library_that_is_no_file_is_refused_at_once(tmp_path, make):
    make(tmp_path / "libx.so")
    with pytest.raises(UsageError, match="not a file"):
        libraries.cblas(str(tmp_path / "libx.so"))


def test_integers_of_cblas_are_as_wide_as_a_register(queue):
    given = []

    def gemm(*args):
        given.extend(gemm.argtypes)

    library = libraries.Cblas("libx", "x", SimpleNamespace(cblas_sgemm=gemm))
    inputs = [np.ones(shape, np.float32) for shape in ((4, 6), (6, 5), (4, 5))]
    (found,), _ = libraries.find((), queue.device, inputs, library)
    found.launcher(None)()
    integer, pointer, real = ctypes.c_ssize_t, ctypes.c_void_p, ctypes.c_float
    matrix = [pointer, integer]
    want = [ctypes.c_int] * 3 + [integer] * 3 + [real, *matrix, *matrix, real, *matrix]
    assert given == want


def test_the_products_of_a_batch(queue, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", Torch(True, 1))
    gpu, given = SimpleNamespace(vendor="NVIDIA Corporation"), []
    rng = np.random.default_rng(1)
    inputs = [rng.random(shape, np.float32) for shape in ((9, 4, 6), (9, 6, 5), (9, 4, 5))]
    found, _ = libraries.find(("numpy", "cublas"), gpu, inputs)
    for library in found:
        library.launcher(None)()
        assert library.result(None) == pytest.approx(inputs[0] @ inputs[1])

    def batched(*args):
        assert len(args) == len(batched.argtypes)
        given.extend(args)

    handle = SimpleNamespace(cblas_sgemm_batch_strided=batched)
    (found,), _ = libraries.find((), queue.device, inputs, libraries.Cblas("libx", "x", handle))
    found.launcher(None)()
    matrices = (ANY, 6, 24), (ANY, 5, 30), (ANY, 5, 20)  # the ld, and from product to product
    assert given == [101, 111, 111, 4, 5, 6, 1, *matrices[0], *matrices[1], 0, *matrices[2], 9]
    plain = libraries.Cblas("libx", "x", SimpleNamespace(cblas_sgemm=None))
    assert libraries.find((), queue.device, inputs, plain) == (
        [], {"libx": "it has no cblas_sgemm_batch_strided"})


def test_cblas_is_not_asked_for_half_precision(queue):
    inputs = [np.ones((4, 4), np.float16)] * 3
    library = libraries.Cblas("libblis", "libblis.so.4", None)
    found, reasons = libraries.find((), queue.device, inputs, library)
    assert found == []
    assert reasons == {"libblis": "CBLAS has single and double precision only"}


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
            mm=lambda A, B, out: np.dot(A, B, out=out),
            bmm=lambda A, B, out: np.matmul(A, B, out=out),
        )


@pytest.mark.parametrize(
    ("available", "gpus", "reason"),
    [
        (True, 1, None),
        (True, 2, "CUDA sees 2 GPUs: select one with CUDA_VISIBLE_DEVICES"),
        (False, 0, "PyTorch is built without CUDA, or finds no GPU"),
    ],
)
def test_cublas_through_a_stand_in_for_pytorch(monkeypatch, available, gpus, reason):
    gpu = SimpleNamespace(vendor="NVIDIA Corporation")
    inputs = [np.full((4, 4), 2, np.float32)] * 3
    torch = Torch(available, gpus)
    monkeypatch.setitem(sys.modules, "torch", torch)
    found, reasons = libraries.find(("cublas",), gpu, inputs)
    if reason:
        assert reasons["cublas"] == f"CUDA does not work here: {reason}"
        return
    assert found[0].version == "cuBLAS of CUDA 13.0 through PyTorch 2.0"
    assert torch.backends.cuda.matmul.allow_tf32 is False
    found[0].launcher(None)()
    found[0].finish([])
    assert (found[0].result(None) == 16).all()


def test_cublas_is_asked_for_on_nvidias_gpus_only(queue, monkeypatch):
    gpu = SimpleNamespace(vendor="NVIDIA Corporation")
    inputs = [np.full((4, 4), 2, np.float32)] * 3
    monkeypatch.setitem(sys.modules, "torch", None)
    _, reasons = libraries.find(("cublas",), gpu, inputs)
    assert reasons["cublas"] == "cuBLAS needs PyTorch, which is not installed"
    _, reasons = libraries.find(("cublas",), queue.device, inputs)
    assert reasons["cublas"] == "cuBLAS is for NVIDIA's GPUs"


# Shared libraries: what is refused, and what is said of them.

BLAS = "void cblas_sgemm(void) {} void cblas_dgemm(void) {}"


@pytest.fixture
def library(tmp_path):
    """Make a shared library of C source; gives its path."""
    if not shutil.which("gcc"):
        pytest.skip("needs gcc")

    def make(name, source, *options):
        (tmp_path / "source.c").write_text(source)
        file = tmp_path / name
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-o", file, tmp_path / "source.c", *options], check=True
        )
        return file

    return make


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("/nowhere/libblis.so.4", "--blas: /nowhere/libblis.so.4: cannot open shared object file"),
        ("libm.so.6", "--blas libm.so.6: it has no cblas_sgemm"),
        ("", "--blas : it has no cblas_sgemm"),
        ("two\nlines.so", "--blas: two lines.so: cannot open"),
        ("\0", "--blas: embedded null byte"),
        pytest.param("lib\udcff.so", "surrogates not allowed", id="no UTF-8"),
    ],
)
def test_what_is_no_library_with_the_interface_cblas(file, message):
    with pytest.raises(UsageError, match=message):
        libraries.cblas(file)


def test_a_library_without_double_precision(library):
    file = library("libhalf.so", "void cblas_sgemm(void) {}")
    with pytest.raises(UsageError, match=r"libhalf.so: it has no cblas_dgemm$"):
        libraries.cblas(str(file))


@pytest.mark.parametrize(
    ("file", "name", "version"),
    [
        ("libone.so", "libone", "libone.so, of unknown version"),
        ("libone-r0.3.21.so", "libone", "libone-r0.3.21.so"),
        ("libone.so.4.0", "libone", "libone.so.4.0"),
        # None is the name of a kernel, of another library or of the ceiling.
        ("numpy.so", "libnumpy", "numpy.so, of unknown version"),
        (".so.1", "lib", ".so.1, of unknown version"),
        ("lib\u00e9\n.so", "lib??", "lib??.so, of unknown version"),
    ],
)
def test_names(library, file, name, version):
    found = libraries.cblas(str(library(file, BLAS)))
    assert (found.name, found.version) == (name, version)


def test_a_link_is_followed_before_it_is_loaded(library, tmp_path):
    # As MKL does: what it needs lies beside the file, not beside a link to it.
    library("libpart.so", "void part(void) {}")
    beside = (tmp_path / "libpart.so", "-Wl,-rpath,$ORIGIN")
    file = library("libwhole.so.1.2", BLAS, *beside)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "vendor.so"
    link.symlink_to(file)
    assert libraries.cblas(str(link)).version == "libwhole.so.1.2"


def test_the_library_that_has_the_function_is_named(library, tmp_path):
    inner = library("libinner.so.1.2", BLAS)
    outer = library("libouter.so", "", "-Wl,--no-as-needed", inner, "-Wl,-rpath,$ORIGIN")
    assert libraries.cblas(str(outer)).version == "libinner.so.1.2"


def test_a_blas_says_its_version(library):
    source = BLAS + 'char *bli_info_get_version_str(void) { return "0.9.0 "; }'
    assert libraries.cblas(str(library("libown.so", source))).version == "libown.so, 0.9.0"

    def mkl(text, length):
        text.value = b"Math Kernel Library 2026".ljust(length - 1)

    said = libraries.own_words(SimpleNamespace(MKL_Get_Version_String=mkl))
    assert said == "Math Kernel Library 2026"


def test_where_the_system_does_not_tell(monkeypatch):
    function = ctypes.CDLL(None).malloc
    assert libraries.file_of(function).startswith("/")
    monkeypatch.setattr(libraries, "loaded_files", list)
    assert libraries.file_of(function) == ""


@pytest.mark.parametrize(
    ("file", "version"),
    [
        ("/a/libclblast.so.1.5.3", "1.5.3"),
        ("/1.2/libx.so.3", ""),
        ("libx-r0.3.so", "0.3"),
        ("", ""),
    ],
)
def test_the_version_in_a_name(file, version):
    assert libraries.version_in(file) == version


def test_the_names_of_libraries_on_a_command_line():
    assert libraries.parse("all") == ("numpy", "clblast", "cublas")
    assert libraries.parse("none") == ()
    assert libraries.parse("numpy,cublas,numpy") == ("numpy", "cublas")
    with pytest.raises(argparse.ArgumentTypeError, match="'mkl' is not a library: choose"):
        libraries.parse("numpy,mkl")
