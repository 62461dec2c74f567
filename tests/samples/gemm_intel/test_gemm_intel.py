"""samples/gemm_intel: the original's options and output, its defects not, wrong kernels fail."""

import json
import re
import time
from functools import partial

import numpy as np
import pyopencl as cl
import pytest

from common import device, gemm, measuring, rng
from deploy import samples
from tests.conftest import ROOT, exhaustive_but, sample_module

FOLDER = "samples/gemm_intel"
DEFAULTS = (
    "-DT=float -DTILE_SIZE_M=1 -DTILE_GROUP_M=16 -DTILE_SIZE_N=128 -DTILE_GROUP_N=1 -DTILE_SIZE_K=8"
)


@pytest.fixture
def sample(recorded):
    """Run the sample; gives the finished process and its records."""
    return partial(recorded, "gemm_intel")


# What it prints.


def stopped(*_):
    raise KeyboardInterrupt


@pytest.mark.exhaustive
def test_the_documented_run_up_to_its_first_launch(run_here, monkeypatch):
    run = sample_module("gemm_intel", "run")
    monkeypatch.setattr(run.cl, "enqueue_nd_range_kernel", stopped)
    start = time.monotonic()
    status, said, _ = run_here(run.main, options=run.options())
    seconds = time.monotonic() - start
    assert status == 130
    lines = said.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("Build"))
    assert lines[at:] == [
        f'Build program options: "{DEFAULTS}"',
        "Running gemm_nn kernel with matrix size: 3968x3968",
        "Memory row stride to ensure necessary alignment: 15872 bytes",
        "Size of memory region for one matrix: 62980096 bytes",
        "Using alpha = 0.57599 and beta = 0.872412",
        "Running one launch",
    ]
    assert seconds < 30, "47 million draws should take about a second"


def test_the_options_are_the_documented_ones(sample):
    help_text = sample("-h")[0].stdout
    for option in ("-s", "--size N", "-i", "--iterations N", "-a", "--arithmetic {float,double}",
                   "-p", "--platform P", "-t", "--type {", "-d", "--device D", "--kernel {nn,nt}",
                   "--tile-size-M", "--tile-group-M", "--tile-size-N",
                   "--tile-group-N", "--tile-size-K", "rows of C per work-item", "-h, --help"):
        assert option in help_text
    assert sample("--help")[0].stdout == help_text


def test_a_line_pair_for_each_iteration_then_the_median(sample):
    done, (item,) = sample("--size", 64, "--iterations", 3, "--warmup", 2)
    lines = done.stdout.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("Using alpha"))
    patterns = [
        r"Running one launch",
        r"Making the float64 result on the host",
        r"Launches: 2 warm-up, 3 timed",
        r"Host time: \S+ sec\.", r"Host perf: \S+ GFLOPS",
        r"Host time: \S+ sec\.", r"Host perf: \S+ GFLOPS",
        r"Host time: \S+ sec\.", r"Host perf: \S+ GFLOPS",
        r"Profiling information:", r"Queued time:.*", r"Wait time:.*", r"Run time:.*",
        r"GFLOPS: +\S+ \(median of 3, spread .*\)",
        r"Validate output\.\.\. PASSED: largest error .* of its bound",
    ]
    assert len(lines) == at + 1 + len(patterns)
    for line, pattern in zip(lines[at + 1 :], patterns):
        assert re.fullmatch(pattern, line)
    assert len(item.timing["host_s"]) == 3
    assert item.timing["warmup"] == 2
    assert item.metrics["flop_convention"] == gemm.FLOP_CONVENTION


def test_a_first_launch_that_is_compiled_does_not_make_the_others_long(run_here, monkeypatch):
    """PoCL compiles a kernel again for its work-groups, once it is launched."""
    run, enqueue = sample_module("gemm_intel", "run"), cl.enqueue_nd_range_kernel
    calls = []

    def slow_at_first(*args):
        time.sleep(0 if calls else 2 * measuring._LONG)
        calls.append(args)
        return enqueue(*args)

    monkeypatch.setattr(measuring, "_LONG", 0.3)
    monkeypatch.setattr(run.cl, "enqueue_nd_range_kernel", slow_at_first)
    status, said, errors = run_here(run.main, "-s", 16, "-i", 1, options=run.options())
    assert status == 0, errors
    assert "Launches: 1 warm-up, 1 timed\n" in said
    monkeypatch.setattr(measuring, "_LONG", 0)
    _, said, _ = run_here(run.main, "-s", 16, "-i", 1, options=run.options())
    assert "Launches: 1 warm-up, 1 timed: about 0 s\n" in said


