"""Batches of samples/mygemm: every product of one launch, whatever the kernel."""

import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import device, gemm
from common.bounds import Expected
from common.errors import Unsupported, UsageError
from common.planning import blocking, plans, steps
from common.planning.stream import Stream
from common.program import build
from tests.conftest import ROOT, broken_kernels, exhaustive_but

FLOAT = np.dtype(np.float32)
NVIDIA = "cl_nv_compiler_options"
EMULATED = ROOT / "tests/samples/mygemm/emulated.cl"
SMALL = {"TSM": 16, "TSN": 16, "TSK": 8, "WPTM": 4, "WPTN": 4}
KERNELS = {  # by their number, with parameters that need little time to compile
    1: {"TS": 4}, 2: {"TS": 4}, 3: {"TS": 8, "WPT": 4}, 4: {"TS": 8}, 5: {"TS": 8, "WPT": 4},
    6: SMALL, 7: SMALL, 9: SMALL, 10: SMALL, 11: {"THREADSX": 2, "THREADSY": 2}, 12: {},
    13: {**SMALL, "TSM": 32, "SLICES": 1, "SPLITS": 3},
    16: {"LANES": 4, "SPLITS": 3}, 17: {"LANES": 4, "WIDTH": 1, "NC": 8, "SPLITS": 3},
    21: {"LANES": 4}, 22: {},
}
QUICK = [1, 5, 11, 12, 13, 17, 22]


def kernel_of(sample, number):
    return next(each for each in sample.special.KERNELS if each.number == number)


def problem_of(size, batch, gaps=(0, 0, 0), dtype=FLOAT):
    M, N, K = size
    return gemm.Problem(gemm.Size(M, N, K), np.dtype(dtype), K + gaps[0], N + gaps[1], N + gaps[2],
                        batch)


@pytest.fixture
def checked(sample, queue):
    """Run a kernel with a beta of 0 and with another one; gives the Check of all its products."""

    def run(number, size, batch, gaps=(0, 0, 0), dtype=FLOAT, data="integer", **params):
        problem = problem_of(size, batch, gaps, dtype)
        limits = device.limits(queue.device)
        kernel = kernel_of(sample, number)
        built = plans.build_kernel(queue, limits, kernel, params, problem)
        expected = Expected(problem.size, dtype, data, 1, 2.0, 0.0, True, batch)
        return sample.run.check(built, 2.0, Stream(queue, problem), expected)[0]

    return run


@pytest.mark.parametrize("number", exhaustive_but(QUICK, KERNELS))
def test_every_product_is_right(checked, number):
    """With copies or without, at odd sizes, with gaps behind the rows."""
    for size, gaps in (((9, 10, 21), (3, 1, 2)), ((16, 32, 16), (0, 0, 0))):
        found = checked(number, size, 3, gaps, **KERNELS[number])
        assert found.reason is None, (size, found.reason)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [(32, 32, 20), (24, 64, 7), (33, 32, 9), (32, 40, 300)], ids=str)
def test_12_reads_small_products_in_place_or_packs_them(checked, size, dtype):
    for data in ("integer", "sdk"):
        assert checked(12, size, 5, (5, 0, 1), dtype, data).reason is None


@pytest.mark.parametrize("gaps", [(0, 0, 0), (0, 0, 1)])
def test_12_bypasses_the_caches_where_c_is_large(checked, sample, queue, gaps):
    size, batch = (32, 64, 20), 1100  # C has 9 MB
    about = problem_of(size, batch, gaps), device.limits(queue.device), queue.device
    assert "STREAM" in plans.plan(kernel_of(sample, 12), {}, *about).defines
    assert checked(12, size, batch, gaps).reason is None


@pytest.fixture
def eight_cores(monkeypatch):
    """A CPU with eight equal cores and vectors of 8 floats."""
    monkeypatch.setattr(blocking, "speeds", lambda: (1.0,) * 8)
    return SimpleNamespace(type=cl.device_type.CPU, max_compute_units=8,
                           native_vector_width_float=8, vendor="", name="")


