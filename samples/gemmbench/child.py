"""Run a single point in a process of its own, under a time limit: a driver may hang or crash."""

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from common import record
from common.text import signal_name

_RUN = Path(__file__).with_name("run.py")
_KILL_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG
# Then the kernel ends a point whose exploration was killed: it would take the time of another.
_START = f"""\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl({_KILL_WITH_PARENT}, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]): sys.exit("the parent is gone")
os.execv(sys.executable, [sys.executable, *sys.argv[2:]])
"""


@dataclass
class Outcome:
    """How a point ended: its exit status (negative: the signal), its record or what is to say."""

    status: int | None
    record: object | None
    reason: str | None


def run(args, limit_s):
    """Run `run.py` with the arguments, at most `limit_s` seconds; return the Outcome."""
    # Files without a name: nothing is left of them, even after SIGKILL.
    with tempfile.TemporaryFile("w+") as saved, tempfile.TemporaryFile("w+b") as said:
        command = [sys.executable, "-S", "-c", _START, str(os.getpid()), str(_RUN), *args]
        process = subprocess.Popen(
            [*command, "--json", f"/dev/fd/{saved.fileno()}"], pass_fds=[saved.fileno()],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said,
            start_new_session=True,
        )  # fmt: skip
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        records = record.read_lenient(f"/dev/fd/{saved.fileno()}")[0]
        item = records[-1] if records and status is not None and status >= 0 else None
        return Outcome(status, item, None if item else _reason(status, limit_s, said))


def _reason(status, limit_s, said):
    if status is None:
        return f"no end within {limit_s:g} s: killed"
    said.seek(0)
    lines = said.read().decode(errors="replace").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    if status < 0:
        return f"crashed: {signal_name(-status)}{last}"
    return f"ended with status {status} and left no record{last}"
