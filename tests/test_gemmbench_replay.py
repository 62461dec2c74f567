"""Replays: a recorded point is run again, and judged only by what is like it."""

import json
import re
from functools import partial
from types import SimpleNamespace

import pytest
from bad_kernels import add_kernel
from conftest import modules_of

from common import record

QUICK = ("--repeat", 3, "--warmup", 0, "--no-fence")


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "records.jsonl"


@pytest.fixture
def replay(run_sample):
    return partial(run_sample, "gemmbench", "replay")


@pytest.fixture
def recorded_point(recorded, journal):
    """A file with the record of one point; gives a function that changes the record."""
    recorded("gemmbench", "-n", 24, "-lws", "4,4", *QUICK)
    data = json.loads(journal.read_text())

    def change(**changes):
        journal.write_text(json.dumps({**data, **changes}) + "\n")
        return data

    return change


def with_rate(data, median, around):
    statistics = {**data["metrics"]["statistics"], "median": median, "range": around,
                  "min": median - around / 2, "max": median + around / 2}  # fmt: skip
    return {**data["metrics"], "statistics": statistics}


def test_a_replay_says_agree_or_differ_with_both_numbers(recorded_point, replay, journal):
    data = recorded_point()
    recorded_point(metrics=with_rate(data, 1.5, 1e6))
    done = replay(f"{journal}:1")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^  recorded  1.5 GFLOPS \(", done.stdout, re.M)
    assert re.search(r"^  now       \S+ GFLOPS \(\S+ to \S+\)$", done.stdout, re.M)
    assert re.search(r"^agree: \S+ GFLOPS apart, the recorded range is 1000000$", done.stdout, re.M)
    recorded_point(metrics=with_rate(data, 12345, 1))
    done = replay(journal)
    assert done.returncode == 1
    assert re.search(r"^differ: \S+ GFLOPS apart, the recorded range is 1$", done.stdout, re.M)


def test_a_failure_that_is_gone(recorded_point, replay, journal):
    recorded_point(status="failed", reason="9 elements are wrong")
    done = replay(journal)
    assert done.returncode == 0
    assert "failed: 9 elements are wrong" in done.stdout
    assert "\nno longer fails: it was recorded as failed" in done.stdout


def test_a_failure_of_another_kind_is_no_agreement():
    with modules_of("gemmbench") as load:
        compare = load("replay").compare
    old = SimpleNamespace(status="error", reason="no end within 6 s: killed")
    kinds = {"crashed: SIGSEGV": "differ", "no end within 60 s: killed": "agree"}
    for reason, verdict in kinds.items():
        text, _ = compare(old, SimpleNamespace(status="error", reason=reason))
        assert text.startswith(verdict)


def test_a_failure_that_stays_or_comes(recorded, replay, journal, tmp_path):
    add_kernel(tmp_path / "now", "wrong", "")
    recorded("gemmbench", "--kernels", tmp_path / "now", "-f", "wrong", "-n", 4, *QUICK)
    assert "none of our kernels: name its folder with --kernels" in replay(journal).stderr
    done = replay(journal, "--kernels", tmp_path / "now")
    assert done.returncode == 0
    assert "\nagree: it still does not pass (failed)" in done.stdout
    journal.write_text(json.dumps({
        **json.loads(journal.read_text()), "status": "passed", "reason": None,
        "metrics": with_rate({"metrics": {"gflops": 1.0, "statistics": {"repeats": 4}}}, 1.0, 0.5),
    }) + "\n")  # fmt: skip
    done = replay(journal, "--kernels", tmp_path / "now", "--json", tmp_path / "new.jsonl")
    assert done.returncode == 1
    assert "\ndiffer: recorded as passed, now failed" in done.stdout
    assert record.read(tmp_path / "new.jsonl")[0].status == "failed"


def test_a_changed_kernel_is_not_judged(recorded_point, replay, journal, tmp_path):
    recorded_point()
    add_kernel(tmp_path / "now", "SGEMM_NN_1x1", "")
    done = replay(journal, "--kernels", tmp_path / "now")
    assert done.returncode == 77
    assert "\nnot comparable: the files of SGEMM_NN_1x1 have changed since" in done.stdout
    assert "\n  now       failed: " in done.stdout


@pytest.mark.exhaustive
def test_few_runs_are_not_judged(recorded, replay, journal):
    for repeat, status in ((1, 77), (2, 77)):
        recorded("gemmbench", "-n", 24, *QUICK, "--repeat", repeat)
        done = replay(journal)
        assert re.search(rf"^unsure: .* of {repeat} runs: record it with --repeat 3 or more$",
                         done.stdout, re.M)  # fmt: skip
        assert done.returncode == status


def test_the_record_of_another_machine_finds_our_kernel(recorded_point, replay, journal):
    data = recorded_point()
    params = {**data["params"], "metadata": "/home/board/kernels/SGEMM_NN_1x1.json"}
    recorded_point(params=params, metrics=with_rate(data, 1, 1e6))
    assert replay(journal).returncode == 0
    params = {**data["params"], "metadata": "/home/board/kernels/other.json"}
    recorded_point(params=params)
    done = replay(journal)
    assert done.returncode == 2
    assert "other.json is none of our kernels" in done.stderr


def test_another_device_is_not_judged(recorded_point, replay, journal):
    data = recorded_point()
    recorded_point(device={**data["device"], "name": "Mali-T628"})
    done = replay(journal)
    assert done.returncode == 77
    assert "not comparable: recorded on Mali-T628 (" in done.stderr
    assert done.stderr.count("\n") == 1
    done = replay(journal, "-p", 0)
    assert done.returncode == 77
    assert "\nnot comparable: recorded on Mali-T628 (" in done.stdout


def test_another_driver_is_said_and_judged(recorded_point, replay, journal):
    data = recorded_point()
    recorded_point(device={**data["device"], "driver": "0.1"}, metrics=with_rate(data, 1, 1e6))
    done = replay(journal)
    assert f"note: recorded with driver 0.1, now {data['device']['driver']}" in done.stdout
    assert "\nagree: " in done.stdout
    assert done.returncode == 0


def test_the_device_is_that_of_the_record_whatever_would_be_taken(
    recorded_point, replay, journal, monkeypatch
):
    monkeypatch.setenv("PYOPENCL_CTX", "0")
    data = recorded_point()
    recorded_point(metrics=with_rate(data, 1, 1e6))
    done = replay(journal, env={"PYOPENCL_CTX": "9"})
    assert done.returncode == 0, done.stderr
    assert "\nagree: " in done.stdout


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        (("params", "point"), {}, "point.kernel is missing or has the wrong type"),
        (("params", "point"), [1], "point is not an object"),
        (("params", "point", "repeat"), "3", "point.repeat is missing or has the wrong type"),
        (("params", "point", "seed"), True, "point.seed is missing or has the wrong type"),
        (("params", "point", "size"), "4\0", "point.size is missing or has the wrong type"),
        (("params", "metadata"), 5, "metadata is not a path"),
        (("metrics",), {}, "metrics.statistics.median is missing or no number"),
        (("metrics", "statistics", "range"), None, "metrics.statistics.range is missing"),
    ],
)
def test_a_record_that_is_spoilt_is_refused(recorded_point, replay, journal, where, value, message):
    data = recorded_point()
    *path, last = where
    inner = data
    for name in path:
        inner = inner[name]
    inner[last] = value
    recorded_point(**data)
    done = replay(f"{journal}:1")
    assert f"{journal}:1 cannot be run again: {message}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.returncode == 2


