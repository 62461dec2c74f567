"""What a GEMM must make, and the bounds of random data: honest sums pass, mutants do not."""

import numpy as np
import pytest

from common import bounds, gemm
from common.bounds import Expected
from common.gemm import Size

ORDER = 1024


@pytest.fixture(scope="module", params=[np.float16, np.float32])
def large(request):
    """Inputs and Case of order 1024, in half or single precision."""
    expected = Expected(Size(ORDER, ORDER, ORDER), request.param, "sdk", 1, 1.0, 0.5)
    return expected.inputs, expected.cases[0]


def without(inputs, first, count):
    """Return C without the products of `count` k's, in float64."""
    A, B, C = (matrix.astype(float) for matrix in inputs)
    A[:, first : first + count] = 0
    return A @ B + 0.5 * C


MUTANTS = {
    "zeros": lambda inputs, right: 0 * right,
    "a block of k left out": lambda inputs, right: without(inputs, 512, 8),
    "the last k left out": lambda inputs, right: without(inputs, ORDER - 1, 1),
    "two rows swapped": lambda inputs, right: right[[7, *range(1, 7), 0, *range(8, ORDER)]],
    "one element of a neighbour": lambda inputs, right: np.where(
        np.arange(ORDER**2).reshape(right.shape) == 5, np.roll(right, 1), right),
    "beta forgotten": lambda inputs, right: right - 0.5 * inputs[2],
}


@pytest.mark.parametrize("chain", [ORDER, 64])
@pytest.mark.parametrize("mutant", MUTANTS)
def test_mutants_at_order_1024_fail(large, mutant, chain):
    inputs, case = large
    dtype = inputs[0].dtype
    wrong = MUTANTS[mutant](inputs, case.result).astype(dtype)
    assert case.check(wrong, chain).reason
    assert case.check(case.result.astype(dtype), chain).reason is None


@pytest.mark.parametrize("around_0", [True, False])
@pytest.mark.parametrize(("bits", "hidden"), [(11, True), (8, False)], ids=["tf32", "bfloat16"])
def test_factors_of_fewer_bits_in_single_precision_fail(around_0, bits, hidden):
    A, B, C = (m if around_0 else (1 + m) / 2 for m in gemm.sdk_inputs(Size(64, 64, 1024), 1))
    fractions, exponents = zip(*map(np.frexp, (A, B)))
    short = [np.ldexp(np.rint(np.ldexp(f, bits)), e - bits) for f, e in zip(fractions, exponents)]
    probable, worst = (bounds.reference(1, A, B, 0.5, C, "sdk", nearest, around_0=around_0)
                       for nearest in (True, False))
    wrong = short[0] @ short[1] + np.float32(0.5) * C
    assert probable.check(wrong).reason
    assert (worst.check(wrong).reason is None) == hidden
    assert probable.check(A @ B + np.float32(0.5) * C).reason is None


def truncated(values):
    """Return float64 numbers rounded towards zero to the 24 bits of float32."""
    return (values.view(np.int64) & -(2**29)).view(float)


@pytest.mark.parametrize("around_0", [True, False])
def test_sums_in_single_precision_that_are_truncated_fail(around_0):
    A, B, C = (m if around_0 else (1 + m) / 2 for m in gemm.sdk_inputs(Size(64, 64, 1024), 1))
    sums = np.zeros(C.shape)
    for k in range(1024):
        sums = truncated(sums + A[:, k : k + 1].astype(float) * B[k])
    for nearest in (True, False):
        right = bounds.reference(1, A, B, 0, C, "sdk", nearest, around_0=around_0)
        assert (right.check(sums.astype(np.float32)).reason is None) != nearest


def in_half(inputs, alpha, beta, chain):
    """Return C of sums in float16 over `chain` products each, one after the other."""
    A, B, C = inputs
    sums = np.zeros(C.shape, np.float32)
    for first in range(0, A.shape[1], chain):
        part = np.zeros_like(C)
        for k in range(first, min(first + chain, A.shape[1])):
            part = part + A[:, k : k + 1] * B[k]
        sums += part
    return np.float16(alpha) * sums.astype(np.float16) + np.float16(beta) * C


