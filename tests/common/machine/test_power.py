"""Energy: only new readings count, idle power is taken off, and too few of them give no number."""

import time
from statistics import fmean

import pytest
from fake_sysfs import changing, put

from common.machine import power, sysfs

WATTS = "class/hwmon/hwmon0/power1_input"


def no_work():
    time.sleep(0.001)


@pytest.fixture
def sensor(tmp_path):
    put(tmp_path, WATTS, 0)
    put(tmp_path, "class/hwmon/hwmon0/name", "ina226")
    (found,) = sysfs.sensors(tmp_path)
    return found


def measure(tree, work, limit_s=10):
    return power.measure(work, 2.5, "gflops", limit_s, tree)


def lines(energy):
    return power.lines({"gpu": energy}, "gflops", "GFLOPS")[0]


def test_the_energy_of_a_launch_is_what_it_takes_beyond_the_idle_power(tmp_path, sensor):
    took = []  # seconds: a busy machine sleeps longer

    def watts(number):
        return (7_000_000 if took else 2_000_000) + number % 2 * 1000

    def work():
        start = time.perf_counter()
        time.sleep(0.01)
        took.append(time.perf_counter() - start)

    with changing(sensor.path, watts):
        energy = measure(tmp_path, work)["ina226 power1"]
    assert energy["idle_w"] == pytest.approx(2.0005, abs=0.001)
    assert energy["active_w"] == pytest.approx(7.0005, abs=0.001)
    assert min(energy["idle_samples"], energy["active_samples"]) >= power.FRESH
    assert energy["joules"] == pytest.approx(5 * fmean(took), rel=0.3)
    assert energy["reason"] is None
    assert energy["gflops_per_watt"] == pytest.approx(2.5 / energy["joules"])
    low, high = energy["spread_per_watt"]
    assert low <= energy["gflops_per_watt"] <= high
    assert 0.009 < energy["interval_s"] < 0.1
    line = lines(energy)
    assert line.startswith("gpu: 0.0")
    assert "J per launch (7 W less 2 W idle, " in line
    assert " GFLOPS per watt (spread " in line


def test_power_that_idle_power_reaches_gives_no_number(tmp_path, sensor):
    with changing(sensor.path, lambda number: 2_000_000 + number % 5 * 100_000):
        energy = measure(tmp_path, no_work)["ina226 power1"]
    assert energy["joules"] is None
    assert "gflops_per_watt" not in energy
    assert energy["reason"] == "the power under load does not differ from the idle power"
    assert energy["reason"] in lines(energy)


def test_a_stale_sensor_gives_no_number(tmp_path, sensor):
    put(tmp_path, WATTS, 3_000_000)
    energy = measure(tmp_path, no_work, 0.3)["ina226 power1"]
    assert energy["joules"] is None
    assert energy["active_w"] is None
    assert energy["active_samples"] == 0
    assert energy["reason"] == "insufficient samples"
    assert lines(energy) == "gpu: insufficient samples (0 idle and 0 active, 20 are needed)"


def test_readings_that_repeat_are_counted_once(tmp_path, sensor):
    with changing(sensor.path, lambda n: n // 10, every=0.005):
        energy = measure(tmp_path, no_work, 0.6)["ina226 power1"]
    assert 0 < energy["active_samples"] < power.FRESH
    assert energy["joules"] is None


def rapl(tree):
    folder = "class/powercap/intel-rapl:0"
    for name, value in (("name", "core"), ("energy_uj", 0), ("max_energy_range_uj", 100_000)):
        put(tree, f"{folder}/{name}", value)
    return tree / folder / "energy_uj"


def test_what_root_alone_may_read_is_read_for_a_while(tmp_path, monkeypatch):
    path = rapl(tmp_path)
    path.chmod(0o400)
    monkeypatch.setattr(power.os, "access", lambda file, _: file.stat().st_mode & 0o444 == 0o444)
    seen = set()

    def work():
        seen.add(oct(path.stat().st_mode & 0o777))

    assert measure(tmp_path, work, 0.05)["intel-rapl:0 core"]["reason"] == "insufficient samples"
    assert seen == {"0o444"}
    assert path.stat().st_mode & 0o777 == 0o400
    monkeypatch.setattr(power.os, "geteuid", lambda: 1000)  # and no helper
    energy = measure(tmp_path, work, 0.05)["intel-rapl:0 core"]
    assert energy == {"joules": None, "reason": "only root may read it: see docs/boards.md, Rights"}
    assert lines(energy) == f"gpu: {energy['reason']}"


def test_a_counter_that_wraps(tmp_path):
    path = rapl(tmp_path)
    start = time.perf_counter()

    def count(_):  # three watts, 33 times round in a second
        return int((time.perf_counter() - start) * 3e6) % 100_000

    with changing(path, count, every=0.005):
        energy = measure(tmp_path, no_work)["intel-rapl:0 core"]
    assert energy["active_w"] == pytest.approx(3, rel=0.2)


def test_a_mean_weighs_each_reading_with_its_time(sensor):
    readings = power.Readings(sensor)
    for seconds, watts in (
        (0, 9),
        (1, 9.5),
        (2, 1),
        (5, 4),
        *((6 + n, 4 + n % 2) for n in range(1, 30)),
    ):
        put(sensor.path.parents[3], WATTS, int(watts * 1e6))
        readings.look(seconds)
    # 1 W for three seconds, 4 W for two, then 5 and 4 in turn; what came first does not count.
    mean = readings.mean()
    assert mean.samples == len(readings.values) - 3
    total = 3 * 1 + 2 * 4 + sum(4 + n % 2 for n in range(1, 29))
    assert mean.watts == pytest.approx(total / (readings.times[-1] - 2))


def test_a_sensor_that_is_off_is_on_for_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(power, "SETTLE", 0)
    (tmp_path / "class").mkdir()  # as every /sys has
    put(tmp_path, "bus/i2c/drivers/INA231/3-0044/sensor_W", "0.3")
    put(tmp_path, "bus/i2c/drivers/INA231/3-0044/enable", 0)
    enable = tmp_path / "bus/i2c/drivers/INA231/3-0044/enable"
    seen = set()
    energy = measure(tmp_path, lambda: seen.add(enable.read_text()), 0.05)
    assert seen == {"1"}
    assert energy["INA231 GPU"]["reason"] == "insufficient samples"
    assert enable.read_text() == "0"
