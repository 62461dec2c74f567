"""Intel's runtime from pip is found without a hand; a choice of the user's own is left alone."""

import os
import sys
from pathlib import Path

import pytest

from common import device, icd


def prefix(tmp_path):
    library = tmp_path / "env" / "lib" / "libintelocl.so"
    library.parent.mkdir(parents=True)
    library.touch()
    return tmp_path / "env"


def test_nothing_changes_without_it(tmp_path):
    with icd.pip_drivers(prefix=tmp_path) as added:
        assert not added
        assert "OCL_ICD_VENDORS" not in os.environ


def test_the_loader_gets_it_and_what_the_system_has(tmp_path):
    system = tmp_path / "vendors"
    system.mkdir()
    (system / "pocl.icd").write_text("libpocl.so.2\n")
    (system / "notes.txt").touch()
    env = prefix(tmp_path)
    with icd.pip_drivers(env, system) as added:
        assert added
        folder = Path(os.environ["OCL_ICD_VENDORS"])
        assert {file.name: file.read_text().strip() for file in folder.iterdir()} == {
            "pocl.icd": "libpocl.so.2",
            "pip-intel-cpu.icd": str(env / "lib" / "libintelocl.so"),
        }
    assert "OCL_ICD_VENDORS" not in os.environ
    assert not folder.exists()


@pytest.mark.parametrize("name", ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"])
def test_a_choice_of_the_users_own_is_left_alone(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "/my/vendors")
    with icd.pip_drivers(prefix(tmp_path)) as added:
        assert not added
        assert os.environ[name] == "/my/vendors"


@pytest.mark.skipif(
    icd.intel_library() is None, reason="Intel's runtime is not installed: make intel"
)
class TestIntelRuntime:
    def test_it_is_listed_last_and_not_the_default(self):
        names = [platform.name.strip() for platform in device.platforms()]
        assert names[-1] == icd.PLATFORM
        assert len(names) > 1, "PoCL is gone"
        assert device.choose().platform.name.strip() != icd.PLATFORM

    def test_the_doctor_sees_it(self, fab):
        assert f"ok    OpenCL     {icd.PLATFORM}" in fab("doctor").stdout

    @pytest.mark.parametrize(
        ("sample", "args"),
        [
            ("sgemm", ["--size", "67x45x129", "--kernel", "all"]),
            ("gemm_intel", ["-s", "300", "--validation", "-i", "2"]),
            ("gemm_intel", ["-s", "61", "--kernel", "nt", "-a", "double", "--validation"]),
        ],
    )
    def test_samples_run_on_it(self, run_sample, sample, args):
        done = run_sample(sample, "-p", "intel", *args, python=sys.executable)
        assert done.returncode == 0, done.stdout + done.stderr
        assert icd.PLATFORM in done.stdout
        assert "PASSED" in done.stdout
