"""Parameters of kernels for NVIDIA's GPUs. Plans with them: tests/samples/mygemm."""

from types import SimpleNamespace

import numpy as np
import pytest

from common.errors import Unsupported
from common.gemm import Problem, parse_size
from common.planning import nvidia

H200 = SimpleNamespace(max_compute_units=132, compute_capability_major_nv=9,
                       compute_capability_minor_nv=0)
LIMITS = SimpleNamespace(extensions={nvidia.EXTENSION})


def problem(text):
    size = parse_size(text)
    return Problem(size, np.dtype(np.float32), size.K, size.N, size.N)


@pytest.mark.parametrize(
    ("size", "direct", "splits"),
    [("768", 0, 3), ("4096", 0, 1), ("512", 1, 4), ("128", 1, 1), ("100000x64x64", 1, 1),
     ("64x64x100000", 1, 264), ("16x4096x4096", 1, 12), ("128x128x8192", 1, 64)],
)
def test_matrix_units_split_what_they_read_where_that_is_short(size, direct, splits):
    _, params = nvidia.units(problem(size), H200)
    assert (params["DIRECT"], params["SPLITS"]) == (direct, splits)
    for given in (0, 1):
        assert nvidia.units(problem(size), H200, given)[1]["DIRECT"] == given


@pytest.mark.parametrize(
    ("size", "units"),
    [("512", False), ("4096", True), ("1024", True), ("128x128x4096", False), ("256", False),
     ("4096x16x4096", False), ("64x1024x1024", False)],
)
def test_matrix_units_are_taken_where_they_were_faster(size, units):
    by_units = nvidia.units(problem(size), H200)[0] < nvidia.warps(problem(size), LIMITS, H200)[0]
    assert units in (None, by_units)


def test_the_rows_of_a_matrix_are_aligned_by_its_leading_dimension():
    """As if N were 4097: loads of B and stores of C take longer."""
    even = problem("4096")
    for ld in ({"lda": 4097}, {"ldb": 4097}, {"ldc": 4097}):
        padded = even._replace(**ld)
        assert nvidia.units(padded, H200, 1)[0] > nvidia.units(even, H200, 1)[0]
        assert nvidia.warps(padded, LIMITS, H200)[0] > nvidia.warps(even, LIMITS, H200)[0]
    panels = {"DIRECT": 0}
    odd = [nvidia.warpgroups(even._replace(ldc=ld), H200, panels)[0] for ld in (4096, 4098, 4097)]
    assert odd[0] < odd[1] < odd[2]
    assert nvidia.units(problem("4096x4097x4096"), H200)[0] > nvidia.units(even, H200)[0]


@pytest.mark.parametrize(
    ("size", "chunk"),
    [("4096", 256), ("4096x4096x2047", 128), ("4096x4096x383", 64), ("1024x1024x2048", 128),
     ("1208x1328x2848", 128), ("512x512x8192", 64), ("8x8x8", 32)],
)
def test_the_unit_sums_up_less_where_rounding_costs_less(size, chunk):
    assert nvidia.warpgroups_start({}, problem(size), LIMITS, H200)["KC"] == chunk


@pytest.mark.parametrize(
    ("K", "items", "kept"), [(7, 4, 1), (64, 4, 2), (2048, 64, 4), (4097, 256, 3), (99999, 256, 4)]
)
def test_work_items_that_share_a_row_keep_all_of_it_where_they_can(K, items, kept):
    params = {"DIRECT": 0, "SWAPPED": 0}
    defines, _ = nvidia.warpgroups_more(problem(f"64x64x{K}"), params, LIMITS, H200)
    assert (defines["ROW_ITEMS"], defines["KEPT_A"]) == (items, kept)


@pytest.mark.parametrize(
    ("size", "swapped"),
    [("32x4096x4096", 1), ("4096x32x4096", 0), ("32x32x4096", 0), ("65x1000x1000", 0), ("4096", 0)],
)
def test_roles_are_swapped_where_c_has_few_rows(size, swapped):
    about = problem(size), LIMITS, H200
    params = nvidia.warpgroups_start({}, *about)
    assert params["SWAPPED"] == swapped
    for given in (0, 1):
        assert nvidia.warpgroups_start({"SWAPPED": given}, *about)["SWAPPED"] == given


def test_a_device_is_asked_for_its_compute_capability():
    assert nvidia.require("a", LIMITS, H200, lambda has: has == (9, 0), "9.0") is None
    with pytest.raises(Unsupported, match=r"^a needs .* capability 8\.9: the device has 9\.0$"):
        nvidia.require("a", LIMITS, H200, lambda has: has == (8, 9), "8.9")
    with pytest.raises(Unsupported, match=r"^a needs inline PTX"):
        nvidia.require("a", SimpleNamespace(extensions=()), H200, lambda has: True, "")
