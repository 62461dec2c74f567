"""samples/gemmbench finds kernels that are wrong, and those that touch what is not theirs."""

import json
import re
import shutil
from functools import partial

import numpy as np
import pytest
from bad_kernels import CRASH, add_kernel

from deploy import samples
from tests.conftest import ROOT, exhaustive_but, sample_module

FOLDER = ROOT / "samples" / "gemmbench"
QUICK = ("--repeat", 1, "--warmup", 0)


@pytest.fixture
def point(recorded):
    """Run a point; gives the finished process and its records."""
    return partial(recorded, "gemmbench")


# A kernel that fails does not end the others.


def test_the_kernels_beside_one_that_fails_are_run(point, tmp_path):
    folder = tmp_path / "kernels"
    add_kernel(folder, "SGEMM_a", "    syntax error\n")
    add_kernel(folder, "SGEMM_b", "")
    for name in ("SGEMM_NN_1x1", "SGEMM_NN_4x2"):
        shutil.copy(FOLDER / f"kernels/{name}.json", folder)
    for name in ("1x1.cl", "vectors.cl"):
        shutil.copy(FOLDER / "kernels" / name, folder)
    args = ("--kernels", folder, "-n", 6, "-lws", "2,2", *QUICK)
    done, items = point("-f", "SGEMM_*", *args)
    assert [(item.variant, item.status) for item in items] == [
        ("SGEMM_NN_1x1", "passed"), ("SGEMM_NN_4x2", "error"), ("SGEMM_a", "error"),
        ("SGEMM_b", "failed"),
    ]
    assert "2 does not divide the 1 work-items" in items[1].reason
    assert "SGEMM_a.cl does not build: line 4" in items[2].reason
    assert f"\nSGEMM_a: error: {items[2].reason}\n" in done.stdout
    assert all(item.params["kernel"] == item.variant for item in items)
    assert "Traceback" not in done.stderr
    assert done.returncode == 1
    assert point("-f", "SGEMM_a,SGEMM_NN_*", *args)[0].returncode == 3
    assert point("-f", "SGEMM_NN_*", *args)[0].returncode == 2


def test_a_kernel_that_crashes_is_an_error_in_one_line(point, tmp_path):
    add_kernel(tmp_path, "SGEMM_crash", CRASH)
    done, (item,) = point("--kernels", tmp_path, "-f", "all", "-n", 8)
    assert done.returncode == 3
    reason = "killed by SIGSEGV while running"
    # Before it, some drivers write a line of their own.
    assert done.stderr.endswith(f"run.py: error: SGEMM_crash: {reason}\n")
    assert (item.status, item.reason) == ("error", reason)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"opts": "-DX -bogus"}, "INVALID_BUILD_OPTIONS"),
        ({"type": "D"}, "INVALID_ARG_SIZE"),
    ],
)
def test_what_the_driver_refuses_of_the_metadata_is_named(point, tmp_path, changes, message):
    add_kernel(tmp_path, "SGEMM_k", "")
    path = tmp_path / "SGEMM_k.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    done, (item,) = point("--kernels", tmp_path, "-f", "all", "-n", 8, *QUICK)
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert message in done.stderr
    assert message in item.reason


# Wrong kernels fail.

MUTANTS = {
    "beta": ("SGEMM_NN_1x1", "times(beta, LOAD(i * n + j, C))", "0"),
    "alpha": ("SGEMM_NN_1x1", "times(alpha, sum)", "sum"),
    "a product": ("DGEMM_NT_1x1", "size_t k = 0", "size_t k = 1"),
    "the tail of k": ("SGEMM_NT_4x1", "for (; k < end; k++)", "for (; k < 0; k++)"),
    "the columns at the right": ("SGEMM_NN_4x1", "col < j_end; col++", "col < 0; col++"),
    "the rows at the bottom": ("DGEMM_NT_2x2", "== get_global_size(1) ? M :", "== 0 ? M :"),
    "the last chunk": ("SGEMM_NN_4x2_barrier", "start < K;", "start + 128 < K;"),
    "a lane": ("SGEMM_NT_4x1_unroll2", "v[0].x + v[0].y + v[0].z + v[0].w", "v[0].x + v[0].y"),
    "the second vector": ("DGEMM_NN_2x1_unroll2", "r * lda + k + v)", "r * lda + k)"),
    "lda": ("SGEMM_NN_4x2_mnk", "A + i * lda,", "A + i * K,"),
    "ldc": ("SGEMM_NT_4x2_mnk", "C + (i + r) * ldc + j;", "C + (i + r) * N + j;"),
    "the imaginary part": ("CGEMM_NN_1x1", "a.x * b.y + a.y * b.x", "a.x * b.y"),
    "the sign of i * i": ("ZGEMM_NT_1x1", "a.x * b.x - a.y * b.y", "a.x * b.x + a.y * b.y"),
    "half of the sum of halves": ("HGEMM_NT_4x1", "c < WIDTH; c++", "c < WIDTH; c += 2"),
}


