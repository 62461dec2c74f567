"""The worst case of rounding, and the check of a result against its bound."""


import numpy as np
import pytest

from common import bounds, gemm
from common.buffers import guard_pattern
from common.errors import UsageError
from common.gemm import Size

SMALL = Size(5, 7, 3)


@pytest.mark.parametrize("make", [gemm.sdk_inputs, gemm.integer_inputs])
def test_a_batch_is_drawn_and_computed_product_by_product(make):
    A, B, C = make(SMALL, 1, np.float32, 4)
    assert (A.shape, B.shape, C.shape) == ((4, 5, 3), (4, 3, 7), (4, 5, 7))
    assert len({each.tobytes() for each in A}) == 4
    result, bound = bounds.worst_case(1.5, A, B, 0.5, C)
    for n in range(4):
        one = bounds.worst_case(1.5, A[n], B[n], 0.5, C[n])
        assert np.array_equal((result[n], bound[n]), one)
    wrong = result.astype(np.float32)
    wrong[2, 4, 6] = np.nan
    check = bounds.check(wrong, result, bound)
    assert "1 of 140 elements are wrong, the first is C[2][4][6]: nan" in check.reason


def test_the_reference_in_blocks_equals_numpy(monkeypatch):
    monkeypatch.setattr(bounds, "REFERENCE_ROWS", 2)
    A, B, C = gemm.sdk_inputs(SMALL, 3)
    result, bound = bounds.worst_case(1.5, A, B, 0.5, C)
    wide = [m.astype(np.float64) for m in (A, B, C)]
    np.testing.assert_allclose(result, 1.5 * wide[0] @ wide[1] + 0.5 * wide[2], rtol=1e-14)
    size = 1.5 * np.abs(wide[0]) @ np.abs(wide[1]) + 0.5 * np.abs(wide[2])
    np.testing.assert_allclose(bound, 2 * 3 * 2.0**-23 * size, rtol=1e-14)


@pytest.mark.parametrize("K", [1, 2, 64, 1000])
def test_an_honest_float32_result_is_within_the_bound(K):
    A, B, C = gemm.sdk_inputs(Size(30, 20, K), 5)
    expected, bound = bounds.worst_case(np.float32(1.1), A, B, np.float32(0.1), C)
    total = np.zeros_like(C)
    for k in range(K):  # one after the other: the summation order with the largest error
        total += A[:, k : k + 1] * B[k]
    check = bounds.check(np.float32(1.1) * total + np.float32(0.1) * C, expected, bound)
    assert check.reason is None
    assert 0 < check.error_over_bound <= 1


@pytest.mark.parametrize(("alpha", "beta"), [(1e-39, 0), (0, 1e-44), (1e-38, 1e-38)])
def test_a_device_that_flushes_subnormal_numbers_is_within_the_bound(alpha, beta):
    A, B, C = gemm.sdk_inputs(Size(9, 8, 7), 5)
    expected, bound = bounds.worst_case(np.float32(alpha), A, B, np.float32(beta), C)
    assert bounds.check(np.zeros_like(C), expected, bound).reason is None or alpha == 1e-38
    assert bounds.check(expected.astype(np.float32), expected, bound).reason is None


def test_a_device_that_flushes_every_product_is_within_the_bound():
    A, B = np.full((2, 64), 1e-19, np.float32), np.full((64, 3), 1.1e-19, np.float32)
    C = np.zeros((2, 3), np.float32)
    expected, bound = bounds.worst_case(1, A, B, 1, C)
    assert bounds.check(C, expected, bound).reason is None
    assert bounds.check(C + np.float32(3e-36), expected, bound).reason


