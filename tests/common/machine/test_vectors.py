"""Parameters of kernels for a matrix and a vector."""

import pytest

from common.gemm import parse_size
from common.machine import tiles, vectors


@pytest.mark.parametrize(
    ("size", "taken"),
    [("4096x1x4096", True), ("1x100000x1000", True), ("1x1x1", True), ("300x1x20000", True),
     ("64x1x100000", False), ("1x64x100000", False), ("1x1000x100000", False)],
)
def test_on_an_h200_tiles_are_faster_only_for_few_long_sums(size, taken):
    size = parse_size(size)
    assert (vectors.seconds(size, 4) < tiles.best(size, tiles.SINGLE, 132, 4)[0]) == taken


@pytest.mark.parametrize("N", [1, 4096, 10_000, 100_000])
def test_a_gpus_work_group_is_full(N):
    sums = vectors.sums(parse_size(f"1x{N}x4096"), 4)
    assert sums["LANES"] * sums["SLICES"] == 1024
    assert sums["NC"] % sums["LANES"] == 0


def test_rows_are_loaded_together_if_k_has_enough_for_all_slices():
    unrolled = [vectors.sums(parse_size(f"1x8192x{K}"), 4)["UNROLL"] for K in (1, 300, 1000, 9999)]
    assert unrolled == [8, 16, 32, 64]
    assert vectors.sums(parse_size("1x8192x9999"), 8)["UNROLL"] == 32


def test_long_rows_have_more_work_items():
    lanes = [vectors.dots(parse_size(size))["LANES"] for size in ("9999x1x999", "9999x1x9999")]
    assert lanes == [128, 256]


def test_a_core_is_woken_for_what_it_is_worth():
    assert vectors.cores(parse_size("10x1x10"), 8, 4) == (1, 8)
    assert vectors.cores(parse_size("4096x1x4096"), 32, 4) == (4, 16)
    assert vectors.columns(100, 4, 8) == 104
    assert vectors.columns(100_000, 4, 8) == 2048
