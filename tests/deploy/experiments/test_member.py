"""A board keeps each result until the host has stored it."""

import time

import pytest
from stub_board import Bench

from common.errors import UsageError
from deploy.errors import BoardError
from deploy.experiments.member import Lost, Member


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    return Bench(tmp_path, monkeypatch, capsys)


def key(name):
    return f"{name:0>32}"


def asked(name, *args, limit_s=60, stored=()):
    return key(name), "stub", args, limit_s, [key(each) for each in stored]


def connected(bench):
    member = Member(bench.board())
    member.connect()
    return member


def again(bench):
    """Connect as soon as the program of the last host has ended."""
    for _ in range(100):
        try:
            return connected(bench)
        except BoardError:
            time.sleep(0.1)
    return connected(bench)


def kept(bench):
    return sorted(path.name for path in (bench.root / "board" / "points").iterdir())


def test_what_the_last_host_did_not_store_waits_for_the_next(bench):
    first = connected(bench)
    assert first.left == {}
    assert first.run(*asked("a1")).records[0].metrics == {"gflops": 40.0}
    first.run(*asked("b2", "--do", "wrong"))
    first.forget([])
    second = again(bench)
    assert set(second.left) == {key("a1"), key("b2")}
    assert second.left[key("b2")].status == 1
    second.run(*asked("c3", stored=["a1"]))
    assert kept(bench) == [key("b2"), key("c3")]
    second.forget([key("b2"), key("c3")])
    assert again(bench).left == {}
    assert len(bench.runs()) == 3


def test_a_point_that_the_user_stops_leaves_nothing(bench):
    member = connected(bench)
    member.session.send(b'{"stored": []}\n')
    member.board.stop()
    with pytest.raises(Lost):  # the program there has ended
        member.run(*asked("a1"))
    assert kept(bench) == []


def test_a_point_that_was_cut_short_has_no_result(bench):
    (bench.root / "board" / "points" / key("a1") / "stub").mkdir(parents=True)
    member = connected(bench)
    assert member.left[key("a1")].reason == "stopped"
    assert kept(bench) == []


def test_a_lost_board_runs_nothing_until_it_is_connected_again(bench):
    member = connected(bench)
    member.session.process.kill()
    with pytest.raises(Lost, match="status -9"):
        member.run(*asked("a1"))
    with pytest.raises(BoardError, match="cannot be reached"):
        member.run(*asked("a1"))
    member.connect()
    assert member.run(*asked("a1")).status == 0


def test_a_board_in_use_says_so(bench):
    member = connected(bench)
    with pytest.raises(BoardError, match="the board is in use: "):
        connected(bench)
    member.forget([])


WRITES = """
import os, sys
sys.path.insert(0, os.environ["STUB_ROOT"])
from common.record import Record, append
keep, json = (sys.argv[sys.argv.index(name) + 1] for name in ("--keep", "--json"))
os.makedirs(keep + "/deep")
for path in (keep + "/deep/0-k.bin", os.environ["LOG"], keep + "/.hidden"):
    open(path, "w").write(path)
append(json, Record("stub", "k", "passed"))
"""


def test_files_that_a_sample_writes_come_back(bench, tmp_path):
    (bench.folder / "run.py").write_text(WRITES)
    member, folder = connected(bench), tmp_path / "came"
    done = member.once("stub", ["--keep", f"{folder}/kept"], 60, {"LOG": f"{folder}/log"},
                       str(folder))
    assert done.reason.startswith("its files are too large: 1 file of ")  # none such can be
    came = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert came == {"kept/deep/0-k.bin", "log"}
    there = (folder / "log").read_text()
    assert there.startswith(str(bench.root / "board" / "points"))
    member.forget(["once"])
    again(bench).forget([])
    assert kept(bench) == []


def test_how_a_point_ended(bench):
    member = connected(bench)
    late = member.run(*asked("a1", "--do", "hang", limit_s=1))
    assert (late.status, late.reason) == (None, "killed: it did not end within 1 s")
    crash = member.run(*asked("a2", "--do", "crash"))
    assert (crash.status, crash.reason) == (-11, "killed by SIGSEGV: last words ?[1m")
    silent = member.run(*asked("a3", "--do", "silent"))
    assert silent.reason == "ended with status 3 and left no record"
    board, plan, described, left = member.join("stub", (), 60)
    assert (board, plan["env"], left) == ("board", {}, {})
    assert described.params["kernels"][0]["name"] == "01_k"
    with pytest.raises(UsageError, match="ended with status 2 and left no record"):
        member.join("none", (), 60)
