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


@pytest.mark.parametrize(("mine", "all_cores", "given", "left"), [
    ({0, 1}, 4, {"POCL_AFFINITY": "1"}, {"POCL_AFFINITY": "1", "POCL_MAX_PTHREAD_COUNT": "2"}),
    ({2, 3}, 4, {"POCL_AFFINITY": "1"}, {"POCL_MAX_PTHREAD_COUNT": "2"}),  # it would bind 0 and 1
    ({2, 3}, 4, {"POCL_MAX_PTHREAD_COUNT": "1"}, {"POCL_MAX_PTHREAD_COUNT": "1"}),
    ({0, 1}, 2, {"POCL_AFFINITY": "1"}, {"POCL_AFFINITY": "1"}),
])
def test_what_pocl_is_told(monkeypatch, mine, all_cores, given, left):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: mine)
    monkeypatch.setattr(os, "cpu_count", lambda: all_cores)
    monkeypatch.setattr(os, "environ", dict(given))
    cores.tell_pocl()
    assert os.environ == left
