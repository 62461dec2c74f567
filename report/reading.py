"""Read records, and group them by point.

Records are one point when board, device, driver, code, sample, case, kernel, parameters and the
settings of the machine (its kernel, governors, versions) are the same. Numbers that the machine
told, such as a temperature, were measured: a point has their range.
"""

import json
from collections import deque
from hashlib import blake2b

from common import files, record
from common.errors import UsageError
from common.stats import number
from common.text import printable
from report import inputs
from report.points import LONGEST_TIME, NO_KERNEL, Point, interned
from report.replay import plain_params
from report.values import machine, text

MOST_SUSTAINED = 24  # long runs: those that were read last
_encoded = json.JSONEncoder(sort_keys=True).encode


def collect(paths, unpack_into, all_runs=False):
    """Return the Reader that has read all that lies below the paths. Raises UsageError."""
    read = Reader()
    for source in inputs.find(paths, unpack_into, read.notices, all_runs):
        read.read(source)
    if not read.records:
        notices = read.notices
        why = f", and {len(notices)} lines or files cannot be read: {notices[0]}" if notices else ""
        where = ", ".join(map(str, paths))
        raise UsageError(f"no records in {where}{why}; `fab deploy run-all` makes some")
    return read


class Reader:
    """Reads Sources into Points.

    `notices` gets a line for each thing that could not be read, and `archives` one for each archive
    (as keys). `phases` holds the Phases of each Source that is a case of a run, `sustained` the
    (Point, metrics.sustained) of long runs.
    """

    def __init__(self):
        self.notices, self.archives, self.phases, self.records = [], {}, {}, 0
        self.sustained = deque(maxlen=MOST_SUSTAINED)
        self._points = {}
        self._last, self._equal = {}, {}  # so that equal dictionaries become one

    @property
    def points(self):
        return list(self._points.values())

    def read(self, source):
        """Read a file; a line that cannot be understood is passed over."""
        line, before = 0, len(self._points)
        try:
            for line, item in record.settled(enumerate(files.records(source.path), 1)):
                if isinstance(item, str):
                    self._notice(item)
                else:
                    self._add(source, item, line)
            if not line:
                self._notice(f"{source.path}: empty")
        except OSError as error:
            self._notice(f"{source.path}: {error.strerror}")
        except UsageError as error:
            self._notice(str(error))
        # A point that broke off early has no board: it is that of the others in the file.
        new = self.points[before:]
        named = next((point.board for point in new if point.board), "unnamed")
        for point in new:
            point.board = point.board or named

    def _notice(self, line):
        self.notices.append(printable(line)[:500])

    def _add(self, source, item, line):
        run, device = source.run, self._one("device", item.device)
        settings, numbers = machine(item.environment)
        settings = self._one("settings", settings)
        board = run.board if run else settings.get("host", "")
        params = plain_params(item.params, item.sample)
        if isinstance(params.get("local"), (int, list)):  # of older records
            params["local"] = text(params["local"])
        code = item.code or (run and run.name)  # older records do not tell their code
        where = board or str(source.path)  # read() says later which board that file is of
        same = [where, source.case, item.sample, item.variant, id(device), id(settings), code]
        key = blake2b(_encoded([*same, _asked(params)]).encode(), digest_size=16).digest()
        if key not in self._points:
            params = {interned(name): interned(value) for name, value in params.items()}
            self._points[key] = Point(
                board, text(item.sample), text(source.case), text(item.variant or NO_KERNEL),
                params, device, settings, source,
            )
        point = self._points[key]
        point.add(item, numbers, source, line)
        if table := item.metrics.get("sustained"):
            self.sustained.append((point, table))
        self.records += 1
        if run:
            self.phases.setdefault(source, Phases()).add(item)
            if run.origin:
                self.archives[run.origin] = None

    def _one(self, kind, value):
        """Return the dictionary, or the one that is equal to it and came first."""
        if self._last.get(kind) != value:
            self._last[kind] = self._equal.setdefault((kind, _encoded(value)), value)
        return self._last[kind]


def _asked(params):
    """Return parameters without what a journal adds of a single run of a point."""
    point = params.get("point")
    if not isinstance(point, dict) or "options" not in point:
        return params
    return {**params, "point": point["options"]}


class Phases:
    """What the records of one case say of its time, all in seconds; `started` of the first."""

    def __init__(self):
        self.started = None
        self.stages = dict.fromkeys(("queued_s", "wait_s", "run_s", "host_s"), 0.0)

    def add(self, item):
        self.started = min(self.started or item.started, item.started)
        together = max(1, number(item.timing.get("in_flight")) or 1)
        # Times of a long run are those of its parts.
        parts = sum(item.timing.get("host_s") or [])
        long = number((item.metrics.get("sustained") or {}).get("seconds"))
        together *= max(1, long / parts) if long and parts else 1
        for name in self.stages:
            values = item.timing.get(name) or []
            launches = together if name in ("run_s", "host_s") else 1  # else those of the first
            self.stages[name] += launches * sum(t for t in values if 0 < t < LONGEST_TIME)
