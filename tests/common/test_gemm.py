"""Sizes, inputs and flop count of GEMM on the host."""

import argparse

import numpy as np
import pytest

from common import gemm
from common.gemm import Size
from common.outputs import digest
from common.timing import Timing

SMALL = Size(5, 7, 3)


@pytest.mark.parametrize(
    ("text", "size"),
    [("1", Size(1, 1, 1)), ("1024", Size(1024, 1024, 1024)), ("640x48x1000", Size(640, 48, 1000))],
)
def test_sizes(text, size):
    assert gemm.parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "x", "4x4", "1x0x1", "1e3", "4.0", "٣", "2000000000", "1x1x2000000000"]
)
def test_what_is_no_size(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a size"):
        gemm.parse_size(text)


def test_lists_and_ranges_of_sizes():
    named = gemm.parse_sizes("8,2x3x4,100:300:100,5:9:3,7:7:1,8")
    assert named == [*map(gemm.parse_size, ("8", "2x3x4", "100", "200", "300", "5", "7"))]
    assert len(gemm.parse_sizes("9001:10000:1")) == gemm.MOST_SIZES


@pytest.mark.parametrize(("text", "message"), [
    ("9000:10000:1", "'9000:10000:1' has more than 1000 sizes"),
    ("8:7:1", "'8:7:1' is an empty range: 8 is above 7"),
    ("1:2", "'1:2' is not a range of sizes: give from:to:step"),
    ("1:2x2x2:1", "is not a range of sizes"),
    ("1:2:0", "'0' is not a size"),
    ("8,", "'' is not a size"),
])
def test_what_is_no_list_of_sizes(text, message):
    with pytest.raises(argparse.ArgumentTypeError, match=message):
        gemm.parse_sizes(text)


def test_the_sdks_inputs():
    A, B, C = gemm.sdk_inputs(Size(4, 4, 4), 11)
    assert [f"{x:g}" for x in A[0]] == ["0.852691", "0.004421", "-0.103067", "-0.191788"]
    assert [f"{x:g}" for x in B[0]] == ["0.0529994", "0.507535", "-0.55821", "-0.849519"]
    assert [f"{x:g}" for x in C[0]] == ["-0.380438", "-0.188046", "0.665832", "-0.503661"]


@pytest.mark.parametrize("make", [gemm.sdk_inputs, gemm.integer_inputs])
def test_rectangular_inputs(make):
    A, B, C = make(SMALL, 1)
    assert (A.shape, B.shape, C.shape) == ((5, 3), (3, 7), (5, 7))
    assert {m.dtype for m in (A, B, C)} == {np.dtype(np.float32)}
    assert digest(A, B, C) == digest(*make(SMALL, 1))
    assert digest(A, B, C) != digest(*make(SMALL, 2))


def test_inputs_of_other_types():
    single, double, half = (
        gemm.sdk_inputs(SMALL, 1, t)[0] for t in (np.float32, np.float64, np.float16)
    )
    assert (double.dtype, half.dtype) == (np.float64, np.float16)
    assert np.abs(double - single).max() < 1e-6
    assert (double != single).any(), "float64 has digits of its own"
    assert np.array_equal(half, single.astype(np.float16))
    small, wide = (gemm.integer_inputs(SMALL, 1, t)[1] for t in (np.float16, np.float32))
    assert np.array_equal(small, wide)


def test_integers_are_small_and_whole_and_not_all_alike():
    A, _, _ = gemm.integer_inputs(Size(40, 40, 40), 1)
    assert set(np.unique(A)) == set(range(-4, 5))


def test_when_integers_are_exact():
    assert gemm.exact(Size(8, 8, 1000), 2, -3)
    assert not gemm.exact(Size(8, 8, 1000), 0.5, 1)
    assert not gemm.exact(Size(1, 1, 2**20 + 1), 1, 0)
    assert not gemm.exact(Size(1, 1, 2**20), 2, 0)
    assert gemm.exact(Size(1, 1, 2**20), 2, 0, np.float64)
    assert gemm.exact(Size(1, 1, 128), 1, 0, np.float16)
    assert not gemm.exact(Size(1, 1, 128), 1, 1, np.float16)
    assert gemm.exact(Size(1, 1, 131071), 1, 0, np.int8)  # -128 * -128 is 2 ** 14
    assert not gemm.exact(Size(1, 1, 131072), 1, 0, np.int8)


def test_when_complex_integers_are_exact():
    # Each part of a product of a 2^18 long sum reaches 2 * 16 * 2^18 = 2^23 of 2^24.
    assert gemm.exact(Size(1, 1, 2**18), 2, 0, np.complex64)
    assert not gemm.exact(Size(1, 1, 2**18), 2, 1, np.complex64)
    assert gemm.exact(Size(1, 1, 2**18), 1 + 1j, 0j, np.complex64)
    assert not gemm.exact(Size(1, 1, 2**18), 2 + 1j, 0, np.complex64)
    assert not gemm.exact(Size(1, 1, 2**18), 2 - 1j, 0, np.complex64)
    assert not gemm.exact(Size(1, 1, 1), 1 + 0.5j, 0, np.complex64)
    assert gemm.exact(Size(1, 1, 2**18), 2 + 1j, 1, np.complex128)


def test_the_flop_convention():
    assert Size(2, 3, 5).flop() == 2 * 2 * 3 * 5 + 3 * 2 * 3


def test_rates_of_integers_are_in_gops():
    problems = [gemm.Problem(SMALL, np.dtype(kind), 3, 7, 7) for kind in (np.int8, np.float16)]
    assert [each.unit for each in problems] == ["GOPS", "GFLOPS"]
    times = Timing([0], [0], [1e-9], [1e-9], 0)
    found = [gemm.metrics(SMALL, times, each.unit) for each in problems]
    assert [each["gflops"] for each in found] == [SMALL.flop()] * 2
    assert [each["flop_convention"] for each in found] == [
        f"{gemm.FLOP_CONVENTION}, in GOPS", gemm.FLOP_CONVENTION]
