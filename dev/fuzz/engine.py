"""Run one input in a process of its own, watch what it does, and judge it."""

import contextlib
import mmap
import os
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60.0  # seconds for an input: all that is drawn here is short
MOST_MEMORY = 250  # MiB that fab and its children add to what is imported, whatever a board sends
# passed, wrong result, wrong usage, driver or board failure, unsupported, Ctrl-C, SIGTERM
STATUSES = (0, 1, 2, 3, 77, 130, 143)
_TOO_LONG = 200_000  # characters of output that are kept for the judgement
_SIGNS = ("Traceback (most recent call last)", "unforeseen")
# What a terminal would obey, or show as something else than it is.
_CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@dataclass
class Outcome:
    """What an input did: its exit status (None where it did not end), what it printed, the seconds
    that it took, the MiB that it added to those of the process that forked it, and the paths that
    it changed outside of its folder."""

    status: int | None
    output: str
    seconds: float
    mebibytes: float
    changed: list


@contextlib.contextmanager
def workplace():
    """Give a folder for all inputs. Another process deletes it, however this one ends."""
    folder = tempfile.mkdtemp(prefix="opencl-fuzz-")
    keeper = subprocess.Popen(["sh", "-c", 'cat; rm -rf "$0"', folder], stdin=subprocess.PIPE,
                              start_new_session=True)
    try:
        yield Path(folder)
    finally:
        keeper.communicate()


class Box:
    """A folder for one input, with a home and a temporary folder, beside files to leave alone.

    `root` is that of workplace(). It keeps the verdicts on drivers as well: they take a second
    each, and are the same for all inputs.
    """

    def __init__(self, root):
        self.outer = Path(tempfile.mkdtemp(dir=root))
        self.beside, self.cache = self.outer / "beside", Path(root, "cache")
        self.work, self.home, self.tmp = (self.beside / "box" / n for n in ("work", "home", "tmp"))
        for folder in (self.work, self.home, self.tmp):
            folder.mkdir(parents=True)
        (self.beside / "kept.txt").write_text("to be left alone\n")

    def outside(self):
        """Return what lies around the box and in the checkout, to be compared."""
        found = set()
        ours = ROOT, ROOT / "samples", ROOT / "results"
        for place in (self.outer, self.beside, self.tmp, *ours, "/"):
            for entry in os.scandir(place):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    found.add((entry.path, entry.is_file() and status.st_size))
        return found

    def remove(self):
        """Delete all of it."""
        shutil.rmtree(self.outer, ignore_errors=True)


def run(action, box):
    """Call `action()` in a process of its own with the folder of `box`; return the Outcome."""
    said = box.outer / "said"
    said.touch()
    before, start = box.outside(), time.monotonic()
    inherited = mmap.mmap(-1, mmap.PAGESIZE)  # its KiB, as text: pages of this process
    child = os.fork()
    if child == 0:
        memory = Path("/proc/self/status").read_bytes()
        inherited.write(re.search(rb"^VmRSS:\s+(\d+) kB$", memory, re.M)[1])
        _act(action, box, said)
    watched = os.pidfd_open(child)
    ended = select.select([watched], [], [], LIMIT)[0]
    os.close(watched)
    seconds = time.monotonic() - start
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # it, or whatever it has left behind
    _, status, usage = os.wait4(child, 0)
    output = said.read_text(encoding="utf-8", errors="replace")[:_TOO_LONG]
    said.write_text("")
    changed = sorted({path for path, _ in before ^ box.outside()})
    status = os.waitstatus_to_exitcode(status) if ended else None
    added = usage.ru_maxrss - int(inherited.read().rstrip(b"\0"))
    return Outcome(status, output, seconds, added / 1024, changed)


def _act(action, box, said):
    """Be the child: run the action with its output in a file, and end."""
    os.setsid()
    with open(os.devnull) as nothing, open(said, "w") as file:
        for stream, number in ((nothing, 0), (file, 1), (file, 2)):
            os.dup2(stream.fileno(), number)
    for number, name in ((1, "stdout"), (2, "stderr")):  # a test may have put others there
        setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115
    os.chdir(box.work)
    os.environ.update(
        HOME=str(box.home), TMPDIR=str(box.tmp), XDG_CACHE_HOME=str(box.cache),
        BOARDS_TOML=str(box.work / "boards.toml"),
    )
    tempfile.tempdir = None
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**30, 2**30))
    status = 70
    try:
        status = action()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status or 0)


def judge(outcome, memory=None):
    """Return what is wrong with an Outcome as a line, or None; `memory` is a bound in MiB."""
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
    if memory and outcome.mebibytes > memory:
        return f"{outcome.mebibytes:.0f} MiB, more than {memory}"
    return None
