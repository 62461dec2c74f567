"""The result record: one JSON object a line, versioned. Standard library only.

A reader refuses what it does not know, with the file and the line: a record that is half
understood is worse than none.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
import sys
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from itertools import zip_longest
from statistics import median

SCHEMA = 1
DEEPEST = 50  # lists and objects within each other; what works on records may be recursive
STATUSES = ("passed", "built", "unsupported", "error", "failed")  # the worst comes last
GOOD = ("passed", "built")  # built: with --build-only, which enqueues nothing
# The reason of a record that a run leaves when a kernel is checked, and replaces when it is timed.
UNFINISHED = "the run ended before it was timed; its result was right"
RATES = {"gflops": "GFLOPS", "gbytes_per_s": "GB/s"}  # metrics that are rates, with their units
LIBRARY = ("library", "peer")  # params that name a baseline library; older records have the last
_LONG = 0.02  # seconds of a launch that no way to wait for its end prolongs much
_TOO_SHORT = 8  # times as long by the host: clocks that count in ticks are off by 10 and more
_TOO_LONG = 2.5  # times as long by events: of two launches in flight each may contain the other
_LARGEST = sys.float_info.max  # JSON has larger whole numbers
_TYPES = {
    "sample": str, "started": str, "argv": list, "params": dict, "device": dict,
    "environment": dict, **dict.fromkeys(("variant", "reason", "code"), (str, type(None))),
}
_NUMBERS, _TEXT = "a list of times in seconds", "a text"
_NUMBER, _TABLE = "a number that a float holds", "an object"
_KNOWN = {
    "timing": {"queued_s": _NUMBERS, "wait_s": _NUMBERS, "run_s": _NUMBERS, "host_s": _NUMBERS,
               "warmup": _NUMBER, "in_flight": _NUMBER, "queues": _NUMBER, "build_s": _NUMBER,
               "upload_s": _NUMBER, "download_s": _NUMBER},
    "metrics": {"gflops": _NUMBER, "gbytes_per_s": _NUMBER, "flop_convention": _TEXT,
                "peak_gflops": _NUMBER, "peak_gbytes_per_s": _NUMBER, "near_gbytes_per_s": _NUMBER,
                "ceiling_gflops": _NUMBER, "ratios": _TABLE,
                "statistics": _TABLE, "energy": _TABLE, "sustained": _TABLE, "kernel": _TABLE,
                "compiler": _TABLE, "others": _TABLE},
    "check": {"max_abs_error": _NUMBER, "error_over_bound": _NUMBER, "inputs_sha256": _TEXT,
              "output_sha256": _TEXT},
}


class RecordError(ValueError):
    """A record that cannot be written or understood; the message names file and line."""


def of_library(params):
    """Return whether a record with these params is of a baseline library, not of a kernel."""
    return any(params.get(key) for key in LIBRARY)


def unit(metric, params):
    """Return the unit of a metric of a record with these params: of integer operations, GOPS."""
    integers = metric == "gflops" and params.get("precision") == "int8"
    return "GOPS" if integers else RATES.get(metric, metric)


def now():
    """Return the time as a record keeps it: UTC, ISO 8601."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def clock_doubt(queued, wait, run, host):
    """Return why the events of launches do not tell their times, or None where they do.

    All are lists of seconds, of which the first three are by events: those of common/timing.py.
    """
    if not run or min(run) <= 0:
        return "the driver's events have no times"
    if not host or min(host) <= 0:
        return None
    spans = map(sum, zip_longest(queued, wait, run, fillvalue=0))
    by_host, by_events = median(host), median(spans)
    if median(run) > _TOO_LONG * by_host:
        return "the driver's events have times longer than the host waited"
    if by_host >= _LONG and by_events < by_host / _TOO_SHORT:
        return (f"the times of the driver's events are less than 1/{_TOO_SHORT} of those that the "
                "host waited")
    return None


@dataclass
class Record:
    """What one kernel did in one run of a sample.

    Times are in seconds, rates in 10^9 per second. `gflops` counts integer operations where
    params.precision is int8: see unit(). `params` holds the sample's own parameters, `device` what
    device.describe() says, `environment` what cli.environment() says. `timing`, `metrics` and
    `check` are empty where the run ended before. `reason` says why the status is neither `passed`
    nor `built`. `code` is the SHA-256 of the files that ran, or None where it is not known: older
    records have none.
    """

    sample: str
    variant: str | None
    status: str
    reason: str | None = None
    params: dict = field(default_factory=dict)
    device: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)
    timing: dict = field(default_factory=dict)
    metrics: dict = field(default_factory=dict)
    check: dict = field(default_factory=dict)
    argv: list = field(default_factory=list)
    started: str = field(default_factory=now)
    schema: int = SCHEMA
    code: str | None = None

    def __post_init__(self):
        if self.status not in STATUSES:
            raise RecordError(f"status {self.status!r} is not one of {', '.join(STATUSES)}")
        if (self.status in GOOD) != (self.reason is None):
            raise RecordError(
                f"a record has a reason exactly if its status is not {' or '.join(GOOD)}")
        for name, wanted in _TYPES.items():
            if not isinstance(getattr(self, name), wanted):
                raise RecordError(f"{name} has the wrong type")
        for name in ("name", "type") if self.device else ():
            if not isinstance(self.device.get(name), str):
                raise RecordError(f"device.{name} is missing, or is not a string")
        for name, known in _KNOWN.items():
            if not isinstance(group := getattr(self, name), dict):
                raise RecordError(f"{name} is not an object")
            if unknown := set(group) - set(known):
                raise RecordError(f"unknown key {name}.{min(unknown)}")
            for key, value in group.items():
                if not _is(value, known[key]):
                    raise RecordError(f"{name}.{key} is not {known[key]}")

    def times(self):
        """Return the launches' times in seconds: the device's, or the host's where in doubt."""
        names = "queued_s", "wait_s", "run_s", "host_s"
        queued, wait, run, host = (self.timing.get(name) or [] for name in names)
        return (host or run) if clock_doubt(queued, wait, run, host) else run

    def to_line(self):
        """Return the record as one line of JSON. A number that is not finite becomes null."""
        values = {name: value for name, value in vars(self).items()
                  if not (name in _OPTIONAL and value is None)}
        return json.dumps(_finite(values), sort_keys=True, allow_nan=False)