def test_the_memory_of_the_matrices_is_said(sample):
    said = " bytes\nSize of memory region for {} matrix: 131072 bytes\n{}"
    args = ("--check-only", "-a", "double", "--tile-size-N")
    done, _ = sample("-s", 128, *args, 8)
    assert said.format("one", "Using") in done.stdout
    done, _ = sample("-s", 120, *args, 16)
    assert said.format("the largest", "Padded") in done.stdout


def test_ten_iterations_by_default_and_repeat_is_the_same(sample):
    assert sample("-s", 16)[0].stdout.count("Host time") == 10
    assert sample("-s", 16, "--repeat", 2)[0].stdout.count("Host time") == 2


def test_nt_and_double_are_said(sample):
    done, (item,) = sample("-s", 32, "--kernel", "nt", "--arithmetic", "double", "-i", 1)
    assert "-DT=double" in done.stdout
    assert "TILE_SIZE_K" not in done.stdout  # gemm_nn only
    assert "Running gemm_nt kernel" in done.stdout
    assert item.variant == "gemm_nt"
    assert item.params["arithmetic"] == "double"


def test_alpha_and_beta_follow_the_draws_of_a_and_b(sample):
    draws = rng.rand(9, 2 * 40**2 + 2)[-2:].astype(np.float32) / np.float32(2**31)
    done, _ = sample("-s", 40, "--check-only", "--seed", 9)
    assert f"Using alpha = {draws[0]:g} and beta = {draws[1]:g}\n" in done.stdout


# Right for every order, tile, kernel and type.


TILES = [
    (1, 1, 1, 1, 1), (4, 8, 2, 4, 3), (16, 1, 8, 1, 4), (2, 16, 1, 16, 8), (3, 5, 7, 2, 11),
]


