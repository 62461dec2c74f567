"""Intel's runtime from pip is found without a hand; a choice of the user's own is left alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from common import device, drivers, icd
from common.errors import OpenCLFailure
from tests.conftest import ROOT


@pytest.fixture
def system(tmp_path, monkeypatch):
    """The system's folder of ICD files, empty, in a machine of its own without Intel's runtime."""
    folder = tmp_path / "vendors"
    folder.mkdir()
    monkeypatch.setattr(icd, "SYSTEM", folder)
    monkeypatch.setattr(icd, "PREFIX", str(tmp_path / "env"))
    return folder


@pytest.fixture
def intel(tmp_path, system):
    """Intel's runtime in the environment."""
    library = tmp_path / "env" / "lib" / "libintelocl.so"
    library.parent.mkdir(parents=True)
    library.touch()
    return str(library)


@pytest.mark.usefixtures("system")
def test_nothing_changes_without_it():
    with icd.loader():
        assert "OCL_ICD_VENDORS" not in os.environ


def test_the_loader_gets_it_and_what_the_system_has(system, intel):
    (system / "pocl.icd").write_text("libpocl.so.2\n")
    (system / "notes.txt").touch()
    with icd.loader():
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        assert {file.name: file.read_text().strip() for file in folder.iterdir()} == {
            "pocl.icd": "libpocl.so.2", "libintelocl.icd": intel,
        }
    assert "OCL_ICD_VENDORS" not in os.environ


def in_a_loader(tmp_path, code, cache):
    """Run code in the block of a loader, in a process of its own; return its OCL_ICD_VENDORS."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    (icd.SYSTEM / "pocl.icd").write_text("libpocl.so.2\n")
    code = (
        "import os\nfrom pathlib import Path\nfrom common import icd\n"
        f"icd.PREFIX, icd.SYSTEM = {icd.PREFIX!r}, Path({str(icd.SYSTEM)!r})\n"
        "with icd.loader():\n"
        "    here = os.environ['OCL_ICD_VENDORS']\n"
        "    assert sorted(os.listdir(here)) == ['libintelocl.icd', 'pocl.icd']\n"
        f"    print(here, flush=True)\n    {code}"
    )
    settings = {"TMPDIR": str(folder), "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, **settings},
        stdout=subprocess.PIPE, text=True, check=False,
    )
    return done.stdout.strip()


@pytest.mark.usefixtures("intel")
def test_a_process_that_is_killed_leaves_no_temporary_folder(tmp_path):
    used = in_a_loader(tmp_path, "os.kill(os.getpid(), 9)", tmp_path / "cache")
    assert used.startswith(str(tmp_path / "cache"))
    assert not list((tmp_path / "tmp").iterdir())
    assert len(list((tmp_path / "cache" / "opencl-samples" / "vendors").iterdir())) == 1


@pytest.mark.usefixtures("intel")
def test_without_a_cache_it_is_one_line(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/cache")
    block = icd.loader()
    with pytest.raises(OpenCLFailure, match="cannot make a folder for ICD files: "), block:
        pass
    assert "OCL_ICD_VENDORS" not in os.environ


@pytest.mark.usefixtures("intel")
def test_a_folder_of_the_cache_that_lacks_something_is_completed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with icd.loader():
        first = Path(os.environ["OCL_ICD_VENDORS"])
    (first / "libintelocl.icd").unlink()
    with icd.loader():
        assert Path(os.environ["OCL_ICD_VENDORS"], "libintelocl.icd").exists()


@pytest.mark.usefixtures("intel")
@pytest.mark.parametrize("name", ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"])
def test_a_choice_of_the_users_own_is_left_alone(monkeypatch, name):
    monkeypatch.setenv(name, "/my/vendors")
    with icd.loader():
        assert os.environ[name] == "/my/vendors"


def test_a_driver_can_be_left_out(system, intel):
    def seen(without):
        with icd.loader([without]):
            return {file.name for file in Path(os.environ["OCL_ICD_VENDORS"]).iterdir()}

    for name in ("good", "bad"):
        (system / f"{name}.icd").write_text(f"lib{name}.so\n")
    assert seen(str(system / "bad.icd")) == {"good.icd", "libintelocl.icd"}
    assert seen(intel) == {"good.icd", "bad.icd"}


def test_libraries_are_named_as_icd_files_name_them(tmp_path, monkeypatch, system, intel):
    (tmp_path / "libnear.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    (system / "near.icd").write_text("libnear.so.1\n")
    (system / "gone.icd").write_text("libgone.so.1\n")
    (system / "unreadable.icd").mkdir()
    found = {
        str(system / "near.icd"): "libnear.so.1",
        str(system / "gone.icd"): "libgone.so.1",
        str(system / "unreadable.icd"): "",
        intel: intel,
    }
    assert icd.libraries() == found
    paths = [str(tmp_path / "libnear.so.1"), "libgone.so.1", "", intel]
    assert sorted(map(icd.resolved, found.values())) == sorted(paths)


@pytest.mark.skipif(icd.intel_library() is None, reason="there is no wheel of Intel's runtime here")
class TestIntelRuntime:
    def test_it_is_listed_last(self):
        assert device.platforms()[-1].name.strip() == icd.PLATFORM

    def test_it_passes_the_test_of_a_driver(self):
        (runtime,) = device.platforms()[-1].get_devices()
        assert drivers.problem(runtime, anew=True) is None

    def test_the_doctor_sees_it(self, fab):
        assert f"ok    OpenCL     {icd.PLATFORM}" in fab("doctor").stdout

    @pytest.mark.parametrize(
        ("sample", "args"),
        [
            ("sgemm", ["--size", "67x45x129", "--kernel", "all"]),
            ("gemm_intel", ["-s", "300", "-i", "2"]),
            ("gemm_intel", ["-s", "61", "--kernel", "nt", "-a", "double"]),
        ],
    )
    def test_samples_run_on_it(self, run_sample, sample, args):
        done = run_sample(sample, "-p", "intel", *args, python=sys.executable)
        assert done.returncode == 0, done.stdout + done.stderr
        assert icd.PLATFORM in done.stdout
        assert "PASSED" in done.stdout
