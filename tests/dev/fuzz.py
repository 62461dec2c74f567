"""Run one input in a process of its own, and judge what it did."""

import contextlib
import multiprocessing
import os
import re
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ROOT

LIMIT = 60.0  # seconds for an input: all that is drawn here is short
MOST_MEMORY, MOST_WRITTEN = 2**32, 2**30  # bytes
# passed, wrong result, wrong usage, driver or board failure, unsupported, Ctrl-C, SIGTERM
STATUSES = (0, 1, 2, 3, 77, 130, 143)
_SIGNS = ("Traceback (most recent call last)", "unforeseen", "not enough memory")
# What a terminal would obey, or show as something else than it is.
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_process = multiprocessing.get_context("fork").Process  # what is imported here need not be again


class Outcome(NamedTuple):
    """What an input did: its exit status (None where it did not end), what it printed, the seconds
    that it took, and the paths that it changed outside of its folder."""

    status: int | None
    output: str
    seconds: float
    changed: list


def run(action, root):
    """Call `action(folder)` in a process of its own, with an empty folder; return the Outcome.

    `root` is a folder for all inputs. It keeps the verdicts on drivers: they take a second each.
    """
    with (tempfile.TemporaryDirectory(dir=root, ignore_cleanup_errors=True) as name,
          tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace", newline="") as said):
        box = Path(name)
        for folder in (box.parent / "cache", box / "home", box / "tmp", box / "work"):
            folder.mkdir(exist_ok=True)
        (box / "kept.txt").write_text("to be left alone\n")
        before, start = _around(box), time.monotonic()
        child = _process(target=_act, args=(action, box, said.fileno()))
        child.start()
        try:
            child.join(LIMIT)
            seconds, status = time.monotonic() - start, child.exitcode
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # it, or whatever it has left behind
            child.join()
        said.seek(0)
        changed = sorted({path for path, _ in before ^ _around(box)})
        return Outcome(status, said.read(200_000), seconds, changed)


def _around(box):
    """Return the files and folders beside those of an input, and in the checkout, with sizes."""
    found = set()
    for place in (box.parent, box, box / "tmp", ROOT, ROOT / "samples", ROOT / "results", "/"):
        for entry in os.scandir(place):
            with contextlib.suppress(FileNotFoundError):  # another program's
                size = entry.stat(follow_symlinks=False).st_size
                found.add((entry.path, entry.is_file() and size))
    return found


def _act(action, box, said):
    """Be the child: call the action with its output in a file, and end with its status."""
    os.setsid()
    with open(os.devnull) as nothing:
        for source, number in ((nothing.fileno(), 0), (said, 1), (said, 2)):
            os.dup2(source, number)
    for number, name in ((1, "stdout"), (2, "stderr")):  # a test may have put others there
        setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
    os.chdir(box / "work")
    os.environ.update(
        HOME=str(box / "home"), TMPDIR=str(box / "tmp"), XDG_CACHE_HOME=str(box.parent / "cache"),
        BOARDS_TOML=str(box / "work" / "boards.toml"),
    )
    tempfile.tempdir = None
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, MOST_WRITTEN),
                       (resource.RLIMIT_DATA, MOST_MEMORY)):
        resource.setrlimit(what, (most, most))
    sys.exit(action(box / "work"))


def judge(outcome):
    """Return what is wrong with an Outcome as a line, or None."""
    if outcome.status is None:
        return f"no end within {LIMIT:g} s"
    for sign in _SIGNS:
        if sign in outcome.output:
            return f"{sign!r} in the output"
    if control := _CONTROL.search(outcome.output):
        return f"{control[0]!r} is printed raw"
    if outcome.status not in STATUSES:
        return f"undocumented exit status {outcome.status}"
    if outcome.status in (2, 3) and not outcome.output.strip():
        return f"status {outcome.status} without a word"
    if outcome.changed:
        return f"it changed {', '.join(outcome.changed)}"
    return None
