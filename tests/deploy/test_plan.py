"""Each board goes through the tasks of one call at its own pace."""

import threading
import time

import pytest

from common.errors import UsageError
from common.stopping import Stopped
from deploy import plan
from deploy.fleet import Board
from tests.deploy.test_deploy import records

PATIENCE = 20  # seconds


class Steps:
    """Steps on boards of this process; `events` tells what happened, in order."""

    def __init__(self, *names):
        self.events = []
        self.boards = {name: Board(name, None, None) for name in names}
        self.steps = []

    def add(self, task, work=lambda board: None, boards=None):
        def noted(board):
            result = work(board)
            self.events.append((task, board.name))
            return result

        chosen = [self.boards[name] for name in boards or self.boards]
        then = lambda step: self.events.append((task, "sum"))  # noqa: E731
        self.steps.append(plan.Step(chosen, noted, then))

    def carry_out(self):
        plan.carry_out(self.steps)
        return self.events


@pytest.mark.timeout(3 * PATIENCE)
def test_a_board_does_not_wait_for_a_slower_one():
    steps, has_run = Steps("fast", "slow"), threading.Event()
    waited = []

    def deploy(board):
        if board.name == "slow":
            waited.append(has_run.wait(PATIENCE))

    def run(board):
        if board.name == "fast":
            has_run.set()

    steps.add("deploy", deploy)
    steps.add("run", run)
    events = steps.carry_out()
    assert waited == [True]
    assert events.index(("run", "fast")) < events.index(("deploy", "slow"))
    for name in ("fast", "slow"):
        assert events.index(("deploy", name)) < events.index(("run", name))
    # The sums come when the last board has done a task, each once.
    assert events[-3:] == [("deploy", "sum"), ("run", "slow"), ("run", "sum")]
    assert len(events) == 6


def test_one_board_goes_through_its_tasks_and_their_sums_in_order():
    steps = Steps("only")
    for task in ("deploy", "run", "collect"):
        steps.add(task)
    names = [(task, each) for task in ("deploy", "run", "collect") for each in ("only", "sum")]
    assert steps.carry_out() == names


def test_a_board_that_fails_is_left_out_of_what_follows(capsys):
    steps = Steps("good", "bad")

    def fails(board):
        if board.name == "bad":
            raise OSError("its disk is on fire")
        return 5

    steps.add("deploy", fails)
    steps.add("run", lambda board: 7)
    events = steps.carry_out()
    assert ("run", "bad") not in events
    assert ("run", "good") in events
    deploy, run = steps.steps
    assert (deploy.results, run.results) == ({"good": 5}, {"good": 7})
    assert deploy.failures == run.failures
    assert "its disk is on fire" in run.failures["bad"]
    assert capsys.readouterr().err.count("\n") == 1


def test_what_a_step_gave_is_not_changed_by_the_next_one():
    steps, failing = Steps("a", "b"), threading.Event()

    def collect(board):
        if board.name == "a":
            failing.set()
            raise OSError("lost")
        return "second"

    def run(board):
        if board.name == "b":
            assert failing.wait(PATIENCE)
        return "first"

    steps.add("run", run)
    steps.add("collect", collect)
    steps.carry_out()
    first, second = steps.steps
    assert list(first.results.items()) == [("a", "first"), ("b", "first")]
    assert not first.failures
    assert second.results == {"b": "second"}
    assert list(second.failures) == ["a"]


def test_tasks_on_different_boards(capsys):
    steps = Steps("a", "bb")
    steps.add("deploy", lambda board: board.say("here"), boards=["a"])
    steps.add("run", boards=["bb"])
    assert len(steps.carry_out()) == 4
    assert capsys.readouterr().out == "a  | here\n"


def test_wrong_usage_found_on_a_board_ends_it_all():
    steps = Steps("a")

    def wrong(board):
        raise UsageError("no such case")

    steps.add("run", wrong)
    steps.add("doctor")
    with pytest.raises(UsageError, match="no such case"):
        steps.carry_out()
    assert steps.events == []


def test_a_stop_reaches_all_boards_and_nothing_follows(capsys, monkeypatch):
    steps, stopped = Steps("a", "b"), threading.Event()
    for board in steps.boards.values():
        monkeypatch.setattr(board, "stop", lambda board=board: (
            setattr(board, "stopping", True), stopped.set()))
    steps.add("run", lambda board: stopped.wait(PATIENCE))
    steps.add("doctor")

    def interrupt(_jobs):
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        steps.carry_out()
    assert {task for task, _ in steps.events} <= {"run"}
    assert ("run", "sum") not in steps.events
    assert capsys.readouterr().out == "a | stopping\nb | stopping\n"


def test_a_slow_deploy_to_one_board_does_not_hold_the_run_on_another(
    fab, odroid, ssh_server, project, stub, tmp_path
):
    """The slow board's disk takes its time until the sample has run on the other board."""
    slow, ran, late = ssh_server("slow"), project / "ran", project / "late"
    with open(tmp_path / ".ssh" / "config", "a") as config:
        config.write(slow.host_block("slow"))
    stub("one", f"open({str(ran)!r}, 'w').close()")
    (slow.home / "sitecustomize.py").write_text(
        f"import os, time\nreal, end = os.sync, time.monotonic() + {PATIENCE}\ndef sync():\n"
        f"    real()\n    while not os.path.exists({str(ran)!r}):\n"
        f"        if time.monotonic() > end:\n            open({str(late)!r}, 'w').close()\n"
        "            return\n        time.sleep(0.05)\nos.sync = sync\n"
    )
    slow.stop()
    slow.variables["PYTHONPATH"] = slow.home
    slow.start()
    done = fab("-H", "odroid,slow", "deploy", "run-all", "collect")
    assert done.returncode == 0, done.stdout + done.stderr
    assert not late.exists()
    assert set(records(project, "odroid")) == set(records(project, "slow")) == {("one", "only")}
    lines = done.stdout.splitlines()
    begun = lines.index("odroid | running 1 case")
    assert begun < next(n for n, x in enumerate(lines) if x.startswith("slow   | deployed:"))
    assert lines.count("2 of 2 passed (2 cases)") == 1
    assert sum("nothing to collect" in line for line in lines) == 2


def test_a_stop_while_a_board_begins_reaches_it(monkeypatch, capsys):
    """... though its job is not noted yet."""
    begun = threading.Event()

    class Interrupted(plan.ThreadPoolExecutor):
        def submit(self, *args):
            super().submit(*args)
            assert begun.wait(PATIENCE)
            raise Stopped(2)

    monkeypatch.setattr(plan, "ThreadPoolExecutor", Interrupted)
    steps = Steps("one")

    def deploy(board):
        begun.set()
        for _ in range(10 * PATIENCE):
            if board.stopping:
                return
            time.sleep(0.1)

    steps.add("deploy", deploy)
    with pytest.raises(Stopped):
        steps.carry_out()
    assert steps.boards["one"].stopping
    assert "stopping" in capsys.readouterr().out
