"""The kernels for Mali: right at any size, whatever the matrices' edges, alpha, beta and strides.

They are built and launched here directly, on the host's devices; what they are on a Mali's compiler
is not for tests.
"""

from functools import lru_cache

import numpy as np
import pyopencl as cl
import pytest
from conftest import ROOT

from common import device
from common.errors import UsageError
from common.program import build

SAMPLES = ROOT / "samples"
FOLDER = SAMPLES / "mygemm" / "kernels"
SIZES = [(1, 1, 1), (3, 3, 3), (17, 17, 17), (4, 64, 4), (67, 45, 129), (5, 130, 66)]
LANES, ROWS = 16, 4
GAP = -7  # between the rows of C


def up(number, unit):
    return -(-number // unit) * unit


@pytest.fixture(scope="module", params=["Portable", "Intel"])
def queue(request):
    """A queue on the device of that platform."""
    try:
        return device.open_queue(device.choose(platform=request.param))
    except UsageError as error:
        pytest.skip(str(error))


@lru_cache
def program(context, file, defines, options=()):
    return build(context, FOLDER / file, dict(defines), options)


class Problem:
    """Matrices with gaps between their rows, on a device, and what C must become."""

    def __init__(self, queue, size, kinds, gaps=(0, 0, 0), unit=1):
        (self.M, self.N, self.K), self.queue = size, queue
        rng = np.random.default_rng(sum(size))
        shapes = (self.M, self.K), (self.K, self.N), (self.M, self.N)
        self.lds = [up(columns, unit) + gap for (_, columns), gap in zip(shapes, gaps)]
        self.inputs, self.buffers = [], []
        for (rows, columns), ld, kind in zip(shapes, self.lds, kinds):
            if np.dtype(kind).kind == "i":
                info = np.iinfo(np.int8)
                values = rng.integers(info.min, info.max + 1, (rows, columns)).astype(kind)
            else:
                values = rng.uniform(-1, 1, (rows, columns)).astype(kind)
            whole = np.full((rows, ld), GAP, kind)
            whole[:, :columns] = values
            self.inputs.append(values)
            flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
            self.buffers.append(cl.Buffer(queue.context, flags, hostbuf=whole))

    def buffer(self, count, kind):
        """Return a buffer of so many elements, full of ones in all bits: NaN, or -1."""
        ones = np.full(max(count, 1) * np.dtype(kind).itemsize, 255, np.uint8)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self.queue.context, flags, hostbuf=ones)

    def image(self, width, height, channel):
        """Return an image of four channels."""
        shape = cl.ImageFormat(cl.channel_order.RGBA, channel)
        flags = cl.mem_flags.READ_WRITE
        return cl.create_image(self.queue.context, flags, shape, (width, height))

    def launch(self, kernels, alpha, beta, more=()):
        """Launch (kernel, work-items) one after the other; return C, and check its gaps."""
        scalar = self.inputs[2].dtype.type
        a, b, c = self.buffers
        lda, ldb, ldc = map(np.int32, self.lds)
        for kernel, items in kernels:
            kernel.set_args(*map(np.int32, (self.M, self.N, self.K)), scalar(alpha), a, lda, b, ldb,
                            scalar(beta), c, ldc, *more)  # fmt: skip
            total = tuple(up(n, side) for n, side in zip(items, (LANES, ROWS)))
            cl.enqueue_nd_range_kernel(self.queue, kernel, total, (LANES, ROWS))
        whole = np.empty((self.M, self.lds[2]), scalar)
        cl.enqueue_copy(self.queue, whole, c)
        assert (whole[:, self.N :] == GAP).all()
        return whole[:, : self.N]

    def check(self, result, alpha, beta, epsilon, slack=1):
        """Compare with the product in float64, within what rounding can explain."""
        A, B, C = (each.astype(np.float64) for each in self.inputs)
        expected = alpha * A @ B + beta * C
        bound = abs(alpha) * abs(A) @ abs(B) * (self.K + slack) * epsilon
        bound += (2 * abs(beta * C) + abs(expected)) * epsilon
        assert (abs(result.astype(np.float64) - expected) <= bound).all()


