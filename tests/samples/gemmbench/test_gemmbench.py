"""samples/gemmbench, a single point: right at every order, and every question is answered."""

import json
import re
from functools import partial

import numpy as np
import pytest

from common import rng
from common.outputs import digest
from common.sizes import Size
from deploy import samples
from tests.conftest import ROOT, exhaustive_but, sample_module

FOLDER = ROOT / "samples" / "gemmbench"
KERNELS = sorted(path.stem for path in (FOLDER / "kernels").glob("*.json"))
QUICK = ("--repeat", 1, "--warmup", 0)


@pytest.fixture
def point(recorded):
    """Run a point; gives the finished process and its records."""
    return partial(recorded, "gemmbench")


@pytest.fixture
def foreign(tmp_path, point):
    """Write a kernel for the original launcher into a folder, and run it from there."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()

    def run(source, *args, name="gemm", **keys):
        (folder / f"{name}.cl").write_text(source)
        given = {"name": name, "file": f"{name}.cl", "type": "S", "transA": "N", "transB": "N",
                 "dj": 1, "di": 1, **keys}
        (folder / f"{name}.json").write_text(json.dumps(given))
        return point("--kernels", folder, "-f", f"{name}.json", *args)

    return run


def mismatch(done, items):
    """Assert that a run found a wrong result, and return the reason."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert items[0].status == "failed"
    return items[0].reason


# The kernels.


def test_every_flavour_and_variant_is_there():
    wide = {"S": "4", "D": "2"}
    for precision, w in wide.items():
        variants = ("1x1", f"{w}x1", f"{w}x1_barrier", f"{w}x1_unroll2", f"{w}x2", f"{w}x2_barrier")
        for layout in ("NN", "NT"):
            for variant in (*variants, f"{w}x2_mnk"):
                assert f"{precision}GEMM_{layout}_{variant}" in KERNELS
    for name in ("HGEMM_NN_1x1", "HGEMM_NT_4x1", "CGEMM_NN_1x1", "ZGEMM_NT_1x1"):
        assert name in KERNELS
    for name in KERNELS:
        assert json.loads((FOLDER / "kernels" / f"{name}.json").read_text())["name"] == name


def test_kernels_of_one_idea_share_a_source():
    files = {}
    for name in KERNELS:
        keys = json.loads((FOLDER / "kernels" / f"{name}.json").read_text())
        files.setdefault(keys["file"], []).append(name)
    assert sorted(files) == sorted(path.name for path in (FOLDER / "kernels").glob("*.cl"))
    assert files["1x1.cl"] == [f"{t}GEMM_N{b}_1x1" for t in "CDHSZ" for b in "NT"]
    vectors = [name for name in KERNELS if "_1x1" not in name]
    assert files["vectors.cl"] == vectors


@pytest.mark.parametrize("order", exhaustive_but([6], [1, 3, 6]))
def test_every_kernel_at_small_orders(point, order):
    done, items = point("-f", "all", "-n", order, "-lws", "1,1", *QUICK)
    assert done.returncode == 0, done.stdout
    assert [(item.variant, item.status) for item in items] == [(k, "passed") for k in KERNELS]


def test_no_kernel_reads_c_where_beta_is_0(run_here, monkeypatch):
    run, point = sample_module("gemmbench", "run"), sample_module("gemmbench", "point")

    def with_beta_0(*args, draw=point.draw):
        drawn = draw(*args)
        return drawn._replace(beta=0 * drawn.beta)

    class WithNaN(point.Operands):
        def __init__(self, *args):
            super().__init__(*args)
            *inputs, C = self._values
            self._values = *inputs, np.full_like(C, np.nan)

    monkeypatch.setattr(point, "draw", with_beta_0)
    monkeypatch.setattr(point, "Operands", WithNaN)
    args = ("-f", "all", "-n", 6, "--check-only")
    status, said, _ = run_here(run.main, *args, options=run.options())
    assert said.count("\nMATCH: ") == len(KERNELS), said
    assert status == 0


