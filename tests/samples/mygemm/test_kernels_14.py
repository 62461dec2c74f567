"""Kernel 14 of samples/mygemm, for GPUs, with its instructions emulated."""

from functools import partial

import numpy as np
import pytest

from common import bounds
from tests.conftest import ROOT, exhaustive_but
from tests.samples.mygemm import split_model as split
from tests.samples.mygemm.conftest import FLOAT, ONCE, TILE, matrices, scales_out_of_range, wrong

KERNELS = ROOT / "samples/mygemm/kernels"

WIDE = {**ONCE, "TSN": 64, "WARP_N": 32}  # a lane loads 4 columns of B at once, here, and 2 here:
WIDE_2 = {**WIDE, "TSN": 32, "WARP_N": 16}


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
    exact, bound = bounds.worst_case(1.5, A, B, -0.5, C)
    right = passed_on and bounds.check(got, exact, bound / 20).reason is None
    assert right == (mutant is None)