def packed(problem, made, M0, depth, width):
    """Return the launches of a file that packs A, M0 rows at a time, and B, and multiplies."""
    return [
        (cl.Kernel(made, "pack_a"), (depth, -(-problem.M // 4))),
        (cl.Kernel(made, "pack_b"), (width, depth)),
        (cl.Kernel(made, "gemm"), (width, -(-problem.M // M0))),
    ]


def require_images(queue):
    if not queue.device.image_support:
        pytest.skip("the device has no images")


TILES = [{}, {"M0": 8}, {"N0": 8}, {"M0": 8, "N0": 8, "UNROLL": 1}, {"UNROLL": 16}]
SCALARS = [(1.5, -0.5), (1, 0)]
each_size = pytest.mark.parametrize("size", SIZES, ids=lambda s: "x".join(map(str, s)))
each_tile = pytest.mark.parametrize("tile", TILES, ids=str)
each_scalar = pytest.mark.parametrize(("alpha", "beta"), SCALARS)


@pytest.mark.parametrize("tile", [{}, {"M0": 2}, {"M0": 2, "N0": 8}, {"M0": 1, "REAL": "double"}],
                         ids=str)  # fmt: skip
@each_scalar
@pytest.mark.parametrize("sides", [(1, 1, 1), (3, 5, 7)], ids=str)
def test_21_registers(queue, sides, tile, alpha, beta):
    M0, N0 = tile.get("M0", 4), tile.get("N0", 4)
    kind = np.float64 if "REAL" in tile else np.float32
    if kind == np.float64 and "cl_khr_fp64" not in queue.device.extensions:
        pytest.skip("the device has no cl_khr_fp64")
    size = (sides[0] * M0, sides[1] * LANES * N0, sides[2] * 4)
    problem = Problem(queue, size, [kind] * 3, gaps=(4, 8, 4), unit=4)
    kernel = cl.Kernel(program(queue.context, "21_mali_registers.cl", tuple(tile.items())), "gemm")
    items = size[1] // N0, size[0] // M0
    result = problem.launch([(kernel, items)], alpha, beta)
    problem.check(result, alpha, beta, np.finfo(kind).eps)


@each_size
@each_tile
def test_22_packed(queue, size, tile):
    M0, N0, unroll = (tile.get(name, 4) for name in ("M0", "N0", "UNROLL"))
    problem = Problem(queue, size, [np.float32] * 3, gaps=(3, 2, 1))
    depth, columns = up(problem.K, unroll), up(problem.N, LANES * N0)
    made = program(queue.context, "22_mali_packed.cl", tuple(tile.items()))
    work = problem.buffer((up(problem.M, M0) + columns) * depth, np.float32)
    kernels = packed(problem, made, M0, depth, columns // 4)
    for alpha, beta in SCALARS[::-1]:  # C is changed by what comes last only
        result = problem.launch(kernels, alpha, beta, [work])
        problem.check(result, alpha, beta, np.finfo(np.float32).eps)
        problem.inputs[2] = result


@each_size
@each_tile
@pytest.mark.parametrize("number", [23, 24])
def test_23_and_24_images(queue, number, size, tile):
    require_images(queue)
    M0, N0, unroll = (tile.get(name, 4) for name in ("M0", "N0", "UNROLL"))
    problem = Problem(queue, size, [np.float32] * 3, gaps=(3, 2, 1))
    depth, columns = up(problem.K, unroll), up(problem.N, LANES * N0)
    file = "23_mali_image.cl" if number == 23 else "24_mali_images.cl"
    made = program(queue.context, file, tuple(tile.items()))
    b_image = problem.image(columns // 4, depth, cl.channel_type.FLOAT)
    kernels = packed(problem, made, M0, depth, columns // 4)
    if number == 23:
        more = [problem.buffer(up(problem.M, M0) * depth, np.float32), b_image]
    else:
        rows = up(problem.M, M0) // 4
        more = [problem.image(rows, depth, cl.channel_type.FLOAT), b_image]
        kernels[0] = (kernels[0][0], (rows, depth))
    for alpha, beta in SCALARS[::-1]:
        result = problem.launch(kernels, alpha, beta, more)
        problem.check(result, alpha, beta, np.finfo(np.float32).eps)
        problem.inputs[2] = result


@each_size
@pytest.mark.parametrize("tile", [{}, {"CHAIN": 0}, {"CHAIN": 8, "UNROLL": 2}], ids=str)
def test_25_half(queue, size, tile):
    require_images(queue)
    if "cl_khr_fp16" not in queue.device.extensions:
        pytest.skip("the device has no cl_khr_fp16")
    problem = Problem(queue, size, [np.float16] * 3, gaps=(3, 2, 1))
    depth = up(problem.K, tile.get("UNROLL", 8)) // 2
    rows, columns = -(-problem.M // 4), -(-problem.N // 4)
    made = program(queue.context, "25_mali_half.cl", tuple(tile.items()))
    kind = cl.channel_type.UNSIGNED_INT32
    more = [problem.image(rows, depth, kind), problem.image(columns, depth, kind)]
    kernels = packed(problem, made, 4, depth, columns)
    kernels[0] = (kernels[0][0], (rows, depth))
    chain = tile.get("CHAIN", 64)  # with 0 only what is stored is rounded
    slack = min(chain, problem.K) - problem.K if chain else 0.01 - problem.K
    for alpha, beta in SCALARS[::-1]:
        result = problem.launch(kernels, alpha, beta, more)
        problem.check(result, alpha, beta, np.finfo(np.float16).eps, slack)
        problem.inputs[2] = result


@each_size
@pytest.mark.parametrize("tile", [{}, {"M0": 8, "UNROLL": 1}], ids=str)
@pytest.mark.parametrize("options", [(), ("-cl-std=CL3.0",)], ids=["plain", "CL3.0"])
def test_26_int8_is_exact(queue, size, tile, options):
    require_images(queue)
    if options and queue.device.opencl_c_version < "OpenCL C 3.0":
        pytest.skip("the device has no OpenCL C 3.0")
    problem = Problem(queue, size, [np.int8, np.int8, np.int32], gaps=(3, 2, 1))
    M0, unroll = tile.get("M0", 4), tile.get("UNROLL", 4)
    depth, width = up(problem.K, 4 * unroll) // 4, -(-problem.N // 4)
    made = program(queue.context, "26_mali_int8.cl", tuple(tile.items()), options)
    work = problem.buffer(up(problem.M, M0) * depth * 4, np.int8)
    more = [work, problem.image(width, depth, cl.channel_type.UNSIGNED_INT32)]
    kernels = packed(problem, made, M0, depth, width)
    for alpha, beta in [(1, 0), (-3, 2)]:
        result = problem.launch(kernels, alpha, beta, more)
        A, B, C = (each.astype(np.int64) for each in problem.inputs)
        assert (result == alpha * A @ B + beta * C).all()
        problem.inputs[2] = result


@pytest.mark.parametrize("size", [(1, 1, 1), (17, 19, 18), (20, 68, 12)], ids=str)
@pytest.mark.parametrize(("name", "rows"), [("row4", 1), ("tile4x4", 4)])
def test_sgemm_in_stated_groups(queue, size, name, rows):
    problem = Problem(queue, size, [np.float32] * 3)
    M, N, K = map(np.int32, size)
    defines = {"GROUP_X": LANES, "GROUP_Y": ROWS}
    made = build(queue.context, SAMPLES / "sgemm" / "sgemm.cl", defines)
    a, b, c = problem.buffers
    total = up(-(-N // 4), LANES), up(-(-M // rows), ROWS)
    kernel = cl.Kernel(made, f"sgemm_{name}")
    kernel(queue, total, (LANES, ROWS), M, N, K, np.float32(1.5), a, b, np.float32(-0.5), c)
    result = np.empty((M, N), np.float32)
    cl.enqueue_copy(queue, result, c)
    problem.check(result, 1.5, -0.5, np.finfo(np.float32).eps)


@pytest.mark.parametrize("white", [False, True], ids=["noise", "white"])
@pytest.mark.parametrize("count", [1, 15, 16, 17, 1000, 600_013])
@pytest.mark.parametrize(
    "defines", [{"WORK_GROUP": 16}, {"WORK_GROUP": 16, "GROUP_X": 16}], ids=str
)
def test_two_stages_with_any_access_pattern(queue, defines, count, white):
    """White pixels fill the 32-bit sums of a stretch as far as they may be filled."""
    file = SAMPLES / "64_bit_integer" / "kernels" / "04_two_stages.cl"
    kernel = cl.Kernel(build(queue.context, file, defines), "two_stages")
    drawn = np.random.default_rng(count).integers(0, 256, count)
    pixels = np.full(count, 255, np.uint8) if white else drawn.astype(np.uint8)
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    buffer = cl.Buffer(queue.context, flags, hostbuf=pixels)
    sums = np.empty((1, 2), np.uint64)
    made = cl.Buffer(queue.context, cl.mem_flags.WRITE_ONLY, sums.nbytes)
    wide = pixels.astype(np.uint64)
    for contiguous, local in ((0, 16), (1, 16), *(((1, 1),) if "GROUP_X" not in defines else ())):
        kernel(queue, (local,), (local,), buffer, np.uint32(count), np.uint32(contiguous), made)
        cl.enqueue_copy(queue, sums, made)
        assert sums.tolist() == [[(wide * wide).sum(), wide.sum()]]