def of_type(dtype, size, seed):
    """Matrices of [-1, 1], also in the imaginary parts of complex types."""
    matrices = [m.astype(dtype) for m in gemm.sdk_inputs(size, seed)]
    if np.dtype(dtype).kind == "c":
        others = gemm.sdk_inputs(size, seed + 1)
        matrices = [m + dtype(1j) * o.astype(dtype) for m, o in zip(matrices, others)]
    return matrices


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("K", [1, 2, 3, 64])
def test_an_honest_complex_result_is_within_the_bound(dtype, K):
    A, B, C = of_type(dtype, Size(30, 20, K), 5)
    alpha, beta = dtype(0.3 - 1.1j), dtype(-0.7 + 0.2j)
    expected, bound = bounds.worst_case(complex(alpha), A, B, complex(beta), C)
    np.testing.assert_allclose(
        expected, alpha * (A.astype(complex) @ B) + beta * C.astype(complex), rtol=1e-4
    )
    total = np.zeros_like(C)
    for k in range(K):
        total += A[:, k : k + 1] * B[k]
    check = bounds.check(alpha * total + beta * C, expected, bound)
    assert check.reason is None
    assert check.error_over_bound <= 1
    assert check.error_over_bound > 0 or dtype is np.complex128  # as exact as the reference
    conjugated = bounds.check(alpha * total + beta * C.conj(), expected, bound)
    assert "elements are wrong, the first is C[0][0]" in conjugated.reason


@pytest.mark.parametrize("K", [1, 2, 64, 300])
def test_half_matrices_that_are_summed_in_float32(K):
    A, B, C = of_type(np.float16, Size(30, 20, K), 5)
    wide = [m.astype(np.float32) for m in (A, B, C)]
    result = np.float32(-0.3) * (wide[0] @ wide[1]) + np.float32(0.4) * wide[2]
    inputs = (float(np.float32(-0.3)), A, B, float(np.float32(0.4)), C)
    expected, bound = bounds.worst_case(*inputs, arithmetic=np.float32)
    check = bounds.check(result.astype(np.float16), expected, bound)
    assert check.reason is None
    assert 0 < check.error_over_bound <= 1
    assert bound.max() < 0.02  # the bound of sums in float16 would let anything pass
    assert bounds.check(np.zeros_like(C), expected, bound).reason
    loose = bounds.worst_case(*inputs)[1]
    assert (loose > bound).mean() > 0.9


def test_half_results_that_are_flushed_are_within_the_bound():
    A, B = np.full((2, 3), 3e-3, np.float16), np.full((3, 2), 3e-3, np.float16)
    C = np.zeros((2, 2), np.float16)
    expected, bound = bounds.worst_case(1, A, B, 0, C, arithmetic=np.float32)
    assert 0 < expected.max() < np.finfo(np.float16).tiny
    assert bounds.check(C, expected, bound).reason is None
    assert bounds.check(expected + 1e-4, expected, bound).reason


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8])
def test_whole_numbers_must_be_exact(dtype):
    A, B, C = gemm.integer_inputs(SMALL, 1, dtype)
    expected, bound = bounds.worst_case(2, A, B, -3, C, data="integer")
    assert (expected == 2 * A.astype(int) @ B.astype(int) - 3 * C.astype(int)).all()
    assert not bound.any()
    size = gemm.Size(8, 8, 9)
    gemm.require_exact("integer", size, 2.0, [-3.0], dtype)
    gemm.require_exact("sdk", size, 0.5, [0.5], dtype)
    for alpha, beta in ((0.5, 1.0), (1.0, 0.5)):
        with pytest.raises(UsageError, match=r"needs whole --alpha and --beta: --.* 0\.5 is not"):
            gemm.require_exact("integer", size, alpha, [1.0, beta], dtype)
    with pytest.raises(UsageError, match=f"needs sums of at most .*: at K = {2**50} they can"):
        gemm.require_exact("integer", gemm.Size(1, 1, 2**50), 1.0, [0.0], dtype)


