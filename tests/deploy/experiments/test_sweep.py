"""An experiment on boards of this machine: every point once, with its record, whatever happens."""

import json
import re
import threading
import time
from contextlib import suppress

import pytest
from stub_board import Bench

from common.errors import UsageError
from deploy.errors import BoardError
from deploy.experiments.member import Member
from deploy.experiments.records import Runs
from tools import points


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    return Bench(tmp_path, monkeypatch, capsys)


AXES = '[axes]\n"--kernel" = ["1", "2"]\n"--size" = [8, 16]\n'
SEARCH = 'kernel = "1"\n'


def keys(items):
    return [item.params["point"]["key"] for item in items]


def test_every_point_of_the_axes_runs_once_and_has_a_record(bench):
    status, out = bench.run(text=AXES)
    assert status == 0
    assert sorted(bench.runs()) == sorted(
        f"--kernel {kernel} --size {size}" for kernel in (1, 2) for size in (8, 16)
    )
    items = bench.came()
    assert len(set(keys(items))) == len(items) == 4
    assert {item.params["point"]["board"] for item in items} == {"board"}
    assert "4 passed" in out
    (path,) = bench.results.glob("board/*/stub/*.jsonl")
    assert f"records: {path}\n" in out
    plan = json.loads(next(bench.results.glob("board/*/plan.json")).read_text())
    assert (plan["env"], plan["ssh_file"]) == ({}, None)
    bench.run(text=AXES)
    assert len(bench.runs()) == len(bench.came()) == 4


def test_a_refused_point_is_in_the_status_and_in_the_last_line(bench):
    text = '[axes]\n"--kernel" = ["1", "2"]\n"--do" = ["pass", "refuse"]\n'
    for _ in range(2):  # the second time the records say so
        status, out = bench.run(text=text)
        assert status == 2
        assert "2 passed, 2 refused\n" in out
        assert out.splitlines()[-1] == "refused: --kernel 1 --do refuse: it is refuse"
    assert len(bench.runs()) == 4


def test_points_are_shared_among_boards_of_a_kind_and_never_with_others(bench):
    same = [bench.board(name) for name in ("a", "b")]
    other = bench.board("c", STUB_DRIVER="2")
    status, out = bench.run(*same, other, text=AXES, words=["--wait", "0.5"])
    assert status == 0
    boards = {"1": [], "2": []}
    for item in bench.came():
        boards[item.device["driver"]].append(item.params["point"]["board"])
    # On a busy machine one of the two may be late, and then takes fewer.
    assert (len(boards["1"]), set(boards["1"])) == (4, {"a", "b"})
    assert boards["2"] == ["c"] * 4
    assert "a device, driver 2" in out


def test_the_best_run_again_and_the_winner_is_stored(bench):
    """The rate is 10 * TS / WPT; TS = 16 would be a work-group of 256, and 64 is the most."""
    status, out = bench.run(text=SEARCH, rounds=2)
    assert status == 0
    tried = [tuple(map(int, re.findall(r"\d+", run)))[1:] for run in bench.runs()]
    assert tried[0] == (4, 1)  # the default
    assert sorted(tried[:6]) == [(2, 1), (2, 2), (4, 1), (4, 2), (8, 1), (8, 2)]
    again = tried[6:]
    assert len(again) == 2 * 5  # the default is one of the best five
    assert again[:5] == again[:4:-1]  # the second round the other way round
    assert "best of these rounds: --TS 8 --WPT 1\n" in out
    assert "fastest: " not in out
    stored = "tuned/a-device-a-platform.json: the sample reads it from now on; commit it for others"
    assert stored in out
    (path,) = (bench.folder / "tuned").glob("*.json")
    (entry,) = json.loads(path.read_text())["entries"]
    assert (entry["kernel"], entry["params"], entry["gflops"]) == ("01_k", {"TS": 8, "WPT": 1}, 80)
    assert (entry["spread"], entry["driver"], entry["slower_than"]) == ([80, 80], "1", None)
    assert len(set(keys(bench.came()))) == 16


def test_the_winner_of_a_sample_that_reads_no_parameters_is_only_named(bench):
    path = bench.folder / "sample.toml"
    path.write_text(path.read_text().replace('tuned = "tuned"\n', ""))
    status, out = bench.run(text=SEARCH, rounds=1)
    assert status == 0
    assert "best of these rounds: --TS 8 --WPT 1\n" in out
    assert "stored in" not in out


def test_what_the_sample_takes_by_itself_runs_beside(bench):
    path = bench.folder / "sample.toml"
    path.write_text(path.read_text().replace("[tools]\n", '[tools]\nbest = ["--TS", "32"]\n'))
    _, out = bench.run(text=SEARCH, rounds=1)
    assert "--TS 32 is faster; it ran kernel k\n" in out
    assert "a-platform.json: the sample does not use it, because k is faster\n" in out
    (path,) = (bench.folder / "tuned").glob("*.json")
    (entry,) = json.loads(path.read_text())["entries"]
    assert (entry["params"]["TS"], entry["slower_than"]) == (8, "k")


