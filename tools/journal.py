"""The journal of points: their records, one JSON object per line, and the state of each point.

A point is written when it has ended, in one piece, and reaches the disk before the next one starts.
So whatever ends a tool, at most the point that was running is lost. An incomplete record is
dropped when the journal is opened again; a file that is no journal is left as it is.

The last record of a point says in params.point how it ended. A journal of a million points is
resumed in seconds: of the lines that this module wrote only that part is read.
"""

import json
import math
import os
import re
import stat
from binascii import unhexlify
from typing import NamedTuple

from common import record
from common.errors import UsageError
from common.files import lock

_START = b'{"argv": ['  # of every line that common/record.py writes: it sorts the keys
_POINT = b'"point": {"ended": '
_LINE = re.compile(
    rb'"point": \{"ended": "([a-z ]{1,20})", "exit_status": (null|-?\d{1,9}), '
    rb'"key": "([0-9a-f]{32})", "limit_s": [0-9.]{1,20}, "metric": (null|[0-9.e+-]{1,30}), '
)
_PATIENCE = 1.0  # seconds: a process that a killed tool was about to start may hold the lock
_ENDS = ("passed", "built", "failed", "refused", "unsupported", "error")
_ENDED = {name.encode(): name for name in _ENDS}


class State(NamedTuple):
    """How a point ended: one of _ENDS, its best metric or None, and the seconds that it was given
    where they did not suffice, else None."""

    ended: str
    metric: float | None
    late_s: float | None

    def settled(self, limit_s):
        """Tell whether the point need not run again: more time may help one that had too little."""
        return self.late_s is None or self.late_s >= limit_s


class Journal:
    """An open journal, held against every other tool that would write to it."""

    def __init__(self, path):
        """Open or make the file. Raises UsageError where it is no journal."""
        self.path, self._states = path, {}
        try:
            self._file = _open(path)
            lock(self._file, _PATIENCE)
            self._read()
        except BlockingIOError as error:
            raise UsageError(f"another tool is writing to {path}: give another journal") from error
        except OSError as error:
            raise UsageError(f"cannot use the journal {path}: {error.strerror}") from error

    def state(self, key):
        """Return the State of a point, or None where it has not run."""
        return self._states.get(unhexlify(key))

    def add(self, items):
        """Write the records of a point; they are on the disk when this returns."""
        text = "".join(item.to_line() + "\n" for item in items).encode()
        try:
            self._file.write(text)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise UsageError(f"cannot write to {self.path}: {error.strerror}") from error
        point = items[-1].params["point"]
        self._states[unhexlify(point["key"])] = state_of(point)

    def _read(self):
        """Read where each point stands. Mends the last line, but only of what is a journal."""
        good = torn = 0  # bytes up to the last line that is good; of the last one, without an end
        line = b""
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n") and _incomplete(line):
                torn = len(line)
                break
            self._line(line, number)
            good += len(line)
        if torn:
            self._file.truncate(good)
        elif good and not line.endswith(b"\n"):  # a whole record, only its line has no end
            self._file.write(b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _line(self, line, number):
        at = line.find(_POINT)
        found = _LINE.match(line, at) if at > 0 and line.startswith(_START) else None
        if found and line.endswith(b"}\n") and line.find(_START, 1) < 0:
            ended, status, key, metric = found.groups()
            known = ended == b"passed" or metric == b"null"
            if status != b"null" and ended in _ENDED and known:
                rate = None if metric == b"null" else float(metric)
                self._states[unhexlify(key)] = State(_ENDED[ended], rate, None)
                return
        (item,) = record.parse([line.decode(errors="replace")], self.path)
        if isinstance(item, str):
            self._refuse(number, item.removeprefix(f"{self.path}:1: "))
        point = item.params.get("point")
        if not isinstance(point, dict) or "key" not in point:
            return  # a record of another kind, or not the last one of its point
        try:
            self._states[unhexlify(point["key"])] = state_of(point)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            self._refuse(number, f"params.point cannot be used: {error}")

    def _refuse(self, number, reason):
        raise UsageError(f"{self.path}:{number}: {reason}: fix that line, or give another journal")


def state_of(point):
    """Return the State that the table `point` of a record says. Raises ValueError, KeyError."""
    ended, metric, limit = point["ended"], point["metric"], point["limit_s"]
    if ended not in _ENDS:
        raise ValueError(f"ended is {ended!r}")
    for name, value in (("metric", metric), ("limit_s", limit)):
        number = type(value) in (int, float) and math.isfinite(value)
        if not number and not (name == "metric" and value is None):
            raise ValueError(f"{name} is no number")
    if metric is not None and ended != "passed":
        raise ValueError("it has a metric, and did not pass")
    late = limit if point["exit_status"] is None else None
    return State(ended, None if metric is None else float(metric), late)


def _open(path):
    """Return a regular file, open for reading and appending. Raises UsageError for another one."""
    new = not path.exists()
    # Without O_NONBLOCK a FIFO would hold this for ever.
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UsageError(f"cannot use the journal {path}: it is no file")
    if new:
        folder = os.open(path.resolve().parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    return open(descriptor, "r+b")


def _incomplete(line):
    """Tell whether the line, which has no end, is the first part of a record of ours."""
    if not (line.startswith(_START) or _START.startswith(line)):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return True
    return False
