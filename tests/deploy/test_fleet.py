"""Work on several boards at once: one that goes wrong costs the others nothing."""

import errno
import signal
import threading
import time

import pytest

from common.errors import UsageError
from common.stopping import Stopped
from deploy import fleet
from deploy.errors import BoardError, Refusal
from deploy.fleet import Board, Fleet

PATIENCE = 20  # seconds


def boards(*names):
    return [Board(name, None, None) for name in names]


def test_boards_work_at_once_and_their_results_are_in_order():
    both = threading.Barrier(2, timeout=PATIENCE)

    def work(board):
        both.wait()
        time.sleep(0.1 * (board.name == "a"))
        return board.name.upper()

    assert list(fleet.on_each(boards("a", "b"), work).items()) == [("a", "A"), ("b", "B")]


def test_a_board_that_fails_is_left_out_of_what_follows(monkeypatch, capsys):
    fleet, there = Fleet(), boards("good", "bad")
    fleet.boards = {board.name: board for board in there}
    monkeypatch.setattr(fleet, "select", lambda host, also=(): there)

    def fails(board):
        if board.name == "bad":
            raise OSError("its disk is on fire")
        return 5

    assert fleet.each(None, fails) == {"good": 5}
    assert fleet.each(None, lambda board: 7) == {"good": 7}
    assert "its disk is on fire" in fleet.failures["bad"]
    assert fleet.exit_status() == 3
    assert capsys.readouterr().err.count("\n") == 1


def test_lines_of_several_boards_begin_with_their_names(capsys):
    fleet.on_each(boards("a", "bb"), lambda board: board.say("here"))
    assert sorted(capsys.readouterr().out.splitlines()) == ["a  | here", "bb | here"]


def test_wrong_usage_found_on_a_board_ends_it_all():
    def wrong(board):
        raise UsageError("no such case")

    with pytest.raises(UsageError, match="no such case"):
        fleet.on_each(boards("a"), wrong)


def test_output_that_cannot_be_written_is_no_failure_of_a_board(capsys):
    (board,) = boards("a")

    def full(board):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        fleet.on_each([board], full)
    assert (board.failed, capsys.readouterr().err) == (None, "")


def test_a_stop_reaches_all_boards(capsys, monkeypatch):
    there, stopped = boards("a", "b"), [threading.Event(), threading.Event()]
    for board, event in zip(there, stopped):
        monkeypatch.setattr(board, "stop", lambda board=board, event=event: (
            setattr(board, "stopping", True), event.set()))

    def interrupt(_ended):
        raise KeyboardInterrupt

    monkeypatch.setattr(fleet.stopping, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fleet.on_each(there, lambda board: [event.wait(PATIENCE) for event in stopped])
    assert capsys.readouterr().out == "a | stopping\nb | stopping\n"


def test_a_board_that_takes_no_data_does_not_delay_the_stop_of_others(monkeypatch):
    (deaf, other), stopped = boards("deaf", "other"), threading.Event()
    heard = []
    monkeypatch.setattr(deaf, "stop", lambda: heard.append(stopped.wait(PATIENCE)))
    monkeypatch.setattr(other, "stop", stopped.set)

    def interrupt(_ended):
        raise KeyboardInterrupt

    monkeypatch.setattr(fleet.stopping, "wait", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fleet.on_each([deaf, other], lambda board: stopped.wait(PATIENCE) or heard.append(False))
    assert False not in heard


@pytest.mark.parametrize(("error", "lines"), [(Refusal("half a copy"), 0), (BoardError("lost"), 1)])
def test_what_a_board_refuses_because_it_is_stopped_is_not_told(capsys, error, lines):
    def work(board):
        board.stopping = True
        raise error

    fleet.on_each(boards("one"), work)
    assert capsys.readouterr().err.count("\n") == lines


def test_a_stop_while_a_board_begins_reaches_it(monkeypatch, capsys):
    """... though its job is not noted yet."""
    begun = threading.Event()

    class Interrupted(fleet.futures.ThreadPoolExecutor):
        def submit(self, *args):
            super().submit(*args)
            assert begun.wait(PATIENCE)
            raise Stopped(2)

    monkeypatch.setattr(fleet.futures, "ThreadPoolExecutor", Interrupted)
    (board,) = boards("one")

    def deploy(board):
        begun.set()
        for _ in range(10 * PATIENCE):
            if board.stopping:
                return
            time.sleep(0.1)

    with pytest.raises(Stopped):
        fleet.on_each([board], deploy)
    assert board.stopping
    assert "stopping" in capsys.readouterr().out


def test_a_signal_that_does_not_wake_the_main_thread_stops_the_boards(capsys):
    (board,) = boards("one")

    def deploy(board):
        time.sleep(0.5)  # until the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        end = time.monotonic() + PATIENCE
        while not board.stopping:
            assert time.monotonic() < end, "nobody stops it"
            time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        fleet.on_each([board], deploy)
    assert (board.failed, capsys.readouterr().out) == (None, "stopping\n")
