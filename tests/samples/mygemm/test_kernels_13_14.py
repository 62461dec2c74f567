"""Kernel 13 of samples/mygemm, and what kernels 13 and 14 have in common."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from common import device, gemm
from common.planning import nvidia, plans, tiles
from tests.conftest import ROOT, exhaustive_but
from tests.samples.mygemm.conftest import CAPABLE, ONCE, TILE, each_adder, matrices, wrong

KERNELS = ROOT / "samples/mygemm/kernels"
DOUBLE = np.dtype(np.float64)

TINY = {"TSM": 32, "TSN": 32, "TSK": 8, "WPTM": 4, "WPTN": 8, "SLICES": 2, "EARLY": 1, "BAND": 2}
LATE = {**TINY, "EARLY": 0}
SLIM, TALL = {**TINY, "TSN": 16, "WPTN": 4}, {**LATE, "TSM": 96, "WPTM": 12, "WPTN": 4}
THREES = {**TINY, "TSM": 96, "TSN": 48, "WPTN": 12}  # three vectors of columns for a work-item
DEEP = {**LATE, "TSK": 16, "WPTN": 4}  # a step has 32 k's
SMALL = [{}, SLIM, DEEP, TALL, THREES]
SHAPES = [
    *SMALL,
    {"TSM": 192, "TSN": 64, "TSK": 8, "WPTM": 12, "WPTN": 8, "SLICES": 1},
    {"TSM": 64, "TSN": 64, "TSK": 8, "WPTM": 8, "WPTN": 8, "SLICES": 2},
    {"TSM": 128, "TSN": 128, "TSK": 8, "WPTM": 16, "WPTN": 8, "SLICES": 1},
    {"TSM": 32, "TSN": 64, "TSK": 8, "WPTM": 4, "WPTN": 8, "SLICES": 4, "BAND": 16},
    {"TSM": 64, "TSN": 16, "TSK": 16, "WPTM": 8, "WPTN": 4, "SLICES": 4, "SPLITS": 3},
]


@pytest.mark.parametrize("shape", exhaustive_but(SMALL, SHAPES), ids=str)
def test_13_is_right_whatever_its_shape(multiply, shape):
    for *size, gap in ((196, 140, 36, 4), (70, 131, 17, 3)):
        inputs = matrices(*size)
        assert not wrong(multiply(13, *inputs, gap=gap, **shape), *inputs), size


def test_13_is_right_at_every_size(multiply):
    for *size, gap in ((1, 1, 1, 0), (2, 3, 5, 1), (4, 4, 4, 0), (33, 17, 9, 3), (64, 36, 100, 4),
                       (32, 16, 8, 1), (100, 1, 70, 0), (1, 100, 33, 2), (33, 35, 36, 0),
                       (40, 36, 35, 0)):
        inputs = matrices(*size)
        assert not wrong(multiply(13, *inputs, gap=gap, **TINY), *inputs), size


@pytest.mark.parametrize("early", [0, 1])
@pytest.mark.parametrize("splits", [1, 3])
def test_13_loads_what_exists_at_the_end_of_k(multiply, early, splits):
    """K is less than a step of 32, one step, or a little more; some work-groups get no k's."""
    for *size, gap in ((40, 35, 31, 0), (40, 35, 32, 1), (33, 34, 33, 3), (33, 34, 65, 0)):
        inputs = matrices(*size)
        got = multiply(13, *inputs, gap=gap, units=99, **{**DEEP, "EARLY": early}, SPLITS=splits)
        assert not wrong(got, *inputs), size


