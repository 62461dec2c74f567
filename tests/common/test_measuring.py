"""--duration, --pin and --energy in every sample, on a folder that stands for /sys."""

import re
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from functools import partial
from types import SimpleNamespace

import pytest
from fake_sysfs import GPU, changing, in_place_of_sys, rockchip, snapshot

from common import manifest, measuring, record
from common.arguments import Parser
from common.errors import UsageError
from deploy import samples
from tests.conftest import ROOT, exhaustive_but

SMALL = {"mygemm": ("--kernel", "1", "--size", "64"), "gemmbench": ("-n", "64"),
         "sgemm": ("--size", "64"), "64_bit_integer": ("--size", "64x64"),
         "gemm_intel": ("-s", "64", "--tile-size-M", "4", "--tile-group-M", "4",
                        "--tile-size-N", "16", "--tile-size-K", "4")}
SAMPLES = exhaustive_but(("mygemm", "64_bit_integer"), manifest.names())


@pytest.fixture
def tree(tmp_path):
    return rockchip(tmp_path / "sys")


@pytest.fixture
def run_on(recorded, tree):
    """Start a sample with `tree` in place of /sys; gives the finished process and its records."""
    return partial(recorded, change=in_place_of_sys(tree))


@pytest.mark.parametrize(
    ("duration", "once_s", "text"),
    [
        (None, 0.1, "Launches: 1 warm-up, 10 timed"),
        (None, 35, "Launches: 1 warm-up, 10 timed: about 385 s"),
        (60, 35, "Launches: 1 warm-up, timed for 60 s"),
    ],
)
def test_what_takes_long_is_announced(duration, once_s, text):
    args = Namespace(duration=duration, warmup=1, repeat=10)
    assert measuring.plan(args, once_s) == text


def launched(said, run_ns=(9, 4, 2, 8)):
    """Return what launches a kernel and says so; its first run takes so many ns, and so on."""
    left = iter(run_ns)

    def enqueue():
        said.append("launch")
        stage = SimpleNamespace(queued=0, submit=0, start=1, end=1 + next(left))
        return SimpleNamespace(wait=lambda: None, profile=stage)

    return enqueue


