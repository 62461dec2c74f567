"""How the kernels are launched: atomics or not, work-groups, access pattern; whole passes."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import NamedTuple

import luma
import numpy as np
import pyopencl as cl

from common import constraints, device, interleaved, table
from common.buffers import GuardedBuffer
from common.errors import OpenCLFailure
from common.machine import cores
from common.program import build, builds_only, group_limit
from common.text import figures, milliseconds, one_line

WORK_GROUPS = [2**n for n in range(11)]
VECTOR = 64  # pixels that a work-item reads in a step
_FOLDER = Path(__file__).with_name("kernels")
_ATOMICS = "cl_khr_int64_base_atomics"
_NVIDIA = "cl_nv_device_attribute_query"
_PROBES, _ADDEND = 1024, 0x1FFFFFFFF  # as in probe_atomics.cl
_STATED = 64  # work-items of a group whose size is stated
# With PoCL the host's thread sleeps until a launch is complete, and is slow to wake. For a small
# image it polls the status instead, for so many seconds at most. For a large one the driver needs
# its core. With Intel's runtime a thread that waits executes work-groups.
_POCL = "Portable Computing Language"
_SMALL, _WATCHED = 2**20, 1e-4  # pixels, seconds
_ON_MALI = 64  # work-items of a group: more would leave each of them 8 registers on Midgard


class Kernel(NamedTuple):
    """A kernel's file, what it needs, and how its work is divided."""

    file: Path
    atomics: bool = True  # it adds to two sums, which are 0 before; or each group has its own
    pixels: int | None = None  # of a work-item; None: its work-group is a parameter


KERNELS = {
    "long_vectors": Kernel(_FOLDER / "01_long_vectors.cl", pixels=8),
    "many_vectors": Kernel(_FOLDER / "02_many_vectors.cl"),
    "work_group": Kernel(_FOLDER / "02_many_vectors.cl"),
    "two_stages": Kernel(_FOLDER / "03_two_stages.cl", atomics=False),
}


class Shape(NamedTuple):
    """An NDRange of one dimension, and the access pattern."""

    groups: int
    local: int
    contiguous: bool | None  # None where there is no choice

    def __str__(self):
        access = {True: ", contiguous access", False: ", interleaved access", None: ""}
        return f"{self.groups} work-groups of {self.local}{access[self.contiguous]}"

    def ndrange(self):
        """Return the global size and the local size."""
        return (self.groups * self.local,), (self.local,)


def why_no_atomics(queue, limits):
    """Return why 64-bit atomic additions cannot be used, or None where they work.

    The extension's name is a promise; a probe kernel tells whether it is kept.
    """
    if _ATOMICS not in limits.extensions:
        return f"the device has no {_ATOMICS}"
    if builds_only():
        return None
    try:
        kernel = cl.Kernel(build(queue.context, _FOLDER / "probe_atomics.cl"), "probe_atomics")
        total = GuardedBuffer(queue, (1,), np.uint64)
        total.write(0)
        kernel.set_args(total.device)
        cl.enqueue_nd_range_kernel(queue, kernel, (_PROBES,), None).wait()
        right = int(total.read()[0]) == _PROBES * _ADDEND
    except (OpenCLFailure, cl.Error) as error:
        return f"the device has {_ATOMICS}, but the probe kernel fails: {one_line(error)}"
    return None if right else f"the device has {_ATOMICS}, but the probe kernel's sum is wrong"


def kernels(chosen):
    """Return what --describe says of the kernels on a device."""
    space, flags = asdict(_space(_usual(chosen))), {"work_group": "--work-group"}
    return [
        {"name": name, "options": ["--kernel", name],
         **({"space": None} if kernel.pixels else {"space": space, "flags": flags})}
        for name, kernel in KERNELS.items()
    ]


def _space(work_group):
    """Return the Space of the kernels with a parameter: each work-item keeps 16 bytes of sums."""
    return constraints.Space(
        {"work_group": work_group}, {"work_group": WORK_GROUPS}, local=("work_group",),
        local_bytes="16 * work_group",
    )


def _usual(chosen):
    """Return how many work-items a work-group has by default.

    A CPU runs the work-items of a core one after the other, so one is enough.
    """
    if device.type_of(chosen) == "cpu":
        return 1
    return _ON_MALI if "mali" in chosen.name.lower() else 128


