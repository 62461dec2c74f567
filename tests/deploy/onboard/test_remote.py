"""The board's side by itself: broken copies, hostile archives, and a Python that is too old."""

import ast
import contextlib
import hashlib
import io
import json
import os
import re
import sys
import tarfile
import threading
from types import SimpleNamespace

import pytest

from common.text import printable
from deploy import ship
from deploy.boards import ROOT
from deploy.errors import BoardError, Refusal
from deploy.link import MODULES
from deploy.onboard import provision
from deploy.onboard.cases import Output
from deploy.onboard.limits import LONGEST_LINE
from deploy.onboard.wire import Refused, Wire


def sha(data):
    return hashlib.sha256(data).hexdigest()


def sync(board, manifest, members, cut=None):
    """Deploy `manifest`, sending a tar of `members`, cut short after `cut` bytes."""
    session = board.start("sync", manifest=manifest)
    event = session.event()
    if event["event"] != "want":
        return event
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    payload = data.getvalue()[:cut]
    session.send(b"%d\n%s" % (len(payload), payload))
    return session.event()


@pytest.fixture
def deployed(board, tmp_path):
    """A board with one file deployed; gives that file's path."""
    assert sync(board, {"a/one": sha(b"one")}, {"a/one": b"one"}) == {
        "event": "done", "sent": 1, "files": 1,
    }
    return tmp_path / "board" / "current" / "a" / "one"


@pytest.mark.parametrize(
    ("members", "cut", "message"),
    [
        ({"a/one": b"other"}, None, "does not match its checksums"),
        ({}, None, "does not match its checksums"),
        ({"a/one": b"x" * 10_000}, 60, "the copy was interrupted|the board"),
        ({"a/one": b"two!", "../../escaped": b"x"}, None, "has an unexpected file: ../../escaped"),
        ({"/tmp/escaped": b"x"}, None, "has an unexpected file: /tmp/escaped"),
    ],
)
def test_a_broken_copy_leaves_the_old_tree(board, deployed, tmp_path, members, cut, message):
    with pytest.raises(BoardError, match=message):
        sync(board, {"a/one": sha(b"two!"), "a/two": sha(b"")}, members, cut)
    assert deployed.read_bytes() == b"one"
    assert not list(tmp_path.rglob("escaped"))
    trees = tmp_path / "board" / "trees"
    assert [tree.name for tree in trees.iterdir()] == ["1"]
    # ... and the next copy goes through.
    two = {"a/one": sha(b"two!")}
    assert sync(board, two, {"a/one": b"two!"})["sent"] == 1
    assert deployed.read_bytes() == b"two!"


def test_only_what_differs_is_asked_for(board, deployed):
    manifest = {"a/one": sha(b"one"), "b/two": sha(b"two")}
    session = board.start("sync", manifest=manifest)
    assert session.event() == {"event": "want", "paths": ["b/two"]}


def test_an_unchanged_tree_is_left_alone(board, deployed):
    before = deployed.resolve()
    assert sync(board, {"a/one": sha(b"one")}, {})["sent"] == 0
    assert deployed.resolve() == before


def test_the_whole_project_arrives_as_it_is(board, tmp_path):
    ship.deploy(board)
    for path in (tmp_path / "board" / "current").rglob("*"):
        if path.is_file():
            there = ROOT / path.relative_to(tmp_path / "board" / "current")
            assert path.read_bytes() == there.read_bytes()


@pytest.fixture
def wire():
    """A board's end of a connection, and the descriptors of the host's end."""
    to_board, from_board = os.pipe(), os.pipe()
    yield Wire(to_board[0], from_board[1]), to_board[1], from_board[0]
    for end in (*to_board, *from_board):
        with contextlib.suppress(OSError):
            os.close(end)


def test_a_host_that_takes_nothing_does_not_stop_the_board(wire, monkeypatch):
    monkeypatch.setattr("deploy.onboard.wire.PATIENCE", 0.1)
    for _ in range(100):
        wire[0].emit("lines", text=["x" * 10_000])
    assert wire[0].lost


def test_a_host_that_is_gone_does_not_stop_the_board(wire):
    os.close(wire[2])
    wire[0].emit("lines", text=["x"])
    assert wire[0].lost


def test_signs_of_life_come_whatever_the_board_waits_for(wire, monkeypatch):
    monkeypatch.setattr("deploy.onboard.wire.BEAT", 0.01)
    beating = threading.Thread(target=wire[0].beat)
    beating.start()
    payload = b"x" * 300_000  # no sign of life gets into it
    sending = threading.Thread(target=wire[0].emit, args=("file", payload))
    sending.start()
    said = b""
    while payload not in said or not said.endswith(b'{"event": "beat"}\n'):
        said += os.read(wire[2], 65536)
    os.close(wire[2])
    for thread in (sending, beating):
        thread.join(10)
        assert not thread.is_alive()
    assert said.startswith(b'{"event": "')


