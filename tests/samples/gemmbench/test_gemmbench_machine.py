"""gemmbench and the machine's state: clocks that are pinned, points that are throttled, energy."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial

import pytest
from fake_sysfs import CPU, GPU, ZONE, changing, in_place_of_sys, rockchip, snapshot

from common import timing
from common.machine import power
from tests.conftest import ROOT, command_of, exhaustive_but

QUICK = ("--repeat", 2, "--warmup", 0)
CRASH = "C = (global float *)8;"
HANG = "volatile int forever = 1; while (forever) { }"


@pytest.fixture
def tree(tmp_path):
    return rockchip(tmp_path / "sys")


@pytest.fixture
def point(recorded, tree):
    return partial(recorded, "gemmbench", change=in_place_of_sys(tree))


def settings(tree):
    return {path: text.strip() for path, text in snapshot(tree).items()}


def wait_for_settings(tree, wanted):
    deadline = time.monotonic() + 20
    while settings(tree) != wanted:
        assert time.monotonic() < deadline, settings(tree)
        time.sleep(0.02)


def bad_kernel(folder, spoil):
    folder.mkdir()
    (folder / "bad.cl").write_text(
        "kernel void gemm(global const float *A, global const float *B, global float *C,\n"
        f"                 float alpha, float beta, uint n) {{ {spoil} C[0] = 0; }}\n"
    )
    keys = {"name": "bad", "file": "bad.cl", "type": "S", "transA": "N", "transB": "N",
            "dj": 1, "di": 1}
    (folder / "bad.json").write_text(json.dumps(keys))
    return ("--kernels", folder, "-f", "bad")


def test_the_state_is_recorded_before_during_and_after(point):
    done, (item,) = point("-n", 16, *QUICK)
    assert done.returncode == 0
    before = item.environment["before"]
    assert before["clocks_hz"] == {"cpu policy0": 1.2e9, "gpu ff9a0000.gpu": 2e8}
    assert before["temperatures_c"] == {"thermal_zone0 gpu-thermal": 47.5}
    assert before["power_w"] == {"ina3221 VDD_GPU": 1.5}
    assert item.environment["during"] == [before]  # a look between the runs
    assert item.environment["after"] == before
    assert item.environment["throttled"] == []
    assert "throttled" not in done.stdout
    assert "  machine       cpu policy0 1200 MHz, gpu ff9a0000.gpu 200 MHz" in done.stdout
    assert "  clocks        not pinned, see --pin" in done.stdout


def test_a_point_whose_clock_or_temperature_moved_is_throttled(point, tree):
    # They rise all the time: whenever the sample looks, it sees something else than before.
    with (
        changing(tree / GPU / "cur_freq", lambda n: int(2e8 * 1.02 ** (n % 500)), every=0.01),
        changing(tree / ZONE / "temp", lambda n: 20000 + 1000 * (n % 100), every=0.01),
    ):
        done, (item,) = point("-n", 384, "--repeat", 100)
    clock, heat = item.environment["throttled"]
    assert re.fullmatch(r"gpu ff9a0000\.gpu ran at \S+ MHz to \S+ MHz", clock)
    assert re.fullmatch(r"thermal_zone0 gpu-thermal went from \d+ to \d+ degrees", heat)
    for text in (clock, heat):
        assert f"  throttled     {text}" in done.stdout


def test_the_rate_is_that_of_the_median_time():
    seconds = [1.0, 1.0, 3.0, 5.0]  # the median of the rates is another: 0.667
    taken = timing.Timing(seconds, seconds, seconds, seconds, 0)
    line = "median 0.5, mean 0.6333, min 0.2, max 1, range 0.8, spread 154.5%, 4 runs"
    assert taken.statistics_line(1) == line


def test_what_is_timed_for_a_duration_are_parts_of_it(point):
    done, (item,) = point("-n", 16, "--duration", 1)
    parts = len(item.timing["run_s"])
    assert f", {parts} parts\n" in done.stdout


def test_pinned_while_it_runs_and_restored(point, tree):
    before = settings(tree)
    done, (item,) = point("-n", 16, "--pin", "1200", *QUICK)
    assert done.returncode == 0, done.stderr
    assert item.environment["governors"] == {
        "policy0": "performance", "ff9a0000.gpu": "performance",
    }
    assert item.params["pin"] == "1200"
    assert "  clocks        pinned to 1200 MHz" in done.stdout
    assert settings(tree) == before
    _, (item,) = point("-n", 16, "--pin", *QUICK)
    assert item.params["pin"] == "max"
    assert settings(tree) == before


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--pin", "700"), "--pin: policy0 cannot run at 700 MHz: choose from 408 MHz, 1200 MHz"),
        (("--pin", "fast"), "'fast' is not a number"),
        (("--pin", "0"), "'0' is not a number above 0"),
    ],
)
def test_what_cannot_be_pinned_is_refused(refused, tree, args, message):
    before = settings(tree)
    assert message in refused("gemmbench", "-n", 16, *args, *QUICK, sysfs=tree)
    assert settings(tree) == before


def test_without_clocks_or_rights_it_says_so(recorded, tmp_path, point, tree):
    done, _ = recorded("gemmbench", "-n", 16, "--pin", change=in_place_of_sys(tmp_path))
    assert done.returncode == 77
    assert "--pin: this machine has no clock that can be set" in done.stderr
    (tree / GPU / "governor").unlink()
    (tree / GPU / "governor").symlink_to("/proc/version")  # which nobody can write
    done, _ = point("-n", 16, "--pin", *QUICK)
    assert done.returncode == 2
    assert "--pin " in done.stderr
    assert "gpu/governor" in done.stderr
    assert done.stderr.count("\n") == 1
    after = settings(tree)
    assert after[tree / CPU / "scaling_governor"] == "schedutil"
    assert after[tree / CPU / "scaling_max_freq"] == "1200000"


def test_a_crash_of_the_driver_restores(point, tree, tmp_path):
    before = settings(tree)
    done, _ = point(*bad_kernel(tmp_path / "bad", CRASH), "-n", 8, "--pin", *QUICK)
    assert done.returncode == 3
    wait_for_settings(tree, before)


@pytest.mark.parametrize(
    "number",
    exhaustive_but([signal.SIGKILL], [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]),
)
def test_an_end_from_outside_restores(tree, tmp_path, number):
    before = settings(tree)
    args = (*bad_kernel(tmp_path / "bad", HANG), "-n", 8, "--pin", *QUICK)
    command, env = command_of("gemmbench", change=in_place_of_sys(tree))
    process = subprocess.Popen(
        [sys.executable, *command, *map(str, args)], cwd=ROOT, env={**os.environ, **env},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while settings(tree)[tree / GPU / "min_freq"] != "800000000":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.5)  # into the kernel
    os.killpg(process.pid, number)
    try:
        process.wait(3)
    except subprocess.TimeoutExpired:  # Python heeds SIGINT when the kernel has ended, maybe never
        assert number == signal.SIGINT
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)
    process.stdout.close()
    wait_for_settings(tree, before)


# Energy.


def test_the_energy_of_a_launch(point, tree):
    sensor = tree / "class/hwmon/hwmon1/power1_input"
    with changing(sensor, lambda number: 1500000 + number % 2 * 1000, every=0.01):
        done, (item,) = point("-n", 64, "--energy", *QUICK)
    energy = item.metrics["energy"]["ina3221 VDD_GPU"]
    assert min(energy["idle_samples"], energy["active_samples"]) >= power.FRESH
    assert energy["active_w"] == pytest.approx(1.5005, abs=0.001)
    assert energy["reason"] == "the power under load does not differ from the idle power"
    assert "  energy        ina3221 VDD_GPU: the power under load does not" in done.stdout
    assert "W idle)" in done.stdout


def test_a_machine_without_sensors(recorded, tmp_path):
    done, (item,) = recorded("gemmbench", "-n", 16, "--energy", *QUICK,
                             change=in_place_of_sys(tmp_path))
    assert done.returncode == 0
    assert item.metrics["energy"] == {}
    assert "this machine has no readable power sensor" in done.stdout
