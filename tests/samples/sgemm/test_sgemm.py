"""samples/sgemm: right for every size, reproducible, and its check fails for wrong kernels."""

import json
from functools import partial

import numpy as np
import pytest

from common import bounds, gemm
from common.matrices import Matrix
from common.program import build
from deploy import samples
from tests.conftest import ROOT, exhaustive_but, sample_module

KERNELS = ("dot4", "row4", "tile4x4")
DOCUMENTED = """\
A
0.852691 0.004421 -0.103067 -0.191788
-0.23658 0.0336409 0.15781 0.582199
-0.0814268 -0.857794 -0.63804 -0.0184786
0.793476 0.459307 0.955647 -0.306809

B
0.0529994 0.507535 -0.55821 -0.849519
-0.929501 0.914186 0.464341 -0.652125
0.409218 -0.125776 -0.273086 0.731335
-0.371732 0.43648 -0.8001 0.233541

C
-0.380438 -0.188046 0.665832 -0.503661
-0.262456 -0.278552 -0.5179 -0.965873
0.459781 0.720241 -0.22676 -0.719225
-0.277435 -0.126954 -0.0564545 -0.142268
"""
RESULT = """\
C = alpha * A * B + beta * C
0.0321557 0.347259 -0.225749 -0.897793
-0.221897 0.117096 -0.413021 0.333833
0.584754 -0.681301 -0.186507 0.0857027
0.0925018 0.5558 -0.250792 -0.360579
"""


@pytest.fixture
def sgemm(recorded):
    """Run the sample; gives the finished process and its records."""
    return partial(recorded, "sgemm")


def test_the_sdks_documented_example(sgemm):
    done, _ = sgemm("--seed", 11, "--size", 4, "--print")
    assert done.returncode == 0
    assert DOCUMENTED in done.stdout
    assert RESULT in done.stdout
    text = samples.load()["sgemm"].texts["documented"]
    assert text == "\n".join([DOCUMENTED, *[RESULT] * len(KERNELS)])


def test_what_it_prints(sgemm):
    done, records = sgemm("--size", 64)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Device: ")
    at = lines.index("Profiling information:")
    # What takes long is announced before it begins.
    assert lines[at - 5 : at] == [
        "Making the float64 result on the host", "",
        "sgemm_dot4, 64x64x64, NDRange 64 x 64, work-groups of 16 x 4", "Checking one launch",
        "Launches: 1 warm-up, 5 timed",
    ]
    assert [line.split(":")[0] for line in lines[at + 1 : at + 4]] == [
        "Queued time", "Wait time", "Run time",
    ]
    assert lines[at + 4].startswith("GFLOPS:")
    assert "(median of 5, spread " in lines[at + 4]
    assert lines[at + 5].startswith("PASSED: largest error ")
    assert lines[at + 5].endswith("of its bound")
    assert [r.variant for r in records] == ["dot4"]


def test_the_record_tells_what_was_run(sgemm):
    _, (item,) = sgemm("--size", "64x32x16", "--repeat", 3, "--warmup", 2, "--kernel", "row4")
    assert (item.sample, item.variant, item.status) == ("sgemm", "row4", "passed")
    assert item.params == {
        "size": "64x32x16", "alpha": 1, "beta": 0.1, "data": "sdk", "seed": 1, "caches": "warm",
    }
    assert {len(item.timing[key]) for key in ("queued_s", "wait_s", "run_s", "host_s")} == {3}
    assert item.timing["warmup"] == 2
    assert item.metrics["gflops"] > 0
    assert item.device["limits"]["max_work_group_size"] > 0
    assert item.environment["numpy"]
    assert item.argv[0].endswith("run.py")


SIZES = ["1", "2", "3", "4", "5", "7", "16", "17", "1x1x300", "300x1x1", "1x300x1", "5x3x2",
         "63x65x31", "4x4x1", "8x6x5", "6x8x5", "64x48x100"]


@pytest.mark.parametrize("size", exhaustive_but(["1", "5x3x2", "63x65x31"], SIZES))
def test_any_size_with_every_kernel(sgemm, size):
    done, records = sgemm("--size", size, "--kernel", "all", "--repeat", 1, "--warmup", 0)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(r.variant, r.status) for r in records] == [(name, "passed") for name in KERNELS]


