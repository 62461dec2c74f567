"""The plans of the kernels of samples/mygemm: build options, NDRange, and what is refused."""

import json
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import constraints, device, subgroups
from common.errors import Unsupported, UsageError
from common.gemm import PRECISIONS, Problem, Size, parse_size
from common.planning import plans, tiles
from common.program import flags
from tests.conftest import sample_module

FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
NVIDIA = "cl_nv_compiler_options"


@pytest.fixture(scope="module")
def sample():
    """The sample's modules."""
    load = partial(sample_module, "mygemm")
    return SimpleNamespace(special=load("special"))


LIMITS = device.Limits(
    profile="device", max_work_group_size=1024, max_work_item_sizes=(1024, 1024, 64),
    local_mem_size=48 * 2**10, local_mem_type="local", max_mem_alloc_size=2**34,
    global_mem_size=2**37,
    extensions=frozenset({NVIDIA, "cl_khr_fp64", "cl_khr_fp16"}),
)
SMALL = replace(
    LIMITS, profile="mali-t628", max_work_group_size=256, max_work_item_sizes=(256, 256, 256),
    local_mem_size=32 * 2**10,
)
H200 = {
    "type": cl.device_type.GPU,
    "max_compute_units": 132,
    "compute_capability_major_nv": 9,
    "compute_capability_minor_nv": 0,
}


def kernel_of(sample, number):
    return next(each for each in sample.special.KERNELS if each.number == number)


def plan(sample, number, size, dtype=FLOAT, limits=LIMITS, **more):
    """Return the plan for a device such as an H200; upper-case names are parameters."""
    params = {name: more.pop(name) for name in list(more) if name.isupper()}
    extensions = more.pop("extensions", limits.extensions)
    problem = Problem(size, dtype, size.K, size.N, size.N)
    kernel = kernel_of(sample, number)
    chip = SimpleNamespace(**H200 | more)
    return plans.plan(kernel, params, problem, replace(limits, extensions=extensions), chip)


