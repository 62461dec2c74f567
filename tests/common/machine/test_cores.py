"""The CPU cores of a process: how they are named, and that all its threads keep to them."""

import argparse
import json
import os
import subprocess
import sys

import pytest

from common.errors import UsageError
from common.machine import cores
from deploy import samples
from tests.conftest import ROOT


def test_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 4, 7})
    assert cores.named() == "0-2,4,7"
    assert cores.parsed("0-1,7,900") == {0, 1, 7, 900}
    for wrong in ("", "x", "0-", "2-1", "-1", "1,,2", "9" * 9):
        with pytest.raises(argparse.ArgumentTypeError, match="cores"):
            cores.parsed(wrong)
    for wrong in ("1-0", "1,1-0"):
        with pytest.raises(argparse.ArgumentTypeError, match="'1-0' is not a range of cores"):
            cores.parsed(wrong)
    with pytest.raises(UsageError, match="no core 3: this machine has the cores 0-2,4,7"):
        cores.use({0, 3, 9})


def test_cores_of_a_board_are_refused_only_where_the_sample_runs(run_sample):
    samples.require_values("sgemm", ["--cores", "900-901"])
    done = run_sample("sgemm", "--size", 16, "--cores", "900-901")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("run.py: error: --cores: there is no core 900: ")


def test_a_library_has_a_thread_for_each_of_its_cores_only():
    core = min(os.sched_getaffinity(0))
    text = ("import numpy, os; from common.machine import cores; "
            f"cores.use({{{core}}}); tasks = map(int, os.listdir('/proc/self/task')); "
            "print([os.sched_getaffinity(t) for t in tasks])")
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True,
                          check=True, timeout=60)
    assert done.stdout == f"[{{{core}}}]\n"


def test_a_driver_has_a_compute_unit_for_each_of_its_cores_only(run_sample, tmp_path):
    core, file = max(os.sched_getaffinity(0)), tmp_path / "records.jsonl"
    done = run_sample("sgemm", "--size", 16, "--cores", core, "--check-only", "--json", file)
    assert done.returncode == 0, done.stderr
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert {r["environment"]["cores"] for r in records} == {str(core)}
    assert {r["device"]["compute_units"] for r in records} == {1}


_BOUND = """
import os, time
from threading import Event, Thread
from common.machine import cores

done = Event()
before = cores.threads()
for n in range({threads}):
    Thread(target=done.wait).start()
cores.bind_threads(before)
tasks = sorted(map(int, os.listdir("/proc/self/task")))[-{threads}:]
print([os.sched_getaffinity(task) for task in tasks])
done.set()
"""


def affinities(code, **changes):
    """Run code that prints sets of cores; return what it printed. `changes` of the environment."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("POCL_")}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**env, **changes},
                          capture_output=True, text=True, timeout=120)
    if "no platform 'portable'" in done.stderr:
        pytest.skip("PoCL is not installed")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_thread_of_a_driver_has_a_core():
    mine = sorted(os.sched_getaffinity(0))
    cpus = len(mine)
    assert affinities(_BOUND.format(threads=cpus)) == f"{[{core} for core in mine]}\n"
    assert affinities(_BOUND.format(threads=cpus + 1)) == f"{[{*mine}] * (cpus + 1)}\n"
    assert affinities(_BOUND.format(threads=cpus), POCL_AFFINITY="0") == f"{[{*mine}] * cpus}\n"


_APART = """
import os
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

from common import errors, measuring, timing
from common.interleaved import Contender

timing.launch = timing.wait = lambda enqueue: enqueue() or (0, 0, 1, 1)


def mine():
    return sorted(os.sched_getaffinity(0))


def work(core, started):
    os.sched_setaffinity(0, {{core}})
    started.set()
    Event().wait()


def sampled(queued):
    seen = []
    contender = Contender("", lambda _: lambda: seen.append(mine()), lambda _: None, queued=queued)
    contender.enter(None)
    contender.sample(1)
    return seen[-1]


