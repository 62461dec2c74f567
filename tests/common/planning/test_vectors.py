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
    ("1x1024x16384", 16), ("200x1x100000", 1), ("4x64x100000", 66), ("12000x331x11281", 1)])
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


def cpu(width=16, cores=2):
    return SimpleNamespace(
        type=cl.device_type.CPU, native_vector_width_float=width, native_vector_width_double=width,
        max_compute_units=cores, vendor="", name="")


def row_sums(size, device, dtype=np.float32, batch=1):
    """Return (UNROLL, NC, SPLITS, WIDTH) of kernel 17 on a CPU."""
    size = parse_size(size)
    problem = Problem(size, np.dtype(dtype), size.K, size.N, size.N, batch)
    found = vectors.start_sums({}, problem, None, device)
    return found["UNROLL"], found["NC"], found["SPLITS"], found["WIDTH"]


def test_a_large_matrix_is_read_in_more_rows_and_longer_runs():
    assert row_sums("1x100000x100", cpu())[:2] == (10, 3856)  # no row of 100 is left over
    assert row_sums("1x5000000x5", cpu())[:2] == (5, 4096)
    assert row_sums("1x8192x4096", cpu())[:2] == (8, 2048)  # rows are whole pages apart
    assert row_sums("1x8192x4095", cpu())[:2] == (7, 2048)
    assert row_sums("1x4097x4096", cpu())[:2] == (8, 2064)
    assert row_sums("1x4097x4096", cpu(width=8))[:2] == (4, 1032)
    assert row_sums("1x1000x511", cpu())[:2] == (4, 512)


def test_cores_share_k_if_the_only_row_of_c_is_short_and_k_large():
    assert row_sums("1x4096x4096", cpu())[1:3] == (4096, 2)
    assert row_sums("1x4097x4096", cpu())[1:3] == (2064, 1)
    assert row_sums("1x2048x4096", cpu(8), np.float64)[1:3] == (2048, 2)
    assert row_sums("1x4096x4096", cpu(8), np.float64)[1:3] == (2048, 1)
    assert row_sums("1x1000x512", cpu())[1:3] == (1008, 2)  # 128 rows of B for each of sums
    assert row_sums("1x1000x511", cpu())[1:3] == (512, 1)
    assert row_sums("1x4096x8192", cpu(cores=8))[1:3] == (4096, 8)
    assert row_sums("1x4096x8191", cpu(cores=8))[1:3] == (512, 1)
    assert row_sums("3x4096x4096", cpu())[1:3] == (2048, 1)
    assert row_sums("1x4096x4096", cpu(cores=1))[1:3] == (2048, 1)
    assert row_sums("1x4096x4096", cpu(), batch=2)[1:3] == (2048, 1)


def test_a_zen_4_reads_rows_of_a_small_matrix_in_pages_if_they_are_whole_ones(monkeypatch):
    monkeypatch.setattr(vectors, "amd_family", lambda device: 25)
    assert row_sums("1x4096x512", cpu())[1:3] == (1024, 1)
    assert row_sums("1x4096x512", cpu(8), np.float64)[1:3] == (2048, 1)  # 16 MiB
    assert row_sums("1x4096x511", cpu(8), np.float64)[1:3] == (512, 1)
    assert row_sums("1x4096x512", cpu(width=8))[1:3] == (4096, 2)
    assert row_sums("1x4095x512", cpu())[1:3] == (4096, 2)
    assert row_sums("1x1024x2048", cpu())[1:3] == (1024, 2)  # too few for both cores
    monkeypatch.setattr(vectors, "amd_family", lambda device: 26)
    assert row_sums("1x4096x512", cpu())[1:3] == (4096, 2)


def test_vectors_are_no_longer_than_a_narrow_b_needs():
    widths = [row_sums(f"1x{N}x100000", cpu())[3] for N in (1, 2, 3, 4, 5, 8, 9, 16, 17, 1000)]
    assert widths == [1, 2, 4, 4, 8, 8, 16, 16, 16, 16]
    assert [row_sums(f"1x{N}x99", cpu(width=8))[3] for N in (3, 5, 9)] == [4, 8, 8]


