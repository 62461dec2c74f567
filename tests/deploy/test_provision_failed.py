"""fab provision where packages cannot be downloaded: what needs none of them is still done."""

from types import SimpleNamespace

import pytest

from deploy import provision
from deploy.errors import BoardError
from deploy.provision import Plan


@pytest.fixture
def board():
    """A board that takes all; `said` and `started` are what it was told."""
    session = SimpleNamespace(event=lambda: {"event": "done"})
    board = SimpleNamespace(said=[], started=[], stopping=False, run_here=None)
    board.say = board.said.append

    def start(do, seconds, **request):
        board.started.append((do, request["packages"], request["drivers"]))
        session.send = board.started.append
        return session

    board.start = start
    return board


@pytest.mark.parametrize(
    ("drivers", "started"), [([], []), (["libmali.so"], [("make", None, ["libmali.so"]), b"0\n"])]
)
def test_only_what_there_is_is_sent(board, monkeypatch, drivers, started):
    def download(*_):
        _[-1].write(b"half of it")
        raise BoardError("no network")

    monkeypatch.setattr(provision, "download", download)
    provision._make(board, Plan([], drivers, [], "wheels", ("numpy",)), {}, None)
    assert board.said == ["downloading numpy", "FAIL   no network"]
    assert board.started == started
