"""Odd files and names in a report: one printable line, a documented status, never a hang."""

import errno
import os
import re
import subprocess
import sys
import zipfile

import pytest
from report_data import item, make_run, program, write

from common import files
from report import draw, overview
from report.reading import collect
from tests.conftest import ROOT

ODD = "a\nb\r\x1b[2J\x07\u202e\udcff"
DEEP = '{"argv":' + "[" * 500 + "]" * 500 + "}"
NINES = "9" * 5000
OUTCOMES = [
    "[]", "5", "null", "", "{", "\x00", DEEP, '{"a":' * 10**5, f'{{"started": {NINES}}}',
    '{"argv": 5}', '{"argv": {"a": 1}, "clock": "x"}', '{"argv": "abc", "seconds": []}',
    '{"argv": [1, null, {}], "seconds": 1e400, "started": 1e308, "clock": -1e308}',
    '{"argv": ["\\ud800\\u001b"], "seconds": 1e308, "started": 1e308, "clock": 1e308}',
]
PLANS = [
    '{"run": 5, "deployed": 5, "env": [], "cases": 3}',
    '{"deployed": {"common/a": 5, "common/\\u0000": "x"}, "env": {"A": 5}}',
    '{"deployed": [1], "env": {"\\u001b": "\\u202e\\ud800"}, "folder": 4, "python": {}}',
]


@pytest.fixture
def report(tmp_path, capsys, monkeypatch):
    """Call the report where tmp_path is the current folder; its lines are looked at."""
    monkeypatch.chdir(tmp_path)

    def call(*args):
        done = program(capsys, *args)
        assert all(line.isprintable() for line in (done.stdout + done.stderr).split("\n"))
        assert "unforeseen" not in done.stderr
        return done

    return call


@pytest.mark.parametrize("outcome", OUTCOMES, ids=range(len(OUTCOMES)))
def test_an_odd_outcome_is_exported_and_shown(report, tmp_path, outcome):
    folder = make_run(tmp_path, item())
    (folder / "sgemm" / "speed.outcome.json").write_text(outcome)
    assert report("--export", "run.zip", folder).returncode == 0
    assert report("run.zip", "-o", "page.html").returncode == 0
    assert report(folder, "-o", "page.html").returncode == 0


@pytest.mark.parametrize("plan", PLANS)
def test_an_odd_plan_is_exported_and_shown(report, tmp_path, plan):
    folder = make_run(tmp_path, item())
    (folder / "plan.json").write_text(plan)
    assert report("--export", "run.zip", folder).returncode == 0
    assert report("run.zip", "-o", "page.html").returncode == 0


@pytest.mark.parametrize("plan", ["[]", "{", DEEP, f'{{"run": {NINES}}}'])
def test_a_plan_that_is_none_is_named(report, tmp_path, plan):
    folder = make_run(tmp_path, item())
    (folder / "plan.json").write_text(plan)
    done = report(folder, "-o", "page.html")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "not read: " in done.stderr
    assert "plan.json: " in done.stderr


def test_fifos_in_a_run_are_not_waited_for(report, tmp_path):
    folder = make_run(tmp_path, item())
    make_run(tmp_path, item(status="failed"), case="odd")
    for name in ("speed.outcome.json", "odd.log"):
        (folder / "sgemm" / name).unlink()
    for name in ("speed.outcome.json", "odd.log", "more.jsonl", "more.log"):
        os.mkfifo(folder / "sgemm" / name)
    done = report(folder, "-o", "page.html")
    assert done.returncode == 0
    assert "2 records" in done.stdout
    assert "more.jsonl: it is a FIFO, not a file" in done.stderr
    assert report("--export", "run.zip", folder).returncode == 0
    with zipfile.ZipFile("run.zip") as packed:
        assert not any("more" in name for name in packed.namelist())
    (folder / "plan.json").unlink()
    os.mkfifo(folder / "plan.json")
    done = report(folder, "-o", "page.html")
    assert (done.returncode, done.stderr.count("it is a FIFO, not a file")) == (0, 2)
    assert report("--export", "run.zip", folder).returncode == 2