def measured():
    seen = []
    args = SimpleNamespace(duration=0, energy=False, repeat=1, warmup=0, sysfs=Path("/sys"))
    measuring.measure(args, {{}}, lambda: seen.append(mine()), "gflops", 1)
    return seen[-1]


def fail(_):
    raise errors.OpenCLFailure("")


def after_failure():
    contender = Contender("", lambda _: lambda: fail(0), lambda _: None)
    contender.attempt(contender.enter, None)
    contender.attempt(contender.sample, 1)
    return mine()


for core in {taken}:
    started = Event()
    Thread(target=work, args=(core, started), daemon=True).start()
    assert started.wait(10)
print([sampled(queued=True), measured(), sampled(queued=False), mine(), after_failure()])
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the machine has only one core")
def test_a_thread_that_waits_for_launches_keeps_off_the_cores_of_a_drivers_threads():
    first, *rest = mine = sorted(os.sched_getaffinity(0))
    for taken, left in (([], mine), (rest, [first]), ([first], rest), (mine, mine),
                        (mine + rest, [first])):
        assert affinities(_APART.format(taken=taken)) == f"{[left, left, mine, mine, mine]}\n"


_BOUND_DRIVER = """
import os
from common import cli
from common.machine import cores

os.sched_setaffinity(0, {chosen})
if {told}:
    cores.tell_pocl()
cli.choose(cli.parser("sgemm", "").parse_args(["-p", "portable"]))
tasks = sorted(map(int, os.listdir("/proc/self/task")))
print([sorted(os.sched_getaffinity(task)) for task in tasks])
"""


def bound(chosen, told, **changes):
    """Tell whether PoCL has a thread that is bound to each of the `chosen` cores."""
    threads = affinities(_BOUND_DRIVER.format(chosen=set(chosen), told=told), **changes)
    return all(f"[{core}]" in threads for core in chosen)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the machine has only one core")
def test_pocl_binds_its_threads_unless_it_is_told_not_to():
    mine = os.sched_getaffinity(0)
    assert bound(mine, told=True)
    assert not bound(mine, told=True, POCL_AFFINITY="0")


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < os.cpu_count() or os.cpu_count() < 2,
                    reason="PoCL would start more threads than there are cores")
def test_threads_that_pocl_does_not_bind_are_bound():
    assert bound(os.sched_getaffinity(0), told=False)


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 3, reason="the machine has only two cores")
def test_threads_of_pocl_are_bound_to_cores_that_do_not_begin_at_0():
    assert bound(sorted(os.sched_getaffinity(0))[-2:], told=True)


@pytest.mark.parametrize(("mine", "all_cores", "given", "left"), [
    ({0, 1}, 4, {"POCL_AFFINITY": "1"}, {"POCL_AFFINITY": "1", "POCL_MAX_PTHREAD_COUNT": "2"}),
    ({2, 3}, 4, {"POCL_AFFINITY": "1"}, {"POCL_MAX_PTHREAD_COUNT": "2"}),  # it would bind 0 and 1
    ({2, 3}, 4, {"POCL_MAX_PTHREAD_COUNT": "1"}, {"POCL_MAX_PTHREAD_COUNT": "1"}),
    ({2, 3}, 4, {"POCL_AFFINITY": "0"}, {"POCL_AFFINITY": "0", "POCL_MAX_PTHREAD_COUNT": "2"}),
    ({0, 1}, 2, {}, {"POCL_AFFINITY": "1"}),
    ({0, 1}, 2, {"POCL_AFFINITY": "0"}, {"POCL_AFFINITY": "0"}),
])
def test_what_pocl_is_told(monkeypatch, mine, all_cores, given, left):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: mine)
    monkeypatch.setattr(os, "cpu_count", lambda: all_cores)
    monkeypatch.setattr(os, "environ", dict(given))
    cores.tell_pocl()
    assert os.environ == left
