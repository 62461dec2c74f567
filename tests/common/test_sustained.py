"""Long runs: a value for each part, what is kept of one that ends early, throttled or not."""

import os
import signal
import threading
import time
from types import SimpleNamespace

import pyopencl as cl
import pytest
from fake_sysfs import CPU, GPU, put, rockchip
from long_run import FIRST, HOT, hot

from common import stopping, sustained


def event(seconds=0.002, fail=False):
    """Return what stands for an event whose kernel ran so long."""
    def wait():
        time.sleep(seconds)
        if fail:
            raise cl.RuntimeError("OUT_OF_RESOURCES")

    times = SimpleNamespace(queued=0, submit=1000, start=2000, end=2000 + int(seconds * 1e9))
    return SimpleNamespace(wait=wait, profile=times)


def test_a_run_has_a_value_for_each_part_and_counts_all_launches(tmp_path):
    count = []
    found = sustained.run(lambda: count.append(1) or event(), 1, 3, rockchip(tmp_path))
    assert found.launches == len(count) - 3  # to warm up
    assert 1 <= found.seconds < 3
    assert 0 < len(found.at) == len(found.times.run_s) <= sustained.PARTS
    assert found.at == sorted(found.at)
    assert found.times.run_s == pytest.approx([0.002] * len(found.at))
    assert sum(found.times.host_s) <= found.seconds
    assert found.reason is None
    assert found.states[0][0] < 0.5 < 1 <= found.states[-1][0]
    assert found.states[0][1]["clocks_hz"]["gpu ff9a0000.gpu"] == 2e8


def test_a_launch_longer_than_a_part_is_a_part(tmp_path):
    found = sustained.run(lambda: event(0.3), 1, 0, tmp_path)
    assert len(found.at) == found.launches == len(found.times.host_s)
    assert all(0.3 <= seconds < 1 for seconds in found.times.host_s)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_what_was_measured(tmp_path, number, status):
    timer = threading.Timer(0.5, os.kill, (os.getpid(), number))
    timer.start()
    try:
        found = sustained.run(event, 60, 0, tmp_path)
        assert signal.getsignal(number) is signal.SIG_IGN  # until the record is written
    finally:
        for each in stopping.NUMBERS:
            signal.signal(each, signal.default_int_handler if each == signal.SIGINT
                          else signal.SIG_DFL)
    assert found.error.exit_status == status
    assert found.reason in ("stopped after 0 s of 60 s", "stopped after 1 s of 60 s")
    assert 0 < sum(found.times.host_s) < 10


def test_a_device_that_fails_keeps_what_was_measured(tmp_path):
    left = [event() for _ in range(9)] + [event(fail=True)] * 9
    found = sustained.run(lambda: left.pop(0), 60, 0, tmp_path)
    assert found.launches == 9
    assert found.reason.startswith("failed: ")
    assert found.reason.endswith("; after 0 s of 60 s")
    with pytest.raises(cl.RuntimeError):  # nothing was measured
        sustained.run(lambda: event(fail=True), 60, 0, tmp_path)


def test_the_reason_says_that_a_difference_may_be_noise():
    found, _ = hot(slower=1.05, noise=0.05)
    assert found["why"].endswith(" is 4.8% below that at the start; their spreads overlap")


def test_the_reason_says_whether_the_clock_is_known():
    assert hot(1.3)[0]["why"].endswith("; the device's clock was not lower")
    unknown = hot(1.3, kind="cpu x")[0]
    assert unknown["verdict"] == "slower"
    assert unknown["why"].endswith("; the device's clock is not known")