# What the compiler was given when the kernels were measured.
PLANS = [
    (13, "4096x4096x4096",
     "REAL=float TSM=128 TSN=128 TSK=8 WPTM=16 WPTN=8 SLICES=1 EARLY=1 SPLITS=1 BAND=8 "
     "WIDTH_A=4 WIDTH_N=4 NARROW=4 LAST_ADDS=0",
     (1024 * 128,), (128,)),
    (14, "4096x4096x4096",
     "PART_BITS=16 TSM=64 TSN=128 WARP_M=32 WARP_N=64 STAGES=4 DIRECT=0 SPLITS=1 BAND=8 "
     "PARTS=1 SPLIT_ITEMS=256 KEPT=4 WIDTH_A=4 WIDTH_N=4 LAST_ADDS=0",
     (262144,), (128,)),
    (1, "1000x500x77",
     "REAL=float TS=32",
     (512, 1024), (32, 32)),
    (2, "1000x500x77",
     "REAL=float TS=32",
     (512, 1024), (32, 32)),
    (3, "1000x500x77",
     "REAL=float TS=32 WPT=8",
     (512, 128), (32, 4)),
    (4, "1000x500x77",
     "REAL=float TS=32 WIDTH=4",
     (128, 1024), (8, 32)),
    (5, "1000x500x77",
     "REAL=float TS=32 WPT=8 TSDK=16 PAD=2",
     (512, 128), (32, 4)),
    (6, "1000x500x77",
     "REAL=float TSM=128 TSN=128 TSK=16 WPTM=8 WPTN=8 PAD=2",
     (64, 128), (16, 16)),
    (7, "1000x500x77",
     "REAL=float TSM=128 TSN=128 TSK=16 WPTM=8 WPTN=8 WIDTH=4",
     (64, 128), (16, 16)),
    (8, "1000x500x77",
     "REAL=float TSM=128 TSN=128 TSK=16 WPTM=8 WPTN=8 WIDTH=4 SHUFFLE=3",
     (64, 128), (16, 16)),
    (9, "1000x500x77",
     "REAL=float TSM=128 TSN=128 TSK=16 WPTM=8 WPTN=8 WIDTH=4",
     (64, 128), (16, 16)),
    (10, "1000x500x77",
     "REAL=float TSM=128 TSN=128 TSK=16 WPTM=8 WPTN=8 WIDTH=4 PAD=2",
     (64, 128), (16, 16)),
    (11, "1000x500x77",
     "REAL=float RX=8 RY=4 RK=4 THREADSX=8 THREADSY=8",
     (64, 256), (8, 8)),
    (13, "1000x500x77",
     "REAL=float TSM=32 TSN=64 TSK=16 WPTM=4 WPTN=8 SLICES=2 EARLY=1 SPLITS=1 BAND=8 "
     "WIDTH_A=1 WIDTH_N=4 NARROW=4 LAST_ADDS=0",
     (32 * 8 * 128,), (128,)),
    (13, "999x999x999",
     "REAL=float TSM=64 TSN=64 TSK=8 WPTM=8 WPTN=4 SLICES=2 EARLY=1 SPLITS=1 BAND=8 "
     "WIDTH_A=1 WIDTH_N=1 NARROW=4 LAST_ADDS=0",
     (16 * 16 * 256,), (256,)),
    (13, "31x4095x4097",
     "REAL=float TSM=32 TSN=64 TSK=16 WPTM=4 WPTN=8 SLICES=2 EARLY=1 SPLITS=4 BAND=8 "
     "WIDTH_A=1 WIDTH_N=1 NARROW=4 LAST_ADDS=1",
     (64 * 4 * 128,), (128,)),
    (13, "500x3x600",
     "REAL=float TSM=32 TSN=32 TSK=16 WPTM=4 WPTN=4 SLICES=2 EARLY=1 SPLITS=4 BAND=8 "
     "WIDTH_A=4 WIDTH_N=1 NARROW=3 LAST_ADDS=1",
     (16 * 4 * 128,), (128,)),
    (13, "64x64x100000",
     "REAL=float TSM=64 TSN=64 TSK=16 WPTM=8 WPTN=4 SLICES=2 EARLY=1 SPLITS=264 BAND=8 "
     "WIDTH_A=4 WIDTH_N=4 NARROW=4 LAST_ADDS=0",
     (264 * 256,), (256,)),
    (14, "4097x4097x4097",
     "PART_BITS=16 TSM=64 TSN=128 WARP_M=32 WARP_N=64 STAGES=4 DIRECT=0 SPLITS=4 BAND=8 "
     "PARTS=1 SPLIT_ITEMS=256 KEPT=4 WIDTH_A=1 WIDTH_N=1 LAST_ADDS=1",
     ((2112 + 33 * 4) * 128,), (128,)),
    (15, "4096x4096x4096",
     "TSN=128 KC=256 STAGES=4 SLICES=1 DIRECT=0 SWAPPED=0 SPLITS=1 BAND=8 "
     "TSM=128 WIDTH_A=4 WIDTH_N=4 LAST_ADDS=0 "
     "ROW_ITEMS=128 KEPT_A=4",
     (132 * 384,), (384,)),
    (15, "511x2049x777",
     "TSN=64 KC=128 STAGES=6 SLICES=1 DIRECT=0 SWAPPED=0 SPLITS=1 BAND=8 "
     "TSM=128 WIDTH_A=1 WIDTH_N=1 LAST_ADDS=0 "
     "ROW_ITEMS=32 KEPT_A=4",
     (4 * 33 * 384,), (384,)),
    (15, "8192x8192x20",
     "TSN=64 KC=32 STAGES=2 SLICES=1 DIRECT=1 SWAPPED=0 SPLITS=1 BAND=8 "
     "TSM=64 WIDTH_A=4 WIDTH_N=4 LAST_ADDS=0 "
     "ROW_ITEMS=4 KEPT_A=1",
     (128 * 128 * 128,), (128,)),
    (15, "100000x64x64",
     "TSN=64 KC=32 STAGES=2 SLICES=1 DIRECT=1 SWAPPED=0 SPLITS=1 BAND=8 "
     "TSM=64 WIDTH_A=4 WIDTH_N=4 LAST_ADDS=0 "
     "ROW_ITEMS=4 KEPT_A=2",
     (1563 * 128,), (128,)),
    (14, "64x64x100000",
     "PART_BITS=16 TSM=64 TSN=64 WARP_M=64 WARP_N=16 STAGES=2 DIRECT=1 SPLITS=264 BAND=8 "
     "PARTS=264 SPLIT_ITEMS=256 KEPT=2 WIDTH_A=4 WIDTH_N=4 LAST_ADDS=0",
     (264 * 128,), (128,)),
]


