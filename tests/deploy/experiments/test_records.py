"""The records of an experiment: incomplete lines are redone, other files are left alone."""

import os
import sys

import pytest
from stub_board import Bench

from common import record
from common.errors import UsageError
from deploy.experiments import file, records
from tests.conftest import ROOT
from tests.dev import usage
from tools import engine, points


def line_of(key="0" * 32, **point):
    table = {"board": "b", "ended": "passed", "exit_status": 0, "key": key, "limit_s": 60.0,
             "metric": 1.5, "options": [], "seconds": 1.0, **point}
    return record.Record("stub", "k", "passed", params={"point": table}).to_line()


@pytest.fixture
def read(tmp_path):
    """Write a text to a file, and read that as the records of a sweep."""
    path = tmp_path / "x.jsonl"

    def read(text, whole=False):
        path.write_text(text)
        return [(key.hex(), state) for key, state, _ in records.read(path, whole)]

    read.path = path
    return read


@pytest.mark.parametrize(
    ("energy", "sensors", "name", "wanted"),
    [
        ({"gpu": {"gflops_per_watt": 4.0}}, (), "gflops_per_watt", 4),
        # Together they take 1/4 + 1/12 of a joule.
        ({"gpu": {"gflops_per_watt": 4.0}, "mem": {"gflops_per_watt": 12.0}}, (),
         "gflops_per_watt", 3),
        ({"gpu": {"gflops_per_watt": 4.0}, "mem": {"gflops_per_watt": 12.0}}, ("gpu",),
         "gflops_per_watt", 4),
        ({"gpu": {"joules": None, "reason": "insufficient samples"}}, (), "gflops_per_watt", None),
        ({"gpu": {"gflops_per_watt": "x"}}, (), "gflops_per_watt", None),
        ({"ddr": {"gbytes_per_s_per_watt": 2.5}}, (), "gbytes_per_s_per_watt", 2.5),
        ({}, (), "gflops_per_watt", None),
    ],
)
def test_the_rate_per_watt_is_of_the_sensors_together(energy, sensors, name, wanted):
    item = record.Record("stub", "k", "passed", metrics={"gflops": 1.0, "energy": energy})
    assert records.value(item, name, sensors) == wanted


@pytest.mark.parametrize("lost", [1, 2, 20, 200])
def test_an_incomplete_line_is_redone(read, lost):
    lines = [line_of(f"{n:032x}") + "\n" for n in range(3)]
    text = "".join(lines)
    assert len(read(text[:-lost])) == 2
    assert read.path.read_text() == "".join(lines[:2])


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("these are my notes\n", 1),
        ("these are my notes\nand the last one", 1),
        ('{"a": 1}', 1),
        ('{"schema": 1, "argv": []}', 1),
        ("RECORD\nand a note", 2),
        ('{"schema": 1, "argv": RECORD', 1),
        ('a note\n{"argv": [', 1),
        ('RECORD\n{"argv": [RECORD\n', 2),
    ],
)
def test_a_file_of_something_else_is_left_alone(read, text, line):
    text = text.replace("RECORD", line_of())
    with pytest.raises(UsageError, match=rf"x\.jsonl:{line}: .*: fix that line, or remove") as said:
        read(text)
    assert "\n" not in str(said.value)
    assert read.path.read_text() == text


@pytest.mark.parametrize(
    "point",
    [{"limit_s": "60", "exit_status": None}, {"limit_s": None}, {"metric": "9"},
     {"metric": [1]}, {"ended": "odd"}, {"ended": 3}, {"key": "x"}, {"key": 7},
     {"ended": "failed"}],
)
def test_a_point_that_cannot_be_used_is_named(read, point):
    with pytest.raises(UsageError, match=r"x\.jsonl:1: params\.point cannot be used: "):
        read(line_of(**point) + "\n")


def test_records_of_others_do_not_matter(read):
    odd = [{"statistics": {"median": "a text"}}, {}, {"gflops": None}]
    items = [record.Record("other", "k", "passed", metrics=metrics) for metrics in odd]
    items += [record.Record("s", "k", "passed", params={"point": p}) for p in ([1], {}, "x")]
    assert read("".join(item.to_line() + "\n" for item in items)) == []


