"""Kernels under Oclgrind: ours are clean, and what is broken on purpose is caught."""

import shutil
from functools import partial

import pytest
from bad_kernels import add_kernel
from conftest import ROOT

from common import record

KERNELS = ROOT / "samples/gemmbench/kernels"

pytestmark = pytest.mark.skipif(
    shutil.which("oclgrind") is None, reason="Oclgrind is not installed (Debian: oclgrind)"
)


@pytest.fixture
def check(run_sample):
    return partial(run_sample, "gemmbench", "check")


@pytest.fixture
def changed(tmp_path, check):
    """Check one kernel of ours that is changed in one place."""

    def run(name, right, wrong, *args):
        folder = tmp_path / "changed"
        folder.mkdir()
        body = (KERNELS / f"{name}.cl").read_text()
        assert right in body
        (folder / f"{name}.cl").write_text(body.replace(right, wrong, 1))
        shutil.copy(KERNELS / f"{name}.json", folder)
        return check("--kernels", folder, *args)

    return run


@pytest.mark.exhaustive
def test_our_kernels_are_clean(check):
    done = check("--orders", "16")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = done.stdout.splitlines()[1:-1]
    assert len(rows) == len(list(KERNELS.glob("*.json")))
    assert all(row.split()[-2:] == ["right", "clean"] for row in rows)
    assert any("4x4" in row for row in rows)
    assert done.stdout.splitlines()[-1] == "all clean"


@pytest.mark.exhaustive
def test_chunks_and_tails_are_clean(check):
    done = check("-f", "SGEMM_*_barrier,*_local,*_mnk", "--orders", "11x6x7,11,18", "-D", "DK=1",
                 "-D", "ROOM=16")  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("clean") == 5 * 2 + 4 * 3 + 1


@pytest.mark.parametrize("barrier", ["the chunk is whole", "nobody needs it any more"])
def test_a_removed_barrier_is_caught(changed, barrier):
    line = f"barrier(CLK_LOCAL_MEM_FENCE); /* {barrier} */"
    done = changed("SGEMM_NN_1x1_local", line, "", "--orders", "16", "-D", "ROOM=16")
    assert done.returncode == 1
    assert " x race" in done.stdout
    assert "data race at local memory address" in done.stdout
    assert "x other" not in done.stdout
    assert done.stdout.count("SGEMM_NN_1x1_local.cl:") == 2  # the lines of the two work-items
    assert done.stdout.splitlines()[-1] == "1 not clean"


def test_a_barrier_that_not_all_reach_is_caught(changed):
    line = "barrier(CLK_LOCAL_MEM_FENCE); /* the chunk is whole */"
    done = changed("SGEMM_NN_1x1_local", line, f"if (column) {line}", "--orders", "8")
    assert done.returncode == 1
    assert "divergence" in done.stdout


def test_reads_and_writes_out_of_bounds_are_caught(changed, check):
    done = check("--kernels", ROOT / "samples/gemmbench/paper_kernels", "--orders", "20")
    assert done.returncode == 1
    assert done.stdout.count(" x read") == 3
    done = changed("SGEMM_NN_1x1", "float sum = 0;", "float sum = 0; C[n * n + i] = 1;",
                   "--orders", "8")  # fmt: skip
    assert " x write" in done.stdout


def test_a_read_whose_value_is_dropped_is_caught(changed):
    done = changed("SGEMM_NN_1x1", "float sum = 0;", "float sum = 0 * (A[n * n] > 0);",
                   "--orders", "8")  # fmt: skip
    assert done.returncode == 1
    assert "8x8x8      4x4    right   " in done.stdout
    assert " x read" in done.stdout


def test_a_value_that_was_never_written_is_caught(changed):
    done = changed("SGEMM_NN_1x1", "float sum = 0;", "float sum;", "--orders", "8")
    assert done.returncode == 1
    assert " x uninitialised" in done.stdout


def test_a_wrong_result_is_not_clean(changed, tmp_path):
    json = tmp_path / "records.jsonl"
    done = changed("SGEMM_NN_1x1", "alpha * sum", "sum", "--orders", "8", "--json", json)
    assert done.returncode == 1
    (item,) = record.read(json)
    assert (item.status, item.reason) == ("failed", "the result is wrong")
    assert "wrong   clean" in done.stdout


def test_a_kernel_that_does_not_build_is_said(changed):
    done = changed("SGEMM_NN_1x1", "float sum = 0;", "float sum = 0", "--orders", "8")
    assert done.returncode == 1
    assert "no result" in done.stdout
    assert "SGEMM_NN_1x1.cl does not build" in done.stdout
    assert "Traceback" not in done.stderr


def test_without_oclgrind_it_says_what_to_install(check, tmp_path):
    done = check("--orders", "8", env={"PATH": str(tmp_path)})
    assert done.returncode == 77
    assert done.stderr == "run.py: error: Oclgrind is not installed: apt install oclgrind\n"


def test_sizes_that_no_kernel_takes_are_no_success(check):
    done = check("-f", "SGEMM_NN_1x1", "--orders", "8x9x7")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "these kernels take square matrices only" in done.stderr


def test_bad_input(check):
    done = check("-D", "2X=1")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "'2X=1' is not NAME or NAME=VALUE" in done.stderr


def test_the_table_of_short_names_is_aligned(check, tmp_path):
    add_kernel(tmp_path, "k", "")
    header, row = check("--kernels", tmp_path, "--orders", 4).stdout.splitlines()[:2]
    assert header.index("size") == row.index("4x4x4")
    assert header.index("result") == row.index("wrong")