@pytest.fixture
def broken(tmp_path, point):
    """Run kernels that are changed in one place each; gives the process and records by mutant."""

    def run(mutants, *args):
        folder, names = tmp_path / "broken", {}
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for number, (mutant, (kernel, right, wrong)) in enumerate(mutants.items()):
            name = f"{number}_{kernel}"
            names[name] = mutant
            keys = json.loads((FOLDER / "kernels" / f"{kernel}.json").read_text())
            body = (FOLDER / "kernels" / keys["file"]).read_text()
            assert right in body, mutant
            (folder / f"{name}.cl").write_text(body.replace(right, wrong))
            (folder / f"{name}.json").write_text(
                json.dumps({**keys, "name": name, "file": f"{name}.cl"})
            )
        done, items = point("--kernels", folder, "-f", "all", *args)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done, {names[item.variant]: item for item in items}

    return run


@pytest.mark.parametrize("size", exhaustive_but(["35x37x150"], ["151", "35x37x150"]))
def test_kernels_broken_on_purpose_fail(broken, size):
    mnk = "x" in size
    mutants = {name: m for name, m in MUTANTS.items() if m[0].endswith("mnk") == mnk}
    done, items = broken(mutants, "-n", size, *QUICK)
    assert set(items) == set(mutants)
    assert {name: item.status for name, item in items.items()} == dict.fromkeys(mutants, "failed")
    verdicts = re.findall(r"^MISMATCH: .* the first is C\[\d+\]\[\d+\]: ", done.stdout, re.M)
    assert len(verdicts) == len(mutants)


OF_LOCAL = {
    "the rows of a group": ("SGEMM_NN_1x1_local", "room + get_local_id(1) * length", "room"),
    "the second chunk": ("SGEMM_NN_1x1_local", "A[i * n + start + k]", "A[i * n + k]"),
    "the end of the second chunk": ("SGEMM_NN_1x1_local", "n - start", "n + start"),
}


def test_the_case_of_local_memory_fails_what_larger_work_groups_show(broken):
    (case,) = (case for case in samples.load()["gemmbench"].cases if case.name == "local")
    at = case.args.index("-f")
    _, items = broken(OF_LOCAL, *case.args[:at], *case.args[at + 2 :])
    assert {name: item.status for name, item in items.items()} == dict.fromkeys(OF_LOCAL, "failed")
    _, items = broken(OF_LOCAL, "-n", 100, "-lws", "2,1", *QUICK)  # that small, none does
    assert {item.status for item in items.values()} == {"passed"}


def test_the_old_tolerance_sees_less_and_is_recorded(broken):
    """It is why nobody saw that the reference of the original forgets beta * C."""
    mutants = {name: MUTANTS[name] for name in ("beta", "the last chunk", "the sign of i * i")}
    done, items = broken(mutants, "-n", 151, "-eps", 0.1, *QUICK)
    assert "at most 0.1 for every element" in done.stdout
    assert [items[name].status for name in mutants] == ["passed", "failed", "failed"]
    assert items["beta"].params["tolerance"] == "at most 0.1 for every element"


# What lies outside.

DISCARD = {
    # NaN is dropped by fmax, so the first look does not see it.
    "drops NaN": ("sum += fmax(A[n * n + 1], 0.0f);", "depends on what lies outside of A"),
    "reads before B": ("sum += fmax(B[-1], 0.0f);", "depends on what lies outside of B"),
    "uses it": ("sum += 1e-30f * A[n * n];", "depends on what lies outside of A"),
    "writes behind C": ("if (i + j == 0) C[n * n] = 1;", "wrote outside of C"),
    "writes into B": (
        "if (i + j == 0) ((__global float *)B)[n * n - 1] += 1;",
        "wrote outside of C",
    ),
    "writes before C": ("if (i + j == 0) C[-1] = 1;", "wrote outside of C"),
}