def test_a_cpu_reads_rows_one_by_one_if_a_fills_half_of_the_caches(monkeypatch):
    """Except for the shortest rows, and long ones."""
    device = cpu()

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
    usual, one_by_one = [8, 8, 4, 4, 8, 8, 8, 8], [8, 8, 1, 1, 1, 1, 8, 8]
    of_caches = {35 * 2**20: one_by_one, 76 * 2**20: one_by_one, 77 * 2**20: usual, 0: usual}
    for caches, ROWS in of_caches.items():  # A has 40 MB; 0: Linux does not tell
        monkeypatch.setattr(vectors, "all_bytes", lambda caches=caches: caches)
        large = [dots(10**7 // K, K)["ROWS"] for K in (16, 48, 49, 100, 1000, 1024, 1025, 5000)]
        assert large == ROWS


@pytest.mark.parametrize(("caches", "rows"), [
    (35 * 2**20, [8, 1, 1, 8, 8, 8]), (76 * 2**20, [8] * 6), (0, [8] * 6)])
def test_a_zen_5_reads_8_rows_at_a_time_unless_a_is_larger_than_the_caches(
        monkeypatch, caches, rows):
    monkeypatch.setattr(vectors, "all_bytes", lambda: caches)
    monkeypatch.setattr(vectors, "amd_family", lambda device: 26)

    def dots(K):
        problem = Problem(parse_size(f"{10**7 // K}x1x{K}"), np.dtype(np.float32), K, 1, 1, 1)
        return vectors.start_dots({}, problem, None, cpu())["ROWS"]

    assert [dots(K) for K in (48, 49, 80, 81, 100, 1000)] == rows


@pytest.mark.parametrize(("family", "rows"), [
    (26, [8, 4, 4, 4, 8, 4, 8]), (25, [8, 8, 4, 8, 8, 8, 8])])
def test_a_zen_5_reads_4_rows_of_a_small_matrix_if_they_are_nearly_pages_apart(
        monkeypatch, family, rows):
    monkeypatch.setattr(vectors, "all_bytes", lambda: 10**9)
    monkeypatch.setattr(vectors, "amd_family", lambda device: family)

    def dots(M, K):
        problem = Problem(parse_size(f"{M}x1x{K}"), np.dtype(np.float32), K, 1, 1, 1)
        return vectors.start_dots({}, problem, None, cpu())["ROWS"]

    assert [*(dots(1000, K) for K in (976, 977, 1024, 1071, 1072, 2040)), dots(5000, 1000)] == rows


@pytest.mark.parametrize(("family", "dtype", "width", "widths"), [
    (26, np.float32, 16, [16, 8, 8, 8, 16, 16, 16, 16, 16]),
    (25, np.float32, 16, [8, 8, 16, 8, 16, 8, 8, 16, 16]),
    (25, np.float32, 8, [8, 4, 8, 8, 8, 8, 8, 8, 8]),
    (25, np.float64, 8, [8, 4, 8, 8, 8, 8, 8, 8, 8]),
    (26, np.float64, 8, [8, 4, 8, 8, 8, 8, 8, 8, 8])])
def test_vectors_are_short_for_short_rows_and_on_a_zen_4_for_rows_inside_cache_lines(
        monkeypatch, family, dtype, width, widths):
    monkeypatch.setattr(vectors, "amd_family", lambda device: family)
    monkeypatch.setattr(vectors, "all_bytes", lambda: 35 * 2**20)
    device = cpu(width=width)

    def dots(K, M=1000, lda=None, batch=1):
        size = parse_size(f"{M}x1x{K}")
        problem = Problem(size, np.dtype(dtype), lda or K, 1, 1, batch)
        return vectors.start_dots({}, problem, None, device)["WIDTH"]

    assert [dots(K) for K in (16, 31, 32, 33, 64, 100, 1000, 1024, 1025)] == widths
    assert dots(1000, M=5000) == width  # such a large A is read row by row, or it is a Zen 5
    short = widths[-3]  # for rows that begin inside lines
    assert [dots(64, lda=72), dots(1000, lda=1008)] == [short, width]
    assert [dots(1000, M=1), dots(1000, M=1, batch=2)] == [width, short]


@pytest.mark.parametrize(
    ("size", "batch", "caches", "fills"),
    [("4096x1x4096", 1, 35 * 2**20, True), ("1x4096x4096", 1, 35 * 2**20, True),
     ("2048x1x4096", 1, 35 * 2**20, False), ("2048x1x4096", 2, 35 * 2**20, True),
     ("4096x2x4096", 1, 35 * 2**20, False), ("4096x1x4096", 1, 0, False)],
)
def test_a_matrix_that_fills_the_caches(monkeypatch, size, batch, caches, fills):
    monkeypatch.setattr(vectors, "all_bytes", lambda: caches)
    size = parse_size(size)
    problem = Problem(size, np.dtype("f4"), size.K, size.N, size.N, batch)
    assert vectors.fills_caches(problem) is fills