def test_a_host_that_says_nothing_is_not_waited_for(wire):
    assert wire[0].line(0.1) is None
    assert not wire[0].lost
    os.write(wire[1], b"stop\nsto")
    assert wire[0].line(0.1) == b"stop"
    assert wire[0].line(0.1) is None
    os.write(wire[1], b"red\n12345")
    assert wire[0].line(0.1) == b"stored"
    assert wire[0].take(3) == b"123"
    os.close(wire[1])
    assert wire[0].take(9) == b"45"
    assert wire[0].lost


def test_a_host_that_stops_amid_a_transfer_is_given_up(wire, monkeypatch):
    monkeypatch.setattr("deploy.onboard.wire.PATIENCE", 0.1)
    os.write(wire[1], b"123")
    assert wire[0].take(9) == b"123"
    assert wire[0].lost


@pytest.mark.parametrize("program", sorted((ROOT / "deploy/onboard").glob("*.py")), ids=str)
def test_python_3_6_can_read_what_is_sent_to_a_board(program):
    ast.parse(program.read_text(), feature_version=(3, 6))


def test_what_is_sent_needs_nothing_but_itself_and_the_standard_library():
    for number, name in enumerate(MODULES):
        text = (ROOT / "deploy/onboard" / f"{name}.py").read_text()
        wanted = set(re.findall(r"from deploy\.onboard\.(\w+) import", text))
        assert wanted <= set(MODULES[:number])
        for module in re.findall(r"^(?:import|from) (\w+)", text, re.M):
            assert module == "deploy" or module in sys.stdlib_module_names


def test_a_stop_while_connecting_is_not_lost(board):
    board.stop()
    with pytest.raises(BoardError, match="stopped"):
        board.start("fetch")


def test_a_stop_that_comes_before_the_first_case(board, tmp_path):
    sync(board, {"a/one": sha(b"one")}, {"a/one": b"one"})
    case = {"sample": "a", "case": "x", "args": [], "timeout": 60, "arrays": False}
    session = board.start("run", run="20260101T000000.000Z", cases=[case, case], manifest={})
    board.stop()
    events = []
    while (event := session.event())["event"] != "run":
        events.append(event)
    assert [event["reason"] for event in events if event["event"] == "end"] in (
        ["stopped"],
        [None, "stopped"],  # the first one, which has no run.py, was over before
    )


def test_output_cannot_steer_the_terminal():
    assert printable("\x1b[2Jhi\tthere") == "?[2Jhi\tthere"


@pytest.mark.parametrize(
    "text", [b"\xff" * 300_000, b"\n" * 300_000, b"\xff\n" * 100_000], ids=["one", "none", "many"]
)
def test_what_a_case_prints_is_sent_in_lines_that_the_host_takes(text):
    """A byte that is no text takes six in JSON; a line may never end."""
    sent, (out, into), log = [], os.pipe(), io.BytesIO()
    output = Output(SimpleNamespace(emit=lambda _, **more: sent.append(more["text"])), out, log)
    for at in range(0, len(text), 2**15):
        os.write(into, text[at : at + 2**15])
        output.read()
    os.close(into)
    output.finish()
    os.close(out)
    assert log.getvalue() == text
    assert max(len(json.dumps({"event": "lines", "text": lines})) for lines in sent) < LONGEST_LINE
    assert "".join("".join(lines) for lines in sent).count("\ufffd") == text.count(b"\xff")


@pytest.mark.parametrize("asked", [
    {"do": "sync", "manifest": {"a": sha(b"")}},
    {"do": "make", "sha256": sha(b""), "drivers": [], "packages": "wheels"},
])
def test_a_stop_before_files_come(board, asked):
    session = board.start(**asked)
    if asked["do"] == "sync":
        assert session.event()["event"] == "want"
    session.stop()
    with pytest.raises(Refusal, match="stopped"):
        session.event()


APT_GET = """#!/bin/sh
echo begin "$1" >> "$LOG"
sleep "$SECONDS_OF_A_STEP"
echo end "$1" >> "$LOG"
"""


@pytest.mark.parametrize(("stopped", "done"), [("update", ["begin update"]), ("install", [
    "begin update", "end update", "begin install", "end install"])])
def test_apt_is_stopped_before_it_installs_but_not_while(tmp_path, monkeypatch, stopped, done):
    (tmp_path / "apt-get").write_text(APT_GET)
    (tmp_path / "apt-get").chmod(0o755)
    log, said = tmp_path / "log", []
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(log))
    monkeypatch.setenv("SECONDS_OF_A_STEP", "0.5")
    monkeypatch.setattr(os, "getuid", lambda: 0)

    def line(_):
        return b"stop" if log.exists() and f"begin {stopped}" in log.read_text() else None

    wire = SimpleNamespace(line=line, emit=lambda *event, **more: said.append((*event, more)))
    refused = pytest.raises(Refused) if stopped == "update" else contextlib.nullcontext()
    with refused:
        provision.install(wire, {"packages": ["x"]})
    assert log.read_text().splitlines() == done
    assert said == ([] if stopped == "update" else [("done", {"reason": None})])
