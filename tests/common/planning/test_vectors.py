"""Parameters of kernels for a matrix and a vector."""

from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common.gemm import Problem, parse_size
from common.planning import tiles, vectors

UNITS = 132  # of an H200


@pytest.mark.parametrize("size", [
    "4096x1x4096", "1x100000x1000", "300x1x20000", "1x1000x100000", "64x1x100000", "1x64x100000",
    "1000000x1x16",
])
def test_on_an_h200_vectors_are_faster_than_tiles(size):
    size = parse_size(size)
    assert vectors.seconds(size, 4, UNITS) < tiles.best(size, tiles.single(1, True), UNITS, 4)[0]


@pytest.mark.parametrize("size", ["1x1x1", "1x4096x4096", "1x10000x1", "1x64x100000", "1x900x70"])
def test_row_sums_are_legal(size):
    sums = vectors.sums(parse_size(size), 4, UNITS)
    assert sums["LANES"] * sums["SLICES"] <= 1024
    assert sums["NC"] % sums["LANES"] == 0
    assert sums["UNROLL"] in (8, 16, 32, 64)


@pytest.mark.parametrize("size", ["1x1x1", "4096x1x4096", "1000000x1x16", "1x1x1000000"])
def test_a_work_group_of_dot_products_has_128_work_items_or_more(size):
    dots = vectors.dots(parse_size(size), 4, UNITS)
    assert 128 <= dots["LANES"] * dots["TEAMS"] <= 512


def test_rows_are_loaded_together_if_k_has_enough_for_all_slices():
    unrolled = [vectors.sums(parse_size(f"1x8192x{K}"), 4, UNITS)["UNROLL"]
                for K in (1, 100, 4096, 1500)]
    assert unrolled == [8, 16, 64, 16]
    assert vectors.sums(parse_size("1x8192x4096"), 8, UNITS)["UNROLL"] == 32


@pytest.mark.parametrize(("size", "splits"), [
    ("4096x1x4096", 1), ("1x4096x100000", 1), ("64x1x100000", 4), ("1x64x100000", 264),
    ("1x1024x16384", 16), ("200x1x100000", 1)])
def test_work_groups_share_long_rows_and_columns_if_there_are_few(size, splits):
    size = parse_size(size)
    params = (vectors.dots if size.N == 1 else vectors.sums)(size, 4, UNITS)
    assert params["SPLITS"] == splits


def test_products_of_a_batch_do_not_share():
    assert vectors.dots(parse_size("64x1x100000"), 4, UNITS, batch=8)["SPLITS"] == 1
    assert vectors.seconds(parse_size("64x1x100000"), 4, UNITS, batch=8) > 4e-5


def test_few_rows_have_more_work_items():
    lanes = [vectors.dots(parse_size(size), 4, UNITS)["LANES"]
             for size in ("9999x1x9999", "2000x1x9999", "99x1x9999", "99x1x64")]
    assert lanes == [128, 256, 512, 4]


def test_a_core_is_woken_for_what_it_is_worth():
    def cores(size, width, batch=1):
        problem = Problem(parse_size(size), np.dtype(np.float32), 1, 1, 1, batch)
        device = SimpleNamespace(native_vector_width_float=width, max_compute_units=4)
        return vectors.cores(problem, device)

    assert cores("10x1x10", 8) == (1, 8)
    assert cores("4096x1x4096", 32) == (4, 16)
    assert cores("4096x1x4096", 4, batch=2) == (2, 4)
    assert vectors.columns(100, 4, 8) == 104
    assert vectors.columns(100_000, 4, 8) == 1928  # 52 work-groups, 13 for each core


def test_a_large_matrix_is_read_in_more_rows_and_longer_runs():
    def sums(size, width=16):
        size = parse_size(size)
        problem = Problem(size, np.dtype(np.float32), size.K, size.N, size.N, 1)
        device = SimpleNamespace(
            type=cl.device_type.CPU, native_vector_width_float=width, max_compute_units=2)
        found = vectors.start_sums({}, problem, None, device)
        return found["UNROLL"], found["NC"], found["SPLITS"]

    assert sums("1x100000x100") == (10, 3856, 1)  # no row of 100 is left over
    assert sums("1x5000000x5") == (5, 4096, 1)
    assert sums("1x8192x4096") == (8, 2048, 1)  # rows are whole pages apart
    assert sums("1x8192x4095") == (7, 2048, 1)
    # Of few columns each core has a part of K, if that is worth the sums of two cores.
    assert sums("1x4096x4096") == (8, 4096, 2)
    assert sums("1x4000x4096") == (8, 4000, 2)
    assert sums("1x4000x4096", 8) == (4, 4000, 2)
    assert sums("1x1000x1000") == (4, 1008, 2)
    assert sums("1x1000x512") == (4, 1008, 2)
    assert sums("1x1000x511") == (4, 512, 1)
    assert sums("1x4097x4096") == (8, 2064, 1)


def test_a_cpu_reads_rows_side_by_side_except_short_ones_of_a_matrix_beyond_the_caches(monkeypatch):
    device = SimpleNamespace(
        type=cl.device_type.CPU, native_vector_width_float=16, max_compute_units=2)

    def dots(M, K):
        problem = Problem(parse_size(f"{M}x1x{K}"), np.dtype(np.float32), K, 1, 1, 1)
        return vectors.start_dots({}, problem, None, device)

    monkeypatch.setattr(vectors, "all_bytes", lambda: 35 * 2**20)
    found = [dots(1000, K) for K in (7, 16, 48, 50, 111, 112, 512, 1000, 4200)]
    assert [each["ROWS"] for each in found] == [8, 8, 8, 4, 4, 8, 8, 8, 8]
    assert [each["WIDTH"] for each in found] == [4, 16, 16, 8, 16, 16, 16, 16, 16]
    assert [dots(M, K)["ROWS"] for M, K in ((1000, 1024), (2048, 2048), (64, 4096))] == [4, 8, 4]
    few = [(dots(M, 10**6)["ROWS"], dots(M, 10**6)["SPLITS"]) for M in (1, 2, 3, 5, 6, 10, 17, 40)]
    assert few == [(1, 2), (2, 2), (4, 2), (8, 2), (8, 2), (8, 2), (8, 2), (8, 1)]
    usual = [8, 8, 4, 8, 8, 8]
    halves = [8, 8, 1, 1, 8, 8]
    for caches, ROWS in ((35 * 2**20, halves), (70 * 2**20, halves), (2**30, usual), (0, usual)):
        monkeypatch.setattr(vectors, "all_bytes", lambda caches=caches: caches)
        large = [dots(10**7 // K, K)["ROWS"] for K in (16, 48, 100, 1000, 2000, 5000)]
        assert large == ROWS