@pytest.mark.parametrize("kind", ["fifo", "/dev/zero", "/dev/null"])
def test_what_is_no_file_is_neither_read_nor_written(report, tmp_path, kind):
    os.mkfifo("fifo")
    folder = make_run(tmp_path, item())
    for args in ((kind,), (folder, "--baseline", kind)):
        done = report(*args, "-o", "page.html")
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"cannot read {kind}: it is a" in done.stderr
    for args in ((folder, "-o", kind), ("--export", kind, folder)):
        done = report(*args)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
        assert f"cannot write {kind}: " in done.stderr
        assert not os.path.isfile(kind)


def test_names_stay_in_their_line(report, tmp_path):
    folder = make_run(tmp_path / ODD, item("new", reason=ODD, status="failed"), board=ODD)
    old = make_run(tmp_path / "old", item("new", argv=[ODD], params={ODD: ODD}), board=ODD)
    assert report("--export", f"{ODD}.zip", folder).returncode == 0
    done = report(f"{ODD}.zip", folder, "--baseline", old, "-o", f"{ODD}.html")
    assert (done.returncode, done.stdout.count("\n")) == (0, 3)
    done = report(f"{ODD}{ODD}", "-o", "page.html")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    page = (tmp_path / f"{ODD}.html").read_text()
    assert not re.findall("[\r\x1b\x07\u202e]", page)


def test_a_log_shows_what_is_printable(tmp_path):
    (tmp_path / "log").write_text("one\x1b[2J\ntwo\u202e")
    assert overview.tail(tmp_path / "log") == "one [2J\ntwo"
    assert overview.tail(tmp_path) is None


def test_a_line_that_is_too_long_costs_itself(tmp_path, monkeypatch):
    good = item().to_line()
    monkeypatch.setattr(files, "LONGEST_RECORD", len(good) + 1)
    (tmp_path / "r.jsonl").write_text(f"{good}\n{good[:-1]}{' ' * 5000}}}\n{good}\n")
    found = list(files.records(tmp_path / "r.jsonl"))
    assert [isinstance(each, str) for each in found] == [False, True, False]
    assert "r.jsonl:2: not a JSON object" in found[1]


def test_what_cannot_be_printed(tmp_path):
    file = make_run(tmp_path, item(ODD))
    for redirection, status in ((">/dev/full", 2), (">&- 2>&- <&-", 0)):
        command = f'"{sys.executable}" report "$0" -o "$0/page.html" {redirection}'
        done = subprocess.run(
            ["bash", "-c", command, file],
            cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )
        assert done.returncode == status
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") == (status == 2)
        assert (file / "page.html").is_file()


def test_ctrl_c_while_figures_are_drawn_does_not_deny_the_page(report, tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(draw, "save", stopped)
    done = report(make_run(tmp_path, item()), "--output", "page.html", "--figures", "figures")
    assert (done.returncode, done.stderr) == (130, "report: error: interrupted\n")
    assert (tmp_path / "page.html").exists()


def test_records_that_broke_off_early_are_of_the_machine_of_their_own_file(tmp_path):
    """They do not say which it is."""
    early = item("-", "error", times=(), device={}, environment={}, metrics={}, check={})
    for host in ("a", "b"):
        write(tmp_path / f"{host}.jsonl", item(environment={"host": host}), early)
    points = collect([tmp_path], tmp_path / "unpacked").points
    assert [(p.board, p.kernel, p.records) for p in points] == [
        ("a", "dot4", 1), ("a", "-", 1), ("b", "dot4", 1), ("b", "-", 1)]


def test_figures_that_have_no_room_are_named(report, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(draw, "save", full)
    done = report(make_run(tmp_path, item()), "--output", "page.html", "--figures", "figures")
    said = "report: error: cannot write figures to figures: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, said)