def choose(name, chosen, limits, count, local=None, access=None):
    """Return the Shape of a kernel for `count` pixels; `local` and `access` overrule its choice.

    A work-group larger than the device allows becomes the largest that it allows. A CPU has a few
    groups per core, each with its own range of memory. A GPU runs work-items side by side:
    neighbours must read neighbours, and many groups hide the latency of memory.
    """
    if pixels := KERNELS[name].pixels:
        local = limits.fit((64,), chosen.max_work_group_size)[0]
        return Shape(-(-count // (pixels * local)), local, None)
    on_cpu, known = device.type_of(chosen) == "cpu", constraints.facts(limits, 1)
    space = _space(local or _usual(chosen))
    local = constraints.choose(space, {}, known, name).params["work_group"]
    groups = chosen.max_compute_units * (4 if on_cpu else 16)
    groups = max(1, min(groups, -(-count // (VECTOR * local))))
    return Shape(groups, local, on_cpu if access is None else access == "contiguous")


def built(queue, name, shape):
    """Return the kernel of that name, and the Shape in which it can be launched.

    The size of a small work-group is stated: a compiler that knows it may give a work-item more
    registers. A kernel that does not allow it has twice as many groups, of half the size.
    """
    defines = {"WORK_GROUP": shape.local, **instructions(queue.device, shape.local)}
    if 1 < shape.local <= _STATED:
        defines["GROUP_X"] = shape.local
    kernel = cl.Kernel(build(queue.context, KERNELS[name].file, defines), name)
    if shape.local > group_limit(kernel):
        half = shape._replace(groups=2 * shape.groups, local=shape.local // 2)
        return built(queue, name, half)
    return kernel, shape


def instructions(chosen, local):
    """Return the defines for what only some devices have, in work-groups of `local` work-items.

    AMD: the family of a CPU of AMD, 0 if it is not known. VNNI and DP4A: four products of bytes are
    added up at once, by a CPU of x86 and, from compute capability 6.1 on, by NVIDIA's GPUs. VNNI is
    inline assembly, at which PoCL 6 crashes where a work-group has several work-items.
    """
    if device.type_of(chosen) == "cpu":
        amd = {"AMD": device.amd_family(chosen)} if device.of_amd(chosen) else {}
        vnni = local == 1 and "avx512_vnni" in device.host_cpu().get("flags", "").split()
        return {"CPU": 1, **amd, **({"VNNI": 1} if vnni else {})}
    if _NVIDIA not in chosen.extensions.split():
        return {}
    version = chosen.compute_capability_major_nv, chosen.compute_capability_minor_nv
    return {"DP4A": 1} if version >= (6, 1) else {}


def shares_memory(chosen):
    """Return whether the host can read what a kernel wrote, without a command: fine-grained SVM."""
    with suppress(cl.Error):  # before OpenCL 2.0 there is no such question
        return bool(chosen.svm_capabilities & cl.device_svm_capabilities.FINE_GRAIN_BUFFER)
    return False


def whole_pass(queue, kernel, shape, result, count, reset=False):
    """Return a function that computes the sums of `count` pixels, up to the host's addition.

    A `reset` goes before, for a kernel that adds to what is there. The queue takes no times, and
    where host and device share memory nothing is copied: for a small image that would take longer
    than the kernel.
    """
    queue, shared = cl.CommandQueue(queue.context), shares_memory(queue.device)
    watched = count <= _SMALL and queue.device.platform.name == _POCL
    rows = np.empty(result.shape, result.dtype)
    if shared:
        rows = cl.fsvm_empty(queue.context, result.shape, result.dtype)
        kernel.set_arg(3, cl.SVM(rows))

    def run():
        if reset:
            rows.fill(0)
            if not shared:
                cl.enqueue_copy(queue, result.device, rows)
        launched = cl.enqueue_nd_range_kernel(queue, kernel, *shape.ndrange())
        if shared:
            if watched:
                _watch(queue, launched)
            queue.finish()
        else:
            cl.enqueue_copy(queue, rows, result.device)  # the queue is in order: this waits
        return rows.sum(axis=0)

    return run


def _watch(queue, launched):
    """Wait for a short launch without sleeping, for _WATCHED seconds at most."""
    queue.flush()
    end = time.perf_counter() + _WATCHED
    while time.perf_counter() < end:
        if launched.command_execution_status == cl.command_execution_status.COMPLETE:
            return


def plain_read(queue, shape, pixels, count):
    """Return whole_pass() of a kernel that reads all pixels and does next to nothing with them."""
    program = build(queue.context, _FOLDER / "read_all.cl", {"WORK_GROUP": shape.local})
    result = GuardedBuffer(queue, (shape.groups, 4), np.uint32)
    contiguous, kernel = np.uint32(bool(shape.contiguous)), cl.Kernel(program, "read_all")
    kernel.set_args(pixels.device, np.uint32(count), contiguous, result.device)
    return whole_pass(queue, kernel, shape, result, count)


def side_by_side(passes, expected, count, repeat, warmup):
    """Return lines that compare `passes` over `count` pixels, functions by name, with each other.

    Raises OpenCLFailure where that of a kernel does not give the `expected` sums: memory that host
    and device share is used here only.

    A pass is all that a user waits for once the image is in the device's memory: reset of the sums
    if needed, launch, read-back, and the host's part. All are timed by the host's clock,
    interleaved. `plain read` shows what reading alone takes, without prefetching.
    """
    contenders = []
    for name, run in passes.items():
        if name in KERNELS and (wrong := luma.check(run(), expected, intact=True).reason):
            raise OpenCLFailure(f"a whole pass of {name} gives {wrong}")
        contenders.append(interleaved.Contender(name, None, lambda _: None, queued=False))
        contenders[-1].enter(None, run)
    with cores.beside_workers():
        times = interleaved.rounds(contenders, repeat, warmup, in_flight=1)
    others = [n for n in ("long_vectors", "numpy on the host", "plain read") if n in times]
    rows = []
    for name, taken in times.items():
        seconds = median(taken.host_s)
        ratios = (f"{interleaved.ratio(taken, times[other]):.2f}" for other in others)
        rows.append((name, milliseconds(seconds), figures(count / 1e9 / seconds), *ratios))
    head = ["whole pass", "time", "GB/s", *(f"to {other}" for other in others)]
    rounds = f"Medians of {repeat} rounds" if repeat > 1 else "One round"
    note = f"{rounds}, by the host's clock. to NAME: times NAME's rate, in the same round."
    return [*table.lines(head, rows), note]
