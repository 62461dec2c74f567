"""How the points of a file of records ended: what a sweep that was killed has done already.

The last record of a point says in params.point how it ended. A file of a million points is read in
seconds: of the lines that the sweep wrote only that part is looked at.
"""

import json
import re
from binascii import unhexlify

from common import record
from common.errors import UsageError
from common.stats import number
from tools.engine import ENDS, State

_START = b'{"argv": ['  # of every line that common/record.py writes: it sorts the keys
_POINT = b'"point": {"board": "'
_LINE = re.compile(
    rb'"point": \{"board": "[^"\\]{1,100}", "ended": "([a-z]{1,20})", '
    rb'"exit_status": (null|-?\d{1,9}), "key": "([0-9a-f]{32})", "limit_s": [0-9.]{1,20}, '
    rb'"metric": (null|[0-9.e+-]{1,30}), '
)
_ENDED = {name.encode(): name for name in ENDS}


def read(path, whole):
    """Yield (key, State, Record) of each point in a file. The Record is None, which is quick,
    unless `whole`.

    Drops the last line if a crash has torn it. Raises UsageError for another line that is no
    record, and leaves that file as it is.
    """
    with open(path, "r+b") as file:
        good, line = 0, b""
        for number, line in enumerate(file, 1):
            if not line.endswith(b"\n") and _torn(line):
                file.truncate(good)
                return
            try:
                found = None if whole else _quick(line)
                if found := found or _parsed(line):
                    yield found
            except (ValueError, KeyError, TypeError, OverflowError) as error:
                raise UsageError(f"{path}:{number}: {error}: fix that line, or remove the file "
                                 "from results/") from error
            good += len(line)
        if line and not line.endswith(b"\n"):  # a whole record, only its line has no end
            file.write(b"\n")


def _quick(line):
    """Return the point of a line that the sweep wrote and that has nothing odd, else None."""
    at = line.find(_POINT)
    found = _LINE.match(line, at) if at > 0 and line.startswith(_START) else None
    if not found or not line.endswith(b"}\n") or line.find(_START, 1) > 0:
        return None
    ended, status, key, metric = found.groups()
    if status == b"null" or ended not in _ENDED or (ended != b"passed" and metric != b"null"):
        return None
    rate = None if metric == b"null" else float(metric)
    return unhexlify(key), State(_ENDED[ended], rate, None), None


def _parsed(line):
    """Return the point of a line, or None: it is not the last record of one. Raises ValueError."""
    (item,) = record.parse([line.decode(errors="replace")], "")
    if isinstance(item, str):
        raise ValueError(item.removeprefix(":1: "))
    point = item.params.get("point")
    if not isinstance(point, dict) or "key" not in point:
        return None
    try:
        return unhexlify(point["key"]), _state(point), item
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"params.point cannot be used: {error}") from error


def _state(point):
    ended, metric, limit = point["ended"], point["metric"], point["limit_s"]
    if ended not in ENDS:
        raise ValueError(f"ended is {ended!r}")
    for name, value in (("metric", 0.0 if metric is None else metric), ("limit_s", limit)):
        if number(value) is None:
            raise ValueError(f"{name} is no number")
    if metric is not None and ended != "passed":
        raise ValueError("it has a metric, and did not pass")
    late = limit if point["exit_status"] is None else None
    return State(ended, None if metric is None else float(metric), late)


def _torn(line):
    """Tell whether the line, which has no end, is the first part of a record of ours."""
    if not (line.startswith(_START) or _START.startswith(line)):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return True
    return False