@pytest.mark.parametrize(("number", "shape"), [(13, TINY), (13, DEEP), (14, TILE), (14, ONCE)])
@pytest.mark.parametrize("splits", exhaustive_but([3, 20], [2, 3, 5, 20, 40]))
@pytest.mark.parametrize("units", [1, 99])
@each_adder
def test_work_groups_share_tiles(multiply, monkeypatch, most, number, shape, splits, units):
    """All tiles of C, or with few compute units the last ones; some get no k's at all."""
    monkeypatch.setattr(tiles, "MOST_ADDED", most)
    shape = {**shape, "SPLITS": splits}
    for *size, gap in ((70, 35, 97, 1), (33, 40, 300, 0)):
        A, B, C = matrices(*size)
        A[-1] *= 1e-12  # a line with exponents of its own
        first, again = (multiply(number, A, B, C, gap=gap, units=units, **shape) for _ in "12")
        assert not wrong(first, A, B, C), size
        assert (first == again).all()


@pytest.mark.parametrize("number", [13, 14, 15])
def test_the_last_of_few_work_groups_adds_up_the_parts(sample, queue, number):
    """There is a counter for each of 3 tiles. The parts of many are added up by add.cl."""
    limits = device.limits(queue.device)
    limits = replace(limits, extensions=limits.extensions | {nvidia.EXTENSION})
    chip, size = SimpleNamespace(max_compute_units=9, **CAPABLE), gemm.Size(64, 192, 9999)
    problem = gemm.Problem(size, np.dtype(np.float32), size.K, size.N, size.N)
    given = {"TSN": 64, **({"DIRECT": 1} if number > 13 else {"WPTM": 8, "WPTN": 8})}
    given.update({"TSM": 64} if number < 15 else {})
    kernel, found = sample.special.KERNELS[number - 1], []
    for splits in (1, 16, 17):
        plan = plans.plan(kernel, {**given, "SPLITS": splits}, problem, limits, chip)
        found.append((plan.room.get("parts", 0), plan.room.get("counters", 0), plan.shared))
    assert found == [(0, 0, 0), (16 * 3 * 4096 * 4, 3 * 4, 0), (17 * 3 * 4096 * 4, 0, 3)]


def test_inf_and_nan_come_through_shared_tiles(multiply):
    A, B, C = matrices(20, 18, 200)
    A[3, 150], B[20, 7] = np.inf, np.nan
    for number, shape in ((13, TINY), (14, TILE), (14, ONCE)):
        got = multiply(number, A, B, np.full_like(C, np.nan), beta=0, SPLITS=4, units=9, **shape)
        with np.errstate(invalid="ignore"):
            expected = 1.5 * (A.astype(float) @ B)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [TINY, LATE])
def test_13_loads_beyond_a_row_but_not_beyond_b(run_sample, shape):
    """One k is left over: loads from the row before it end behind that row, or K is 1.

    The matrices end where a page does, if their size is a multiple of 128 bytes.
    """
    options = (f"--{name}={value}" for name, value in shape.items())
    sizes = "40x1x65,40x2x33,65x3x17,40x4x33,37x5x65,64x37x1,32x37x1,40x8x36,32x8x65,1x1x1"
    done = run_sample("mygemm", "--kernel", 13, *options, "--size", sizes, "--guards", "pages",
                      "--check-only")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("shape", [TINY, LATE])
@pytest.mark.parametrize("size", [(70, 65, 33), (72, 68, 36)])
def test_13_in_double_precision(multiply, size, shape):
    inputs = matrices(*size, DOUBLE)
    assert not wrong(multiply(13, *inputs, **shape), *inputs)


@pytest.mark.parametrize(("number", "shape"), [(13, TINY), (14, TILE), (14, ONCE)])
def test_c_is_not_read_where_beta_is_0(multiply, number, shape):
    A, B, C = matrices(33, 20, 40)
    got = multiply(number, A, B, np.full_like(C, np.nan), alpha=-2, beta=0, **shape)
    assert not wrong(got, A, B, C, -2, 0)