def test_a_product_of_complex_numbers_is_6_operations_and_a_sum_is_2():
    point, size = sample_module("gemmbench", "point"), Size(2, 3, 5)
    products, sums = 2 * 3 * 5 + 2 * 2 * 3, 2 * 3 * 5 + 2 * 3
    assert point.flop(size, np.dtype(np.float32))[0] == products + sums
    assert point.flop(size, np.dtype(np.complex64))[0] == 6 * products + 2 * sums


@pytest.mark.exhaustive
def test_every_kernel_beyond_a_chunk_with_a_tail(point):
    done, items = point("-f", "all", "-n", 131, *QUICK)
    assert done.returncode == 0, done.stdout
    assert len(items) == len(KERNELS)


@pytest.mark.parametrize("group", exhaustive_but(["4,8"], ["4,8", "1,16"]))
def test_barriers_with_real_work_groups(point, group):
    done, items = point("-f", "SGEMM_*_barrier,*_local", "-n", 192, "-lws", group, *QUICK)
    assert done.returncode == 0, done.stdout
    assert len(items) == 5


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", ["1x9x5", "5x3x1", "33x18x7"])
def test_rectangular_matrices(point, size):
    done, items = point("-f", "*_mnk", "-n", size, "-lws", "1,1", *QUICK)
    assert done.returncode == 0, done.stdout
    assert len(items) == 4


@pytest.mark.exhaustive
def test_golden_cases_give_what_expected_json_says(point):
    """The others are held against it by every run of `fab`."""
    expected = json.loads((FOLDER / "expected.json").read_text())
    known = samples.load()["gemmbench"]
    assert set(expected) == {case.name for case in known.cases}
    for case in known.cases:
        if not case.golden:
            continue
        done, items = point(*case.args)
        assert done.returncode == 0, done.stdout
        for item in items:
            assert item.params["seed"] == expected[case.name]["seed"]
            for key in set(expected[case.name]) - {"seed"}:
                assert item.check[key] == expected[case.name][key], case.name


def test_every_file_ships():
    shipped = {path.relative_to(FOLDER).as_posix() for path in samples.load()["gemmbench"].files}
    here = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file()}
    kept = {
        name
        for name in here
        if "__pycache__" in name or name.startswith(("expected/", "experiments/"))
    }
    assert shipped == here - kept - {"sample.toml"}


# What it prints and records.


def test_without_options_it_runs_a_point_as_the_original_does(point):
    done, (item,) = point()
    assert done.returncode == 0
    assert done.stderr == ""
    assert item.variant == "SGEMM_NN_1x1"
    assert item.params["size"] == "256x256x256"
    assert "alpha -0.321605, beta -0.100323, in [-0.5, 0.5], seed 12345" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("MATCH: largest error ")
    for question in ("computes", "size", "inputs", "machine", "clocks", "times", "GFLOPS",
                     "transfers", "energy", "tolerance", "outside"):
        assert re.search(rf"^  {question} +\S", done.stdout, re.M), question
    assert "  outside       no out-of-bounds access found, with --guards bands\n" in done.stdout
    assert ", 4 runs\n" in done.stdout
    assert "  transfers     not counted above, timed once: " in done.stdout


def test_the_record_answers_every_question(point):
    _, (item,) = point("-f", "SGEMM_NT_4x1", "-n", 60, "-lws", "5,4", "--repeat", 3)
    p = item.params
    assert (p["precision"], p["layout"], p["shape"]) == ("float32", "NT, row-major", "n")
    assert (p["size"], p["global"], p["local"], p["tile"]) == ("60x60x60", [15, 60], "5x4", "1x4")
    assert p["tolerance"].startswith("8 * sqrt((K + 3) * V) * eps(float32)")
    assert p["transfers"] == "not counted"
    assert min(item.timing[key] for key in ("upload_s", "download_s", "build_s")) > 0
    assert len(item.timing["run_s"]) == 3
    assert "energy" not in item.metrics  # it was not asked for
    assert {"before", "during", "after", "throttled", "governors"} <= set(item.environment)
    assert re.fullmatch(r"[0-9a-f]{64}", p["kernel_sha256"])