_FIELDS = {field.name for field in fields(Record)}
_OPTIONAL = {"code"}  # keys that a record may lack


def _is(value, wanted):
    """Tell whether a value is what it should be. null stands for a number that was not finite."""
    kind = type(value)
    if wanted is _NUMBERS:  # times
        return kind is list and all(type(n) in (int, float) and 0 <= n <= _LARGEST for n in value)
    if wanted is _TABLE:
        return kind is dict
    if wanted is _TEXT:
        return value is None or kind is str
    if value is None or (kind is float and not math.isfinite(value)):
        return True  # it becomes null when it is written
    return kind in (int, float) and -_LARGEST <= value <= _LARGEST


def _finite(value):
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def append(path, record):
    """Add the record to the file, flushed: what was written survives a crash of the next run.

    A last line that a full disk left incomplete stays a line of its own.
    """
    with appending(path) as file:
        regular = os.path.isfile(path)
        file.write("\n" * (regular and _lacks_newline(path)) + record.to_line() + "\n")
        file.flush()
        if regular:
            os.fsync(file.fileno())


def _lacks_newline(path):
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 1))
        return file.read() not in (b"", b"\n")


def appending(path):
    """Return a file opened to add text. Raises OSError, also where that would wait, or be a disk.

    A FIFO is taken when somebody reads from it, as from /dev/stdout.
    """
    return open(path, "a", encoding="utf-8", opener=_at_once)


def _at_once(path, flags):
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY, 0o666)
    if stat.S_ISBLK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is a disk", path)
    os.set_blocking(descriptor, True)
    return descriptor


def read(path):
    """Return the records of a file. Raises RecordError for the first line it cannot understand."""
    records, errors = sort(scan(path))
    if errors:
        raise RecordError(errors[0])
    return records


def sort(items):
    """Return (records, what is wrong with the others) of what scan() or parse() yields."""
    found = [item for _, item in settled(enumerate(items))]
    return [i for i in found if isinstance(i, Record)], [i for i in found if isinstance(i, str)]


def scan(path):
    """Yield for each line of a file its Record, or a text that says what is wrong with it."""
    with open(path, encoding="utf-8", errors="replace") as file:
        yield from parse(file, path)


def parse(lines, name):
    """Yield what scan() yields, for lines that came otherwise; `name` stands for the file's."""
    for number, line in enumerate(lines, 1):
        try:
            yield parse_line(line)
        except RecordError as error:
            yield f"{name}:{number}: {error}"


def settled(numbered):
    """Yield (line, item) pairs of scan(), without the UNFINISHED records that a later one replaces.

    It is one of the same run (`argv`, `started`), variant and size.
    """
    held = {}
    for line, item in numbered:
        if isinstance(item, Record) and (held or item.reason == UNFINISHED):
            run = json.dumps([item.started, item.argv])
            key = (run, item.sample, item.variant, json.dumps(item.params.get("size")))
            held.pop(key, None)
            if item.reason == UNFINISHED:
                held[key] = line, item
                continue
        yield line, item
    yield from held.values()


def _finite_float(text):
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not JSON, or is too large a number")
    return number


def is_deep(value):
    """Tell whether lists and dictionaries lie in each other more than DEEPEST times."""
    layer = [value]
    for _ in range(DEEPEST):
        inner = (v.values() if isinstance(v, dict) else v for v in layer)
        layer = [v for values in inner for v in values if isinstance(v, (dict, list))]
    return bool(layer)


_DECODER = json.JSONDecoder(parse_constant=_finite_float, parse_float=_finite_float)


def parse_line(line):
    """Return the Record of a line. Raises RecordError, without file and line."""
    try:
        data = _DECODER.decode(line)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"not a JSON object: {error}") from error
    if not isinstance(data, dict):
        raise RecordError("not a JSON object")
    if line.count("{") + line.count("[") > DEEPEST and is_deep(data):
        raise RecordError("its values are nested too deeply")
    schema = data.get("schema")
    if type(schema) is not int or schema != SCHEMA:  # before its keys: another version has others
        raise RecordError(f"schema {schema!r} is unknown, this reader knows {SCHEMA}")
    if unknown := set(data) - _FIELDS:
        raise RecordError(f"unknown key {min(unknown)}")
    if missing := _FIELDS - _OPTIONAL - set(data):
        raise RecordError(f"key {min(missing)} is missing")
    return Record(**data)
