"""samples/mygemm as a user runs it: the kernels, their tables and records."""

import ctypes.util
import json
import re
from functools import partial

import numpy as np
import pytest

from common import bounds, device, gemm, icd, interleaved, isolation
from common.bounds import Expected
from common.errors import UsageError
from common.gemm import Size
from common.planning.stream import Stream
from deploy import samples
from tests.conftest import ROOT, exhaustive_but

LABELS = ["01_naive", "02_tiles", "03_more_work", "04_wide", "05_transposed", "06_registers",
          "07_wide_registers", "08_shuffles", "09_prefetch", "10_any_size",
          "11_registers_only", "12_packed", "13_warps", "14_matrix_units", "15_warpgroups",
          "16_dot_products", "17_row_sums", "21_mali_registers", "22_mali_packed", "23_mali_image",
          "24_mali_images"]
IN_HALF = [*LABELS[:13], *LABELS[15:17], "21_mali_registers", "22_mali_packed", "25_mali_half"]
MAY_LACK = ("08_shuffles", "14_matrix_units", "15_warpgroups")  # what they need is rare
QUICK = ("--check-only",)
# Little to unroll for the kernels 6 to 10: compilers take long for their defaults.
SMALL = ("--TSM", 32, "--TSN", 32, "--TSK", 8, "--WPTM", 4, "--WPTN", 4)


@pytest.fixture
def mygemm(recorded):
    """Run the sample; gives the finished process and its records."""
    return partial(recorded, "mygemm")


def right(records):
    """Tell whether all kernels passed; those that need something special may be unsupported."""
    return all(
        item.status == "passed" or (item.status == "unsupported" and item.variant in MAY_LACK)
        for item in records
    )


# The kernels.


@pytest.mark.exhaustive
def test_every_kernel_at_every_size(mygemm):
    sizes = ["1", "2", "3", "7", "16", "17", "1x1x300", "300x1x1", "1x300x1", "5x3x2", "63x65x31",
             "128", "64x48x100", "130x129x67"]
    done, records = mygemm("--kernel", "all", "--size", ",".join(sizes), *SMALL, *QUICK)
    assert done.returncode in (0, 77), done.stdout + done.stderr
    assert right(records), done.stdout
    want = [s if "x" in s else f"{s}x{s}x{s}" for s in sizes]
    assert list(dict.fromkeys(item.params["size"] for item in records)) == want
    assert [item.variant for item in records if item.params["size"] == "7x7x7"] == LABELS


@pytest.mark.exhaustive
@pytest.mark.parametrize(("alpha", "beta"), [(0, 0), (0, 1.5), (-2.5, 0), (1e-3, 1e3)])
def test_any_alpha_and_beta(mygemm, alpha, beta):
    args = ("--size", "33x9x20", "--alpha", alpha, "--beta", beta)
    done, records = mygemm("--kernel", "all", *args, *SMALL, *QUICK)
    assert right(records), done.stdout


@pytest.mark.exhaustive
def test_leading_dimensions_and_double(mygemm):
    strides = ("--lda", 37, "--ldb", 50, "--ldc", 41)
    args = ("--size", "33x40x36", "--precision", "double", "--beta", 2)
    done, records = mygemm("--kernel", "all", *args, *strides, *SMALL, *QUICK)
    assert right(records), done.stdout
    assert records[0].params["lda"] == 37
    assert records[0].params["precision"] == "double"


def test_shuffles_are_a_plain_statement_where_there_are_none(mygemm):
    done, records = mygemm("--kernel", "1,8,10", "--size", 20, *SMALL, *QUICK)
    assert [item.variant for item in records] == ["01_naive", "08_shuffles", "10_any_size"]
    if records[1].status == "passed":
        return  # this device has them
    assert done.returncode == 77
    assert "has neither cl_khr_subgroup_shuffle nor cl_intel_subgroups" in records[1].reason
    assert f"UNSUPPORTED: {records[1].reason}" in done.stdout
    done, (item,) = mygemm("--kernel", "shuffles", "--size", 20, *SMALL, *QUICK)
    assert done.returncode == 77
    assert done.stderr.startswith("run.py: error: 08_shuffles needs sub-group shuffles")
    assert (item.variant, item.status) == ("08_shuffles", "unsupported")


