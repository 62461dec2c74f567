"""Times of events and what is made of them."""

from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import record, timing
from common.errors import OpenCLFailure
from common.text import milliseconds
from common.timing import Timing


def test_the_profiling_block_is_the_sdks():
    times = Timing([0.094e-3], [74.073e-6], [1.31641], [1.4], 0)
    assert times.lines() == [
        "Profiling information:",
        "Queued time:    0.094ms",
        "Wait time:      0.074073ms",
        "Run time:       1316.41ms",
    ]


def test_the_profiling_block_has_medians_and_all_run_times_if_asked():
    times = Timing([1e-3, 9e-3, 2e-3], [3e-3, 0.0, 4e-3], [1.0, 2.0, 9.0], [9.0] * 3, 0)
    usual = ["Profiling information:", "Queued time:    2ms", "Wait time:      3ms",
             "Run time:       2000ms"]
    assert times.lines() == usual
    assert times.lines(verbose=True) == [*usual, "Run times:      1000ms 2000ms 9000ms"]


def test_median_and_spread():
    times = Timing([0] * 3, [0] * 3, [2.0, 1.0, 4.0], [9.0] * 3, 1)
    # The 10th percentile of the times is 1.2, the 90th 3.6: neither the shortest nor the longest.
    rate = times.rate(7.2)
    assert (rate.median, rate.low, rate.high) == pytest.approx((3.6, 2.0, 6.0))
    line = "GFLOPS:         3.6 (median of 3, spread 2 to 6)"
    assert times.rate_line("GFLOPS", 7.2) == line
    assert "(median of 3 parts, spread " in times.rate_line("GFLOPS", 7.2, "parts")


def test_a_single_time_has_no_spread():
    single = Timing([0], [0], [2.0], [9.0], 1)
    assert single.rate_line("GFLOPS", 7.2) == "GFLOPS:         3.6 (1 run, no spread)"
    assert single.statistics_line(7.2) == "3.6, 1 run, no spread"


def test_statistics_name_range_and_spread():
    times = Timing([0] * 5, [0] * 5, [1.0, 2.0, 4.0, 5.0, 10.0], [9.0] * 5, 1)
    # The 10th percentile of the times is 1.4, the 90th 8: rates of 14.3 and 2.5.
    line = "median 5, mean 8.2, min 2, max 20, range 18, spread 235.7%, 5 runs"
    assert times.statistics_line(20) == line
    silent = Timing([0], [0], [0.0], [2.0], 0)
    assert silent.statistics_line(20).endswith(
        "1 run, no spread, by the host's clock: the driver's events have no times"
    )


def test_the_time_between_launches_can_be_used(monkeypatch):
    calls = []
    monkeypatch.setattr(timing, "launch", lambda enqueue: (calls.append("launch"), 0, 0, 0))
    done = SimpleNamespace(wait=lambda: calls.append("warm-up"))
    timing.measure(lambda: done, 2, 1, lambda: calls.append("look"))
    assert calls == ["warm-up", "look", "launch", "look", "launch", "look"]


@pytest.mark.parametrize(
    ("value", "text"), [(0.00123456, "0.001235"), (17.234, "17.23"), (11184.7, "11185")]
)
def test_figures(value, text):
    assert timing.figures(value) == text
    assert milliseconds(value / 1e3) == f"{text} ms"


def test_events_without_times_leave_the_hosts_clock():
    times = Timing([0] * 2, [0] * 2, [0.0, 0.0], [1.0, 3.0], 0)
    assert times.rate(6.0).median == 3.0
    assert "by the host's clock" in times.rate_line("GFLOPS", 6.0)


@pytest.mark.parametrize(
    ("queued", "run", "host", "why"),
    [
        (0, 0.0019, 0.1, "less than 1/8"),  # ticks of 52 ns, taken for ns
        (0, 3e-6, 0.1, "less than 1/8"),  # a constant
        (0, 0.3, 0.1, "longer than the host waited"),
        (0, 2.0**64 * 1e-9, 1e-4, "longer than the host waited"),  # an end that is not set
        (0, 0.05, 0.1, None),
        (0, 0.19, 0.1, None),  # of two in flight
        (0.09, 0.001, 0.1, None),  # it waited for the end of another command
        (0, 1e-5, 0.01, None),  # so much may be the latency of a board
    ],
)
def test_times_of_events_that_the_hosts_clock_contradicts(queued, run, host, why):
    times = Timing([queued] * 3, [0] * 3, [run] * 3, [host] * 3, 1)
    used = host if why else run
    assert times.rate(6.0).median == pytest.approx(6 / used)
    line = times.rate_line("GFLOPS", 6.0)
    assert ("by the host's clock" in line) == (why is not None)
    assert (why or "") in line
    item = record.Record("s", "k", "passed", timing=asdict(times))
    assert item.times() == times.seconds()


