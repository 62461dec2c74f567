"""Kernels 13 and 14 of samples/mygemm, for GPUs: 13 as it is, 14 with its instructions emulated."""

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import device, gemm
from common.planning import nvidia, plans, tiles
from common.planning.stream import Stream
from common.program import build
from tests.conftest import ROOT, exhaustive_but, sample_module
from tests.samples.mygemm import split_model as split

KERNELS = ROOT / "samples/mygemm/kernels"
EMULATED = ROOT / "tests/samples/mygemm/emulated.cl"
FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

TILE = {"TSM": 16, "TSN": 16, "WARP_M": 16, "WARP_N": 8, "STAGES": 2, "BAND": 2, "DIRECT": 0}
ONCE = {**TILE, "DIRECT": 1}
WIDE = {**ONCE, "TSN": 64, "WARP_N": 32}  # a lane loads 4 columns of B at once, here, and 2 here:
WIDE_2 = {**WIDE, "TSN": 32, "WARP_N": 16}

each_adder = pytest.mark.parametrize(  # what adds up the parts of a tile
    "most", [tiles.MOST_ADDED, 0], ids=["the last work-group", "add.cl"])

CAPABLE = {"compute_capability_major_nv": 9, "compute_capability_minor_nv": 0}


@pytest.fixture(scope="module")
def sample():
    """The sample's modules."""
    load = partial(sample_module, "mygemm")
    return SimpleNamespace(special=load("special"), run=load("run"))


@pytest.fixture
def multiply(sample, queue, tmp_path):
    """Run kernel 13 or 14; gives C. `change` is a part of the kernel and what takes its place."""

    def run(number, A, B, C, alpha=1.5, beta=-0.5, gap=3, change=None, units=1, **params):
        kernel = sample.special.KERNELS[number - 1]
        before = [kernel.path(name) for name in kernel.before if name != "nvidia"]
        text = "".join(path.read_text() for path in (*before, kernel.file))
        if change:
            assert change[0] in text
            text = text.replace(*change)
        path = tmp_path / kernel.file.name
        path.write_text((EMULATED.read_text() if number == 14 else "") + text)

        # A device for which 14 is planned as for NVIDIA's; its instructions are emulated.
        limits = device.limits(queue.device)
        chip = SimpleNamespace(max_compute_units=units, type=queue.device.type, **CAPABLE)
        if number == 14:
            limits = replace(limits, extensions=limits.extensions | {nvidia.EXTENSION})
        size = gemm.Size(*C.shape, A.shape[1])
        strides = size.K + gap, size.N + gap, size.N + gap
        problem = gemm.Problem(size, C.dtype, *strides)
        plan = plans.plan(kernel, params, problem, limits, chip)
        program = build(queue.context, path, plan.defines)
        stream = Stream(queue, problem)  # whose room is full of NaN
        stream.write(A, B, C)
        built = plans.Built(plan, program, 16)
        sample.run.enqueuer(built, alpha, beta, stream)()[-1].wait()
        assert stream.intact()
        if held := stream.held.get("counters"):
            counters = np.empty(held.size // 4, np.int32)
            cl.enqueue_copy(queue, counters, held)
            assert (counters == -1).all()
        return stream.C.read()

    return run


def matrices(M, N, K, dtype=FLOAT, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, shape).astype(dtype) for shape in ((M, K), (K, N), (M, N))]


def wrong(got, A, B, C, alpha=1.5, beta=-0.5):
    """Return why the result is wrong, or None."""
    return gemm.check(got, *gemm.reference(alpha, A, B, beta, C)).reason


# Kernel 13.