@pytest.mark.parametrize("size", [(1, 1, 1), (1, 1, 300), (3, 5, 2), (40, 1, 999), (96, 96, 1024)])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (1.5, -0.3), (1e-4, 2), (1e-7, 1), (0, 3)])
def test_honest_sums_in_half_precision_pass(size, alpha, beta):
    expected = Expected(Size(*size), np.float16, "sdk", 2, alpha, beta)
    for chain in (1, 16, size[2]):
        for case in expected.cases:
            found = case.check(in_half(expected.inputs, alpha, case.beta, chain), chain)
            assert found.reason is None, (chain, case.beta)


def test_a_device_that_flushes_half_precision_passes():
    case = Expected(Size(8, 8, 4), np.float16, "sdk", 1, 1e-4, 0.0).cases[0]
    right = case.result.astype(np.float16)
    flushed = np.where(np.abs(right) < np.finfo(np.float16).tiny, 0, right)
    assert (flushed != right).mean() > 0.5
    assert case.check(flushed, 4).reason is None
    assert case.check(flushed + np.float16(0.01), 4).reason


@pytest.mark.parametrize("around_0", [True, False])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_spread_of_errors_scales_with_the_result_and_is_that_of_each_product(dtype, around_0):
    def of(*terms):
        return bounds.reference(*terms, "sdk", nearest=True, around_0=around_0).spread

    A, B, C = gemm.sdk_inputs(Size(3, 4, 50), 1, dtype, 3)
    one, flushed = of(1.0, A, B, 1.0, C)
    for terms in ((4.0, A, B, 4.0, C), (1.0, 4 * A, B, 4.0, C), (1.0, A, 4 * B, 1.0, 4 * C)):
        assert np.allclose(of(*terms)[0], 4 * one, rtol=1e-6)
    for n in range(3):
        assert np.allclose(of(1.0, A[n], B[n], 1.0, C[n]), (one[n], flushed[n]), rtol=1e-6)


@pytest.mark.parametrize("around_0", [True, False])
def test_the_bound_is_that_of_the_rule_that_is_said(around_0):
    A, B, C = gemm.sdk_inputs(Size(30, 40, 200), 1)
    right = bounds.reference(2.0, A, B, 3.0, C, "sdk", nearest=True, around_0=around_0)
    a, b, c = (np.abs(each).astype(float) for each in (A, B, C))
    if around_0:
        assert right.rule.startswith("8 * sqrt((K + 3) * V) * eps(float32)")
        limit = 8 * np.sqrt(203 * ((2 * a) ** 2 @ b**2 + (3 * c) ** 2)) * 2.0**-23
    else:
        assert right.rule.startswith("2 * sqrt((K + 3)) * eps(float32) * (|alpha| |A||B|")
        limit = 2 * np.sqrt(203) * 2.0**-23 * (2 * a @ b + 3 * c)
    for part, passes in ((0.999, True), (1.001, False)):
        found = right.result.copy()
        found[7, 5] += part * limit[7, 5]
        assert (right.check(found).reason is None) is passes
        assert right.check(found, chain=100).reason  # of fewer roundings


def test_a_device_that_flushes_every_product_passes():
    A, B = np.full((2, 64), 1e-19, np.float32), np.full((64, 3), 1.1e-19, np.float32)
    C = np.zeros((2, 3), np.float32)
    right = bounds.reference(1.0, A, B, 1.0, C, "sdk", nearest=True)
    assert right.check(C).reason is None
    assert right.check(C + np.float32(3e-36)).reason


def test_sums_that_are_truncated_need_the_wide_bound():
    """A device may round half precision towards zero: its errors do not cancel."""
    size = Size(20, 20, 1024)
    made = (size, np.float16, "sdk", 1, 1.0, 1.0)
    closer, wide = (
        Expected(*made, nearest).cases[0] for nearest in (True, False)
    )
    off = closer.result * (1 - 0.5 * size.K * np.finfo(np.float16).eps)
    assert closer.check(off, size.K).reason
    assert wide.check(off, size.K).reason is None


def test_what_libraries_make_is_the_product_alone():
    expected = Expected(Size(4, 5, 6), np.float32, "integer", 1, 2.0, 3.0)
    A, B, _ = expected.inputs
    product = expected.product()
    assert (product.result == A @ B).all()
    assert not product.right.bound.any()


def test_no_integer_may_be_read_as_nan():
    assert np.isnan(Expected(Size(2, 2, 2), np.float16, "sdk", 1, 1.0, 0.0).cases[0].C)
    assert Expected(Size(2, 2, 2), np.int8, "integer", 1, 1, 0).cases[0].C == 77
