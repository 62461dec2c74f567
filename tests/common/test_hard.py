"""Badly scaled and nearly cancelling inputs: right sums pass, wrong ones do not."""

from types import SimpleNamespace

import numpy as np
import pytest

from common import bounds, gemm, hard
from common.errors import UsageError
from common.gemm import Size
from common.outputs import digest
from tests.conftest import sample_module

SIZE, BETA = Size(30, 20, 255), 0.5
TYPES = (np.float32, np.float64)


@pytest.fixture(scope="module", params=[(d, t) for d in hard.HARD for t in TYPES], ids=str)
def hardened(request):
    """Inputs, result and bound."""
    data, dtype = request.param
    inputs = gemm.INPUTS[data](SIZE, 5, dtype)
    return inputs, *bounds.worst_case(1.0, *inputs[:2], BETA, inputs[2])


def summed(inputs, order):
    """Return C of sums in the inputs' type over k in that order, one after the other."""
    A, B, C = inputs
    total = np.zeros_like(C)
    for k in order:
        total += A[:, k : k + 1] * B[k]
    return total + C.dtype.type(BETA) * C


@pytest.mark.parametrize("order", [range(255), range(254, -1, -1), range(0, 510, 2)])
def test_right_sums_in_any_order_pass(hardened, order):
    inputs, expected, bound = hardened
    found = bounds.check(summed(inputs, [k % 255 for k in order]), expected, bound)
    assert found.reason is None
    assert found.error_over_bound > 0


def without(inputs, first, count):
    A, B, C = inputs
    A = A.copy()
    A[:, first : first + count] = 0
    return summed((A, B, C), range(255))


WRONG = {
    "zeros": lambda inputs, right: 0 * right,
    "one row of zeros": lambda inputs, right: right * (np.arange(30) != 7)[:, np.newaxis],
    "a block of k left out": lambda inputs, right: without(inputs, 64, 8),
    "the first k left out": lambda inputs, right: without(inputs, 0, 1),
    "the second half left out": lambda inputs, right: without(inputs, 127, 128),
    "beta forgotten": lambda inputs, right: right - BETA * inputs[2],
    "two rows swapped": lambda inputs, right: right[[1, 0, *range(2, 30)]],
    "two columns swapped": lambda inputs, right: right[:, [1, 0, *range(2, 20)]],
    "sums in half precision": lambda inputs, right: right + 2.0**-11 * (
        np.abs(inputs[0]) @ np.abs(inputs[1])),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_wrong_results_fail(hardened, wrong):
    inputs, expected, bound = hardened
    assert bounds.check(WRONG[wrong](inputs, expected), expected, bound).reason


def test_rows_and_columns_are_scaled_by_powers_of_2():
    drawn, scaled = (gemm.INPUTS[data](SIZE, 5) for data in ("sdk", "scaled"))
    for before, after in zip(drawn, scaled):
        factors = np.log2(after / before)
        assert (factors == np.round(factors)).all()
        assert np.ptp(factors) > 50
        assert np.linalg.matrix_rank(factors) == 2  # a row's plus a column's
    wide = gemm.INPUTS["scaled"](SIZE, 5, np.float64)
    assert np.ptp(np.log2(np.abs(wide[0]))) > 300


def test_sums_cancel_as_far_as_the_precision_can_tell():
    for dtype, least in ((np.float32, 300), (np.float64, 1e11)):
        A, B, _ = gemm.INPUTS["cancelling"](SIZE, 5, dtype)
        A, B = A.astype(np.float64), B.astype(np.float64)
        terms, sums = np.abs(A) @ np.abs(B), np.abs(A @ B)
        assert (terms > least * sums).all()


@pytest.mark.parametrize("data", hard.HARD)
def test_they_are_reproducible(data):
    first, again, other = (digest(*gemm.INPUTS[data](SIZE, seed)) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("data", hard.HARD)
@pytest.mark.parametrize("size", [(1, 1, 1), (1, 1, 2), (2, 3, 3)])
def test_small_ones(data, size):
    A, B, C = gemm.INPUTS[data](Size(*size), 1)
    expected, bound = bounds.worst_case(1, A, B, 0.1, C)
    assert (A.dtype, A.shape) == (np.float32, (size[0], size[2]))
    assert bounds.check(A @ B + np.float32(0.1) * C, expected, bound).reason is None
    assert bounds.check(0 * C, expected, bound).reason


@pytest.mark.parametrize("data", hard.HARD)
def test_a_batch_is_hard_in_each_product(data):
    first, second = gemm.sdk_inputs(SIZE, 1), gemm.sdk_inputs(SIZE, 2)
    both = hard.made(data, 7, *map(np.stack, zip(first, second)))
    for number, drawn in enumerate((first, second)):
        for matrix, alone in zip(both, hard.made(data, 7, *drawn)):
            assert np.array_equal(matrix[number], alone)


def test_complex_sums_cancel_too():
    drawn = gemm.sdk_inputs(SIZE, 1), gemm.sdk_inputs(SIZE, 2)
    inputs = [(a + 1j * b).astype(np.complex64) for a, b in zip(*drawn)]
    A, B, C = hard.made("cancelling", 1, *inputs)
    assert A.dtype == B.dtype == C.dtype == np.complex64
    wide = A.astype(complex), B.astype(complex)
    assert (np.abs(wide[0]) @ np.abs(wide[1]) > 200 * np.abs(wide[0] @ wide[1])).all()


@pytest.mark.parametrize("data", hard.HARD)
def test_half_precision_has_too_few_bits(data):
    with pytest.raises(UsageError, match=f"--data {data} needs single or double precision"):
        gemm.INPUTS[data](SIZE, 1, np.float16)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_gemmbench_has_them_in_every_layout(layout):
    point = sample_module("gemmbench", "point")
    single = np.dtype(np.float32)
    meta = SimpleNamespace(transA=layout[0], transB=layout[1], dtype=single, scalar=single,
                           sums=single)

    def typical(data):
        drawn = point.draw(SIZE, meta, 1, data)
        result = point.reference(drawn._replace(beta=0 * drawn.beta), meta, data).result
        return np.median(np.abs(result))

    assert typical("cancelling") < typical("drawn") / 2


@pytest.mark.parametrize("nn", [True, False])
def test_gemm_intel_has_them(nn):
    operands = sample_module("gemm_intel", "operands")
    _, _, A, B, _ = operands.draw(60, np.dtype(np.float32), 1, "cancelling", nn)
    assert np.median(np.abs(A) @ np.abs(B)) > 100 * np.median(np.abs(A.astype(float) @ B))


COMMANDS = {
    "sgemm": ("--size", "@transformer.scores", "--kernel", "all"),
    "mygemm": ("--size", "65x33x70,@transformer.values", "--kernel", "1,6,10,12", "--libraries",
               "none"),
    "gemmbench": ("-f", "?GEMM_N?_2x2_barrier,CGEMM_NT_1x1", "-n", 61),
    "gemm_intel": ("-s", 61, "--tile-size-N", 16, "--repeat", 2),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("data", hard.HARD)
@pytest.mark.parametrize("sample", COMMANDS)
def test_every_sample_passes_with_them(recorded, sample, data):
    done, items = recorded(sample, *COMMANDS[sample], "--data", data)
    assert done.returncode == 0, done.stdout
    assert {(item.status, item.params["data"]) for item in items} == {("passed", data)}