@pytest.mark.parametrize(("number", "shape"), [(13, TINY), (14, TILE), (14, ONCE)])
@pytest.mark.parametrize("gap", [0, 2])
def test_inf_and_nan_come_through(multiply, number, shape, gap):
    A, B, C = matrices(40, 36, 52)
    A[3, 5], B[2, 7], B[0, 30] = np.inf, np.nan, -np.inf
    A[-1, -1] = B[-1, -1] = np.inf  # beyond them a kernel may read, if it takes it as 0
    got = multiply(number, A, B, C, gap=gap, **shape)
    with np.errstate(invalid="ignore"):
        expected = 1.5 * (A.astype(float) @ B) - 0.5 * C
    finite = np.isfinite(expected)
    assert not finite.all()
    np.testing.assert_array_equal(got[~finite], expected[~finite])
    np.testing.assert_allclose(got[finite], expected[finite], atol=1e-4)


MUTANTS_13 = {
    "stores beyond the row": (" && COLUMN(n) < N - j", ""),
    "stores beyond C": ("ROW(n) * down < M - i && ", ""),
    "aligned: stores beyond the row": ("if (j < N)\n", ""),
    "aligned: stores beyond C": ("if (i < M && stores)\n", "if (stores)\n"),
    "forgets a slice": ("s < SLICES - 1; s++", "s < SLICES - 2; s++"),
    "mixes up lanes": ("lane / 2 % LANES_M", "lane % LANES_M"),
    "forgets to wait for sums": (
        "        barrier(CLK_LOCAL_MEM_FENCE); /* the sums of the other lanes are there */\n", ""),
    "forgets to wait": ("        SYNC_SLICE;\n", ""),
    "uses a tile twice": ("        now = next;\n", ""),
    "mixes up tiles of C": ("within % band", "within % BAND"),
    "leaves out a step": ("int k0 = begin;", "int k0 = begin + STEP;"),
    "leaves out a step at the end": ("k0 < end;", "k0 < last;"),
    "leaves out a part of a step": ("a_next[f] = k < end ?", "a_next[f] = k < end - STEP ?"),
    "aligned: leaves out a part of a step": ("a_next[f] = k < end ?", "a_next[f] = k < end - 4 ?"),
    "mixes up columns": ("(n * LANES_N + lane_n) * 4] = ", "(n * LANES_N + lane_m % 4) * 4] = "),
    "mixes up columns of B": ("(from)[NTH(2)]", "(from)[NTH(1)]"),
    "narrow: stores beyond the row": ("if (left > 1)", "if (left > 0)"),
    "narrow: stores beyond C": ("if (i < M && stores)\n", "if (stores)\n"),
    "narrow: mixes up columns": ("j = j_warp + 4 * lane_n", "j = j_warp + lane_n"),
}


@pytest.mark.parametrize(
    "mutant", exhaustive_but(["mixes up lanes", "forgets to wait"], MUTANTS_13)
)
def test_a_kernel_13_broken_on_purpose_fails(multiply, mutant):
    aligned = "aligned" in mutant  # a part of a step is left out only then
    inputs = matrices(75, 36, 36) if aligned else matrices(75, 33, 37)
    gap = 4 if aligned else 3
    texts = [(KERNELS / f"{name}.cl").read_text() for name in ("rows", "13_warps")]
    assert MUTANTS_13[mutant][0] in "".join(texts)  # else multiply() fails as a mutant may
    try:
        got = multiply(13, *inputs, gap=gap, change=MUTANTS_13[mutant],
                       **(SLIM if "narrow" in mutant else TINY))
    except AssertionError:
        return  # it wrote where it may not
    assert wrong(got, *inputs)


@pytest.mark.parametrize(("right", "mutant"), [
    ("s < SPLITS; s++", "s < SPLITS - 1; s++"), ("OF_PART(part / shared, n)", "OF_PART(0, n)"),
    ("&counters[tile]", "&counters[0]"), ("sums[n] = 0;", ";"),
])
def test_parts_that_are_broken_on_purpose_fail(multiply, right, mutant):
    inputs = matrices(70, 35, 97)
    try:
        got = multiply(13, *inputs, change=(right, mutant), units=99, **TINY, SPLITS=3)
    except AssertionError:
        return  # it left a counter as it may not
    assert wrong(got, *inputs)