def test_what_a_kernel_does_outside_is_reported(broken):
    end = "    sum = times(alpha"
    mutants = {
        what: ("SGEMM_NN_1x1", end, f"    {line}\n{end}") for what, (line, _) in DISCARD.items()
    }
    done, items = broken(mutants, "-n", 24, "--repeat", 1)
    assert done.returncode == 1
    assert done.stdout.count("OUTSIDE: ") >= len(DISCARD)
    for what, (_, message) in DISCARD.items():
        assert message in items[what].reason, what
    right = {what for what in DISCARD if "elements are wrong" not in items[what].reason}
    assert right == DISCARD.keys() - {"uses it", "writes into B"}


def test_a_read_that_is_dropped_is_seen_with_guard_pages(point, tmp_path):
    """What it reads beyond A goes nowhere; volatile keeps the compiler from dropping the read."""
    add_kernel(
        tmp_path, "SGEMM_leaks", "    float gone = *(volatile global const float *)(A + n * n);\n"
    )
    for name in ("SGEMM_NN_1x1.json", "1x1.cl"):
        shutil.copy(FOLDER / "kernels" / name, tmp_path)
    args = ("--kernels", tmp_path, "-f", "all", "-n", 32, "-eps", 1e3)
    done, items = point(*args)
    assert [item.status for item in items] == ["passed", "passed"]
    assert done.returncode == 0
    done, items = point(*args, "--guards", "pages")
    assert {item.variant: item.status for item in items} == {
        "SGEMM_NN_1x1": "passed", "SGEMM_leaks": "failed",
    }
    assert done.stderr.endswith(
        "run.py: error: SGEMM_leaks: touched a guard page, or memory beyond it: "
        "killed by SIGSEGV while running\n"
    )
    assert done.returncode == 1


def test_aligned_vectors_stay_inside(point, tmp_path):
    """17 * 17 floats are no whole number of float4: the matrix cannot end where the page does."""
    picks = " : ".join(f"k % 4 == {n} ? v.s{n}" for n in range(3)) + " : v.s3"
    body = f"""
    const uint i = get_global_id(1), j = get_global_id(0);
    float sum = 0;
    for (uint e = 0; e < n; ++e) {{
        const uint k = e * n + j;
        const volatile __global float4 *V = (const volatile __global float4 *)B;
        const float4 v = k / 4 < n * n / 4 ? V[k / 4] : (float4)(B[k]);
        sum += A[i * n + e] * ({picks});
    }}
    C[i * n + j] = alpha * sum + beta * C[i * n + j];
    return;
"""
    add_kernel(tmp_path, "SGEMM_aligned", body)
    done, (item,) = point("--kernels", tmp_path, "-f", "all", "-n", 17, "--guards", "pages")
    assert item.status == "passed", done.stdout + done.stderr


def test_what_two_runs_tell_of_an_out_of_bounds_read():
    point = sample_module("gemmbench", "point")
    right = np.zeros(4, np.float32)

    def verdict(run):
        return point.read_outside(run, right, right.dtype)

    def reads(names, drops=lambda value: False):
        def run(around):
            values = [around.get(name, np.nan) for name in names]
            return right + sum(value for value in values if not drops(value))

        first = run({})
        return point.read_outside(run, first, right.dtype)

    assert verdict(lambda around: right) is None
    assert reads("B") == "the result depends on what lies outside of B"
    assert reads("ABC") == "the result depends on what lies outside of A and B and C"
    # fmax(value, 0) and fmin(value, 0), which drop NaN.
    for drops in (lambda value: not value > 0, lambda value: not value < 0):
        assert reads("A", drops) == "the result depends on what lies outside of A"
    racing = iter(np.arange(99, dtype=np.float32))
    assert verdict(lambda around: right + next(racing)) == (
        "two runs give different results: work-items race"
    )


def test_a_read_past_the_row_is_seen_where_rows_have_ends(broken):
    mutants = {"past the row": ("SGEMM_NN_4x2_mnk", "k + UNROLL * WIDTH <= end;", "k < end;")}
    reason = broken(mutants, "-n", "4x4x6", *QUICK)[1]["past the row"].reason
    assert "nan instead of" in reason
    assert "depends on what lies outside of A and B" in reason