def test_the_quick_way_reads_what_the_whole_line_says(read):
    """What is taken from a part of a line is what a parser of the whole takes."""
    ways = [{}, {"metric": None}, {"metric": 1e-7}, {"metric": 2e21}, {"exit_status": None,
            "ended": "error", "metric": None}, {"ended": "failed", "metric": None},
            {"options": ['"point": {"board": "b", "ended": "failed"', "{"]}]
    text = "".join(line_of(f"{n:032x}", **way) + "\n" for n, way in enumerate(ways))
    states = read(text)
    assert states == read(text, whole=True)
    assert [s.metric for _, s in states[:4]] == [1.5, None, 1e-7, 2e21]
    assert states[4][1].late_s == 60


@pytest.mark.parametrize("when", ["flush", "fsync"])
def test_a_full_disk_names_the_file(tmp_path, monkeypatch, capsys, when):
    bench = Bench(tmp_path, monkeypatch, capsys)
    bench.run(text='[axes]\n"--size" = [1]\n')
    item, full = bench.came()[0], bench.results / "board" / "run" / "stub" / "experiment.jsonl"
    full.parent.mkdir(parents=True)
    if when == "flush":
        full.symlink_to("/dev/full")
    else:
        monkeypatch.setattr(records.os, "fsync", lambda _: os.write(device, b"x"))
    device = os.open("/dev/full", os.O_WRONLY)
    asked = file.read(str(bench.root / "experiment.toml"))
    monkeypatch.setattr(records.Records, "paths", lambda self: [])
    kept = records.Records(asked, "run")
    result = engine.Result(engine.State("passed", 1.0, None), [item], None)
    with pytest.raises(UsageError, match=f"cannot write {full}: No space left on device"):
        [kept.add("board", result), kept.sync()]
    os.close(device)


def test_a_kind_keeps_its_run(tmp_path):
    first = records.Runs(tmp_path / "here" / "x")
    run, before = first.of("a")
    assert not before
    with pytest.raises(UsageError, match="x is running already"):
        records.Runs(tmp_path / "here" / "x")
    first.close()
    with open(tmp_path / "here" / "x", "a") as torn:
        torn.write("b 2026")
    second = records.Runs(tmp_path / "here" / "x")
    assert second.of("a") == (run, True)
    assert not second.of("b")[1]
    second.close()
    assert records.Runs(tmp_path / "here" / "x").of("b")[1]


RESUME = """\
import sys
from pathlib import Path
sys.path[:0] = ["tests"]
import pytest
from stub_board import Bench
from deploy.experiments import command, file
bench = Bench(Path(sys.argv[1]), pytest.MonkeyPatch(), None)
sys.exit(command.sweep([bench.board()], file.read(str(bench.root / "experiment.toml"))))
"""


@pytest.mark.exhaustive
def test_a_million_points_are_resumed_within_40_s_and_500_mb(tmp_path, monkeypatch, capsys):
    """Of 2 KB each. By the time of the processor: others may have it too."""
    bench = Bench(tmp_path, monkeypatch, capsys)
    axis = list(range(1, 1001))
    bench.run(text='[axes]\n"--kernel" = ["1"]\n"--size" = [1]\n"--repeat" = [1]\n')
    (item,) = bench.came()
    item.environment["more"] = "x" * 1250
    key = item.params["point"]["key"]
    text = item.to_line() + "\n"
    assert len(text) > 2000
    parts = text.split(key)
    common = points.identity("stub", item)
    (path,) = bench.results.glob("*/*/stub/*.jsonl")
    with open(path, "w") as lines:
        for size in axis:
            for repeat in axis:
                words = ("--kernel", "1", "--size", str(size), "--repeat", str(repeat))
                lines.write(points.point(common, words).key.join(parts))
    values = str(axis).replace(" ", "\n")  # a line may not be so long
    (tmp_path / "experiment.toml").write_text(
        f'sample = "stub"\nrounds = 0\n[axes]\n"--kernel" = ["1"]\n"--size" = {values}\n'
        f'"--repeat" = {values}\n')
    with open(tmp_path / "out", "w") as out:
        used = usage.run([sys.executable, "-c", RESUME, str(tmp_path)], cwd=ROOT, stdout=out)
    path.unlink()
    memory = used.peak / 1024
    print(f"{used.processor:.1f} s, {memory:.0f} MB")
    assert used.status == 0
    assert "1000000 points, 1000000 of them in results/ already" in (tmp_path / "out").read_text()
    assert used.processor < 40
    assert memory < 500
