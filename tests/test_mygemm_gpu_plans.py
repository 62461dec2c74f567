"""The plans of kernels 13 and 14 of samples/mygemm: what is chosen, refused, and not supported."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import modules_of

from common import device
from common.errors import Unsupported, UsageError
from common.gemm import Size

FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
NVIDIA = "cl_nv_compiler_options"


@pytest.fixture(scope="module")
def sample():
    """The sample's modules gpu and launch."""
    with modules_of("mygemm") as load:
        yield SimpleNamespace(gpu=load("gpu"), launch=load("launch"))


def plan(sample, queue, number, size, dtype=FLOAT, profile=None, extensions=(NVIDIA,), **more):
    """Return the plan for a device with so many compute units as an H200, and local memory."""
    params = {name: more.pop(name) for name in list(more) if name.isupper()}
    rung = sample.gpu.WARPS if number == 13 else sample.gpu.MATRIX_UNITS
    limits = device.limits(queue.device, profile or None)
    limits = replace(limits, extensions=limits.extensions | set(extensions),
                     local_mem_size=min(limits.local_mem_size, 48 * 2**10))  # fmt: skip
    chip = SimpleNamespace(max_compute_units=132, compute_capability_major_nv=9,
                           compute_capability_minor_nv=0)  # fmt: skip
    vars(chip).update(more)
    strides = size.K, size.N, size.N
    problem = sample.launch.Problem(size, dtype, *strides)
    params = sample.launch.choose(rung, params, limits, dtype).params  # as the program does
    return rung.plan(problem, params, limits, chip)


def square(n):
    return Size(n, n, n)


def test_13_takes_shapes_by_the_size_of_c(sample, queue):
    small, large = (plan(sample, queue, 13, square(n)).defines for n in (1024, 4096))
    assert (small["TSM"], small["SLICES"]) == (64, 2)
    assert (large["TSM"], large["WPTM"], large["SLICES"]) == (128, 16, 1)
    assert plan(sample, queue, 13, square(4096), DOUBLE).defines["WPTM"] == 8
    elsewhere = plan(sample, queue, 13, square(4096), extensions=()).defines
    assert elsewhere["WPTM"] * elsewhere["WPTN"] == 16
    assert [plan(sample, queue, 13, square(n)).defines["WIDTH"] for n in (64, 66)] == [4, 1]
    given = plan(sample, queue, 13, square(4096), TSN=64, WPTN=4).defines
    assert (given["TSN"], given["WPTN"]) == (64, 4)


def test_a_small_mali_gets_a_legal_13(sample, queue):
    for given in ({}, {"SLICES": 2}, {"WPTM": 8}):
        made = plan(sample, queue, 13, square(512), profile="mali-t628", extensions=(), **given)
        assert made.local_size[0] <= 256
        assert made.local_bytes <= 32 * 1024


def test_14_has_room_for_its_panels(sample, queue):
    made = plan(sample, queue, 14, square(1024))
    # A panel has 4 bytes for an element, a line 4 for its exponent.
    assert made.work_bytes == 2 * (1024 * 1024 * 4 + 1024 * 4)
    assert made.extra[0].global_size[0] == 2 * 1024 // 8 * 256
    odd = plan(sample, queue, 14, Size(65, 3, 33), PART_BITS=32)
    assert odd.work_bytes == (128 + 128) * (48 * 8 + 4)


@pytest.mark.parametrize(
    ("number", "params", "message"),
    [
        (13, {"WPTM": 6}, "--WPTM 6: 4 must divide WPTM; --WPTM 8 would do"),
        (13, {"TSM": 96, "WPTM": 8}, "--TSM 96 --WPTM 8: 8 x WPTM = 64 must divide TSM"),
        (13, {"TSN": 40, "WPTN": 8}, "--TSN 40 --WPTN 8: 4 x WPTN = 32 must divide TSN"),
        (13, {"TSK": 64, "TSM": 256, "TSN": 256}, "would do"),
        (14, {"WARP_M": 24}, "--WARP_M 24: 16 must divide WARP_M"),
        (14, {"TSM": 48, "WARP_M": 32}, "--WARP_M 32 --TSM 48: WARP_M must divide TSM"),
        (14, {"PART_BITS": 8}, "--PART_BITS 8: a part has 16 or 32 bits"),
        (14, {"STAGES": 1}, "--STAGES 1: at least 2 is needed"),
        (14, {"TSM": 128, "TSN": 256, "STAGES": 3}, "of local memory"),
    ],
)
def test_what_is_refused_and_why(sample, queue, number, params, message):
    with pytest.raises(UsageError) as caught:
        plan(sample, queue, number, square(4096), profile=number == 13 and "mali-t628", **params)
    assert message in str(caught.value)


def test_where_14_is_not_supported(sample, queue, run_sample):
    for more, reason in (
        ({"extensions": ()}, "needs inline PTX, by NVIDIA's compiler"),
        ({"compute_capability_major_nv": 7, "compute_capability_minor_nv": 5}, "8.0, it is 7.5"),
        ({"dtype": DOUBLE}, "single precision only"),
    ):
        with pytest.raises(Unsupported, match=reason):
            plan(sample, queue, 14, square(64), **more)
    done = run_sample("mygemm", "--kernel", 14, "--size", 64, "--check-only")
    assert done.returncode == 77
    assert "the device has no cl_nv_compiler_options" in done.stderr


def test_13_and_14_through_the_program(recorded):
    done, items = recorded("mygemm", "--kernel", "13,14", "--size", "65x35x70", "--lda", 75,
                           "--data", "integer", "--beta", 2, "--check-only")  # fmt: skip
    assert [item.status for item in items] == ["passed", "unsupported"], done.stderr
    assert items[0].params["WPTM"] > 0  # what the plan chose, not the 0 that was left to it
