"""--caches: what is done between timed launches, and that it is not in their times."""

import time
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import flush, timing
from common.buffers import GuardedBuffer
from tests.conftest import exhaustive_but


@pytest.fixture
def launched(monkeypatch):
    """The (name, event) of each kernel that is enqueued."""
    seen, enqueue = [], cl.enqueue_nd_range_kernel

    def noted(queue, kernel, *sizes):
        event = enqueue(queue, kernel, *sizes)
        seen.append((kernel.function_name, event))
        return event

    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", noted)
    return seen


def test_a_flush_is_done_before_each_timed_launch_begins(queue, launched, monkeypatch, capsys):
    monkeypatch.setattr(flush, "need", lambda device: 2**20)
    other = cl.Kernel(cl.Program(queue.context, "kernel void other() {}").build(), "other")
    times = timing.measure(lambda: cl.enqueue_nd_range_kernel(queue, other, (1,), None), 2, 1,
                           flush.flusher(queue, "flushed"))
    names = [name for name, _ in launched]
    assert names == ["other", *["flush", "other"] * 2, "flush"]
    for (_, before), (_, timed), run in zip(launched[1::2], launched[2::2], times.run_s):
        assert timing.stamps(before)[3] <= timing.stamps(timed)[0]
        assert run == timing.elapsed(timed.profile.start, timed.profile.end)
    assert "a kernel overwrites 1 MiB" in capsys.readouterr().out


def test_all_of_the_buffer_is_overwritten(queue, monkeypatch):
    cells = GuardedBuffer(queue, (100,), np.uint32)
    cells.write(7)
    monkeypatch.setattr(flush, "need", lambda device: 400)
    monkeypatch.setattr(flush.cl, "Buffer", lambda *_: cells.device)
    flush.flusher(queue, "flushed")()
    assert (cells.read() == 8).all()
    assert cells.intact()


def test_warm_caches_are_left_alone(capsys):
    flush.flusher(None, "warm")()
    assert capsys.readouterr().out == ""


def test_it_is_not_in_the_hosts_time_of_a_driver_without_event_times():
    event = type("Event", (), {"wait": lambda self: None, "profile": property(_no_times),
                               "command_execution_status": cl.command_execution_status.COMPLETE})
    times = timing.measure(event, 3, 0, lambda: time.sleep(0.05))
    assert times.run_s == [0, 0, 0]
    assert times.seconds() is times.host_s
    assert min(times.host_s) < 0.05


def _no_times(event):
    raise cl.RuntimeError("PROFILING_INFO_NOT_AVAILABLE")


MIB = 2**20


@pytest.mark.parametrize(
    ("kind", "told", "machine", "most", "size"),
    [
        ("GPU", 200 * MIB, 900 * MIB, 4096 * MIB, 400 * MIB),
        ("CPU", 2 * MIB, 300 * MIB, 4096 * MIB, 600 * MIB),
        ("CPU", 100 * MIB, 0, 4096 * MIB, 200 * MIB),
        ("GPU", 0, 0, 4096 * MIB, 128 * MIB),  # some drivers tell nothing
        ("GPU", 0, 0, 64 * MIB + 7, 64 * MIB),
        ("CPU", 0, 3000 * MIB, 4096 * MIB, 2048 * MIB),  # a quarter of the memory
    ],
)
def test_how_much_is_overwritten(kind, told, machine, most, size, monkeypatch):
    monkeypatch.setattr(flush, "all_bytes", lambda: machine)
    device = SimpleNamespace(type=getattr(cl.device_type, kind), global_mem_cache_size=told,
                             max_mem_alloc_size=most, global_mem_size=8192 * MIB)
    assert flush.need(device) == size


SMALL = {
    "sgemm": ("--size", 16),
    "mygemm": ("--size", 16, "--kernel", 1),
    "gemmbench": ("-n", 16),
    "gemm_intel": ("-s", 16, "--tile-size-N", 16, "--repeat", 2),
    "64_bit_integer": ("--size", "16x16", "--kernel", "all"),
}


@pytest.mark.parametrize("sample", exhaustive_but(["sgemm"], SMALL))
def test_every_sample_says_and_records_it(recorded, sample):
    done, items = recorded(sample, *SMALL[sample], "--caches", "flushed")
    assert "Caches are flushed before each timed launch: a kernel overwrites " in done.stdout
    assert {(item.status, item.params["caches"]) for item in items} == {("passed", "flushed")}


@pytest.mark.parametrize(("sample", "option", "message"), [
    ("mygemm", ("--in-flight", 4), "--caches flushed times each launch alone: omit --in-flight"),
    ("sgemm", ("--duration", 1), "--caches flushed: omit --duration and --energy"),
    ("gemmbench", ("--energy",), "--caches flushed: omit --duration and --energy"),
])
def test_what_flushed_caches_cannot_go_with(refused, sample, option, message):
    assert message in refused(sample, *SMALL[sample], "--caches", "flushed", *option)