@pytest.mark.parametrize("kernel", ["nn", "nt"])
@pytest.mark.parametrize("arithmetic", ["float", "double"])
@pytest.mark.parametrize("order", exhaustive_but([17], [1, 2, 17, 100, 257]))
def test_any_order(sample, kernel, arithmetic, order):
    done, _ = sample("-s", order, "--kernel", kernel, "-a", arithmetic, "-i", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Validate output... PASSED" in done.stdout


@pytest.mark.parametrize("kernel", ["nn", "nt"])
@pytest.mark.parametrize("tiles", exhaustive_but(TILES[-1:], TILES), ids=str)
def test_any_tile(sample, kernel, tiles):
    names = ("size-M", "group-M", "size-N", "group-N", "size-K")
    options = [text for name, n in zip(names, tiles) for text in (f"--tile-{name}", n)]
    done, (item,) = sample("-s", 90, "--kernel", kernel, *options, "-i", 1)
    assert done.returncode == 0, done.stdout + done.stderr
    assert item.params["size_m"] == tiles[0]


@pytest.mark.exhaustive
def test_padding_is_said_and_strict_refuses_it(sample, refused):
    done, _ = sample("-s", 100, "-i", 1)
    assert "Padded to M = 112, N = 128, K = 104" in done.stdout
    done, _ = sample("-s", 128, "-i", 1, "--strict")
    assert done.returncode == 0
    assert "Padded" not in done.stdout
    assert "must divide order = 100" in refused("gemm_intel", "-s", 100, "-i", 1, "--strict")


@pytest.mark.exhaustive
def test_seeded_runs_are_reproducible(sample):
    args = ("-s", 50, "--data", "integer", "-i", 1)
    first, again, other = (sample(*args, "--seed", seed)[1][0].check for seed in (7, 7, 8))
    assert first == again
    assert first["inputs_sha256"] != other["inputs_sha256"]
    assert first["output_sha256"] != other["output_sha256"]


CASES = {case.name: case for case in samples.load()["gemm_intel"].cases}


@pytest.mark.parametrize("case", exhaustive_but(["golden", "golden-nt"], CASES))
def test_the_cases_give_what_expected_json_says(sample, case):
    expected = json.loads((ROOT / FOLDER / "expected.json").read_text())
    assert set(expected) == set(CASES)
    assert "output_sha256" in expected["golden"]
    done, (item,) = sample(*CASES[case].args)
    assert done.returncode == 0, done.stdout
    assert item.params["seed"] == expected[case]["seed"]
    for key in set(expected[case]) - {"seed"}:
        assert item.check[key] == expected[case][key]


def test_every_file_ships():
    shipped = {path.name for path in samples.load()["gemm_intel"].files}
    here = {path.name for path in (ROOT / FOLDER).iterdir() if path.is_file()}
    assert shipped == here - {"sample.toml"}


# Kernels broken on purpose must fail.

MUTANTS = {
    "nn forgets beta": ("nn", "alpha * sums[j][i] + beta * *c", "alpha * sums[j][i]"),
    "nn forgets alpha": ("nn", "alpha * sums[j][i] +", "sums[j][i] +"),
    "nn leaves out a step of k": ("nn", "int k = 0; k < K", "int k = TILE_SIZE_K; k < K"),
    "nn leaves out a product": ("nn", "int l = 0; l < TILE_SIZE_K", "int l = 1; l < TILE_SIZE_K"),
    "nn leaves out half of C": ("nn", "    A += row;", "    if (row > 8) return;\n    A += row;"),
    "nn packs the tile": ("nn", "i * TILE_GROUP_M]", "i]"),
    "nn reads beyond A": ("nn", "k < K; k += TILE_SIZE_K", "k < K + 1; k += TILE_SIZE_K"),
    "nt forgets beta": ("nt", "alpha * sums[j][i] + beta * *c", "alpha * sums[j][i]"),
    "nt leaves out a step of k": ("nt", "int k = 0; k < K", "int k = 1; k < K"),
    "nt packs the tile": ("nt", "i * TILE_GROUP_M]", "i]"),
    "nt drops the last column": ("nt", "int j = 0; j < TILE_SIZE_N", "int j = 1; j < TILE_SIZE_N"),
}


def mutate(project, right, wrong):
    path = project / FOLDER / "gemm.cl"
    text = path.read_text()
    before, mark, body = text.partition("__kernel")
    assert right in body
    at = body.rindex(right) if "int j" in right else body.index(right)
    path.write_text(before + mark + body[:at] + wrong + body[at + len(right) :])


# Order 40 is padded to M = 40, N = 42 and K = 40, in 42 lines of at least 42 elements.
SMALL = ("-s", 40, "--tile-size-M", 2, "--tile-group-M", 4, "--tile-size-N", 3, "--tile-size-K", 4,
         "-i", 2)


@pytest.mark.parametrize(
    "mutant",
    exhaustive_but(["nn forgets alpha", "nn reads beyond A", "nt packs the tile"], MUTANTS),
)
def test_a_kernel_broken_on_purpose_fails(sample, project, mutant):
    kernel, right, wrong = MUTANTS[mutant]
    mutate(project, right, wrong)
    done, (item,) = sample(*SMALL, "--kernel", kernel, root=project)
    assert done.returncode == 1, done.stdout
    assert "Validate output... FAILED" in done.stdout
    assert re.search(r"the first is C\[\d+\]\[\d+\]: \S+ instead of \S+;", done.stdout)
    assert item.status == "failed"
    assert item.reason


@pytest.mark.parametrize("kernel", ["nn", "nt"])
def test_an_over_read_shows_as_nan(sample, project, kernel):
    mutate(project, "k < K;", "k < K + 1;")
    done, (item,) = sample(*SMALL, "--kernel", kernel, root=project)
    assert done.returncode == 1
    assert "nan instead of" in item.reason


@pytest.mark.parametrize("kernel", ["nn", "nt"])
@pytest.mark.parametrize("place", exhaustive_but(["C[-1]"], ["C[40]", "C[-1]", "C[42 * ldc]"]))
def test_an_over_write_is_named(sample, project, kernel, place):
    # Beyond the rows of a column, before the first element, and behind the last column.
    write = f"    if (row + column == 0) {place} = 1;\n    T sums"
    mutate(project, "    T sums", write)
    done, (item,) = sample(*SMALL, "--kernel", kernel, root=project)
    assert done.returncode == 1, done.stdout
    assert item.reason == "the kernel wrote outside of its buffers"
    assert "Host time" not in done.stdout  # it is checked before anything is timed


# What the original gets wrong, and this does not.


def test_c_is_not_zero_and_beta_is_tested(sample, project):
    mutate(project, "beta * *c", "0 * *c")
    assert sample("-s", 16, "-i", 1, root=project)[0].returncode == 1


@pytest.mark.exhaustive
def test_every_iteration_starts_from_the_same_c(sample):
    args = ("-s", 40, "--data", "integer")
    digests = {sample(*args, "-i", n)[1][0].check["output_sha256"] for n in (1, 2, 5)}
    assert len(digests) == 1


def test_an_iteration_that_starts_from_another_c_is_seen(run_here, monkeypatch):
    run = sample_module("gemm_intel", "run")

    class WrittenOnce(run.Matrix):
        written = False

        def write(self, values):
            if not self.written:
                super().write(values)
            self.written = True

    monkeypatch.setattr(run, "Matrix", WrittenOnce)
    args = ("-s", 40, "-i", 2)
    status, said, _ = run_here(run.main, *args, options=run.options())
    assert status == 1
    assert "FAILED: a launch after the timed ones gave another result than the first" in said


@pytest.mark.parametrize("kernel", ["nn", "nt"])
def test_offsets_beyond_32_bits(kernel):
    """One column of C starts 2^31 elements behind the one before: char keeps that at 2 GiB."""
    far = 2**31
    wanted = [
        d
        for p in device.platforms()
        for d in p.get_devices()
        if d.max_mem_alloc_size > far + 4096 and d.type & cl.device_type.CPU
    ]
    if not wanted:
        pytest.skip("no device here allocates more than 2 GiB at once")
    queue = device.open_queue(wanted[0])
    source = (ROOT / FOLDER / "gemm.cl").read_text()
    options = ["-DT=char", "-DTILE_SIZE_M=1", "-DTILE_GROUP_M=1", "-DTILE_SIZE_N=2",
               "-DTILE_GROUP_N=1"]
    options += ["-DNT"] if kernel == "nt" else ["-DTILE_SIZE_K=1"]
    kernel = cl.Kernel(cl.Program(queue.context, source).build(options), "gemm")
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    a = cl.Buffer(queue.context, flags, hostbuf=np.array([3], np.int8))
    b = cl.Buffer(queue.context, flags, hostbuf=np.array([5, 7], np.int8))
    c = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, far + 1)
    result = np.zeros(1, np.int8)
    for at in (0, far):
        cl.enqueue_copy(queue, c, result, dst_offset=at)
    one, char = np.uint64(1), np.int8
    kernel.set_args(np.int32(1), char(2), a, one, b, one, char(1), c, np.uint64(far))
    cl.enqueue_nd_range_kernel(queue, kernel, (1, 1), (1, 1)).wait()
    cl.enqueue_copy(queue, result, c, src_offset=far)
    assert result[0] == 2 * 3 * 7


def test_the_first_iteration_is_warm_and_all_are_summarised(sample):
    done, (item,) = sample("-s", 128, "-i", 3)
    assert item.timing["warmup"] == 1
    assert "Launches: 1 warm-up, 3 timed" in done.stdout


@pytest.mark.exhaustive
def test_validation_does_not_take_minutes(sample):
    start = time.monotonic()
    tiles = ("--tile-size-M", 16, "--tile-group-M", 1, "--tile-size-N", 16, "--tile-size-K", 4)
    done, _ = sample("-s", 1500, "-i", 1, *tiles)
    assert done.returncode == 0
    assert time.monotonic() - start < 60