def test_a_half_result_that_overflows_is_refused():
    A, B, C = of_type(np.float16, Size(4, 4, 64), 5)
    with pytest.raises(UsageError, match="overflows float16"):
        bounds.worst_case(1e5, A, B, 0, C, arithmetic=np.float32)


def test_a_result_that_overflows_is_refused():
    A, B, C = gemm.sdk_inputs(SMALL, 5)
    with pytest.raises(UsageError, match="overflows float32"):
        bounds.worst_case(3e38, 10 * A, B, 0, C)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1.0])
def test_one_wrong_element_fails(wrong):
    A, B, C = gemm.sdk_inputs(SMALL, 1)
    expected, bound = bounds.worst_case(1, A, B, 1, C)
    result = expected.astype(np.float32)
    assert bounds.check(result, expected, bound).reason is None
    result[2, 4] = wrong
    check = bounds.check(result, expected, bound)
    assert check.reason.startswith("1 of 35 elements are wrong, the first is C[2][4]")
    assert check.line().startswith("FAILED")


def test_a_bound_of_zero_wants_equality():
    expected = np.array([[1.0, 2.0]])
    right = bounds.check(expected.astype(np.float32), expected, 0 * expected)
    assert (right.reason, right.error_over_bound) == (None, 0)
    result = np.array([[1.0, np.nextafter(np.float32(2), np.float32(3))]], np.float32)
    wrong = bounds.check(result, expected, 0 * expected)
    assert wrong.reason is not None
    assert wrong.error_over_bound == np.inf


def test_what_a_check_tells_of_the_errors():
    expected, bound = np.array([[4.0, -8.0, 0.0]]), np.array([[0.5, 4.0, 1.0]])
    found = bounds.check(np.array([[4.25, -9.0, 0.0]], np.float32), expected, bound)
    assert (found.reason, found.max_abs_error, found.error_over_bound) == (None, 1, 0.5)
    assert bounds.check(expected + bound, expected, bound).reason is None
    mean = bounds.check(expected + 0.25, expected, bound, mean=0.2).reason
    assert mean == "the root mean square of the errors is 0.25, not at most 0.2"
    assert bounds.check(expected, expected, bound, intact=False).reason.endswith("of its buffers")


def test_a_later_launch_must_give_the_same_bits():
    right = bounds.Check(0.5, 0.25, None)
    first = np.array([0.0, 1.0])
    assert right.again(first, first.copy()) == right
    for other in ([-0.0, 1.0], [0.0, np.nextafter(1, 2)], [np.nan, 1.0]):
        found = right.again(first, np.array(other))
        assert found.reason == "a launch after the timed ones gave another result than the first"
        assert found.line().startswith("FAILED: ")


@pytest.mark.parametrize(("K", "loose"), [(1, False), (4096, False), (2**18, True)])
def test_a_bound_that_exceeds_most_results_is_said(K, loose):
    inputs = gemm.sdk_inputs(gemm.Size(5, 7, K), 1)
    expected, bound = bounds.worst_case(1, *inputs[:2], 0.1, inputs[2])
    found = bounds.check(expected, expected, bound)
    assert found.reason is None
    assert found.line().endswith("check with --data integer" if loose else "of its bound")
    nothing = bounds.check(0 * expected, expected, bound)
    assert (nothing.reason is None) == loose
    assert "--data" not in bounds.check(expected + np.inf, expected, bound).line()


def test_a_bound_is_not_loose_where_the_results_are_0():
    zeros = np.zeros((2, 2))
    assert not bounds.check(zeros, zeros, zeros + 1).loose


@pytest.mark.filterwarnings("error")
def test_values_of_the_guards_in_a_result_are_wrong_without_a_warning():
    result = np.tile(guard_pattern(np.dtype(np.float32)), 4).view(np.float32).reshape(2, 2)
    check = bounds.check(result, np.ones((2, 2)), np.ones((2, 2)))
    assert check.reason.startswith("4 of 4 elements are wrong, the first is C[0][0]: nan")