TINY = {"TSM": 32, "TSN": 32, "TSK": 8, "WPTM": 4, "WPTN": 8, "SLICES": 2, "BAND": 2}
NARROW, TALL = {**TINY, "TSN": 16, "WPTN": 4}, {**TINY, "TSM": 96, "WPTM": 12, "WPTN": 4}
PAIRS = {**TINY, "TSK": 16, "WPTN": 4}  # a work-item loads two elements of a row of A at a time
SHAPES = [
    {}, NARROW, PAIRS, TALL,
    {"TSM": 192, "TSN": 64, "TSK": 8, "WPTM": 12, "WPTN": 8, "SLICES": 1},
    {"TSM": 64, "TSN": 64, "TSK": 8, "WPTM": 8, "WPTN": 8, "SLICES": 2},
    {"TSM": 128, "TSN": 128, "TSK": 8, "WPTM": 16, "WPTN": 8, "SLICES": 1},
    {"TSM": 32, "TSN": 64, "TSK": 8, "WPTM": 4, "WPTN": 8, "SLICES": 4, "BAND": 16},
    {"TSM": 64, "TSN": 16, "TSK": 16, "WPTM": 8, "WPTN": 4, "SLICES": 4, "SPLITS": 3},
]


@pytest.mark.parametrize("shape", exhaustive_but([{}, NARROW, PAIRS, TALL], SHAPES), ids=str)
def test_13_is_right_whatever_its_shape(multiply, shape):
    for *size, gap in ((196, 140, 36, 4), (70, 131, 17, 3)):
        inputs = matrices(*size)
        assert not wrong(multiply(13, *inputs, gap=gap, **shape), *inputs), size


def test_13_is_right_at_every_size(multiply):
    for *size, gap in ((1, 1, 1, 0), (2, 3, 5, 1), (4, 4, 4, 0), (33, 17, 9, 3), (64, 36, 100, 4),
                       (32, 16, 8, 1), (100, 1, 70, 0), (1, 100, 33, 2)):
        inputs = matrices(*size)
        assert not wrong(multiply(13, *inputs, gap=gap, **TINY), *inputs), size


@pytest.mark.parametrize("splits", [1, 3])
def test_13_loads_what_exists_at_the_end_of_k(multiply, splits):
    """K is less than a step of 32, one step, or a little more; some work-groups get no k's."""
    for *size, gap in ((40, 35, 31, 0), (40, 35, 32, 1), (33, 34, 33, 3), (33, 34, 65, 0)):
        inputs = matrices(*size)
        got = multiply(13, *inputs, gap=gap, units=99, **PAIRS, SPLITS=splits)
        assert not wrong(got, *inputs), size


@pytest.mark.parametrize(("number", "shape"), [(13, TINY), (13, PAIRS), (14, TILE), (14, ONCE)])
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


def test_13_in_double_precision(multiply):
    inputs = matrices(70, 65, 33, DOUBLE)
    assert not wrong(multiply(13, *inputs, **TINY), *inputs)


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
    "leaves out a step": ("k0 = k_first; k0 <", "k0 = k_first + STEP; k0 <"),
    "aligned: leaves out a part of a step": ("end - begin + STEP - 1", "end - begin"),
    "mixes up columns": ("e % 4 * 4 + lane_n", "e % 4 * 4 + lane_m % 4"),
    "narrow: stores beyond the row": ("if (left > 4)", "if (left > 0)"),
    "narrow: stores beyond C": ("if (i < M && stores)\n", "if (stores)\n"),
    "narrow: mixes up columns": ("j = j_warp + lane_n", "j = j_warp + 4 * lane_n"),
    "pairs: loads an element twice": ("((f) % TIMES_A * ACROSS_A)", "0"),
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
                       **(NARROW if "narrow" in mutant else PAIRS if "pairs" in mutant else TINY))
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


# Kernel 14, its instructions emulated.