@pytest.mark.parametrize(("alpha", "beta"), [
    (0, 0), (0, 1.5), (-2.5, 0), (1e-3, 1e3), ("-.25e1", "-1e3"),
])
def test_any_alpha_and_beta(sgemm, alpha, beta):
    done, _ = sgemm("--size", "33x9x20", "--kernel", "all", "--alpha", alpha, "--beta", beta)
    assert done.returncode == 0, done.stdout


def test_seeded_runs_are_reproducible(sgemm):
    args = ("--size", "31x20x17", "--data", "integer", "--alpha", "2", "--beta", "-1")
    first, again, other = (sgemm(*args, "--seed", seed)[1][0].check for seed in (7, 7, 8))
    assert first == again
    assert first["inputs_sha256"] != other["inputs_sha256"]
    assert first["output_sha256"] != other["output_sha256"]


CASES = {case.name: case for case in samples.load()["sgemm"].cases}


@pytest.mark.parametrize("case", exhaustive_but(["golden"], CASES))
def test_the_cases_give_what_expected_json_says(sgemm, case):
    expected = json.loads((ROOT / "samples/sgemm/expected.json").read_text())
    assert set(expected) == set(CASES)
    assert "output_sha256" in expected["golden"]
    done, records = sgemm(*CASES[case].args)
    assert done.returncode == 0, done.stdout
    assert len(records) == len(KERNELS)
    for item in records:
        assert item.params["seed"] == expected[case]["seed"]
        for key in set(expected[case]) - {"seed"}:
            assert item.check[key] == expected[case][key], item.variant


def test_the_limits_of_a_small_mali_are_kept(sgemm):
    done, records = sgemm("--limits", "mali-t628", "--size", 40)
    assert done.returncode == 0
    assert "limits of mali-t628" in done.stdout
    assert records[0].device["limits"]["max_work_group_size"] == 256


MUTANTS = {
    "dot4 forgets beta": ("dot4", "store(sum, alpha, beta,", "store(sum, alpha, 0.0f,"),
    "dot4 forgets alpha": ("dot4", "store(sum, alpha,", "store(sum, 1.0f,"),
    "dot4 drops a lane": ("dot4", "sum4.x + sum4.y + sum4.z + sum4.w", "sum4.x + sum4.y + sum4.z"),
    "dot4 drops the tail": ("dot4", "for (; k < K; k++)", "for (; k < 0; k++)"),
    "dot4 reads past the row": ("dot4", "for (; k + 4 <= K; k += 4)", "for (; k < K; k += 4)"),
    "dot4 leaves out half of C": ("dot4", "if (i >= M || j >= N)", "if (i >= M / 2 || j >= N)"),
    "row4 drops the edge": ("row4", "edge(1, N - j, N, K, alpha, A, B, beta, C);", ""),
    "row4 reads past the row": ("row4", "if (N - j < 4)", "if (N - j < 0)"),
    "tile4x4 mixes up rows": ("tile4x4", "sum2 += A2[k] * b;", "sum2 += A1[k] * b;"),
    "tile4x4 writes past C": ("tile4x4", "if (M - i < 4 || N - j < 4)", "if (N - j < 4)"),
    "tile4x4 drops the edge": ("tile4x4", "edge(min(4, M - i), min(4, N - j), ", "edge(0, 0, "),
    "row4 mixes up aligned rows": ("row4", "sum += a.y *", "sum += a.x *", "16x20x12"),
    "tile4x4 mixes up aligned rows": ("tile4x4", "sum2 += a2.y", "sum2 += a1.y", "16x20x12"),
}


ONE_EACH = {name: mutant for mutant, (name, *_) in MUTANTS.items()}.values()


