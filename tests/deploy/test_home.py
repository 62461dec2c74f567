"""What a run left on a board comes home for good: on the disk, beside what is there, in part."""

import fcntl
import json
import os
from types import SimpleNamespace

import pytest

from common.record import Record
from deploy import home, link, runs, table
from deploy.errors import BoardError
from deploy.onboard import limits
from deploy.onboard import runs as onboard
from deploy.onboard.folder import RUN_NAME
from tests.deploy.onboard.test_remote import sha, sync

RUN = "20260101T000000.000Z"
LINE = Record("s", "k", "passed").to_line() + "\n"


@pytest.fixture
def results(tmp_path, monkeypatch):
    """The folder where runs come home."""
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")
    return tmp_path / "results" / "test"


@pytest.fixture
def waiting(board, tmp_path, results):
    """A board on which runs wait; gives what adds one: its files by path."""
    sync(board, {"a/one": sha(b"one")}, {"a/one": b"one"})

    def add(name=RUN, **cases):
        folder = tmp_path / "board" / "results" / name
        (folder / "s").mkdir(parents=True)
        plan = {"cases": [{"sample": "s", "case": case} for case in cases]}
        (folder / "plan.json").write_text(json.dumps(plan))
        outcome = {"reason": None, "exit_status": 0, "seconds": 1.0, "argv": []}
        for case, files in cases.items():
            (folder / "s" / f"{case}.outcome.json").write_text(json.dumps(outcome))
            for ending, text in files.items():
                (folder / "s" / f"{case}.{ending}").write_text(text)
        return folder

    return add


def test_a_run_comes_home_and_is_forgotten_there(waiting, board, results, capsys):
    folder = waiting(c={"jsonl": LINE, "log": "hello\n", "other": "not of a run"})
    (folder / "s" / "c.other").unlink()
    (row,) = runs.collect(board)
    assert (row.board, row.case, row.record.status) == ("test", "c", "passed")
    assert not folder.exists()
    assert (results / RUN / "s" / "c.log").read_text() == "hello\n"
    assert (results / RUN / "s" / "c.jsonl").read_text() == LINE
    assert runs.collect(board) == []
    assert "nothing to collect" in capsys.readouterr().out


def test_stored_is_said_when_all_of_it_is_on_the_disk(waiting, board, results, monkeypatch):
    waiting(c={"jsonl": LINE, "log": "hello\n"}, d={"jsonl": "no record\n"})
    synced, real, send = [], os.fsync, link.Session.send

    def fsync(descriptor):
        synced.append((os.fstat(descriptor).st_ino, os.fstat(descriptor).st_size))
        real(descriptor)

    def check(session, data):
        if bytes(data).startswith(b"stored"):
            came = [results / RUN, *(results / RUN).rglob("*")]
            assert len(came) == 9
            for path in came:
                there = path.stat()
                assert any(node == there.st_ino for node, _ in synced), path
                assert path.is_dir() or (there.st_ino, there.st_size) in synced, path
            assert {node for node, _ in synced} >= {
                results.stat().st_ino, results.parent.stat().st_ino,
            }
            assert synced[-3][0] == results.stat().st_ino  # after the run got its name
            synced.append("said")
        send(session, data)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(link.Session, "send", check)
    runs.collect(board)
    assert "said" in synced


def test_a_run_that_came_home_whole_is_never_replaced(waiting, board, results):
    waiting(c={"jsonl": LINE})
    runs.collect(board)
    folder = waiting(c={"jsonl": Record("s", "other", "passed").to_line() + "\n"})
    (row,) = runs.collect(board)
    assert row.record.status == "error"
    assert f"{results / RUN} is already here and differs: move it elsewhere" in row.record.reason
    assert (folder / "s" / "c.jsonl").exists()
    assert (results / RUN / "s" / "c.jsonl").read_text() == LINE
    assert len(list(results.iterdir())) == 1


def test_the_same_run_again_is_no_other_one(waiting, board, results, capsys):
    """As when the board did not hear that it is stored."""
    for _ in range(3):
        folder = waiting(c={"jsonl": LINE, "log": "hello\n"})
        runs.collect(board)
        assert not folder.exists()
    assert [path.name for path in results.iterdir()] == [RUN]
    assert "is already here" not in capsys.readouterr().out


def test_a_run_that_is_going_on_is_left_alone(waiting, board, results, capsys):
    folder = waiting(c={"jsonl": LINE})
    with open(folder / "plan.json") as plan:
        fcntl.flock(plan, fcntl.LOCK_EX)
        assert runs.collect(board) == []
    assert capsys.readouterr().out == f"run {RUN} is still running: collect again\n"
    assert (folder / "s" / "c.jsonl").exists()
    assert len(runs.collect(board)) == 1