def test_12_has_several_small_products_for_a_work_group(sample, queue, eight_cores):
    limits = device.limits(queue.device)
    for batch, products, groups in ((2, 1, 2), (255, 1, 255), (257, 2, 129), (4097, 16, 257)):
        made = plans.plan(kernel_of(sample, 12), {}, problem_of((32,) * 3, batch), limits,
                          eight_cores)
        launch = steps.Step("gemm", None, made.global_size, made.local_size, ())
        assert (made.products, launch.times(batch, products).global_size[2]) == (products, groups)
    assert made.lines()[1] == "    NDRange 1 x 1 for every 16 products, work-groups of 1 x 1"


IN_PLACE_MUTANTS = {
    "leaves out the last product": ("first + PRODUCTS)", "first + PRODUCTS - 1)"),
    "computes products beyond the last": ("min(BATCH, first + PRODUCTS)", "first + PRODUCTS"),
    "begins at another product": ("get_group_id(2) * PRODUCTS", "get_group_id(2)"),
    "takes the first A": ("PRODUCT(product, A)", "A"),
    "takes the first B": ("PRODUCT(product, B)", "B"),
    "stores in the first C": ("PRODUCT(product, C)", "C"),
    "forgets alpha": ("alpha != 1", "false"),
    "forgets beta": ("update(sums, beta, tile)", "update(sums, 0, tile)"),
    "takes another row of A": ("a + i * SIZE_LDA, SIZE_LDA", "a, SIZE_LDA"),
    "takes another column of B": ("b + j, SIZE_LDB", "b, SIZE_LDB"),
}


@pytest.mark.parametrize("mutant", [None, *exhaustive_but(list(IN_PLACE_MUTANTS)[:2],
                                                          IN_PLACE_MUTANTS)])
def test_12_broken_in_place_fails(checked, sample, queue, monkeypatch, tmp_path, mutant):
    """Of 131 products the last work-group has fewer than the others."""
    size, gaps = (16, 32, 21), (3, 1, 2)
    kernel = kernel_of(sample, 12)
    if mutant:
        folder = broken_kernels(tmp_path, ["12_in_place"], *IN_PLACE_MUTANTS[mutant])
        kernel = replace(kernel, folder=folder)
    monkeypatch.setattr(sample.special, "KERNELS", [kernel])
    monkeypatch.setattr(blocking, "speeds", lambda: (1.0, 1.0))
    about = problem_of(size, 131, gaps), device.limits(queue.device), queue.device
    made = plans.plan(kernel, {"NR": 16}, *about)
    assert ("IN_PLACE" in made.defines, made.products) == (True, 4)
    found = checked(12, size, 131, gaps, NR=16)  # a C beyond the last one is a guard band
    assert (found.reason is None) == (mutant is None)


def test_14_with_its_instructions_emulated(sample, queue):
    params = {"TSM": 16, "TSN": 16, "WARP_M": 16, "WARP_N": 8, "STAGES": 2, "BAND": 2, "SPLITS": 3}
    limits = device.limits(queue.device)
    limits = replace(limits, extensions=limits.extensions | {NVIDIA})
    chip = SimpleNamespace(max_compute_units=1, compute_capability_major_nv=9,
                           compute_capability_minor_nv=0)
    problem, kernel = problem_of((20, 35, 97), 3, (1, 2, 3)), kernel_of(sample, 14)
    made = plans.plan(kernel, params, problem, limits, chip)
    strides, files = steps.of_batch(made)
    others = [kernel.path(name) for name in kernel.before if name != "nvidia"]
    program = build(queue.context, kernel.file, {**made.defines, **strides},
                    before=(*files, EMULATED, *others))
    expected = Expected(problem.size, FLOAT, "sdk", 1, 1.5, 0.0, True, 3)
    built = plans.Built(made, program, 16)
    assert sample.run.check(built, 1.5, Stream(queue, problem), expected)[0].reason is None


