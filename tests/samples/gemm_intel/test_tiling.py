"""The rules of samples/gemm_intel: what is refused, with the values that would do, and --auto."""

from functools import partial

import pyopencl as cl
import pytest

from common import record
from tests.conftest import sample_module

FOLDER = "samples/gemm_intel"


@pytest.fixture
def sample(recorded):
    """Run the sample; gives the finished process and its records."""
    return partial(recorded, "gemm_intel")


REFUSED = {
    "size 0": (["-s", "0"], "'0' is not a whole number from 1 to"),
    "size 3x3x3": (["-s", "3x3x3"], "'3x3x3' is not a whole number from 1 to"),
    "iterations -1": (["-i", "-1"], "'-1' is not a whole number from 1 to"),
    "iterations text": (["-i", "x"], "'x' is not a whole number from 1 to"),
    "arithmetic half": (["-a", "half"], "invalid choice: 'half'"),
    "kernel tn": (["--kernel", "tn"], "invalid choice: 'tn'"),
    "type fpga": (["-t", "fpga"], "invalid choice: 'fpga'"),
    "tile 0": (["--tile-size-M", "0"], "'0' is not a whole number from 1 up"),
    "work-item limit": (
        ["--tile-group-M", "512", "--limits", "mali-t628"],
        "--tile-group-M 512: 512 work-items in dimension 0, but the device takes at most 256; "
        "try --tile-group-M 256",
    ),
    "work-item limit N": (
        ["--tile-group-N", "300", "--limits", "mali-t628"],
        "--tile-group-N 300: 300 work-items in dimension 1, but the device takes at most 256; "
        "try --tile-group-N 16",
    ),
    "work-group limit": (
        ["--tile-group-M", "32", "--tile-group-N", "16", "--limits", "mali-t628"],
        "--tile-group-M 32 --tile-group-N 16: 512 work-items, but a work-group has at most 256; "
        "try --tile-group-N 8",
    ),
    "tile too large": (
        ["--tile-size-M", "1000000", "--tile-size-N", "1"],
        "size_m * size_n * size_k = 8000000 must be at most 16384; try --tile-size-M 2048",
    ),
    "strict, tile M": (
        ["--strict", "-s", "100", "--tile-size-M", "3", "--tile-group-M", "1"],
        "--tile-size-M 3: size_m = 3 must divide order = 100; try --tile-size-M 2 "
        "--tile-size-N 100 --tile-size-K 5",
    ),
    "strict, group M": (
        ["--strict", "-s", "100"],
        "--tile-group-M 16: group_m = 16 must divide order = 100; try --tile-group-M 10 ",
    ),
    "strict, tile x group M": (
        ["--strict", "-s", "100", "--tile-size-M", "10", "--tile-group-M", "20"],
        "--tile-size-M 10 --tile-group-M 20: size_m * group_m = 200 must divide order = 100",
    ),
    "strict, tile N": (
        ["--strict", "-s", "64"],
        "--tile-size-N 128: size_n = 128 must divide order = 64; try --tile-size-N 64",
    ),
    "strict, group N": (
        ["--strict", "-s", "64", "--tile-size-N", "1", "--tile-group-N", "3"],
        "--tile-group-N 3: group_n = 3 must divide order = 64",
    ),
    "strict, tile x group N": (
        ["--strict", "-s", "64", "--tile-size-N", "16", "--tile-group-N", "8"],
        "--tile-size-N 16 --tile-group-N 8: size_n * group_n = 128 must divide order = 64",
    ),
    "strict, K": (
        ["--strict", "-s", "128", "--tile-size-K", "12"],
        "--tile-size-K 12: size_k = 12 must divide order = 128; try --tile-size-K 8",
    ),
    "allocation": (["-s", "1000000000"], "000: matrix A takes "),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_and_why(run_here, case):
    args, message = REFUSED[case]
    run = sample_module("gemm_intel", "run")
    code, _, said = run_here(run.main, *args, options=run.options())
    assert code == 2
    assert len(said.splitlines()) == 1
    assert said.startswith("run.py: error: ")
    assert message in said


def test_the_values_that_would_do_do(run_sample):
    args = ["-i", 1, "--strict", "-s", 100]
    said = run_sample("gemm_intel", *args).stderr
    assert run_sample("gemm_intel", *args, *said.split("; try ")[1].split()).returncode == 0


def test_a_limit_of_the_kernel(run_here, monkeypatch, tmp_path):
    run, path = sample_module("gemm_intel", "run"), tmp_path / "r.jsonl"
    monkeypatch.setattr(cl.Kernel, "get_work_group_info", lambda *_: 8)
    status, _, said = run_here(run.main, "-s", 64, options=run.options())
    assert status == 2
    assert "but a work-group has at most 8; try --tile-group-M 8" in said
    args = ("-s", 64, "--auto", "-i", 1, "--json", path)
    status, _, said = run_here(run.main, *args, options=run.options())
    assert status == 0, said
    assert record.read(path)[0].params["group_m"] == 8


def test_auto_picks_legal_tiles_and_says_which(sample):
    args = ("-s", 100, "--limits", "mali-t628", "--tile-group-M", 512, "--tile-group-N", 4)
    done, (item,) = sample(*args, "--auto", "-i", 1)
    assert done.returncode == 0, done.stderr
    assert (item.params["group_m"], item.params["group_n"]) == (256, 1)
    assert "Using --tile-size-M 1 --tile-group-M 256 --tile-size-N 128 " in done.stdout
    done, (item,) = sample("-s", 97, "--auto", "--strict", "-i", 1)
    assert done.returncode == 0, done.stderr
    assert "Padded" not in done.stdout


def test_double_needs_the_extension(sample):
    done, (item,) = sample("-a", "double", "--limits", "embedded")
    assert done.returncode == 77
    assert item.status == "unsupported"
    assert "cl_khr_fp64" in done.stderr
