"""The judge of `make fuzz`: what a program must not do is seen, and what it may do is not."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dev.fuzz import engine, words
from dev.fuzz.engine import ROOT, Box, judge, run


@pytest.fixture
def judged(monkeypatch, tmp_path):
    """Return a function that runs an action and gives the verdict on it."""
    monkeypatch.setattr(engine, "LIMIT", 5.0)

    def verdict(action, memory=None):
        box = Box(tmp_path)
        try:
            return judge(run(lambda: action(box), box), memory)
        finally:
            box.remove()

    return verdict


def _say(text, status=0):
    print(text)
    sys.exit(status)


def _fail(_):
    raise ValueError("nobody foresaw this")


def _use_memory(_):
    block = bytearray(64 * 2**20)
    block[::4096] = b"x" * len(block[::4096])


@pytest.mark.parametrize(
    "action",
    [
        lambda box: 0,
        lambda box: _say("run.py: error: no such file", 2),
        lambda box: _say("FAILED", 1),
        lambda box: _say("tab\tand newline\n", 77),
        lambda box: (box.work / "page.html").write_text("x") and 0,
        lambda box: (box.home / "cache").mkdir(),
    ],
)
def test_what_is_documented_passes(judged, action):
    assert judged(action) is None


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (_fail, "Traceback"),
        (lambda box: _say("fab: error: unforeseen KeyError: 'x'", 3), "unforeseen"),
        (lambda box: _say("so be it", 9), "undocumented exit status 9"),
        (lambda box: os.kill(os.getpid(), 9), "undocumented exit status -9"),
        (lambda box: sys.exit(2), "status 2 without a word"),
        (lambda box: _say("\x1b[2J"), "is printed raw"),
        (lambda box: _say("\u202e"), "is printed raw"),
        (lambda box: (box.outer / "beside" / "new").touch(), "it changed .*beside/new"),
        (lambda box: (box.outer / "beside" / "kept.txt").write_text(""), "it changed .*kept.txt"),
        (lambda box: (box.tmp / "left").mkdir(), "it changed .*/tmp/left"),
    ],
)
def test_what_is_not_is_seen(judged, action, said):

    assert re.search(said, judged(action))


def test_a_hang_is_seen_and_ended(judged, monkeypatch):
    monkeypatch.setattr(engine, "LIMIT", 0.3)
    start = time.monotonic()
    assert "no end within" in judged(lambda box: time.sleep(60))
    assert time.monotonic() - start < 10


def test_nothing_is_left_of_a_run_that_is_killed():
    code = "from dev.fuzz.engine import workplace\nwith workplace() as root:\n"
    code += "    print(root / 'x', flush=True)\n    (root / 'x').mkdir()\n    input()"
    run = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, text=True,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    folder = Path(run.stdout.readline().strip()).parent
    assert folder.exists()
    run.kill()
    run.communicate()
    end = time.monotonic() + 20
    while folder.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not folder.exists()


def test_memory_is_bounded_where_it_is_to_be(judged):
    """That of the input: the process that forks it may be larger."""
    ours = b"x" * (64 * 2**20)
    assert judged(lambda box: 0, memory=50) is None
    del ours
    assert judged(_use_memory) is None
    assert "more than 50" in judged(_use_memory, memory=50)


@pytest.mark.parametrize("word", ["5000", "--size=4096", "100000", "12345678"])
def test_work_of_hours_is_not_drawn(word):
    assert words.takes_long([word])


@pytest.mark.parametrize("word", ["8", "3x5x7", "9" * 4400, "1e400", "-1", "64"])
def test_short_work_and_impossible_work_is(word):
    assert not words.takes_long([word])