@pytest.mark.parametrize(
    ("number", "size", "given", "shared", "beside"),
    [(14, 4097, {"SPLITS": 12, "DIRECT": 0, "TSM": 64, "TSN": 128}, 33, ["parts"]),
     (13, 1500, {}, 24, ["counters", "parts"])],
)
def test_the_last_tiles_are_shared(sample, number, size, given, shared, beside):
    made = plan(sample, number, square(size), **given)
    groups = tiles.count(made.size, made.defines) + (made.params["SPLITS"] - 1) * shared
    assert made.global_size == (groups * made.local_size[0],)
    assert made.shared == (0 if "counters" in beside else shared)
    assert sorted(set(made.room) - {"work"}) == beside


def test_15_takes_a_chunk_that_is_as_short_as_k(sample):
    made = plan(sample, 15, parse_size("8192x8192x20"), DIRECT=0)
    assert (made.defines["KC"], made.defines["ROW_ITEMS"], made.local_size) == (32, 4, (384,))


@pytest.mark.parametrize(("number", "size", "options", "total", "local"), PLANS)
def test_build_options_and_ndrange(sample, monkeypatch, number, size, options, total, local):
    monkeypatch.setattr(subgroups, "require", lambda *_: ({"SHUFFLE": 3}, ()))
    made = plan(sample, number, parse_size(size))
    assert flags(made.defines) == [f"-D{option}" for option in options.split()]
    assert made.options == ()
    assert (made.global_size, made.local_size) == (total, local)


