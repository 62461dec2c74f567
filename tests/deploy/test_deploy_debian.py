"""What a board has: Debian 12's python3, pyopencl, numpy and PoCL, not the locked wheels."""

import os
import subprocess
from pathlib import Path

import pytest

from common import record

PYTHON = "/usr/bin/python3"
PACKAGES = ("python3-pyopencl", "python3-numpy", "python3-pil", "pocl-opencl-icd")


def installed():
    """Tell whether Debian's packages are there, without a look at what pip installed."""
    if not Path(PYTHON).exists() or not Path("/etc/OpenCL/vendors/pocl.icd").exists():
        return False
    code = "import numpy, PIL, pyopencl"
    return (
        subprocess.run([PYTHON, "-s", "-c", code], capture_output=True, check=False).returncode == 0
    )


pytestmark = pytest.mark.skipif(
    not installed(), reason=f"Debian's packages are not installed: {' '.join(PACKAGES)}"
)


@pytest.fixture
def versions():
    code = "import numpy, pyopencl; print(numpy.__version__, pyopencl.VERSION_TEXT, numpy.__file__)"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_the_sample_runs_under_the_systems_python(run_sample, tmp_path, versions):
    assert versions[2].startswith("/usr/lib/python3/dist-packages")
    path = tmp_path / "records.jsonl"
    done = run_sample(
        "sgemm", "--size", "45x67x33", "--kernel", "all", "--json", path, python=PYTHON
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    for item in record.read(path):
        assert item.status == "passed"
        assert item.environment["numpy"] == versions[0]
        assert item.environment["pyopencl"] == versions[1]
        assert "debian" in item.device["driver"]


def test_bad_input_there(run_sample, tmp_path):
    done = run_sample("sgemm", "--size", "0", python=PYTHON)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    env = {"OCL_ICD_VENDORS": str(tmp_path)}
    done = run_sample("sgemm", "--size", "4", python=PYTHON, env=env)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)


def test_a_kernel_that_does_not_build_there(run_sample, project):
    path = project / "samples/sgemm/sgemm.cl"
    path.write_text(path.read_text().replace("float sum = 0.0f;", "float sum = 0.0f", 1))
    done = run_sample("sgemm", "--size", 4, root=project, python=PYTHON)
    assert done.returncode == 3
    assert "sgemm.cl does not build: line " in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_board_with_debians_packages(fab, odroid, boards_toml, project):
    boards_toml(f'[odroid]\npython = "{PYTHON}"\n')
    done = fab("deploy", "--host", "odroid", "run-all", "doctor", timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    records = [r for p in project.glob("results/odroid/*/*/*.jsonl") for r in record.read(p)]
    assert records
    # The golden case gives the same bits as PyPI's PoCL gave: run-all compared the digests.
    assert {item.status for item in records} <= {"passed", "unsupported"}  # shuffles, by PoCL
    assert f"{PYTHON}" in done.stdout
    assert os.fspath(odroid.home) in done.stdout