@pytest.mark.exhaustive
def test_half_is_refused_where_the_device_lacks_it(mygemm):
    done, (item,) = mygemm("--precision", "half", "--limits", "embedded", "--size", 8)
    assert done.returncode in (0, 77)
    if done.returncode == 77:
        assert item.status == "unsupported"
        assert "--precision half needs cl_khr_fp16" in done.stderr
    done, (item,) = mygemm("--precision", "double", "--limits", "embedded")
    assert done.returncode == 77
    assert "cl_khr_fp64" in item.reason


@pytest.mark.exhaustive
@pytest.mark.skipif(icd.intel_library() is None, reason="there is no wheel of Intel's runtime here")
@pytest.mark.parametrize("precision", ["single", "half"])
def test_shuffles_and_half_on_intels_runtime(mygemm, precision):
    args = ("-p", "intel", "--size", "67x45x33", "--data", "integer", "--alpha", 1, "--beta", 2)
    done, records = mygemm("--kernel", "all", "--precision", precision, *args, *SMALL, *QUICK)
    assert right(records), done.stdout + done.stderr
    passed = [item for item in records if item.status == "passed"]
    wanted = IN_HALF if precision == "half" else LABELS
    here = [name for name in wanted if name[:2] not in ("14", "15")]
    assert [item.variant for item in passed] == here
    assert len({item.check["output_sha256"] for item in passed}) == 1


CASES = {case.name: case for case in samples.load()["mygemm"].cases}


@pytest.mark.parametrize("case", exhaustive_but(["golden"], CASES))
def test_the_cases_give_what_expected_json_says(mygemm, case):
    expected = json.loads((ROOT / "samples/mygemm/expected.json").read_text())
    assert set(expected) == set(CASES)
    done, records = mygemm(*CASES[case].args)
    assert done.returncode in (0, 77), done.stdout
    assert right(records)
    kernels = [item.variant for item in records if not item.params.get("library")]
    assert kernels == [name for name in LABELS if name in kernels]
    assert len(kernels) > (4 if case == "speed" else 10)
    for item in (item for item in records if item.status == "passed"):
        assert item.params["seed"] == expected[case]["seed"]
        for key in set(expected[case]) - {"seed"}:
            assert item.check[key] == expected[case][key], item.variant
    assert "output_sha256" in expected["golden"]


def test_every_file_ships():
    shipped = {path.name for path in samples.load()["mygemm"].files}
    folder = ROOT / "samples/mygemm"
    here = [p for part in (folder, folder / "kernels", folder / "tuned") for p in part.glob("*.*")]
    assert {path.name for path in here if path.is_file()} - shipped == {"sample.toml"}


# What a run prints and records.


def test_the_table_and_the_records(mygemm):
    args = ("--size", 64, "--repeat", 3, "--warmup", 1, "--in-flight", 4,
            "--queues", 2)
    done, records = mygemm("--kernel", "1,4,6", *args)
    assert done.returncode == 0, done.stdout + done.stderr
    by_name = {item.variant: item for item in records}
    assert list(by_name)[:4] == ["01_naive", "04_wide", "06_registers", "numpy"]
    lines = done.stdout.splitlines()
    head = next(line for line in lines if line.startswith("median of 3"))
    columns = ["time", "GFLOPS", "10 %", "90 %", "to 01", "to numpy", "of ceiling", "error/bound"]
    assert [name for name in columns if name in head] == columns
    steps = r"06_registers, one launch at a time: transpose A \S+ ms, pad B \S+ ms, gemm"
    assert any(re.match(steps, line) for line in lines)
    assert "numpy" in by_name["numpy"].params["library"]
    for item in records:
        assert item.status == "passed"
        assert len(item.timing["host_s"]) == 3
        assert item.metrics["gflops"] > 0
        assert item.metrics["flop_convention"] == gemm.FLOP_CONVENTION
        assert item.metrics["peak_gflops"] > 1
        assert item.metrics["peak_gbytes_per_s"] > 0.1
        assert {"01_naive", "numpy", "ceiling"} <= set(item.metrics["ratios"])
        assert item.timing["in_flight"] == item.params["in_flight"] == 4
        assert item.params["queues"] == 2  # so the report does not pool it with other launches
        assert item.timing["queues"] == (1 if item.variant == "numpy" else 2)
    assert "Each time is that of 4 launches back to back, divided by 4." in lines
    assert any(re.match("Launches of kernels .* 2 command queues", line) for line in lines)
    assert "Calls of numpy run back to back." in lines
    assert by_name["01_naive"].metrics["ratios"]["01_naive"] == 1
    assert by_name["06_registers"].params["local"] == "16x16"


