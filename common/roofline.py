"""The measured ceiling for a GEMM on this device: limited by arithmetic or by memory bandwidth.

S. Williams, A. Waterman, D. Patterson, Roofline: an insightful visual performance model for
multicore architectures, CACM 52(4), 2009.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyopencl as cl

from common import device as devices
from common.buffers import GuardedBuffer
from common.constraints import VECTORS
from common.errors import OpenCLFailure
from common.gemm import REAL
from common.program import build
from common.record import clock_doubt
from common.text import figures, one_line
from common.timing import launch

SOURCE = Path(__file__).with_name("roofline.cl")
_OPS = ("fma", "mad")  # the faster one counts: fma is emulated on some devices, mad on none
_FAR = 2**30  # bytes that no cache holds, or a part of a small memory
_SHARE = 16  # of the memory that a buffer may take, one part in so many
_GROUPS = 16  # work-groups for each compute unit of a GPU
_CHAINS = 10  # of multiply_add
_AT_ONCE = 8  # vectors that a step of read_all reads
_EXACT = 8192  # vectors of ones, in 8 sums: half still counts them exactly
_MOST = 2**30  # of rounds, passes or launches
_X, _Y = 0.5, 1.0  # chains of multiply_add come to 2
_LONG = 0.02  # seconds that a sample should take at least, so that its start does not count
_REPEAT = 5  # samples, of which the fastest counts: a ceiling is what can be reached


@dataclass(frozen=True)
class Peak:
    """GFLOPS of multiply_add and GB/s of read_all, from main memory and for some size.

    What a CPU reads over and over comes from a cache if it fits: `near_gbytes_per_s` is for as many
    bytes as the matrices have. On a GPU both are the same. `how` names the fastest operation.
    """

    gflops: float
    gbytes_per_s: float
    near_gbytes_per_s: float
    how: str

    def ceiling(self, size, dtype, beta):
        """Return what a GEMM can reach at most, in GFLOPS, and whether `memory` or `compute` limits
        it: each matrix is moved once, C twice if beta is not 0.
        """
        by_memory = size.flop() / (size.moved(beta) * dtype.itemsize) * self.near_gbytes_per_s
        return min((by_memory, "memory"), (self.gflops, "compute"))

    def __str__(self):
        near = f", {figures(self.near_gbytes_per_s)} GB/s for as many bytes as these matrices have"
        return (f"{figures(self.gflops)} GFLOPS ({self.how}), {figures(self.gbytes_per_s)} GB/s "
                f"from main memory{near * (self.near_gbytes_per_s > self.gbytes_per_s)}")


class Roofline:
    """The kernels of roofline.cl, built for one precision."""

    def __init__(self, queue, limits, dtype):
        self.queue, self._dtype = queue, dtype
        self._cpu = devices.type_of(queue.device) == "cpu"
        native = getattr(queue.device, f"native_vector_width_{REAL[dtype]}") or 1
        self._width = min(native, max(VECTORS))  # some name a vector that OpenCL C has no type for
        self._read_width = max(self._width, 4)
        self._local = 1 if self._cpu else limits.fit((256,), queue.device.max_work_group_size)[0]
        self._units = queue.device.max_compute_units
        self._read = self._fastest_op = self._far = None

    def peak(self, size, batch=1):
        """Return (the Peak for so many matrices of that Size, None), or (None, why it is unknown).

        What others do on the machine can only lower a peak, so the highest so far counts.
        """
        if self._dtype.kind != "f":
            return None, "it is measured for floating-point types only"
        try:
            return self._peak(size, batch), None
        except (OpenCLFailure, cl.Error) as error:
            return None, one_line(error)

    def _peak(self, size, batch):
        if self._read is None:
            self._fastest_op = max((self._multiply_add(op), op) for op in _OPS)
            self._read = cl.Kernel(self._program("fma", self._read_width), "read_all")
            self._far = self._read_all(min(_FAR, self.queue.device.global_mem_size // _SHARE))
        op = self._fastest_op[1]
        self._fastest_op = max(self._fastest_op, (self._multiply_add(op), op))
        near = self._far
        if self._cpu:
            near = max(near, self._read_all(batch * size.moved() * self._dtype.itemsize))
        how = f"{op}, vectors of {self._width} x {REAL[self._dtype]}"
        return Peak(self._fastest_op[0], self._far, near, how)

    def _program(self, op, width):
        real = REAL[self._dtype]
        defines = {"REAL": real, "VEC": real if width == 1 else f"{real}{width}", "OP": op}
        return build(self.queue.context, SOURCE, defines)

    def _multiply_add(self, op):
        """Return GFLOPS."""
        kernel = cl.Kernel(self._program(op, self._width), "multiply_add")
        items = self._units * (4 if self._cpu else _GROUPS) * self._local
        real = self._dtype.type
        sums = GuardedBuffer(self.queue, (items, self._width), self._dtype)

        def enqueue(rounds):
            kernel.set_args(np.int32(rounds), real(_X), real(_Y), sums.device)
            return [cl.enqueue_nd_range_kernel(self.queue, kernel, (items,), (self._local,))]

        rounds, seconds = self._fastest(enqueue, 256)
        self._require(sums, _CHAINS * _Y / (1 - _X), "multiply_add")
        return items * self._width * _CHAINS * 2 * rounds / seconds / 1e9

    def _read_all(self, need):
        """Return GB/s of reading about `need` bytes over and over.

        A core of a CPU has one work-group, which reads its own part again within a launch: from a
        cache, if it fits. With several for each core only some of the parts would be in use at a
        time. On a GPU all work-groups read theirs before it starts anew, launch after launch: a
        work-group's own part would come from the cache of its compute unit, however much there is.
        To read a small amount takes less time than a launch, so it tells nothing about caches.
        """
        device, vector = self.queue.device, self._read_width * self._dtype.itemsize
        vectors = min(need, device.max_mem_alloc_size) // vector
        groups = self._units * (1 if self._cpu else _GROUPS)
        groups = max(1, min(groups, vectors // (_AT_ONCE * self._local)))
        items = groups * self._local
        each = max(1, vectors // (_AT_ONCE * items)) * _AT_ONCE
        source = GuardedBuffer(self.queue, (items, each * self._read_width), self._dtype)
        source.write(1)
        sums = GuardedBuffer(self.queue, (items, self._read_width), self._dtype)
        real, contiguous = self._dtype.type, np.int32(self._cpu)

        def enqueue(count, each=each):
            passes, launches = (count, 1) if self._cpu else (1, count)
            numbers = np.int32(each), contiguous, np.int32(passes), real(1)
            self._read.set_args(*numbers, source.device, sums.device)
            each_launch = self.queue, self._read, (items,), (self._local,)
            return [cl.enqueue_nd_range_kernel(*each_launch) for _ in range(launches)]

        counted = min(each, _EXACT)
        enqueue(1, counted)[0].wait()
        self._require(sums, counted, "read_all")
        count, seconds = self._fastest(enqueue, 1)
        return count * items * each * vector / seconds / 1e9

    def _fastest(self, enqueue, count):
        """Return (count, seconds) of the fastest sample; `count` is doubled until one is long."""
        while (seconds := _seconds(enqueue, count)) < _LONG and count < _MOST:
            count *= 2
        return count, min(seconds, *(_seconds(enqueue, count) for _ in range(_REPEAT)))

    def _require(self, sums, wanted, name):
        if not np.allclose(sums.read().astype(np.float64), wanted, rtol=1e-2) or not sums.intact():
            raise OpenCLFailure(f"the peak is unknown: {name} of roofline.cl gives a wrong result")


def _seconds(enqueue, count):
    """Return the time from the first start to the last end, by the device's clock if it has one."""
    times = launch(lambda: enqueue(count))
    *_, run, host = times
    return host if clock_doubt(*([each] for each in times)) else min(run, host)