@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_a_product_that_takes_another_ones_matrix_is_seen(checked, monkeypatch, name):
    right = steps.of_batch

    def wrong(plan):
        strides, files = right(plan)
        return {**strides, f"STRIDE_{name}": 0}, files

    monkeypatch.setattr(steps, "of_batch", wrong)
    found = checked(1, (4, 5, 6), 3, TS=4)
    assert re.search(r"the first is C\[\d\]\[\d\]\[\d\]:", found.reason)


def test_a_kernel_that_cannot_says_so(sample, queue):
    limits, kernel = device.limits(queue.device), kernel_of(sample, 23)
    with pytest.raises(Unsupported, match=r"^23_mali_image does not support --batch: its images"):
        plans.choose(kernel, {}, problem_of((8, 8, 8), 2), limits, queue.device)


def test_the_program_and_its_record(recorded):
    done, items = recorded("mygemm", "--kernel", "1,23", "--batch", 70, "--size", "16x8x24",
                           "--repeat", 1, "--libraries", "numpy", "--in-flight", 1, "--TS", 4)
    assert "16x8x24, 70 products, single precision" in done.stdout
    status = {item.variant: item.status for item in items}
    assert status == {"01_naive": "passed", "23_mali_image": "unsupported", "numpy": "passed"}
    for item in (each for each in items if each.status == "passed"):
        assert (item.params["batch"], item.params["size"]) == (70, "16x8x24")
        seconds = max(item.timing["run_s"]) or max(item.timing["host_s"])
        flop = 70 * (2 * 16 * 8 * 24 + 3 * 16 * 8)
        assert item.metrics["gflops"] == pytest.approx(flop / 1e9 / seconds)


def test_what_is_refused(sample, queue):
    limits = replace(device.limits(queue.device), max_mem_alloc_size=2**20)
    words = ["--size", "64", "--batch", "65", "--lda", "100"]
    with pytest.raises(UsageError) as caught:
        gemm.problems(sample.run.options().parse_args(words), limits)
    message = "64x64x64, 65 products: matrix A takes 1.59 MiB, but the device allocates at most"
    assert message in str(caught.value)
    assert str(caught.value).endswith("a smaller size or --batch, or smaller leading dimensions")
    with pytest.raises(UsageError, match="--batch"):
        sample.run.options().parse_args(["--batch", "65536"])


def test_copies_and_rooms_count_the_batch(sample, queue):
    limits = device.limits(queue.device)
    for number, params in ((2, {"TS": 16}), (22, {}), (13, {**KERNELS[13], "SPLITS": 2})):
        kernel, strides = kernel_of(sample, number), []
        for batch in (2, 6):
            problem = problem_of((33, 33, 33), batch)
            made = plans.plan(kernel, params, problem, limits, queue.device)
            strides.append(steps.of_batch(made)[0])
            with pytest.raises(UsageError, match="--batch"):
                steps.require_memory(made, replace(limits, global_mem_size=batch * 3 * 33**2 * 4))
        assert strides[0] == strides[1]


def test_a_batch_is_divided_among_the_cores_by_whole_products(sample, queue, eight_cores):
    limits = device.limits(queue.device)
    for batch, groups in ((1, 8), (2, 4), (8, 1), (100, 1), (4096, 1)):
        made = plans.plan(kernel_of(sample, 12), {}, problem_of((512,) * 3, batch), limits,
                          eight_cores)
        assert np.prod(made.global_size) == groups
        launch = steps.Step("gemm", None, made.global_size, made.local_size, ()).times(batch)
        assert launch.global_size == (*made.global_size, *((batch,) if batch > 1 else ()))
        assert made.products == 1  # these are packed
    assert steps.Step("add", None, (512,), (256,), ()).times(3)[2:4] == ((512, 1, 3), (256, 1, 1))