@pytest.mark.parametrize("mutant", exhaustive_but(ONE_EACH, MUTANTS))
def test_a_kernel_broken_on_purpose_fails(sgemm, project, mutant):
    name, right, wrong, *size = MUTANTS[mutant]
    path = project / "samples" / "sgemm" / "sgemm.cl"
    text = path.read_text()
    if size:  # of aligned rows, which Intel's compiler is given otherwise
        text = text.replace("#ifdef cl_intel_vec_len_hint", "#if 0")
    before, start, body = text.partition(f"void sgemm_{name}(")
    assert right in body
    path.write_text(before + start + body.replace(right, wrong, 1))
    done, records = sgemm(
        "--size", *(size or ["18x21x19"]), "--alpha", 1.5, "--kernel", name, root=project
    )
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert records[0].status == "failed"
    assert records[0].reason


def test_a_work_group_that_is_too_large_is_made_to_fit(run_here, monkeypatch):
    run = sample_module("sgemm", "run")
    monkeypatch.setattr(run, "LOCAL", (512, 512))
    args = ("--limits", "mali-t628", "--size", 40, "--check-only")
    status, said, errors = run_here(run.main, *args, options=run.options())
    assert status == 0, errors
    assert "work-groups of 16 x 16" in said


def test_c_must_not_be_read_where_beta_is_0(sgemm, project):
    path = project / "samples" / "sgemm" / "sgemm.cl"
    text = path.read_text()
    assert text.count("beta == 0.0f ? alpha * sum : ") == 2
    path.write_text(text.replace("beta == 0.0f ? alpha * sum : ", ""))
    for beta, status in ((0.5, "passed"), (0, "failed")):
        _, records = sgemm("--size", "18x21x19", "--kernel", "all", "--beta", beta, root=project)
        assert [item.status for item in records] == [status] * len(KERNELS)


def test_an_over_read_shows_as_nan(sgemm, project):
    path = project / "samples" / "sgemm" / "sgemm.cl"
    text = path.read_text()
    path.write_text(text.replace("for (; k + 4 <= K; k += 4)", "for (; k < K; k += 4)"))
    done, records = sgemm("--size", "1x1x5", root=project)
    assert done.returncode == 1
    assert "nan instead of" in records[0].reason


def test_a_write_outside_of_c_is_named_and_no_fault_of_the_next_kernel(sgemm, project):
    path = project / "samples" / "sgemm" / "sgemm.cl"
    last = "    store(sum, alpha, beta, &C[(size_t)i * N + j]);"
    assert last in path.read_text()
    path.write_text(path.read_text().replace(last, f"    C[M * N] = 1.0f;\n{last}"))
    done, records = sgemm("--size", 8, "--kernel", "all", root=project)
    assert done.returncode == 1
    assert "FAILED: the kernel wrote outside of its buffers; largest error" in done.stdout
    assert [item.status for item in records] == ["failed", "passed", "passed"]


@pytest.mark.parametrize("size", [(1, 1, 1), (17, 19, 18), (20, 68, 12)], ids=str)
@pytest.mark.parametrize(("name", "rows"), [("row4", 1), ("tile4x4", 4)])
def test_work_groups_whose_size_is_stated(queue, size, name, rows):
    """As on GPUs, for which the sample states it; and on those with few registers."""
    size, local = gemm.Size(*size), (16, 4)
    defines = {"GROUP_X": local[0], "GROUP_Y": local[1], "FEW_REGISTERS": 1}
    kernel = getattr(
        build(queue.context, ROOT / "samples/sgemm/sgemm.cl", defines), f"sgemm_{name}"
    )
    inputs = gemm.sdk_inputs(size, 1)
    matrices = [Matrix(queue, *each.shape, each.dtype) for each in inputs]
    for matrix, values in zip(matrices, inputs):
        matrix.write(values)
    (M, N, K), (a, b, c) = map(np.int32, size), (matrix.device for matrix in matrices)
    items = zip((-(-N // 4), -(-M // rows)), local)
    total = tuple(int(-(-n // side) * side) for n, side in items)
    kernel(queue, total, local, M, N, K, np.float32(1.5), a, b, np.float32(-0.5), c)
    wanted = bounds.worst_case(1.5, *inputs[:2], -0.5, inputs[2])
    assert bounds.check(matrices[2].read(), *wanted, matrices[2].intact()).reason is None


def test_the_sample_stays_a_tutorial():
    lines = (ROOT / "samples/sgemm/run.py").read_text().splitlines()
    assert len(lines) <= 139