@pytest.mark.parametrize("tile", [TILE, ONCE], ids=["split", "once"])
@pytest.mark.parametrize("bits", exhaustive_but([16], [16, 32]))
def test_14_is_right_at_every_size(multiply, bits, tile):
    for *size, gap in (
        (1, 1, 1, 0),
        (1, 2, 8, 0),
        (33, 17, 7, 3),
        (16, 16, 64, 0),
        (40, 35, 100, 3),
    ):
        inputs = matrices(*size)
        got = multiply(14, *inputs, gap=gap, PART_BITS=bits, **tile)
        assert not wrong(got, *inputs), size


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "tile",
    [
        {"TSM": 32, "TSN": 16, "WARP_M": 16, "WARP_N": 16, "STAGES": 3, "BAND": 1, "DIRECT": 0},
        {"TSM": 32, "TSN": 32, "WARP_M": 32, "WARP_N": 8, "STAGES": 4, "BAND": 3, "DIRECT": 0},
        {"TSM": 32, "TSN": 32, "WARP_M": 16, "WARP_N": 16, "STAGES": 2, "BAND": 3, "DIRECT": 1},
    ],
    ids=str,
)
def test_14_whatever_its_shape(multiply, tile):
    inputs = matrices(70, 33, 150)
    assert not wrong(multiply(14, *inputs, **tile), *inputs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("tile", [TILE, ONCE], ids=["split", "once"])
@pytest.mark.parametrize("bits", [16, 32])
def test_14_keeps_the_bound_of_float32_at_every_magnitude(multiply, bits, tile):
    rng, (M, N, K) = np.random.default_rng(5), (18, 17, 70)
    C = np.zeros((M, N), FLOAT)
    for spreads in ((30, 6), (6, 30), (15, 15), (18, 18)):
        for lines_only in (True, False):
            A = split.magnitudes(spreads[0], (M, K), rng, lines_only)
            B = split.magnitudes(spreads[1], (N, K), rng, lines_only).T
            got = multiply(14, A, B, C, PART_BITS=bits, **tile)
            assert not wrong(got, A, B, C), (spreads, lines_only)


@pytest.mark.parametrize("tile", [TILE, ONCE], ids=["split", "once"])
def test_14_where_numbers_are_smallest(multiply, tile):
    A, B, C = matrices(18, 19, 40)
    A[0], A[1], A[2, 1:] = 0, 1e-41, 0
    B[:, 0], B[:, 1], B[1:, 2] = 0, 2e-45, 0
    C[:] = 0
    assert not wrong(multiply(14, A, B, C, **tile), A, B, C)


def test_14_where_numbers_are_largest(multiply):
    A, B, C = matrices(18, 19, 40)
    A[2], B[:, 2] = 3e38, -3e38
    exact = 1.5 * (A.astype(float) @ B) - 0.5 * C
    got = multiply(14, A, B, C, **TILE)
    beyond = np.abs(exact) > np.finfo(FLOAT).max
    assert 1 < beyond.sum() < beyond.size
    assert (got[beyond] == np.copysign(np.inf, exact[beyond])).all()
    np.testing.assert_allclose(got[~beyond], exact[~beyond], rtol=1e-3, atol=1e-4)


def scales_out_of_range(multiply, what):
    """Tell whether a kernel is right where the product of two scales is out of range, that of the
    line's elements not; first as it is, then without its limit of the `largest` or `smallest`."""
    A, B, C = matrices(18, 19, 40)
    if what == "smallest":
        A[2], B[:, 2], limit = 2.0**-60, 2.0**-64, ("LOWEST_DIRECT (-48)", "LOWEST_DIRECT (-113)")
    else:  # 2^85 meets 0 only
        A[2], B[:, 2], limit = 0, 0, ("HIGHEST_DIRECT 76", "HIGHEST_DIRECT 127")
        A[2, :2], B[1:3, 2] = (2.0**85, 2.0**60), (2.0**60, 2.0**85)
    exact = A[2].astype(float) @ B[:, 2]  # the bound of gemm.check() has room for what underflows
    found = (multiply(A, B, C, alpha=1, beta=0, change=change) for change in (None, limit))
    return [bool(np.isclose(C[2, 2], exact, rtol=1e-5, atol=0)) for C in found]


@pytest.mark.parametrize("what", ["largest", "smallest"])
def test_14_where_scales_are_out_of_range(multiply, what):
    assert scales_out_of_range(partial(multiply, 14, **ONCE), what) == [True, False]


@pytest.mark.parametrize("tile", [TILE, ONCE], ids=["split", "once"])
def test_14_loses_no_product_of_small_elements_in_tf32(multiply, tile):
    A, B, C = np.zeros((1, 8), FLOAT), np.zeros((8, 1), FLOAT), np.zeros((1, 1), FLOAT)
    A[0, :2], B[1:3, 0] = (2.0**60, 2.0**-30), (2.0**-30, 2.0**60)
    assert multiply(14, A, B, C, PART_BITS=32, **tile)[0, 0] == 1.5 * 2.0**-60


@pytest.mark.parametrize("bits", exhaustive_but([16], [16, 32]))
@pytest.mark.parametrize("tile", [WIDE, WIDE_2], ids=["4", "2"])
def test_14_loads_columns_together(multiply, tile, bits):
    for *size, gap in ((18, 140, 70, 4), (3, 4, 9, 0), (17, 36, 65, 0), (18, 33, 70, 3)):
        A, B, C = matrices(*size)
        B[(size[2] - 1) * bits // 512 * 512 // bits:] *= 1e-12  # the last slab
        B[:, 2] *= 1e12
        assert not wrong(multiply(14, A, B, C, gap=gap, PART_BITS=bits, **tile), A, B, C), size


MUTANTS_14 = {
    "makes one product only": ("low = mma(small[1][m], b1.lo, low);", ""),
    "mixes up chunks": ("high = mma(big[1][m], b1.lo", "high = mma(big[1][m], b0.lo"),
    "forgets to scale back": ("e_a[m] + e_b[n])", "e_a[m])"),
    "takes any line": ("SPAN(K) (26", "SPAN(K) (90"),
    "does not see Inf": ("largest <= highest && ", ""),
    "leaves out lines": ("depth = line < (of_a ? M : N)", "depth = line < (of_a ? M / 2 : N)"),
    "stores beyond C": ("ROW(n) * down < M - i && ", ""),
    "stores beyond the row": (" && COLUMN(n) < N - j", ""),
    "forgets to wait for sums": ("sync_warp();\n        store_rows", "store_rows"),
    "uses a stage twice": ("next = next + 1 == STAGES ? 0 : next + 1;", ""),
}
MUTANTS_ONCE = {
    "forgets a chunk's range": ("range = max(range, shuffle_xor(range, 16));", ""),
    "takes any slab": ("unfit[next] = ahead;", ";"),
    "leaves out the rest": ("n) == 0 ? end - 1 :", "n) == 0 ? begin :"),
    "mixes up scales": ("of_row[2 * (m) + 1] *", "of_row[2 * (m)] *"),
}
MUTANTS_WIDE = {
    "mixes up columns": ("^ (column) / 8 % WIDE", "^ (column) / 8 % 2"),
    "aligned: stores beyond C": ("i + 8 * m < M && ", ""),
    "aligned: stores beyond the row": (" && j + 8 * n < N", ""),
}
_BROKEN = [(None, TILE), (None, ONCE), ("stores beyond C", TILE), ("mixes up scales", ONCE)]
_ALL_BROKEN = [(name, tile) for tile, mutants in
               ((TILE, MUTANTS_14), (ONCE, MUTANTS_ONCE), (WIDE, MUTANTS_WIDE))
               for name in (None, *mutants)]


@pytest.mark.parametrize("broken", exhaustive_but(_BROKEN, _ALL_BROKEN), ids=str)
def test_a_kernel_14_broken_on_purpose_fails(multiply, broken):
    mutant, tile = broken
    N, gap = (60, 0) if tile is WIDE else (19, 3)
    A, B, C = matrices(37, N, 70)
    A[9] *= 1e-3
    A[20, ::2] *= 1e-12  # beyond the range of a line
    if tile is not WIDE:  # all its columns are in one tile, whose slabs would not fit
        B[::2, 17], B[1::2, 17] = 1e12, 1e-12
    A[34], A[34, 3] = 0, np.inf
    try:
        got = multiply(14, A, B, C, gap=gap,
                       change=(MUTANTS_14 | MUTANTS_ONCE | MUTANTS_WIDE).get(mutant), **tile)
    except AssertionError:
        assert "stores" in str(mutant)
        return
    # Where Inf takes part, nothing else counts; elsewhere a twentieth of the bound is enough.
    passed_on = np.isinf(got[34]).all()
    A[34], got[34] = 0, -0.5 * C[34]
    exact, bound = gemm.reference(1.5, A, B, -0.5, C)
    right = passed_on and gemm.check(got, exact, bound / 20).reason is None
    assert right == (mutant is None)
