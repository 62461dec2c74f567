"""samples/mygemm/run.py tune, and what --kernel best makes of it."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
from functools import partial

import pytest
from conftest import ROOT

from common import record

HAS_TUNER = importlib.util.find_spec("kernel_tuner") is not None
needs_tuner = pytest.mark.skipif(not HAS_TUNER, reason="needs Kernel Tuner: make tune")


@pytest.fixture
def mygemm(recorded):
    """Run the sample; gives the finished process and its records."""
    return partial(recorded, "mygemm")


def test_tune_says_what_it_lacks(mygemm, tmp_path):
    (tmp_path / "kernel_tuner.py").write_text("raise ImportError('it is not here')\n")
    env = {"PYTHONPATH": str(tmp_path)}
    done, (item,) = mygemm("tune", "--kernel", 2, "--size", 16, env=env)
    assert done.returncode == 77
    assert item.status == "unsupported"
    assert done.stderr.startswith("run.py: error: tune needs the Kernel Tuner library: `make tune`")
    assert done.stderr.count("\n") == 1


@needs_tuner
def test_tune_stores_what_best_takes(mygemm, tmp_path):
    args = ("--size", 48, "--repeat", 2, "--tuned", tmp_path)
    done, records = mygemm("tune", "--kernel", 3, *args)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(records) == 20
    assert {item.status for item in records} == {"passed"}
    (path,) = tmp_path.glob("*.json")
    stored = json.loads(path.read_text())
    (entry,) = stored["entries"]
    assert entry["driver"] == records[0].device["driver"]
    assert entry["kernel"] == "more_work"
    assert "\n12_packed" in done.stdout  # what best takes by now, beside it
    if entry["slower_than"]:
        assert "--kernel best stays with 12_packed, which is faster" in done.stdout
        done, _ = mygemm(*args, "--check-only")
        assert "best: 12_packed, nothing is tuned for it" in done.stdout
        entry["slower_than"] = None
        path.write_text(json.dumps(stored))
    done, (item,) = mygemm(*args, "--peers", "none")
    assert "best: 03_more_work, tuned for this device" in done.stdout
    assert {name: item.params[name] for name in ("TS", "WPT")} == entry["params"]


@needs_tuner
def test_tune_without_a_kernel_searches_the_best_one(mygemm, tmp_path):
    args = ("--size", 20, "--repeat", 1, "--budget", 3, "--tuned", tmp_path, "--in-flight", 1)
    done, records = mygemm("tune", *args)
    assert done.returncode == 0, done.stdout + done.stderr
    tried = {tuple(item.params[name] for name in ("MR", "NR", "KC", "NC")) for item in records}
    assert len(tried) > 1


@needs_tuner
def test_a_configuration_that_is_wrong_is_recorded_and_never_wins(mygemm, project, tmp_path):
    path = project / "samples/mygemm/kernels/03_more_work.cl"
    text = path.read_text()
    path.write_text(text.replace("k < TS; k++", "k < TS - (WPT == 4); k++"))
    args = ("--TS", 16, "--size", 32, "--repeat", 1, "--tuned", tmp_path)
    done, records = mygemm("tune", "--kernel", 3, *args, root=project)
    assert done.returncode == 0, done.stdout + done.stderr
    failed = [item for item in records if item.status == "failed"]
    assert {item.params["WPT"] for item in failed} == {4}
    assert all("elements are wrong" in item.reason for item in failed)
    (cache,) = (tmp_path / "cache").glob("*.json")
    kept = json.loads(cache.read_text())["cache"]
    assert "elements are wrong" in kept["16,4"]["reason"]
    (path,) = tmp_path.glob("*.json")
    assert json.loads(path.read_text())["entries"][0]["params"]["WPT"] != 4


@needs_tuner
def test_tune_goes_on_after_a_kill(tmp_path):
    command = [sys.executable, "samples/mygemm/run.py", "tune", "--kernel", "3", "--size", "128",
               "--tuned", tmp_path, "--repeat", "20"]  # fmt: skip
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ}
    ) as first:
        done = []
        for line in first.stdout:
            done += [line.partition(":")[0]] if line.startswith("--TS") else []
            if len(done) == 4:
                first.send_signal(signal.SIGKILL)
                break
    assert first.returncode == -signal.SIGKILL
    assert not list(tmp_path.glob("*.json"))
    records = tmp_path / "records.jsonl"
    again = subprocess.run([*command, "--json", records], cwd=ROOT, capture_output=True, text=True,
                           timeout=120, check=False)  # fmt: skip
    assert again.returncode == 0, again.stdout + again.stderr
    lines = [line.partition(":")[0] for line in again.stdout.splitlines() if "GFLOPS" in line]
    assert not set(done[:3]) & {line for line in lines if line.startswith("--TS")}
    assert len(record.read(records)) in (16, 17)  # of 20
    assert "20 of 20 configurations passed" in again.stdout
