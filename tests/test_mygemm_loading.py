"""samples/mygemm: shared libraries of others, what is refused, and what is said of them."""

import ctypes
import shutil
import subprocess
from types import SimpleNamespace

import pytest
from conftest import modules_of

from common.errors import UsageError

BLAS = "void cblas_sgemm(void) {} void cblas_dgemm(void) {}"


@pytest.fixture(scope="module")
def loading():
    """The module."""
    with modules_of("mygemm") as module:
        yield module("loading")


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
def test_what_is_no_library_with_the_interface_cblas(loading, file, message):
    with pytest.raises(UsageError, match=message):
        loading.cblas(file)


def test_a_library_without_double_precision(loading, library):
    file = library("libhalf.so", "void cblas_sgemm(void) {}")
    with pytest.raises(UsageError, match=r"libhalf.so: it has no cblas_dgemm$"):
        loading.cblas(str(file))


@pytest.mark.parametrize(
    ("file", "name", "version"),
    [
        ("libone.so", "libone", "libone.so, of unknown version"),
        ("libone-r0.3.21.so", "libone", "libone-r0.3.21.so"),
        ("libone.so.4.0", "libone", "libone.so.4.0"),
        # None is the name of a kernel, of another peer or of the ceiling.
        ("numpy.so", "libnumpy", "numpy.so, of unknown version"),
        (".so.1", "lib", ".so.1, of unknown version"),
        ("lib\u00e9\n.so", "lib??", "lib??.so, of unknown version"),
    ],
)
def test_names(loading, library, file, name, version):
    found = loading.cblas(str(library(file, BLAS)))
    assert (found.name, found.version) == (name, version)


def test_a_link_is_followed_before_it_is_loaded(loading, library, tmp_path):
    # As MKL does: what it needs lies beside the file, not beside a link to it.
    library("libpart.so", "void part(void) {}")
    beside = (tmp_path / "libpart.so", "-Wl,-rpath,$ORIGIN")
    file = library("libwhole.so.1.2", BLAS, *beside)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "vendor.so"
    link.symlink_to(file)
    assert loading.cblas(str(link)).version == "libwhole.so.1.2"


def test_the_library_that_has_the_function_is_named(loading, library, tmp_path):
    inner = library("libinner.so.1.2", BLAS)
    outer = library("libouter.so", "", "-Wl,--no-as-needed", inner, "-Wl,-rpath,$ORIGIN")
    assert loading.cblas(str(outer)).version == "libinner.so.1.2"


def test_a_blas_says_its_version(loading, library):
    source = BLAS + 'char *bli_info_get_version_str(void) { return "0.9.0 "; }'
    assert loading.cblas(str(library("libown.so", source))).version == "libown.so, 0.9.0"

    def mkl(text, length):
        text.value = b"Math Kernel Library 2026".ljust(length - 1)

    said = loading._own_words(SimpleNamespace(MKL_Get_Version_String=mkl))
    assert said == "Math Kernel Library 2026"


def test_where_the_system_does_not_tell(loading, monkeypatch):
    function = ctypes.CDLL(None).malloc
    assert loading.file_of(function).startswith("/")
    monkeypatch.setattr(loading.ctypes, "CDLL", lambda name: SimpleNamespace())
    assert loading.file_of(function) == ""


@pytest.mark.parametrize(
    ("file", "version"),
    [
        ("/a/libclblast.so.1.5.3", "1.5.3"),
        ("/1.2/libx.so.3", ""),
        ("libx-r0.3.so", "0.3"),
        ("", ""),
    ],
)
def test_the_version_in_a_name(loading, file, version):
    assert loading.version_in(file) == version
