"""Guard pages: a kernel that leaves its buffers is stopped, even where the result stays right."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import buffers, cli, drivers
from common.errors import Unsupported
from common.manifest import names

BEHIND = "const volatile float gone = ((volatile __global const float *)%s)[%s];"
LINE = "touched a guard page, or memory beyond it: killed by SIGSEGV while running"


@pytest.fixture
def leaky(project):
    """Let the kernel sgemm_row4 of the copied project read outside of A, and drop what it read."""

    def edit(at):
        path = project / "samples/sgemm/sgemm.cl"
        head, entry, body = path.read_text().partition("void sgemm_row4(")
        arguments, brace, body = body.partition("{")
        path.write_text(f"{head}{entry}{arguments}{brace}\n{BEHIND % ('A', at)}\n{body}")
        return project

    return edit


# 64 x 64 floats end at the end of a page; 67 * 67 floats do not, and the next page is 892 away.
@pytest.mark.parametrize(
    ("guards", "size", "at"),
    [("pages", 64, "M * K"), ("pages", 67, "M * K + 32"), ("pages-before", 67, "-1")],
)
@pytest.mark.parametrize("platform", ["Portable", "Intel"])
def test_a_read_without_effect_is_an_error_of_the_kernel(recorded, leaky, guards, size, at,
                                                         platform):
    if not any(platform in found.name for found in drivers.platforms()):
        pytest.skip(f"there is no platform {platform} here")
    args = ("-p", platform, "--size", size, "--kernel", "all", "--repeat", 1)
    done, items = recorded("sgemm", *args, "--guards", guards, root=leaky(at))
    assert done.stderr.splitlines()[-1] == f"run.py: error: row4: {LINE}"
    assert {item.variant: (item.status, item.reason) for item in items} == {
        "dot4": ("passed", None), "row4": ("failed", LINE), "tile4x4": ("passed", None),
    }
    assert done.returncode == 1


def test_with_bands_the_same_read_is_not_seen(recorded, leaky):
    done, items = recorded("sgemm", "--size", 64, "--kernel", "row4", root=leaky("M * K"))
    assert (done.returncode, items[0].status) == (0, "passed")


def test_a_crash_elsewhere_is_the_drivers(recorded):
    """Only where a kernel is at work, a crash is taken for its own."""
    change = "import os\nrun.build = lambda *_: os.abort()"  # as a compiler may
    done, (item,) = recorded("sgemm", "--size", 8, "--guards", "pages", change=change)
    assert (done.returncode, item.status) == (3, "error")
    assert item.reason == "killed by SIGABRT while building sgemm.cl"


@pytest.mark.parametrize("sample", names())
def test_every_sample_is_clean(run_sample, sample):
    from common import manifest

    small = manifest.read(sample).tools.small
    done = run_sample(sample, *small, "--guards", "pages", "--repeat", 1)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_device_that_copies_buffers_is_refused(queue, monkeypatch):
    require = buffers.require_guard_pages.__wrapped__
    require(queue.device)
    flags = SimpleNamespace(READ_WRITE=cl.mem_flags.READ_WRITE,
                            USE_HOST_PTR=cl.mem_flags.COPY_HOST_PTR)
    monkeypatch.setattr(buffers.cl, "mem_flags", flags)
    with pytest.raises(Unsupported, match="--guards pages: this driver copies buffers; use"):
        require(queue.device)


def test_guard_pages_are_for_cpus():
    gpu = SimpleNamespace(type=cl.device_type.GPU)
    with pytest.raises(Unsupported, match="for CPU devices only"):
        buffers.require_guard_pages.__wrapped__(gpu)
    platform = SimpleNamespace(version="OpenCL 1.2 pocl 1.6, None+Asserts, LLVM 9.0.1")
    cpu = SimpleNamespace(type=cl.device_type.CPU, platform=platform)
    with pytest.raises(Unsupported, match="not with PoCL 1"):
        buffers.require_guard_pages.__wrapped__(cpu)


@pytest.mark.parametrize("size", [1, 4096, 17 * 17 * 4])
def test_guard_pages_lie_on_both_sides(size):
    room = buffers.between_guard_pages(size)
    assert size <= room.size < size + 4096
    room[:] = 7
    start, end = room.ctypes.data, room.ctypes.data + room.size
    maps = [line.split()[:2] for line in Path("/proc/self/maps").read_text().splitlines()]
    spans = [(*(int(text, 16) for text in span.split("-")), rights) for span, rights in maps]

    def rights(address):
        return next((r for low, high, r in spans if low <= address < high), None)

    for step in range(0, buffers.REACH, 4096):
        assert rights(start - 1 - step).startswith("---")
        assert rights(end + step).startswith("---")
    assert rights(start).startswith("rw-")


@pytest.mark.parametrize("guards", buffers.GUARDS)
def test_a_write_next_to_a_buffer_is_seen(queue, guards):
    """Between a buffer that is no whole number of pages and the pages lie a few bytes."""
    code = "__kernel void poke(__global float *x, int at) { x[at] = 1.0f; }"
    poke = cl.Kernel(cl.Program(queue.context, code).build(), "poke")
    buffers.guard_with(guards)
    try:
        buffer = buffers.GuardedBuffer(queue, (17, 17))
    finally:
        buffers.guard_with("bands")
    buffer.write(2)
    assert buffer.intact()
    at = np.int32(-1 if guards == "pages" else 17 * 17)
    poke(queue, (1,), None, buffer.device, at).wait()
    assert not buffer.intact()
    assert (buffer.read() == 2).all()
    buffer.guard()
    assert buffer.intact()


def test_the_option_is_refused_with_another_value():
    with pytest.raises(Exception, match="argument --guards: invalid choice: 'fence'"):
        cli.parser("sgemm", "").parse_args(["--guards", "fence"])
