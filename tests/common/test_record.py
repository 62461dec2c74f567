"""The record: what is written comes back, and nothing half understood does."""

import json
import math

import pytest

from common import record
from common.record import Record, RecordError


def full():
    return Record(
        "sgemm", "dot4", "passed", None, {"size": "4x4x4"}, {"name": "x", "type": "cpu"},
        {"host": "y"}, {"run_s": [0.1, 0.2], "warmup": 1}, {"gflops": 2.5},
        {"max_abs_error": 1e-9}, ["run.py"],
    )


def test_round_trip(tmp_path):
    path = tmp_path / "r.jsonl"
    failed = Record("sgemm", None, "error", "timeout")
    record.append(path, full())
    record.append(path, failed)
    back = record.read(path)
    assert [r.reason for r in back] == [None, "timeout"]
    assert back[0].to_line() == path.read_text().splitlines()[0]


def test_a_record_after_an_incomplete_line_is_read(tmp_path):
    path = tmp_path / "r.jsonl"
    record.append(path, full())
    path.write_text(path.read_text() + full().to_line()[:50])
    record.append(path, full())
    record.append(path, full())
    records, (error,) = record.sort(record.scan(path))
    assert len(records) == 3
    assert "r.jsonl:2: not a JSON object" in error


def test_every_line_is_flushed_and_strict_json(tmp_path):
    path = tmp_path / "r.jsonl"
    item = Record("s", "v", "failed", "NaN in C", check={"max_abs_error": math.nan})
    item.metrics = {"gflops": math.inf}
    record.append(path, item)
    data = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(name))
    assert data["check"]["max_abs_error"] is None
    assert data["metrics"]["gflops"] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 99}, "schema 99 is unknown"),
        ({"surprise": 1}, "unknown key surprise"),
        ({"timing": {"ran": 1}}, r"unknown key timing\.ran"),
        ({"timing": {"run_s": [10**400]}}, r"timing\.run_s is not a list of times in seconds"),
        ({"timing": {"run_s": [-1.0]}}, r"timing\.run_s is not a list of times in seconds"),
        ({"metrics": {"gflops": 10**400}}, r"metrics\.gflops is not a number that a float holds"),
        (
            {"metrics": {"gflops": -(10**400)}},
            r"metrics\.gflops is not a number that a float holds",
        ),
        ({"check": {"max_abs_error": True}}, r"check\.max_abs_error is not a number"),
        ({"device": {"platform": "x"}}, r"device\.name is missing, or is not a string"),
        ({"device": {"name": "x", "type": 3}}, r"device\.type is missing, or is not a string"),
        ({"timing": {"build_s": "long"}}, r"timing\.build_s is not a number"),
        ({"metrics": {"statistics": 3}}, r"metrics\.statistics is not an object"),
        ({"metrics": {"energy": None}}, r"metrics\.energy is not an object"),
        ({"check": []}, "check is not an object"),
        ({"check": {"max_abs_error": "x"}}, r"check\.max_abs_error is not a number"),
        ({"timing": {"run_s": ["x"]}}, r"timing\.run_s is not a list of times"),
        ({"metrics": {"ratios": 2}}, r"metrics\.ratios is not an object"),
        ({"timing": {"run_s": [None]}}, r"timing\.run_s is not a list of times"),
        ({"schema": True}, "schema True is unknown"),
        ({"sample": 3}, "sample has the wrong type"),
        ({"argv": "x"}, "argv has the wrong type"),
        ({"status": "good"}, "status 'good' is not one of"),
        ({"reason": "odd"}, "a record has a reason exactly if its status is not passed or built"),
    ],
)
def test_what_is_not_understood_is_refused_with_file_and_line(tmp_path, change, message):
    path = tmp_path / "r.jsonl"
    record.append(path, full())
    with open(path, "a") as file:
        file.write(json.dumps({**json.loads(full().to_line()), **change}) + "\n")
    with pytest.raises(RecordError, match=rf"r\.jsonl:2: {message}"):
        record.read(path)
    records, errors = record.sort(record.scan(path))
    assert (len(records), len(errors)) == (1, 1)


@pytest.mark.parametrize(
    "line", ["", "[1]", "{", "null", '{"schema": 1}', "\x00\xff", '{"schema": NaN}', "[" * 100_000]
)
def test_broken_lines(tmp_path, line):
    path = tmp_path / "r.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(RecordError, match=r"r\.jsonl:1: "):
        record.read(path)


@pytest.mark.parametrize(
    ("timing", "times"),
    [
        ({"run_s": [0.1, 0.2], "host_s": [0.3, 0.4]}, [0.1, 0.2]),
        ({"run_s": [0.0, 0.2], "host_s": [0.3, 0.4]}, [0.3, 0.4]),
        ({"host_s": [0.3]}, [0.3]),
        ({"run_s": [0.0]}, [0.0]),
        ({"run_s": None}, []),
        ({}, []),
    ],
)
def test_the_times_are_the_hosts_where_the_device_has_none(timing, times):
    record = Record("s", "v", "passed")
    record.timing = timing
    assert record.times() == times


def test_a_record_without_reason_cannot_be_made():
    with pytest.raises(RecordError):
        Record("s", "v", "failed")
    with pytest.raises(RecordError):
        Record("s", "v", "well")


def test_what_was_checked_counts_until_it_was_timed(tmp_path):
    path = tmp_path / "r.jsonl"
    run = {"argv": ["run.py"], "started": "now", "params": {"size": "8"}}
    for variant, status, reason, more in (
        ("a", "error", record.UNFINISHED, {}),
        ("b", "error", record.UNFINISHED, {}),
        ("a", "error", record.UNFINISHED, {"params": {"size": "9"}}),
        ("c", "error", "killed by SIGSEGV while running", {}),
        ("a", "error", record.UNFINISHED, {}),  # in a second process, after the crash
        ("a", "passed", None, {}),
        ("a", "error", record.UNFINISHED, {"started": "later"}),
    ):
        record.append(path, Record("s", variant, status, reason, **{**run, **more}))
    found = [(r.variant, r.params["size"], r.status, r.started) for r in record.read(path)]
    assert found == [
        ("c", "8", "error", "now"),
        ("a", "8", "passed", "now"),
        ("b", "8", "error", "now"),
        ("a", "9", "error", "now"),
        ("a", "8", "error", "later"),
    ]


@pytest.mark.parametrize("number", ["1e999", "-1e400", "NaN", "1" + "0" * 5000])
def test_a_number_that_is_none_costs_its_record_only(tmp_path, number):
    path = tmp_path / "r.jsonl"
    good = Record("s", "v", "passed", metrics={"gflops": 1.0}).to_line()
    path.write_text(good + "\n" + good.replace("1.0", number) + "\n" + good + "\n")
    records, errors = record.sort(record.scan(path))
    assert len(records) == 2
    assert len(errors) == 1
    assert errors[0].startswith(f"{path}:2: ")


@pytest.mark.parametrize("key", ["library", "peer"])
def test_a_record_of_a_library_by_its_present_and_its_older_name(key):
    assert record.of_library({key: "OpenBLAS 0.3"})
    assert not record.of_library({key: None, "size": "8"})
