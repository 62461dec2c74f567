"""`make fuzz`: invalid inputs for every program of the suite, and the judge of what these do.

An input fails if a program prints a traceback or reports an unforeseen error, does not end within
its time limit, ends with a status that is not documented, writes outside of its folder, or takes
too much memory. Hypothesis draws the inputs, and reduces one that fails.
"""

import os
import re
import subprocess
import sys
import time
from collections import Counter

# What the programs import, once and before the first fork. None of it opens a device.
import numpy  # noqa: F401
import pyopencl  # noqa: F401
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.configuration import set_hypothesis_home_dir

import common.cli  # noqa: F401
from tests.conftest import ROOT
from tests.dev import fuzz, fuzz_words
from tests.dev.fuzz import judge, run
from tests.dev.fuzz_targets import TARGETS

INPUTS = int(os.environ.get("INPUTS", "0"))


@pytest.mark.skipif(not INPUTS, reason="it takes minutes: make fuzz")
@pytest.mark.timeout(24 * 3600)  # each input has a limit of its own
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_program_ends_as_documented(target, tmp_path, tmp_path_factory):
    set_hypothesis_home_dir(tmp_path_factory.mktemp("hypothesis"))  # not in the checkout
    (ROOT / "results" / "local").mkdir(exist_ok=True)  # there a task collects to
    most = max(1, INPUTS * target.share // sum(each.share for each in TARGETS))
    outcomes = []

    @settings(max_examples=most, database=None, deadline=None, print_blob=False,
              report_multiple_bugs=False, suppress_health_check=list(HealthCheck),
              phases=(Phase.generate, Phase.shrink))
    @given(target.inputs)
    def each(value):
        outcome = run(lambda work: target.act(value, work), tmp_path)
        outcomes.append(outcome)
        said = [f"    | {line!r}"[:160] for line in outcome.output.splitlines()[-30:]]
        assert judge(outcome) is None, "\n".join([f"with {value!r:.2000}", *said])

    each()
    statuses = Counter(outcome.status for outcome in outcomes)
    seconds = [outcome.seconds for outcome in outcomes]
    shown = ", ".join(f"{status}: {n}" for status, n in sorted(statuses.items()))
    print(f"{len(outcomes)} inputs, {sum(seconds):.0f} s, the slowest {max(seconds):.1f} s, "
          f"exit statuses {shown}")


@pytest.mark.parametrize("number", ["x", "-1", "", "0", "1.5"])
def test_a_number_that_is_none_gets_one_line(number):
    done = subprocess.run(
        ["make", "--silent", "fuzz", f"INPUTS={number}", "READY="], cwd=ROOT, timeout=60,
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 2
    assert done.stdout == f"INPUTS={number}: give a whole number above 0\n"


@pytest.fixture
def judged(monkeypatch, tmp_path):
    """Return a function that runs an action and gives the verdict on it."""
    monkeypatch.setattr(fuzz, "LIMIT", 5.0)
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
        (lambda work: len(bytearray(2 * fuzz.MOST_MEMORY)), "Traceback"),
    ],
)
def test_what_is_not_is_seen(judged, action, said):
    assert re.search(said, judged(action))


def test_a_hang_is_seen_and_ended(judged, monkeypatch):
    monkeypatch.setattr(fuzz, "LIMIT", 0.3)
    start = time.monotonic()
    assert "no end within" in judged(lambda _: time.sleep(60))
    assert time.monotonic() - start < 10


@pytest.mark.parametrize("word", ["5000", "--size=4096", "100000", "12345678"])
def test_work_of_hours_is_not_drawn(word):
    assert fuzz_words.takes_long([word])


@pytest.mark.parametrize("word", ["8", "3x5x7", "9" * 4400, "1e400", "-1", "64"])
def test_short_work_and_impossible_work_is(word):
    assert not fuzz_words.takes_long([word])