@pytest.mark.exhaustive
def test_a_ratio_is_the_median_of_the_rounds(mygemm):
    args = (
        "--size",
        96,
        "--repeat",
        5,
        "--libraries",
        "numpy,numpy",
        "--in-flight",
        1,
        "--verbose",
    )
    done, (kernel, library) = mygemm("--kernel", "4", *args)
    for start in ("numpy, each time: ", "04_wide, each time: ", "04_wide, by the host's clock: "):
        each = next(line for line in done.stdout.splitlines() if line.startswith(start))
        assert each.count(" ms") == 5
    pairs = zip(kernel.timing["host_s"], library.timing["host_s"])
    ratios = sorted(theirs / ours for ours, theirs in pairs)
    assert kernel.metrics["ratios"]["numpy"] == pytest.approx(ratios[2])


def test_clblast_takes_part_where_it_is_installed(mygemm):
    done, records = mygemm(
        "--kernel", 4, "--size", "33x40x20", "--libraries", "clblast", "--ldb", 50
    )
    if ctypes.util.find_library("clblast"):
        assert records[1].status == "passed", done.stdout
        assert re.fullmatch(r"CLBlast [\d.]+", records[1].params["library"])
        assert records[0].metrics["ratios"]["clblast"] > 0
    else:
        why = "clblast was not measured: libclblast is not installed (Debian: libclblast1)"
        assert why in done.stdout


@pytest.mark.exhaustive
def test_a_library_of_ones_own_takes_part(mygemm):
    args = ("--size", "33x40x20", "--libraries", "none", "--blas", "libblas.so.3", "--repeat", 2,
            "--in-flight", 1)
    done, records = mygemm("--kernel", 12, *args)
    if done.returncode == 2:
        pytest.skip(f"{done.stderr} (Debian: libblas3)")
    kernel, library = records
    assert library.status == "passed", done.stdout
    assert kernel.metrics["ratios"][library.variant] > 0
    assert f"* {library.params['library']}, the best library here" in done.stdout
    assert f"  to 12  to {library.variant}" in done.stdout


@pytest.mark.exhaustive
def test_no_libraries(mygemm):
    done, records = mygemm("--kernel", 4, "--size", 32, "--libraries", "none", "--in-flight", 1)
    assert done.returncode == 0
    assert [item.variant for item in records] == ["04_wide"]
    assert "numpy" not in done.stdout


@pytest.mark.exhaustive
def test_a_range_of_sizes_ends_in_tables_by_size(mygemm):
    args = ("--size", "16:32:16,20x30x40", "--repeat", 1, "--libraries", "numpy", "--in-flight", 1)
    done, records = mygemm("--kernel", "1,4", *args)
    assert done.returncode == 0, done.stderr
    sizes = ["16x16x16", "32x32x32", "20x30x40"]
    assert [item.params["size"] for item in records if item.variant == "04_wide"] == sizes
    lines = done.stdout.splitlines()
    for title in ("GFLOPS", "to 01_naive", "to the best library", "of the ceiling"):
        at = next(n for n, text in enumerate(lines) if text.split("  ")[0] == title)
        assert lines[at].split()[-3:] == sizes
        assert lines[at + 1].startswith("01_naive")