def test_what_is_measured_and_in_which_order(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(measuring.timing, "settle", lambda: said.append("settle"))
    monkeypatch.setattr(measuring.state.Watch, "look", lambda self: (
        said.append("look"), self._states.append(measuring.state.now(self._tree))))
    args = Namespace(duration=None, repeat=3, warmup=1, energy=False, sysfs=tmp_path, ended=None)
    found = measuring.measure(args, {"type": "cpu"}, launched(said), "gflops", 12,
                              lambda: said.append("between"), flop_convention="some")
    assert said == ["settle", "launch", "look", "between", *["launch", "look", "between"] * 3]
    assert found.metrics == {"gflops": pytest.approx(3e9), "flop_convention": "some"}
    assert found.timing["run_s"] == pytest.approx([4e-9, 2e-9, 8e-9])
    assert found.rate.startswith("GFLOPS:         3000000000 (median of 3, spread ")
    assert found.lines() == [*found.times.lines(), found.rate]
    assert set(found.machine) == {"before", "during", "after", "throttled"}


def test_what_was_timed_beside_others_is_launched_again_only_for_its_energy():
    said = []
    for energy, ended in ((False, None), (True, ("Ctrl-C", "stopped"))):
        args = Namespace(duration=None, energy=energy, ended=ended)
        found = measuring.alone(args, {}, launched(said), lambda: None, "gflops", 1)
        assert found == measuring.Measured()
        assert (found.timing, found.lines(), said) == ({}, [], [])


def settings(tree):
    return {path: text.strip() for path, text in snapshot(tree).items()}


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_runs_for_a_while_with_its_clocks_held(run_on, tree, name):
    before = settings(tree)
    done, (item,) = run_on(name, *SMALL[name], "--duration", 1, "--pin")
    assert (done.returncode, item.status) == (0, "passed"), done.stderr
    found = item.metrics["sustained"]
    metric = manifest.read(name).tools.metric
    assert found["unit"] == record.RATES[metric]
    assert found["launches"] >= len(found["rates"]) == len(item.times()) > 0
    assert 1 <= found["seconds"] < 10
    assert found["states"]["temperatures_c"]["thermal_zone0 gpu-thermal"][0] == 47.5
    assert (item.params["duration"], item.params["pin"]) == (1, "max")
    governors = {"policy0": "performance", "ff9a0000.gpu": "performance"}
    assert item.environment["governors"] == governors
    assert item.environment["throttled"] == []
    assert settings(tree) == before
    assert "Sustained:      " in done.stdout
    assert item.check["error_over_bound"] <= 1  # checked first, in every sample
    assert "Steady:         " in done.stdout or "Slower:         " in done.stdout


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_measures_energy(run_on, tree, name):
    sensor = tree / "class/hwmon/hwmon1/power1_input"
    with changing(sensor, lambda number: 1500000 + number % 2 * 1000):
        done, (item,) = run_on(name, *SMALL[name], "--energy", "--repeat", 1,
                               *(("--libraries", "none") if name == "mygemm" else ()))
    assert done.returncode == 0, done.stderr
    energy = item.metrics["energy"]["ina3221 VDD_GPU"]
    assert energy["active_w"] == pytest.approx(1.5005, abs=0.001)
    assert "ina3221 VDD_GPU: the power under load does not" in done.stdout


def test_a_missing_power_sensor_is_reported_once(run_on, tree):
    shutil.rmtree(tree / "class/hwmon")
    done, items = run_on("mygemm", "--kernel", "1,2", "--size", 64, "--energy", "--repeat", 1,
                         "--libraries", "none")
    assert [item.metrics["energy"] for item in items] == [{}, {}]
    assert done.stdout.count("this machine has no readable power sensor") == 1


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_says_that_a_clock_changed(run_on, tree, name):
    more = ("--libraries", "none", "--repeat", 100) if name == "mygemm" else ("--repeat", 2000)
    with changing(tree / GPU / "cur_freq", lambda number: int(2e8 * 1.1 ** (number % 50)), 0.001):
        done, (item,) = run_on(name, *SMALL[name], *more)
    assert done.returncode == 0, done.stderr
    (changed,) = item.environment["throttled"]
    assert changed.startswith("gpu ff9a0000.gpu ran at ")
    assert re.search(f"throttled:? +{re.escape(changed)}", done.stdout, re.I)


@pytest.mark.parametrize(
    ("name", "more"),
    [("sgemm", ("--kernel", "all")), ("mygemm", ("--kernel", "1,2")), ("gemmbench", ("-f", "all")),
     ("mygemm", ("--kernel", "1", "--size", "8,16")), ("64_bit_integer", ("--kernel", "all"))],
)
def test_a_long_run_is_of_one_kernel(refused, name, more):
    assert "--duration runs one kernel at one size" in refused(name, *more, "--duration", 1)


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143),
     pytest.param(signal.SIGINT, 130, marks=pytest.mark.exhaustive)],
)
def test_what_is_stopped_is_recorded(tmp_path, number, status):
    path = tmp_path / "records.jsonl"
    process = subprocess.Popen(
        [sys.executable, "samples/sgemm/run.py", "--size", "64", "--duration", "60", "--json",
         str(path)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )
    while "Launches:" not in process.stdout.readline():
        assert process.poll() is None
    time.sleep(1.5)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == status
    (item,) = record.read(path)
    assert item.status == "error"
    assert item.reason.startswith("stopped after ")
    assert item.reason.endswith(" s of 60 s")
    assert said == f"run.py: error: {item.reason}: what was measured is recorded\n"
    assert item.metrics["sustained"]["launches"] > 1
    assert item.check["error_over_bound"] <= 1


def test_a_wrong_kernel_is_not_run_for_long(project, recorded):
    source = project / "samples/sgemm/sgemm.cl"
    source.write_text(source.read_text().replace("beta *", "0 *"))
    done, (item,) = recorded("sgemm", "--size", 16, "--duration", 60, root=project)
    assert (done.returncode, item.status, item.timing) == (1, "failed", {})


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--duration", "0"), "'0' is not a whole number from 1 to 100000"),
     (("--duration", "1.5"), "'1.5' is not"), (("--pin", "fast"), "'fast' is not a number"),
     (("--pin", "-3"), "'-3' is not a number above 0")],
)
def test_values_that_cannot_be(words, message):
    parser = Parser("run.py", "", "")
    measuring.add_options(parser)
    with pytest.raises(UsageError, match=message):
        parser.parse_args(words)


# What tools know of these options.


def test_a_long_run_has_a_longer_limit():
    assert manifest.longer("sgemm", ["--size", "8"]) == 0
    assert manifest.longer("sgemm", ["--size", "8", "--duration", "600"]) == 600
    assert manifest.longer("sgemm", ["--duration=90"]) == 90
    assert manifest.longer("sgemm", ["--duration"]) == 0
    assert manifest.longer("sgemm", ["--duration", "1e9"]) == 0
    assert manifest.longer("no-sample", ["--duration", "9"]) == 0


def test_fab_run_waits_longer_than_any_time_limit():
    case = samples.asked("sgemm", ["--duration", "600", "--pin"])
    assert (case.longer, case.timeout) == (600, 300)


@pytest.mark.parametrize("name", manifest.names())
def test_what_changes_the_machine_is_taken_from_the_user_only(name):
    for words in (["--pin"], ["--pin", "600"], ["--pin=max"], ["--pin", "--energy"]):
        assert manifest.more_than_choice(name, words) in ("--pin", "--pin=max")
        assert manifest.more_than_choice(name, [*words, "--repeat", "3"], own=True) is None
    assert manifest.more_than_choice(name, ["--pin", "/etc/passwd"], own=True) == "/etc/passwd"
    assert manifest.more_than_choice(name, ["--duration", "600"]) is None