@pytest.mark.parametrize("number", [*range(1, 16), *range(21, 27)])
def test_a_tuner_sees_the_constraints_that_the_sample_keeps(sample, monkeypatch, number):
    """All that legal() gives can be planned, and the defaults are among it."""
    monkeypatch.setattr(subgroups, "require", lambda *_: ({"SHUFFLE": 3}, ()))
    kernel = kernel_of(sample, number)
    dtype = np.dtype(PRECISIONS[kernel.precisions[0]])
    problem = Problem(square(256), dtype, 256, 256, 256)
    chip = SimpleNamespace(
        native_vector_width_float=4, version="OpenCL 3.0",
        image_support=True, image2d_max_width=8192, image2d_max_height=8192, **H200,
    )
    (told,) = plans.described([kernel], problem, LIMITS, chip)
    assert json.loads(json.dumps(told))["options"] == ["--kernel", str(number)]
    space, known = constraints.Space(**told["space"]), constraints.facts(LIMITS, told["itemsize"])
    assert constraints.broken(space, space.defaults, known) == []
    legal = list(constraints.legal(space, known))
    assert legal
    for params in legal[:: len(legal) // 20 + 1]:
        assert plans.plan(kernel, params, problem, LIMITS, chip).params == params


def test_rows_of_c_fit_in_the_memory_of_slabs(sample):
    """Kernel 14, and 15 with DIRECT: each warp puts 8 rows there, with 8 unused elements."""
    known = constraints.facts(replace(LIMITS, local_mem_size=2**18), 4)
    for number in 14, 15:
        kernel, names = kernel_of(sample, number), ("SWAPPED", "SLICES")
        legal = list(constraints.legal(kernel.space, known))
        assert legal
        for each in legal:
            if number == 14:
                width, warps = each["WARP_N"], each["TSM"] // each["WARP_M"] * (
                    each["TSN"] // each["WARP_N"])
                slabs = each["STAGES"] * (each["TSM"] + each["TSN"]) * 128
            elif each["DIRECT"]:
                swapped, slices = (each[name] for name in names)
                width, warps = 16 if swapped else each["TSN"], 4
                slabs = 2 * slices * (32 if swapped else each["TSN"]) * 128
            assert warps * 8 * (width + 8) * 4 <= slabs, each


def square(n):
    return Size(n, n, n)


def test_13_takes_shapes_by_the_size_of_c(sample):
    small, large = (plan(sample, 13, square(n)).defines for n in (1024, 4097))
    assert (small["TSM"], small["SLICES"]) == (64, 3)
    assert (large["TSM"], large["WPTM"], large["SLICES"]) == (128, 16, 1)
    assert plan(sample, 13, square(4096), DOUBLE).defines["WPTM"] == 8
    elsewhere = plan(sample, 13, square(4096), extensions=frozenset()).defines
    assert elsewhere["WPTM"] * elsewhere["WPTN"] == 16
    assert [plan(sample, 13, square(n)).defines["WIDTH_N"] for n in (64, 66)] == [4, 1]
    given = plan(sample, 13, square(4096), TSN=64, WPTN=4).defines
    assert (given["TSN"], given["WPTN"]) == (64, 4)


def test_a_small_mali_gets_a_legal_13(sample):
    for given in ({}, {"SLICES": 2}, {"WPTM": 8}):
        made = plan(sample, 13, square(512), limits=SMALL, extensions=frozenset(), **given)
        assert made.local_size[0] <= 256
        assert made.local_bytes <= 32 * 1024


def test_counters_are_for_devices_on_which_they_were_tried(sample):
    wide = Size(64, 64, 9999)
    assert plan(sample, 13, wide, SPLITS=4).defines["LAST_ADDS"] == 1
    other = plan(sample, 13, wide, extensions=frozenset(), SPLITS=4)
    assert (other.defines["LAST_ADDS"], "counters" in other.room) == (0, False)
    assert other.shared > 0


def test_14_has_room_for_its_panels(sample):
    made = plan(sample, 14, square(1024))
    # A panel has 4 bytes for an element, a line 4 for its exponent.
    assert made.room == {"work": 2 * (1024 * 1024 * 4 + 1024 * 4)}
    assert made.passes == (("split", (2 * 1024 // 8 * 256,), (256,)),)
    about = {"PART_BITS": 32, "TSM": 64, "TSN": 128, "WARP_N": 64}
    odd = plan(sample, 14, Size(65, 3, 33), **about, DIRECT=0)
    assert odd.room["work"] == (128 + 128) * (48 * 8 + 4)
    direct = plan(sample, 14, square(1024), DIRECT=1)
    assert "work" not in direct.room
    assert direct.passes == ()


@pytest.mark.parametrize(
    ("number", "params", "message"),
    [
        (13, {"WPTM": 6}, "--WPTM 6: 4 must divide WPTM; try --WPTM 8"),
        (13, {"TSM": 96, "WPTM": 8}, "--TSM 96 --WPTM 8: 8 * WPTM = 64 must divide TSM"),
        (13, {"TSN": 40, "WPTN": 8}, "--TSN 40 --WPTN 8: 4 * WPTN = 32 must divide TSN"),
        (13, {"TSK": 64, "TSM": 256, "TSN": 256}, "; try --"),
        (13, {"SLICES": 16}, "--SLICES 16: SLICES must be at most 15"),
        (14, {"WARP_M": 24}, "--WARP_M 24: 16 must divide WARP_M"),
        (14, {"TSM": 48, "WARP_M": 32}, "--TSM 48 --WARP_M 32: WARP_M must divide TSM"),
        (14, {"PART_BITS": 8}, "--PART_BITS 8: PART_BITS must be one of 16, 32"),
        (14, {"STAGES": 1}, "--STAGES 1: STAGES must be at least 2"),
        (14, {"DIRECT": 2}, "--DIRECT 2: DIRECT must be at most 1"),
        (15, {"DIRECT": 2}, "--DIRECT 2: DIRECT must be at most 1"),
        (15, {"SWAPPED": 2}, "--SWAPPED 2: SWAPPED must be at most 1"),
        (14, {"TSM": 128, "TSN": 256, "STAGES": 3}, "of local memory"),
    ],
)
def test_what_is_refused_and_why(sample, number, params, message):
    with pytest.raises(UsageError) as caught:
        plan(sample, number, square(4096), limits=SMALL if number == 13 else LIMITS, **params)
    assert message in str(caught.value)


def test_15_shares_the_last_tiles(sample):
    """33 of the 1089 tiles would not give work to all 132 work-groups: each goes to 4 of them."""
    made = plan(sample, 15, square(4097))
    assert (made.params["SPLITS"], made.shared, made.global_size) == (4, 33, (132 * 384,))
    lines = 2 * 33 * 128  # of 129 slabs of 128 bytes; an exponent for a row, 17 scales for a column
    assert made.room["work"] == lines * 129 * 128 + 33 * 128 * 4 * (1 + 17)
    assert made.room["parts"] == 4 * 33 * 128 * 128 * 4
    wide = plan(sample, 15, Size(300, 200, 999), TSN=128, DIRECT=0, SPLITS=5)
    assert wide.global_size == (3 * 2 * 5 * 384,)
    direct = plan(sample, 15, Size(300, 200, 999), TSN=64, DIRECT=1, SPLITS=5, SLICES=2)
    assert direct.global_size == (5 * 4 * 5 * 256,)
    swapped = plan(sample, 15, Size(30, 200, 999), SWAPPED=1, SPLITS=9, SLICES=2)
    assert (swapped.global_size, swapped.defines["TSM"]) == ((1 * 4 * 9 * 256,), 32)
    assert swapped.room == {"parts": 9 * 4 * 32 * 64 * 4, "counters": 4 * 4}
    assert swapped.local_bytes == 2 * (2 * 32 * 132 + 8) + 4
    for given in ({"TSN": 32}, {"DIRECT": 0}):
        with pytest.raises(UsageError, match="or SWAPPED must be below 1; try "):
            plan(sample, 15, Size(30, 200, 999), SWAPPED=1, **given)


@pytest.mark.parametrize("number", [14, 15])
def test_where_matrix_units_are_not_supported(sample, run_sample, number):
    for more, reason in (
        ({"extensions": frozenset()}, "needs inline PTX of NVIDIA's compiler"),
        ({"compute_capability_major_nv": 7, "compute_capability_minor_nv": 5}, "device has 7.5"),
        ({"dtype": DOUBLE}, " is for --precision single"),
    ):
        with pytest.raises(Unsupported, match=reason):
            plan(sample, number, square(64), **more)
    done = run_sample("mygemm", "--kernel", number, "--size", 64, "--check-only")
    assert done.returncode == 77
    assert "the device has no cl_nv_compiler_options" in done.stderr


def test_a_long_column_has_no_more_work_groups_than_cuda_allows(sample):
    groups = [plan(sample, 16, Size(M, 1, 16)) for M in (2**20, 2**25)]
    assert [made.global_size[1] // made.local_size[1] for made in groups] == [2**12, 65535]


@pytest.mark.parametrize("capability", [(8, 9), (9, 1), (10, 0)])
def test_15_is_for_hopper_only(sample, capability):
    has = dict(zip(("compute_capability_major_nv", "compute_capability_minor_nv"), capability))
    with pytest.raises(Unsupported, match="compute capability 9\\.0, Hopper's: the device has"):
        plan(sample, 15, square(64), **has)


def test_a_parameter_of_one_form_of_15_selects_that_form(sample):
    for given, direct in (({"KC": 64}, 0), ({"STAGES": 5}, 0), ({"SLICES": 4}, 1)):
        for size in (square(64), square(4096)):
            made = plan(sample, 15, size, **given)
            assert made.params["DIRECT"] == direct
            assert given.items() <= made.params.items()
    with pytest.raises(UsageError, match="SLICES must be below 2 or DIRECT must be at least 1"):
        plan(sample, 15, square(2048), SLICES=2, DIRECT=0, TSN=128)


def test_15_has_a_form_for_small_work_groups_and_little_local_memory(sample):
    mali = replace(LIMITS, profile="mali-t628", local_mem_size=32768)
    for limits, reason in (
        (SMALL, "384 work-items in dimension 0, but the device takes at most 256"),
        (mali, "of local memory, but the device has 32768"),
    ):
        assert plan(sample, 15, square(2048), limits=limits).params["DIRECT"] == 1
        with pytest.raises(UsageError, match=f"{reason}.*; try --DIRECT 1"):
            plan(sample, 15, square(2048), limits=limits, DIRECT=0)


def test_13_and_14_through_the_program(recorded):
    done, items = recorded("mygemm", "--kernel", "13,14", "--size", "65x35x70", "--lda", 75,
                           "--data", "integer", "--beta", 2, "--check-only")
    assert [item.status for item in items] == ["passed", "unsupported"], done.stderr
    assert items[0].params["WPTM"] > 0  # what the plan chose, not the 0 that was left to it


def test_build_only_builds_what_is_launched_beside_a_kernel(recorded):
    words = ("--kernel", "1,5,13,22", "--size", "67x45x129", "--SPLITS", "65", "--build-only")
    done, items = recorded("mygemm", *words, "--TSM", 32, "--TSN", 32)
    assert done.returncode == 0, done.stderr
    others = {item.variant: set(item.metrics.get("others", {})) for item in items}
    assert others == {
        "01_naive": set(), "05_transposed": {"transpose", "pad"}, "13_warps": {"add"},
        "22_mali_packed": {"pack_a", "pack_b"},
    }
    assert items[1].metrics["others"]["pad"]["kernel"].keys() == items[1].metrics["kernel"].keys()
    assert "05_transposed pad: built in" in done.stdout
