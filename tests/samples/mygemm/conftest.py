"""What tests of several kernels share: the sample's modules, and kernels 13 and 14 as functions."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import bounds, device, gemm
from common.planning import nvidia, plans, tiles
from common.planning.stream import Stream
from common.program import build
from tests.conftest import ROOT, sample_module

EMULATED = ROOT / "tests/samples/mygemm/emulated.cl"
FLOAT = np.dtype(np.float32)

TILE = {"TSM": 16, "TSN": 16, "WARP_M": 16, "WARP_N": 8, "STAGES": 2, "BAND": 2, "DIRECT": 0}
ONCE = {**TILE, "DIRECT": 1}

each_adder = pytest.mark.parametrize(  # what adds up the parts of a tile
    "most", [tiles.MOST_ADDED, 0], ids=["the last work-group", "add.cl"])

CAPABLE = {"compute_capability_major_nv": 9, "compute_capability_minor_nv": 0}


@pytest.fixture(scope="module")
def sample():
    """The sample's modules."""
    names = ("compare", "special", "run")
    return SimpleNamespace(**{name: sample_module("mygemm", name) for name in names})


@pytest.fixture
def multiply(sample, queue, tmp_path):
    """Run kernel 13 or 14; gives C. `change` is a part of the kernel and what takes its place."""

    def run(number, A, B, C, alpha=1.5, beta=-0.5, gap=3, change=None, units=1, **params):
        kernel = sample.special.KERNELS[number - 1]
        before = [kernel.path(name) for name in kernel.before if name != "nvidia"]
        text = "".join(path.read_text() for path in (*before, kernel.file))
        if change:
            assert change[0] in text
            text = text.replace(*change)
        path = tmp_path / kernel.file.name
        path.write_text((EMULATED.read_text() if number == 14 else "") + text)

        # A device for which 14 is planned as for NVIDIA's; its instructions are emulated.
        limits = device.limits(queue.device)
        chip = SimpleNamespace(max_compute_units=units, type=queue.device.type, **CAPABLE)
        if number == 14:
            limits = replace(limits, extensions=limits.extensions | {nvidia.EXTENSION})
        size = gemm.Size(*C.shape, A.shape[1])
        strides = size.K + gap, size.N + gap, size.N + gap
        problem = gemm.Problem(size, C.dtype, *strides)
        plan = plans.plan(kernel, params, problem, limits, chip)
        program = build(queue.context, path, plan.defines)
        stream = Stream(queue, problem)  # whose room is full of NaN
        stream.write(A, B, C)
        built = plans.Built(plan, program, 16)
        sample.run.enqueuer(built, alpha, beta, stream)()[-1].wait()
        assert stream.intact()
        if held := stream.held.get("counters"):
            counters = np.empty(held.size // 4, np.int32)
            cl.enqueue_copy(queue, counters, held)
            assert (counters == -1).all()
        return stream.C.read()

    return run


def matrices(M, N, K, dtype=FLOAT, seed=1):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1, 1, shape).astype(dtype) for shape in ((M, K), (K, N), (M, N))]


def wrong(got, A, B, C, alpha=1.5, beta=-0.5):
    """Return why the result is wrong, or None."""
    return bounds.check(got, *bounds.worst_case(alpha, A, B, beta, C)).reason


def scales_out_of_range(multiply, what):
    """Tell whether a kernel is right where the product of two scales is out of range, that of the
    line's elements not; first as it is, then without its limit of the `largest` or `smallest`."""
    A, B, C = matrices(18, 19, 40)
    if what == "smallest":
        A[2], B[:, 2], limit = 2.0**-60, 2.0**-64, ("LOWEST_DIRECT (-48)", "LOWEST_DIRECT (-113)")
    else:  # 2^85 meets 0 only
        A[2], B[:, 2], limit = 0, 0, ("HIGHEST_DIRECT 76", "HIGHEST_DIRECT 127")
        A[2, :2], B[1:3, 2] = (2.0**85, 2.0**60), (2.0**60, 2.0**85)
    exact = A[2].astype(float) @ B[:, 2]  # the bound of bounds.check() has room for what underflows
    found = (multiply(A, B, C, alpha=1, beta=0, change=change) for change in (None, limit))
    return [bool(np.isclose(C[2, 2], exact, rtol=1e-5, atol=0)) for C in found]