def test_the_record_of_a_single_point_can_be_replayed(recorded, replay, tmp_path):
    _, (item,) = recorded("gemmbench", "-n", 20, "-lws", "4,4", "-eps", 0.1, *QUICK)
    done = replay(tmp_path / "records.jsonl")
    assert "SGEMM_NN_1x1 20x20x20 4x4" in done.stdout
    assert item.params["point"]["eps"] == 0.1


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.jsonl", "cannot read none.jsonl: No such file"),
        ("{}", "has 2 records: name one, such as "),
        ("{}:3", "has 2 records, not one in line 3"),
        ("{}:0", "has 2 records, not one in line 0"),
        ("{}:2", "is no point of gemmbench"),
    ],
)
def test_what_cannot_be_replayed(replay, journal, name, message):
    items = [record.Record("gemmbench", "k", "error", "why"), record.Record("sgemm", "k", "passed")]
    journal.write_text("".join(item.to_line() + "\n" for item in items))
    done = replay(name.format(journal))
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.returncode == 2


def test_a_broken_line_spoils_no_other(recorded, replay, tmp_path):
    recorded("gemmbench", "-n", 20, *QUICK)
    path = tmp_path / "records.jsonl"
    path.write_text("junk\n" + path.read_text())
    assert "SGEMM_NN_1x1 20x20x20" in replay(f"{path}:2").stdout
    done = replay(f"{path}:1")
    assert f"{path}:1: not a JSON object" in done.stderr
    assert done.returncode == 2
