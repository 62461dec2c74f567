"""The judge of `make fuzz`: what a program must not do is seen, and what it may do is not."""

import os
import re
import sys
import time

import pytest

from dev.fuzz import engine, words
from dev.fuzz.engine import judge, run


@pytest.fixture
def judged(monkeypatch, tmp_path):
    """Return a function that runs an action and gives the verdict on it."""
    monkeypatch.setattr(engine, "LIMIT", 5.0)
    return lambda action: judge(run(action, tmp_path))


def _say(text, status=0):
    print(text)
    sys.exit(status)


def _fail(_):
    raise ValueError("nobody foresaw this")


@pytest.mark.parametrize(
    "action",
    [
        lambda _: 0,
        lambda _: _say("run.py: error: no such file", 2),
        lambda _: _say("FAILED", 1),
        lambda _: _say("tab\tand newline\n", 77),
        lambda work: (work / "page.html").write_text("x") and 0,
        lambda work: (work / "../home/cache").mkdir(),
    ],
)
def test_what_is_documented_passes(judged, action):
    assert judged(action) is None


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (_fail, "Traceback"),
        (lambda _: _say("fab: error: unforeseen KeyError: 'x'", 3), "unforeseen"),
        (lambda _: _say("so be it", 9), "undocumented exit status 9"),
        (lambda _: os.kill(os.getpid(), 9), "undocumented exit status -9"),
        (lambda _: sys.exit(2), "status 2 without a word"),
        (lambda _: _say("\x1b[2J"), "is printed raw"),
        (lambda _: _say("\u202e"), "is printed raw"),
        (lambda work: (work / "../new").touch(), "it changed .*/new"),
        (lambda work: (work / "../../new").touch(), "it changed .*/new"),
        (lambda work: (work / "../kept.txt").write_text("") and 0, "it changed .*kept.txt"),
        (lambda work: (work / "../tmp/left").mkdir(), "it changed .*/tmp/left"),
        (lambda work: len(bytearray(2 * engine.MOST_MEMORY)), "Traceback"),
    ],
)
def test_what_is_not_is_seen(judged, action, said):
    assert re.search(said, judged(action))


def test_a_hang_is_seen_and_ended(judged, monkeypatch):
    monkeypatch.setattr(engine, "LIMIT", 0.3)
    start = time.monotonic()
    assert "no end within" in judged(lambda _: time.sleep(60))
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("word", ["5000", "--size=4096", "100000", "12345678"])
def test_work_of_hours_is_not_drawn(word):
    assert words.takes_long([word])


@pytest.mark.parametrize("word", ["8", "3x5x7", "9" * 4400, "1e400", "-1", "64"])
def test_short_work_and_impossible_work_is(word):
    assert not words.takes_long([word])