def test_what_a_kernel_writes_outside_of_c_is_no_fault_of_the_next(mygemm, project):
    path = project / "samples/mygemm/kernels/01_naive.cl"
    text = path.read_text()
    path.write_text(text.replace("__global REAL *c =", "C[-1] = 7;\n    __global REAL *c =", 1))
    done, records = mygemm("--kernel", "1,2", "--size", 32, *QUICK, root=project)
    assert done.returncode == 1, done.stdout
    assert [item.status for item in records[:2]] == ["failed", "passed"]
    assert "the kernel wrote outside of its buffers" in records[0].reason


@pytest.mark.exhaustive
def test_seeded_runs_are_reproducible(mygemm):
    args = ("--kernel", 10, "--size", "31x20x17", "--data", "integer", "--beta", 1, *QUICK)
    first, again, other = (mygemm(*args, "--seed", seed)[1][0].check for seed in (7, 7, 8))
    assert first == again
    assert first["inputs_sha256"] != other["inputs_sha256"]


def test_a_wrong_kernel_fails_and_the_others_go_on(mygemm, project):
    path = project / "samples/mygemm/kernels/04_wide.cl"
    text = path.read_text()
    path.write_text(text.replace("k < TS; k++", "k < TS - 1; k++"))
    args = ("--size", 64, "--libraries", "none", "--repeat", 2, "--in-flight", 1)
    done, records = mygemm("--kernel", "4,1", *args, root=project)
    assert done.returncode == 1
    assert [item.status for item in records[:2]] == ["failed", "passed"]
    assert "of 4096 elements are wrong" in records[0].reason
    assert "04_wide: FAILED: " in done.stdout
    assert records[0].timing == {}, "what is wrong is not timed"
    path.write_text(text.replace("VEC sum = 0;", "VEC sum = 0"))
    done, records = mygemm("--kernel", "4,1", "--size", 8, *QUICK, root=project)
    assert done.returncode == 3
    assert [item.status for item in records] == ["error", "passed"]
    assert "04_wide.cl does not build: line " in records[0].reason