def test_a_run_that_is_too_large_comes_in_part(waiting, board, results, capsys):
    long = "x" * (limits.LOG + 1)
    big = waiting(c={"jsonl": LINE, "log": long}, d={"jsonl": LINE, "log": "short"})
    waiting("20260102T000000.000Z", e={"jsonl": LINE})
    rows = runs.collect(board)
    assert [(row.case, row.record.status) for row in rows] == [(n, "passed") for n in "cde"]
    assert "too large, stays on the board: 1 file of 4 MiB (s/c.log)" in (
        capsys.readouterr().out
    )
    assert not (results / RUN / "s" / "c.log").exists()
    assert (results / RUN / "s" / "d.log").read_text() == "short"
    left = big.with_name(f"{RUN}.left")
    assert [path.name for path in left.rglob("*") if path.is_file()] == ["c.log"]
    assert runs.collect(board) == []  # what is left is for a person
    with pytest.raises(BoardError, match=rf"not collected: {RUN}\.left"):
        board.start("clean", discard=False).event()
    board.start("clean", discard=True).event()
    assert not left.exists()


def test_what_fits_comes_in_the_order_of_its_worth(tmp_path, monkeypatch):
    (tmp_path / "s").mkdir()
    names = ["plan.json", "s/c.npz", "s/c.log", "s/c.jsonl", "s/c.outcome.json", "s/x.py"]
    for name in names:
        (tmp_path / name).write_bytes(bytes(10))
    monkeypatch.setattr(limits, "LARGEST_RUN", 45)
    sent, left = onboard.choose(str(tmp_path), limits.FILE, limits.KINDS)
    assert list(sent) == ["plan.json", "s/c.outcome.json", "s/c.jsonl", "s/c.log"]
    assert left == {"s/c.npz": 10, "s/x.py": 10}


def test_records_that_stayed_on_the_board(tmp_path):
    board = SimpleNamespace(name="test", broken=None)
    session = SimpleNamespace(left=lambda: 1)
    (tmp_path / "s").mkdir()
    (tmp_path / "plan.json").write_text('{"cases": [{"sample": "s", "case": "c"}]}')
    outcome = {"reason": None, "exit_status": 0, "seconds": 1.0, "argv": []}
    (tmp_path / "s" / "c.outcome.json").write_text(json.dumps(outcome))
    left = "1 file of 9.54 MiB (s/c.jsonl)"
    (case,) = home.complete(board, session, tmp_path, {}, left)
    assert case.records[0].reason == (
        "ended with status 0 and left no record; files that were too large stay on the board"
    )


@pytest.mark.parametrize("seconds", ["x", [], 10**400, "9" * 999])
def test_a_time_that_cannot_be_shown(tmp_path, seconds):
    board = SimpleNamespace(name="test", broken=None)
    session = SimpleNamespace(left=lambda: 1)
    (tmp_path / "s").mkdir()
    (tmp_path / "plan.json").write_text('{"cases": [{"sample": "s", "case": "c"}]}')
    outcome = {"reason": None, "exit_status": 0, "seconds": seconds, "argv": []}
    (tmp_path / "s" / "c.outcome.json").write_text(json.dumps(outcome))
    with pytest.raises(BoardError, match="it sends invalid data"):
        home.complete(board, session, tmp_path, {}, None)


def test_a_summary_holds_no_more_than_it_shows():
    long = "x" * 10**6
    times = {"run_s": [3.0, 1.0, 2.0], "host_s": [9.0] * 1000}
    item = Record(
        "s", long, "error", long,
        params={"seed": 7, "precision": "int8", "peer": [[]] * 1000, "other": long},
        device={"name": long, "type": "cpu", "skipped": [long] * 1000, "more": long},
        environment={"x": long}, timing=times, argv=[long], check={"output_sha256": long},
        metrics={"gflops": 2.5, "flop_convention": long, "statistics": {"x": long}},
    )
    brief = home.brief(item)
    assert len(brief.to_line()) < 10_000
    assert brief.params == {"seed": 7, "precision": "int8", "peer": None}
    assert brief.times() == [2.0]
    assert table.rate(brief) == (2.5, "2.5 GOPS")
    assert brief.device["type"] == "cpu"
    plain = Record("s", None, "passed")
    assert home.brief(plain) == plain


@pytest.mark.parametrize(
    "path",
    ["../escaped", "/tmp/escaped", "s/../../escaped.log", "s/c.py", "a/b/c.log", "s", "", "S/c.log",
     "s/c.log\n", f"{'s' * 101}/c.log", "unfinished", ".incoming/c.log", "s/plan.json"],
)
def test_a_file_that_no_run_has(path):
    with pytest.raises(BoardError, match="which is not a file of a run"):
        home.announced({"event": "file", "path": path, "bytes": 1}, 100, set())


@pytest.mark.parametrize(
    "path",
    ["../x", "/x", "a/../b", "a//b", ".hidden", "a/.b", "a/", "a\n", "", "ä", "a/" * 9 + "b"],
)
def test_a_file_that_no_tool_asks_for(path):
    asked = 100, set(), limits.MADE, limits.MADE_KINDS
    with pytest.raises(BoardError, match="which is not a file of a run"):
        home.announced({"event": "file", "path": path, "bytes": 1}, *asked)
    good = {"event": "file", "path": "pocl/AB/0-k/gemm.so", "bytes": 1}
    assert home.announced(good, *asked) == ("pocl/AB/0-k/gemm.so", 1)


@pytest.mark.parametrize("name", ["../x", "/x", ".hidden", "", "20260101T000000.000Z/.."])
def test_a_run_with_a_name_that_is_none(name):
    with pytest.raises(BoardError, match="invalid name of a run"):
        home.checked(name, RUN_NAME, "a run")