def test_the_inputs_are_drawn_as_the_original_draws_them(point):
    draws = rng.rand(12345, 2 + 3 * 9) / rng.RAND_MAX - 0.5
    alpha, beta = draws[:2].astype(np.float32)
    A, B, C = draws[2:].astype(np.float32).reshape(-1, 3).T.reshape(3, 3, 3)
    _, (item,) = point("-n", 3, *QUICK)
    assert item.check["inputs_sha256"] == digest(A, B, C)
    assert (item.params["alpha"], item.params["beta"]) == (f"{alpha:.6g}", f"{beta:.6g}")


@pytest.mark.exhaustive
def test_seeded_runs_are_reproducible(point):
    args = ("-n", 30, "--data", "integer", *QUICK)
    assert "  tolerance     none: every sum is a whole number" in point(*args)[0].stdout
    first, again, other = (point(*args, "--seed", seed)[1][0].check for seed in (7, 7, 8))
    assert first == again
    assert first["inputs_sha256"] != other["inputs_sha256"]


def test_what_the_device_lacks_is_recorded_and_the_rest_runs(point):
    few = ("-n", 8, "--limits", "embedded", *QUICK)
    done, items = point("-f", "SGEMM_NN_1x1,DGEMM_NN_1x1", *few)
    assert done.returncode == 77
    assert [item.status for item in items] == ["passed", "unsupported"]
    done, _ = point("-f", "DGEMM_NN_1x1", *few)
    assert done.returncode == 77
    assert "needs cl_khr_fp64" in done.stderr


# What is refused.


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("-n", 100, "-f", "SGEMM_NN_4x1", "-lws", "8,1"), "8 does not divide the 25 work-items"),
        (("-n", 100, "-f", "SGEMM_NN_4x1", "-lws", "8,1"), "; 5 does"),
        (("-n", 64, "-lws", "1,3"), "3 does not divide the 64 work-items of dimension 1"),
        (("-n", 512, "-lws", "512,512"), "-lws 512,512: too large for SGEMM_NN_1x1 on"),
        (("-n", 512, "-lws", "512,1", "--limits", "mali-t628"), "on this device; 256,1 fits"),
        (("-lws", "8"), "'8' is not a local size: give columns,rows"),
        (("-lws", "8,0"), "'8,0' is not a local size"),
        (("-n", "8x9x8"), "SGEMM_NN_1x1 takes square matrices only, not 8x9x8"),
        (("-f", "SGEMM_XX"), "no kernel 'SGEMM_XX' in "),
        (("-f", "/no/such.json"), "cannot read /no/such.json: No such file"),
        (("--kernels", "/no/such"), "--kernels /no/such is not a folder"),
        (("-eps", "0"), "'0' is not a number above 0"),
        (("-eps", "x"), "'x' is not a number"),
        (("-f", "HGEMM_NN_1x1", "-n", 300, "--data", "integer"), "at most 2048: at K = 300"),
        (("replaay",), "unrecognized arguments: replaay; see --help"),
        (("-n", "5", "paper"), "unrecognized arguments: paper; see --help"),
        (("-n", 200000,), "choose a smaller size"),
    ],
)
def test_bad_input(run_here, args, message):
    run = sample_module("gemmbench", "run")
    code, _, said = run_here(run.main, *args, options=run.options())
    assert message in said
    assert said.startswith("run.py: error: ")
    assert said.count("\n") == 1
    assert code == 2


# Kernels written elsewhere.

