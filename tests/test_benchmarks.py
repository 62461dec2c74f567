"""benchmarks/: they run, they check what they time, and they import no sample."""

import shutil
import subprocess
import sys

import pytest
from conftest import ROOT


def sums(*args, root=ROOT):
    return subprocess.run(
        [sys.executable, "benchmarks/sums.py", *args],
        cwd=root, timeout=120, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_sums_compares_everything_with_a_plain_read():
    done = sums("--size", "128", "--rounds", "2")
    assert done.stderr == ""
    assert done.returncode in (0, 1)  # at this size launches are timed, not kernels
    for name in ("read", "long_vectors", "two_stages", "parts_by_blas"):
        assert f"\n{name} " in done.stdout
    for what in ("to read", "to numpy", "to long_vectors"):
        assert what in done.stdout
    assert done.stdout.count("bar ") == 3


def test_sums_times_nothing_that_is_wrong(project):
    shutil.copytree(ROOT / "benchmarks", project / "benchmarks")
    path = project / "samples" / "64_bit_integer" / "kernels" / "03_work_group.cl"
    path.write_text(path.read_text().replace("all = count / 64", "all = count / 128"))
    done = sums("--size", "128", "--rounds", "1", root=project)
    assert done.returncode == 1
    assert "work_group is wrong: " in done.stdout
    assert "GB/s" not in done.stdout


@pytest.mark.parametrize("args", [("--size", "100"), ("--rounds", "0"), ("-p", "9")])
def test_sums_with_bad_input(args):
    done = sums(*args)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "error" in done.stderr.splitlines()[-1]


def test_no_benchmark_imports_a_sample():
    for path in (ROOT / "benchmarks").glob("*.py"):
        assert "import samples" not in path.read_text()
        assert "from samples" not in path.read_text()