REFUSED = {
    "kernel": (["--kernel", "99"], "'99' is not a kernel: give all, best, or some of 1 naive, 2"),
    "best and more": (["--kernel", "best,1"], "'best' cannot be combined with other kernels"),
    "foreign": (["--kernel", "1", "--WPT", "4"], "--WPT is not a parameter of 01_naive, which has"),
    "best": (["--TS", "4"], "--TS is a parameter of only some kernels: select one with --kernel"),
    "range": (["--size", "5:1:1"], "'5:1:1' is an empty range: 5 is above 1"),
    "range of 2": (["--size", "5:9"], "'5:9' is not a range of sizes: give from:to:step"),
    "size": (["--size", "0"], "'0' is not a size: every order must be from 1 to"),
    "lda": (["--kernel", "1", "--size", "8", "--lda", "7"], "--lda 7: a row of 8x8x8 has 8 elem"),
    "libraries": (["--libraries", "mkl"], "'mkl' is not a library: choose from numpy, clblast"),
    "peers": (["--peers", "mkl"], "'mkl' is not a library: choose from numpy, clblast"),
    "blas": (["--blas", "libm.so.6"], "--blas libm.so.6: it has no cblas_sgemm"),
    "exact": (["--data", "integer", "--alpha", "0.5"], "needs whole --alpha and --beta"),
    "memory": (["--size", "1000000"], "but the device allocates at most"),
    "what": (["bench"], "unrecognized arguments: bench; see --help"),
    "unknown": (["--budget", "3"], "unrecognized arguments: --budget 3; see --help"),
    "in flight": (["--in-flight", "10001"], "'10001' is not a whole number from 1 to 10000"),
    "queues": (["--queues", "0"], "'0' is not a whole number from 1 to 64"),
    "tuned": (["--tuned", "/nowhere"], "--tuned /nowhere: there is no such folder"),
    "strides": (["--kernel", "1", "--size", "9", "--ldc", "999999999"], "or smaller leading dim"),
    "stride": (["--size", "1", "--lda", f"{2**30 + 1}"], "not a whole number from 1 to 1073741824"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_and_why(sample, case, queue):
    """Nothing is built, and no input made, before all of it is looked at."""
    words, message = REFUSED[case]

    def look():
        args = sample.run.options().parse_args(words)
        problems = gemm.problems(args, device.limits(queue.device))
        sample.special.named(args)
        sample.compare.Comparison(args, queue, device.limits(queue.device), {}, problems)

    with pytest.raises(UsageError) as caught:
        look()
    assert message in str(caught.value)


def test_what_users_typed_before_means_the_same(sample):
    parse = sample.run.options().parse_args
    assert parse(["--libraries", "numpy"]).libraries == parse(["--libraries", "numpy"]).libraries
    assert parse(["--libraries", "none"]).libraries == ()
    assert parse([]).libraries == ("numpy", "clblast", "cublas")


def test_kernels_are_described_with_parameters_of_one_of_them(sample):
    """A search names the kernel later."""
    args = sample.run.options().parse_args(["--describe", "--KC", "64"])
    assert sample.special.named(args) == []


def test_exact_data_is_exact_for_every_beta_that_is_checked(sample, queue):
    """Half holds whole numbers up to 2048: 128 products of up to 16 reach it with no C to add."""
    words = ["--data", "integer", "--precision", "half", "--size", "2x2x128"]
    assert gemm.exact(Size(2, 2, 128), 1, 0, np.dtype(np.float16))
    with pytest.raises(UsageError, match="sums of at most 2048"):
        gemm.problems(sample.run.options().parse_args(words), device.limits(queue.device))


def test_the_readme_and_the_sources_name_every_kernel(sample):
    readme = (ROOT / "samples/mygemm/README.md").read_text()
    assert {*LABELS, *IN_HALF, "26_mali_int8"} == {each.label for each in sample.special.KERNELS}
    for kernel in sample.special.KERNELS:
        files = [kernel.file, *map(kernel.path, kernel.before)]
        text = "".join(path.read_text() for path in files)
        for name in kernel.space.defaults:
            assert re.search(rf"#define {name} \d", text)  # --help has its comment
        assert kernel.file.name in readme


# What the checks and the pauses are for.


def test_a_library_that_spins_on_is_followed_by_a_pause(sample, queue, monkeypatch):
    rests = []
    monkeypatch.setattr(interleaved, "settle", lambda: rests.append(1))
    args = sample.run.options().parse_args(["--size", "4x5x6", "--libraries", "numpy"])
    args.progress = isolation.Progress()
    limits = device.limits(queue.device)
    (problem,) = problems = gemm.problems(args, limits)
    expected = Expected(*problem[:2], "sdk", 1, 1.0, 0.0)
    comparison = sample.compare.Comparison(args, queue, limits, {}, problems)
    results, stream = [], Stream(queue, problem)
    assert comparison.beside(results, stream, expected) == {}
    (library,) = results
    assert (library.status, len(rests)) == ("passed", 1)
    interleaved.rounds([library.contender], repeat=1, warmup=0, in_flight=1)
    assert len(rests) == 2


def test_what_is_written_outside_of_c_is_wrong():
    C = np.ones((2, 3), np.float32)
    assert bounds.check(C, C, 0 * C).reason is None
    outside = "the kernel wrote outside of its buffers"
    assert bounds.check(C, C, 0 * C, intact=False).reason == outside
    assert "C[0][0]" in bounds.check(C, C + 9, 0 * C, intact=False).reason


def test_what_is_wrong_is_said_before_anything_is_measured(run_sample):
    done = run_sample("mygemm", "--kernel", "2", "--TS", "99", "--size", "8192")
    assert done.returncode == 2
    assert "9801 work-items" in done.stderr
    assert done.stdout.endswith("8192x8192x8192, single precision\n")
