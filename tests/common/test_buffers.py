"""Guarded zero-copy buffers: a write outside is seen, a read outside spoils the result."""

from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import buffers
from common.buffers import GuardedBuffer, guard_pattern

SOURCE = """
__kernel void poke(__global float *x, int at) { x[at] = 1.0f; }
__kernel void peek(__global const float *x, int at, __global float *y) { *y = 2 * x[at]; }
"""


@pytest.fixture(scope="module")
def kernels(queue):
    program = cl.Program(queue.context, SOURCE).build()
    return cl.Kernel(program, "poke"), cl.Kernel(program, "peek")


@pytest.mark.parametrize("shape", [(1,), (3, 5), (640, 7)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int64])
def test_what_goes_in_comes_out(queue, shape, dtype):
    buffer = GuardedBuffer(queue, shape, dtype)
    values = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    buffer.write(values)
    assert np.array_equal(buffer.read(), values)
    assert buffer.intact()


@pytest.mark.parametrize("at", [-1, -1024, 12, 12 + 1023])
def test_a_write_outside_is_seen(queue, kernels, at):
    buffer = GuardedBuffer(queue, (12,))
    buffer.write(np.zeros(12))
    kernels[0](queue, (1,), None, buffer.device, np.int32(at)).wait()
    assert not buffer.intact()
    assert not buffer.read().any()


def test_a_write_inside_is_not_taken_for_one_outside(queue, kernels):
    buffer = GuardedBuffer(queue, (12,))
    kernels[0](queue, (1,), None, buffer.device, np.int32(11)).wait()
    assert buffer.intact()


@pytest.mark.parametrize("at", [-1, 12])
def test_a_read_outside_gives_nan(queue, kernels, at):
    buffer, result = GuardedBuffer(queue, (12,)), GuardedBuffer(queue, (1,))
    buffer.write(np.zeros(12))
    kernels[1](queue, (1,), None, buffer.device, np.int32(at), result.device).wait()
    assert np.isnan(result.read()[0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_no_arithmetic_gives_the_pattern_of_the_bands(dtype):
    pattern = np.resize(guard_pattern(np.dtype(dtype)), 8 * np.dtype(dtype).itemsize).view(dtype)
    assert np.isnan(pattern).all()
    with np.errstate(invalid="ignore"):
        spoiled = (pattern + 1).view(np.uint8)
    assert (spoiled != pattern.view(np.uint8)).any()


def test_bands_of_other_values_take_the_place_of_nan(queue, kernels):
    buffer, result = GuardedBuffer(queue, (12,)), GuardedBuffer(queue, (1,))
    buffer.write(np.zeros(12))
    buffer.guard(np.array([3, -3], np.float32))
    assert buffer.intact()
    seen = set()
    for at in (-2, -1, 12, 13):
        kernels[1](queue, (1,), None, buffer.device, np.int32(at), result.device).wait()
        seen.add(float(result.read()[0]))
    assert seen == {6.0, -6.0}
    kernels[0](queue, (1,), None, buffer.device, np.int32(12)).wait()
    assert not buffer.intact()
    assert not buffer.read().any()


def test_mapping_twice_gives_the_same_memory_on_a_cpu(queue):
    assert queue.device.type & cl.device_type.CPU, "the tests' device is PoCL"
    buffer = GuardedBuffer(queue, (1000,))
    addresses = set()
    for _ in range(2):
        array, _ = cl.enqueue_map_buffer(queue, buffer.device, cl.map_flags.READ, 0, (1000,),
                                         np.float32)
        addresses.add(array.ctypes.data)
        array.base.release(queue)
    assert len(addresses) == 1


@pytest.mark.parametrize("at", [12, 12 + 1023])
def test_a_driver_that_forgets_where_a_sub_buffer_begins_gets_none(queue, kernels, at):
    """PoCL 1 launches a kernel a second time as if it began at 0."""

    class Pocl1(cl.CommandQueue):
        platform = SimpleNamespace(name="PoCL", version="OpenCL 1.2 pocl 1.6, None+Asserts")
        device = SimpleNamespace(platform=platform, mem_base_addr_align=1024)

    buffer = GuardedBuffer(Pocl1(queue.context), (12,))
    assert buffer.device.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT) is None
    buffer.write(np.zeros(12))
    assert buffer.intact()
    kernels[0](queue, (1,), None, buffer.device, np.int32(at)).wait()
    assert not buffer.intact()
    assert not buffer.read().any()


def test_others_get_sub_buffers(queue):
    buffer = GuardedBuffer(queue, (12,))
    assert buffer.device.get_info(cl.mem_info.ASSOCIATED_MEMOBJECT) is not None


def test_a_large_buffer_lies_in_huge_pages_of_the_host_on_a_cpu(queue, kernels, monkeypatch):
    """As numpy's arrays do: a BLAS, with which kernels are compared, works on these."""
    rooms, make = [], buffers.in_huge_pages
    monkeypatch.setattr(buffers, "in_huge_pages", lambda n: rooms.append(make(n)) or rooms[-1])
    elements = 1 << 20
    GuardedBuffer(queue, (elements - 1,))
    assert not rooms
    buffer = GuardedBuffer(queue, (elements,))
    (room,) = rooms
    assert room.ctypes.data % (1 << 21) == 0
    before = (room.size - buffer.nbytes) // 2
    assert before >= 4096
    buffer.write(2)
    assert (room[before:][: buffer.nbytes].view(np.float32) == 2).all()
    assert buffer.intact()
    kernels[0](queue, (1,), None, buffer.device, np.int32(elements)).wait()
    assert not buffer.intact()

    class Gpu(cl.CommandQueue):
        device = SimpleNamespace(platform=queue.device.platform, mem_base_addr_align=1024,
                                 type=cl.device_type.GPU)

    GuardedBuffer(Gpu(queue.context), (elements,))
    assert len(rooms) == 1