PLAIN = """
kernel void gemm(global const float *A, global const float *B, global float *C, float alpha,
                 float beta, uint n)
{
    size_t j = get_global_id(0), i = get_global_id(1);
    float sum = 0;
    for (uint k = 0; k < n; k++) sum += A[i * n + k] * B[k * n + j];
    C[i * n + j] = alpha * sum + beta * C[i * n + j];
}
"""
VECTORS = """
kernel void gemm(global const float4 *restrict A, global const float4 *restrict B,
                 global float *restrict C, const float alpha, const float beta, const uint n)
{
    uint j = STEP * get_global_id(0), i = get_global_id(1), m = n / 4;
    for (uint c = j; c < j + STEP; c++) {
        float4 s = 0;
        for (uint k = 0; k < m; k++) s += A[i * m + k] * B[c * m + k];
        C[i * n + c] = alpha * (s.x + s.y + s.z + s.w) + beta * C[i * n + c];
    }
}
"""


def test_a_kernel_of_the_original_launcher(foreign):
    done, (item,) = foreign(PLAIN, "-n", 37)
    assert done.returncode == 0, done.stdout + done.stderr
    assert item.variant == "gemm"


def test_vector_pointers_options_and_small_letters(foreign):
    keys = {"type": "s", "transA": "n", "transB": "t", "dj": 4, "opts": "-DSTEP=4"}
    done, (item,) = foreign(VECTORS, "-n", 64, "-lws", "4,2", **keys)
    assert done.returncode == 0, done.stdout + done.stderr
    assert item.params["options"] == "-DSTEP=4"
    assert item.params["layout"] == "NT, row-major"


def test_a_kernel_without_a_tail_leaves_columns_out_and_that_is_seen(foreign):
    source = (
        VECTORS.replace("float4", "float")
        .replace("n / 4", "n")
        .replace("s.x + s.y + s.z + s.w", "s")
    )
    reason = mismatch(*foreign(source, "-n", 38, *QUICK, transB="T", dj=4, opts="-DSTEP=4"))
    assert re.search(r"elements are wrong, the first is C\[0\]\[36\]", reason)


def test_transposed_a(foreign):
    source = PLAIN.replace("A[i * n + k]", "A[k * n + i]")
    assert foreign(source, "-n", 20, *QUICK, transA="T")[0].returncode == 0
    assert foreign(PLAIN, "-n", 20, *QUICK, transA="T")[0].returncode == 1


@pytest.mark.parametrize(
    ("source", "status", "message"),
    [
        (PLAIN.replace("float sum = 0;", "float sum = 0"), 3, "gemm.cl does not build: line 6"),
        (PLAIN.replace("void gemm", "void mm"), 3, "gemm.cl has no kernel named gemm"),
        (PLAIN.replace(", uint n)", ", uint n, uint m)"), 3, "gemm has 7 arguments, but"),
        (PLAIN.replace("kernel", "kernel __attribute__((reqd_work_group_size(4, 4, 1)))"), 2,
         "gemm is compiled for work-groups of 4x4 only"),
    ],
)
def test_kernels_that_cannot_be_run(foreign, source, status, message):
    done, _ = foreign(source, "-n", 16, "-lws", "2,2", *QUICK)
    assert (done.returncode, done.stderr.count("\n")) == (status, 1)
    assert message in done.stderr


def test_a_kernel_that_asks_for_its_work_group_gets_it(foreign):
    source = PLAIN.replace("kernel", "kernel __attribute__((reqd_work_group_size(4, 4, 1)))")
    done, (item,) = foreign(source, "-n", 16, *QUICK)
    assert done.returncode == 0, done.stderr
    assert item.params["local"] == "4x4"


def test_guard_pages_on_request(point):
    done, (item,) = point("-n", 17, "--guards", "pages", *QUICK)
    assert "  outside       no out-of-bounds access found, with --guards pages\n" in done.stdout
    assert item.params["guards"] == "pages"
