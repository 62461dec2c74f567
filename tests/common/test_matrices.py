"""The matrix on the device: what is written comes back, and what lies around it is guarded."""

import numpy as np
import pyopencl as cl
import pytest

from common.matrices import Matrix

SOURCE = """
__kernel void poke(__global float *x, int at) { x[at] = 1.0f; }
__kernel void scale(__global float *x, int at) { x[at] = 0.5f * x[at] + 1.0f; }
__kernel void peek(__global const float *x, int at, __global float *y) { *y = x[at]; }
"""


@pytest.fixture(scope="module")
def poke(queue):
    return cl.Kernel(cl.Program(queue.context, SOURCE).build(), "poke")


@pytest.mark.parametrize("ld", [None, 5, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.float16])
def test_what_is_written_comes_back(queue, ld, dtype):
    matrix = Matrix(queue, 3, 5, dtype, ld)
    values = np.arange(15).reshape(3, 5).astype(dtype)
    matrix.write(values)
    assert np.array_equal(matrix.read(), values)
    assert matrix.intact()
    assert matrix.nbytes == 3 * (ld or 5) * values.itemsize


@pytest.mark.parametrize("ld", [5, 8])
def test_matrices_of_a_batch_follow_each_other(queue, poke, ld):
    matrix = Matrix(queue, 3, 5, np.float32, ld, 4)
    values = np.arange(60, dtype=np.float32).reshape(4, 3, 5)
    matrix.write(values)
    assert np.array_equal(matrix.read(), values)
    assert matrix.nbytes == 4 * 3 * ld * 4
    poke(queue, (1,), None, matrix.device, np.int32(2 * 3 * ld)).wait()
    assert np.argwhere(matrix.read() != values).tolist() == [[2, 0, 0]]
    poke(queue, (1,), None, matrix.device, np.int32(4 * 3 * ld)).wait()
    assert not matrix.intact()


@pytest.mark.parametrize("at", [-1, 5, 7, 13, 24])
def test_a_write_into_a_gap_or_a_band_is_seen_until_it_is_mended(queue, poke, at):
    matrix = Matrix(queue, 3, 5, np.float32, 8)
    matrix.write(2)
    poke(queue, (1,), None, matrix.device, np.int32(at)).wait()
    assert not matrix.intact()
    assert (matrix.read() == 2).all()
    matrix.write(3)
    assert matrix.intact()


@pytest.mark.parametrize("at", [-1, 5, 24])
def test_a_nan_that_came_of_the_guard_itself_is_seen(queue, at):
    scale = cl.Kernel(cl.Program(queue.context, SOURCE).build(), "scale")
    matrix = Matrix(queue, 3, 5, np.float32, 8)
    matrix.write(2)
    scale(queue, (1,), None, matrix.device, np.int32(at)).wait()
    assert not matrix.intact()


def test_a_write_inside_is_no_fault(queue, poke):
    matrix = Matrix(queue, 3, 5, np.float32, 8)
    matrix.write(2)
    poke(queue, (1,), None, matrix.device, np.int32(12)).wait()
    assert matrix.intact()
    assert matrix.read()[1, 4] == 1


@pytest.mark.parametrize("at", [-1, 3, 7, 8])  # a band, two gaps, a band
def test_the_guards_hold_the_number_that_is_asked_for(queue, at):
    peek = cl.Kernel(cl.Program(queue.context, SOURCE).build(), "peek")
    matrix, seen = Matrix(queue, 2, 3, np.float32, 4), Matrix(queue, 1, 1, np.float32)
    for around in (1e30, None):
        assert 0 < matrix.write(0, around) < 10  # seconds
        assert matrix.intact()
        peek(queue, (1,), None, matrix.device, np.int32(at), seen.device).wait()
        np.testing.assert_equal(seen.read(), np.float32([[around or np.nan]]))


def test_what_is_read_is_contiguous(queue):
    matrix = Matrix(queue, 2, 3, np.float32, 4)
    matrix.write(0)
    assert matrix.read().flags.c_contiguous
