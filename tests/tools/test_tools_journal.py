"""The journal of the tools: incomplete lines are redone, other files are left alone."""

import fcntl
import json
import os
import re

import pytest
from conftest import ROOT
from stub import Stub

from common import record
from dev import usage
from tools import command, points, sweep
from tools.journal import Journal

SIZES = ("--axis", "--size", 4, 5, 6)
ONE = ("--", "--kernel", "1")


@pytest.fixture
def stub(tmp_path, monkeypatch, capsys):
    return Stub(tmp_path, monkeypatch, capsys)


def line_of(key="0" * 32, **point):
    table = {"ended": "passed", "exit_status": 0, "key": key, "limit_s": 60.0, "metric": 1.5,
             "options": [], "seconds": 1.0, **point}
    return record.Record("stub", "k", "passed", params={"point": table}).to_line()


def test_an_incomplete_line_is_redone(stub):
    stub.sweep(*SIZES, *ONE)
    whole = stub.journal.read_bytes()
    for cut in (2, 20, 300):
        stub.journal.write_bytes(whole[:-cut])
        assert "3 points, 2 of them" in stub.sweep(*SIZES, *ONE)[1]
        assert len(stub.records()) == 3
    stub.journal.write_bytes(whole[:-1])  # only its end of line is lost
    assert "3 points, 3 of them" in stub.sweep(*SIZES, *ONE)[1]
    assert stub.journal.read_bytes() == whole


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("these are my notes\n", 1),
        ("these are my notes\nand the last one", 1),
        ("and the last one", 1),
        ('{"a": 1}', 1),
        ('{"schema": 1, "argv": []}', 1),
        ("RECORD\nand a note", 2),
        ('a note\n{"argv": [', 1),
        ('RECORD\n{"argv": [RECORD\n', 2),
    ],
)
def test_a_file_that_is_no_journal_is_left_alone(stub, text, line):
    text = text.replace("RECORD", line_of())
    stub.journal.write_text(text)
    status, _, errors = stub.sweep(*ONE)
    assert status == 2
    assert f"{stub.journal}:{line}: " in errors
    assert errors.count("\n") == 1
    assert stub.journal.read_text() == text


@pytest.mark.parametrize(
    "point",
    [{"limit_s": "60", "exit_status": None}, {"limit_s": None}, {"metric": "9"},
     {"metric": [1]}, {"ended": "odd"}, {"ended": 3}, {"key": "x"}, {"key": 7},
     {"ended": "failed"}],
)
def test_a_point_that_cannot_be_used_is_named(stub, point):
    stub.journal.write_text(line_of(**point) + "\n")
    status, _, errors = stub.sweep(*ONE)
    assert status == 2
    assert re.search(r"journal\.jsonl:1: .*: fix that line, or give another journal\n", errors)
    assert errors.count("\n") == 1


def test_records_of_others_in_a_journal_do_not_matter(stub):
    odd = [{"statistics": {"median": "a text"}}, {}, {"gflops": None}]
    items = [record.Record("other", "k", "passed", metrics=metrics) for metrics in odd]
    items += [record.Record("s", "k", "passed", params={"point": p}) for p in ([1], {}, "x")]
    stub.journal.write_text("".join(item.to_line() + "\n" for item in items))
    assert "1 point, 0 of them" in stub.sweep(*ONE)[1]
    assert len(stub.records()) == 7


def test_the_quick_way_reads_what_the_whole_line_says(tmp_path):
    """What a regular expression takes from a line is what a parser of JSON takes."""
    ways = [{}, {"metric": None}, {"metric": 1e-7}, {"metric": 2e21}, {"exit_status": None,
            "ended": "error", "metric": None}, {"ended": "failed", "metric": None},
            {"options": ['"point": {"ended": "failed"', "{"]}]
    lines = [line_of(f"{n:032x}", **way) for n, way in enumerate(ways)]
    quick, slow = tmp_path / "quick", tmp_path / "slow"
    quick.write_text("\n".join(lines) + "\n")
    dense = [json.dumps(json.loads(text), separators=(",", ":")) + "\n" for text in lines]
    slow.write_text("".join(dense))
    states = [[Journal(path).state(f"{n:032x}") for n in range(len(ways))]
              for path in (quick, slow)]
    assert states[0] == states[1]
    assert [s.metric for s in states[0][:4]] == [1.5, None, 1e-7, 2e21]
    assert states[0][4].late_s == 60


def test_two_tools_do_not_share_a_journal(stub):
    with open(stub.journal, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        status, _, errors = stub.sweep(*ONE)
    assert status == 2
    assert f"another tool is writing to {stub.journal}" in errors


def test_a_fifo_is_refused_at_once(stub):
    os.mkfifo(stub.journal)
    status, _, errors = stub.sweep(*ONE)
    assert (status, errors) == (
        2, f"tools: error: cannot use the journal {stub.journal}: it is no file\n",
    )


@pytest.mark.exhaustive
def test_a_million_points_are_resumed_within_20_s_and_500_mb(stub, tmp_path):
    """Of 2 KB each. By the time of the processor: others may have it too."""
    seeds, sizes = 1000, 1000
    args = ("--axis", "--size", *range(sizes), "--axis", "--repeat", *range(1, seeds + 1))
    line = command.parse(sweep.options(), ["stub", *map(str, args), *ONE])
    stub.sweep(*ONE)
    (item,) = stub.records()
    item.environment["more"] = "x" * 1250
    key = item.params["point"]["key"]
    identity = points.Identity("stub", item)
    text = item.to_line() + "\n"
    assert len(text) > 2000
    before, after = text.split(key)
    axes = dict(line.axes)
    with open(stub.journal, "w") as file:
        for number in range(points.size(axes)):
            words = points.words(points.pair(axes, number))
            file.write(f"{before}{identity.point((*line.options, *words)).key}{after}")
    command_line = stub.command("sweep", "stub", "--journal", stub.journal, *args, *ONE)
    with open(tmp_path / "out", "w") as out:
        used = usage.run(command_line, cwd=ROOT, stdout=out)
    stub.journal.unlink()
    assert used.status == 0
    assert "1000000 points, 1000000 of them" in (tmp_path / "out").read_text()
    memory = used.peak / 1024
    print(f"{used.processor:.1f} s, {memory:.0f} MB")
    assert used.processor < 20
    assert memory < 500