def test_a_search_that_learns_tries_legal_points_only_and_each_once(bench):
    bench.run(text=SEARCH + 'search = "learn"\nbudget = 5\n')
    tried = bench.runs()
    assert len(set(tried)) == 5
    assert tried[0] == "--kernel 1 --TS 4 --WPT 1"
    assert not [run for run in tried if "--TS 16" in run]


def test_points_that_fail_have_their_reason_and_are_not_run_again(bench):
    text = '[axes]\n"--kernel" = ["1"]\n"--do" = ["pass", "wrong", "crash", "silent", "refuse"]\n'
    status, out = bench.run(text=text)
    assert status == 1
    assert "1 passed, 1 refused, 2 error, 1 failed" in out
    assert "error: killed by SIGSEGV: last words ?[1m" in out
    bench.run(text=text)
    assert len(bench.runs()) == len(bench.came()) == 5


def test_a_point_has_its_time_limit(bench):
    status, out = bench.run(text='limit = 1\n[axes]\n"--kernel" = ["1"]\n', words=["--do", "hang"])
    assert status == 3
    assert re.search(r"killed: it did not end within 1 s", out)


@pytest.mark.parametrize(("python", "why"), [
    ("/no/python", "cannot start /no/python: No such file or directory"),
    ("/bin/false", "the program there ended with status 1: it says nothing"),
])
def test_a_board_that_is_away_costs_nothing(bench, python, why):
    away = bench.board("away", python=python)
    status, out = bench.run(bench.board(), away, text=AXES)
    assert status == 0
    assert f"away  | away: {why}" in out


def test_without_any_board(bench):
    with pytest.raises(BoardError, match="no board is left"):
        bench.run(bench.board(python="/no/python"), text=AXES)


def test_a_board_on_which_the_sample_cannot_start(bench):
    broken = bench.board("broken", STUB_ROOT="/none")
    status, out = bench.run(bench.board(), broken, text=AXES)
    assert status == 0
    assert "broken | away: stub: ended with status 1 and left no record: ModuleNotFoundError" in out
    with pytest.raises(BoardError, match="no board is left"):
        bench.run(broken, text=AXES)


def connect_soon(member):
    """Connect to a board, where the program of the last sweep may be about to end."""
    for _ in range(50):
        with suppress(BoardError):
            return member.connect()
        time.sleep(0.1)
    return member.connect()


@pytest.mark.parametrize("search", ["all", "learn"])
def test_what_a_board_ran_for_a_host_that_was_killed_is_not_run_again(bench, search):
    text = f'search = "{search}"\n{AXES}'
    bench.run(text=text, budget=1)
    (item,) = bench.came()
    options = ("--kernel", "2", "--size", "16")
    left = Member(bench.board())
    left.connect()
    key = points.point(points.identity("stub", item), options).key
    left.run(key, "stub", options, 60, [])
    left.forget([])
    bench.run(text=text)
    assert len(set(keys(bench.came()))) == len(bench.came()) == len(bench.runs()) == 4
    connect_soon(left)
    assert left.left == {}  # the board forgot what is stored
    left.forget([])


def test_a_sweep_that_continues_waits_for_a_board_in_use(bench):
    """It may be at a point of the last host."""
    bench.run(text=AXES, budget=1)
    used, seen = Member(bench.board("used")), []
    used.connect()
    release = threading.Timer(2, lambda: (seen.extend(bench.runs()), used.forget([])))
    release.start()
    bench.run(bench.board(), bench.board("used"), text=AXES)
    release.join()
    assert (len(seen), len(bench.runs())) == (1, 4)


def test_a_board_in_use_does_not_keep_the_others(bench):
    used = Member(bench.board("used"))
    used.connect()
    status, out = bench.run(bench.board(), bench.board("used"), text=AXES)
    used.forget([])
    assert status == 0
    assert "used  | away: the board is in use: " in out


def test_an_experiment_runs_once_at_a_time(bench):
    held = Runs(bench.results / "experiments" / "stub-experiment")
    with pytest.raises(UsageError, match="is running already"):
        bench.run(text=AXES)
    del held


def test_two_objectives_give_a_front(bench):
    text = 'objectives = ["gflops", "gbytes_per_s"]\noptions = ["--do", "trade"]\n' + SEARCH
    status, out = bench.run(text=text)
    assert status == 0
    front = out.partition("the Pareto front of gflops and gbytes_per_s:")[2].split("\n")
    assert front[1].strip() == "--TS 8 --WPT 1: 80, 12.5"
    assert "again" not in out
    assert not (bench.folder / "tuned").exists()


@pytest.mark.parametrize(("name", "why"), [
    ("gflops_per_watt", "no power sensor was readable"), ("foo", "have no such metric"),
])
def test_an_objective_that_no_point_has_is_said(bench, name, why):
    text = f'objectives = ["gflops", "{name}"]\noptions = ["--energy"]\n' + SEARCH
    status, out = bench.run(text=text)
    assert status == 77
    assert f"no point has {name}: " in out
    assert why in out