def test_a_wait_that_returns_too_early_is_told():
    class Early:
        command_execution_status = cl.command_execution_status.RUNNING

        def wait(self):
            pass

        @property
        def profile(self):
            raise cl.RuntimeError("PROFILING_INFO_NOT_AVAILABLE")

    with pytest.raises(OpenCLFailure, match="returns before the launch is complete"):
        timing.launch(Early)


def test_warm_up_launches_are_not_counted():
    launched = []

    def enqueue():
        launched.append(len(launched))
        ns = 1000 * len(launched)
        times = SimpleNamespace(queued=0, submit=ns, start=3 * ns, end=7 * ns)
        return SimpleNamespace(wait=lambda: None, profile=times)

    times = timing.measure(enqueue, repeat=3, warmup=2)
    assert len(launched) == 5
    np.testing.assert_allclose(times.queued_s, [3e-6, 4e-6, 5e-6])
    np.testing.assert_allclose(times.wait_s, [6e-6, 8e-6, 10e-6])
    np.testing.assert_allclose(times.run_s, [12e-6, 16e-6, 20e-6])


def test_the_times_of_several_steps_are_from_the_first_to_the_last():
    first = SimpleNamespace(profile=SimpleNamespace(queued=0, submit=1, start=2, end=3))
    last = SimpleNamespace(wait=lambda: None,
                           profile=SimpleNamespace(queued=5, submit=6, start=7, end=2_000_000_002))
    *by_device, host = timing.launch(lambda: [first, last])
    assert by_device == pytest.approx([1e-9, 1e-9, 2])
    assert host < 1


def test_a_driver_without_times_or_with_odd_ones():
    class Broken:
        queued = 0

        @property
        def submit(self):
            raise cl.RuntimeError("PROFILING_INFO_NOT_AVAILABLE")

    odd = SimpleNamespace(queued=9000, submit=0, start=5000, end=4000)
    for profile in (Broken(), odd):
        event = SimpleNamespace(wait=lambda: None, profile=profile, command_execution_status=0)
        times = timing.measure(lambda event=event: event, repeat=2, warmup=0)
        assert min(times.queued_s + times.wait_s + times.run_s) == 0
        assert timing.stamps(event) in [(0, 0, 0, 0), (9000, 0, 5000, 4000)]
        assert "by the host's clock" in times.rate_line("GFLOPS", 1.0)


@pytest.mark.parametrize(("work", "sleeps"), [
    ([0.02, 0.006, 0.004], 3), ([0.0], 1), ([0.01] * 99, 50),
], ids=["threads that go to sleep", "none", "threads that spin for ever"])
def test_waiting_until_this_process_is_at_rest(monkeypatch, work, sleeps):
    clock, worked, left = [100.0], [7.0], iter(work)

    def sleep(seconds):
        clock[0] += seconds
        worked[0] += next(left)

    monkeypatch.setattr(timing, "time", SimpleNamespace(
        sleep=sleep, perf_counter=lambda: clock[0], process_time=lambda: worked[0]))
    timing.settle()
    assert len(work) - len(list(left)) == pytest.approx(sleeps, abs=sleeps // 40)


def test_tiny_times_have_no_exponent():
    assert Timing([3e-8], [1e-3], [2.0], [2.0], 0).lines()[1] == "Queued time:    0.000030ms"


def test_a_real_event(queue):
    kernel = cl.Program(queue.context, "__kernel void f(__global int *x) { *x = 1; }").build().f
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, 4)
    times = timing.measure(lambda: kernel(queue, (1,), None, buffer), repeat=4, warmup=1)
    assert len(times.run_s) == 4
    assert all(0 < run <= host for run, host in zip(times.run_s, times.host_s))