def test_handlers_come_back(tmp_path):
    before = [signal.getsignal(number) for number in stopping.NUMBERS]
    sustained.run(event, 1, 0, tmp_path)
    assert [signal.getsignal(number) for number in stopping.NUMBERS] == before


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({}, "steady"),
        ({"slower": 1.02, "hz": HOT}, "steady"),  # too little to tell
        ({"slower": 1.3, "hz": HOT}, "throttled"),
        ({"slower": 1.3, "hz": HOT, "seconds": 20}, "throttled"),
        ({"slower": 1.3}, "slower"),  # the clock did not fall
        ({"slower": 1.3, "cpu": 6e8}, "slower"),  # nor did that of the device
        ({"slower": 1.3, "hz": 0.99 * FIRST}, "slower"),
        ({"slower": 1.05, "hz": HOT, "noise": 0.05}, "steady"),  # within the spread
        ({"slower": 0.8, "hz": HOT}, "steady"),  # it became faster
    ],
)
def test_throttled_or_not(options, verdict):
    found, machine = hot(**options)
    texts = machine["throttled"]
    assert found["verdict"] == verdict
    assert bool(texts) == (verdict == "throttled")
    assert found["ratio"] == pytest.approx(1 / options.get("slower", 1), rel=0.06)
    if texts:
        assert "the rate at the end is 23.1% below" in texts[0]
        assert texts[0].endswith("and gpu g went from 1000 MHz to 750 MHz")


def test_what_is_recorded_and_said():
    found, _ = hot(1.3, HOT)
    assert (found["first"], found["last"]) == pytest.approx((50, 38.46), rel=1e-3)
    assert (found["launches"], found["seconds"], found["unit"]) == (2000, 600, "GFLOPS")
    assert len(found["at_s"]) == len(found["rates"]) == 200
    assert found["states"]["clocks_hz"]["gpu g"] == [FIRST] * 66 + [HOT] * 134
    assert "3%" in found["rule"]
    assert sustained.lines(found) == [
        "Sustained:      50 at first, 38.46 GFLOPS at the end of 600 s, 2000 launches, which ran "
        "for 100% of the time, at most 90 degrees (soc)",
        "Throttled:      the rate at the end is 23.1% below that at the start, and gpu g went from "
        "1000 MHz to 750 MHz",
    ]


def test_a_part_has_the_medians_of_its_launches_by_the_device_and_their_share_of_its_time():
    made = sustained.Run(60, 0)
    made.add([(1, 4, 7), (2, 5, 8), (9, 60, 700)], 3.0)
    made.add([(1, 1, 1)], 5.0)
    times = made.times
    assert (times.queued_s, times.wait_s, times.run_s) == ([2, 1], [5, 1], [8, 1])
    assert times.host_s == [1, 2]
    assert (made.at, made.launches) == ([3, 5], 4)


@pytest.mark.parametrize(("late", "verdict"), [(FIRST, "slower"), (0.97 * FIRST, "throttled")])
def test_what_is_before_and_after_the_load_does_not_count(late, verdict):
    """A board that is idle has a low clock, and the first part may be slow."""
    made = sustained.Run(60, 0)
    made.states.append((0.0, {"clocks_hz": {"gpu g": 1e8}, "temperatures_c": {}, "power_w": {}}))
    for at in range(1, 61):
        made.add([(0, 0, 0.51 if at < 2 else 0.5 if at < 30 else 0.65)], at)
        clock = {"gpu g": FIRST if at < 30 else late}
        made.states.append((at, {**made.states[0][1], "clocks_hz": clock}))
    made.states.append((60.0, made.states[0][1]))
    found, _ = sustained.summary(made, 50, "GFLOPS", "gpu")
    assert found["first"] == pytest.approx(100)
    assert found["busy"] == pytest.approx(60 * 0.65 / 60)
    assert found["verdict"] == verdict
    assert "degrees" not in sustained.lines(found)[0]  # no sensor


def test_a_sensor_that_cannot_be_read_for_a_while():
    found, _ = hot()
    found["states"]["temperatures_c"]["soc"][3] = None
    assert sustained.lines(found)[0].endswith("at most 90 degrees (soc)")


def test_a_clock_that_cannot_be_read_for_a_while(tmp_path):
    tree = rockchip(tmp_path)
    stop = threading.Timer(0.3, (tree / GPU / "cur_freq").unlink)
    stop.start()
    found = sustained.run(event, 1, 0, tree)
    put(tree, f"{CPU}/scaling_cur_freq", 1)
    states = sustained.summary(found, 1, "GFLOPS", "gpu")[0]["states"]
    assert states["clocks_hz"]["gpu ff9a0000.gpu"][0] == 2e8
    assert states["clocks_hz"]["gpu ff9a0000.gpu"][-1] is None
