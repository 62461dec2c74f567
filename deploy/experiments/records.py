"""The records of an experiment: results/BOARD/RUN/SAMPLE/EXPERIMENT.jsonl.

They are all that a sweep keeps: one that was killed continues from them. The last record of a point
says in params.point how it ended. A file of a million points is read in seconds: of the lines that
the sweep wrote only that part is looked at.
"""

import json
import os
import re
from binascii import unhexlify
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import record
from common.errors import UsageError
from common.files import writing
from common.machine.keeper import lock
from common.stats import number
from deploy.boards import shown
from deploy.runs import RESULTS, name_run
from tools.engine import ENDS, State
from tools.space import PER_WATT

EXPERIMENTS = "experiments"  # a folder in results/
_START = b'{"argv": ['  # of every line that common/record.py writes: it sorts the keys
_POINT = b'"point": {"board": "'
_DECODER = json.JSONDecoder()


class Runs:
    """The file of an experiment: which run in results/ has the records of each kind of device.

    Locked for as long as it is open: a SIGKILL leaves no lock.
    """

    def __init__(self, path):
        """Open or make it. Raises UsageError where it is in use, or cannot be made."""
        with _writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = open(path, "a+")  # noqa: SIM115
        try:
            lock(self._file, 1.0)
        except BlockingIOError as error:
            raise UsageError(f"{path.stem} is running already: {path} is in use") from error
        self._file.seek(0)
        self._runs = dict(re.findall(r"(?m)^(\w+) (\S+)\n", self._file.read()))

    def of(self, kind):
        """Return (the name of a kind's run, whether it has begun before)."""
        before = kind in self._runs
        if not before:
            self._runs[kind] = name_run()
            self._file.write(f"\n{kind} {self._runs[kind]}\n")
            _sync(self._file)
        return self._runs[kind], before

    def close(self):
        """Let another process have it."""
        self._file.close()


def _writing(path):
    return writing(f"cannot write {shown(path)}")


def _sync(file):
    with _writing(Path(file.name)):
        file.flush()
        os.fsync(file.fileno())


class Records:
    """The files of one run: `plans` has what plan.json tells of a board."""

    def __init__(self, experiment, run):
        """Read how each point ended. Raises UsageError."""
        self._experiment, self._run = experiment, run
        self.plans, self._files, self._written = {}, {}, set()
        self._pool = ThreadPoolExecutor(64)  # the disk commits what waits together
        self._states, self._values = {}, {}
        # Where the only objective is the sample's metric, the State of a point has its value.
        self._whole = experiment.objectives != (experiment.found.tools.metric,)
        for path in self.paths():
            for key, state, item in read(path, self._whole):
                self._keep(key, state, item)

    def paths(self):
        """Return the files that there are, one for each board."""
        name = f"{self._experiment.name}.jsonl"
        folder = f"{self._run}/{self._experiment.found.name}"
        return sorted(RESULTS.glob(f"*/{folder}/{name}"))

    def optuna(self):
        """Return the file of Optuna's storage for this run."""
        return RESULTS / EXPERIMENTS / f"{self._run}.optuna"

    def add(self, board, result):
        """Write the records of a point's engine.Result. They are on the disk after sync().

        Raises UsageError where they cannot be written.
        """
        folder = RESULTS / board / self._run
        path = folder / self._experiment.found.name / f"{self._experiment.name}.jsonl"
        for item in result.records:
            item.params["point"]["board"] = board
        with _writing(path):
            if path not in self._files:
                path.parent.mkdir(parents=True, exist_ok=True)
                plan = {"run": self._run, "cases": [], **self.plans.get(board, {})}
                (folder / "plan.json").write_text(json.dumps(plan))
                self._files[path] = record.appending(path)
            file = self._files[path]
            file.writelines(item.to_line() + "\n" for item in result.records)
            file.flush()
        self._written.add(file)
        last = result.records[-1]
        self._keep(unhexlify(last.params["point"]["key"]), result.state, last)

    def sync(self):
        """Have the disk take what was written. Raises UsageError where it does not."""
        list(self._pool.map(_sync, self._written))
        self._written.clear()

    def _keep(self, key, state, item):
        self._states[key] = state
        if self._whole and state.ended == "passed":
            asked = self._experiment
            self._values[key] = [value(item, name, asked.sensors) for name in asked.objectives]

    def lacking(self):
        """Return the objectives that none of the points that passed has."""
        columns = zip(self._experiment.objectives, zip(*self._values.values()))
        return [name for name, values in columns if all(each is None for each in values)]

    def state(self, key):
        """Return the engine.State of a point that need not run any more, else None."""
        state = self._states.get(unhexlify(key))
        return state if state and state.settled(self._experiment.limit) else None

    def values(self, key):
        """Return the values of the objectives, or None: the point did not pass, or has none."""
        binary = unhexlify(key)
        values = self._values.get(binary, [None]) if self._whole else [self._states[binary].metric]
        return None if None in values else values

    def newest(self, point, ended="passed"):
        """Return the newest Record that ended so, one of ENDS, with the options of a Point."""
        found = None
        for item in (item for path in self.paths() for item in record.scan(path)):
            of = item.params.get("point", {}) if isinstance(item, record.Record) else {}
            ours = "key" in of and tuple(of["options"]) == point.options
            if ours and of["ended"] == ended and (not found or found.started <= item.started):
                found = item
        return found


def value(item, name, sensors=()):
    """Return the value of an objective in a Record, or None.

    That per watt is of the power above idle of all `sensors` together, by default of all that
    measured it.
    """
    if not name.endswith(PER_WATT):
        return number(item.metrics.get(name))
    rates = [rate for sensor, each in (item.metrics.get("energy") or {}).items()
             if sensor in (sensors or [sensor]) and (rate := number(each.get(name)))]
    return 1 / sum(1 / rate for rate in rates) if rates else None


def read(path, whole):
    """Yield (key, State, Record) of each point in a file. The Record is None, which is quick,
    unless `whole`.

    Drops the last line if a crash has torn it, so that it has no end. Raises UsageError for another
    line that is no record, and leaves that file as it is.
    """
    with open(path, "r+b") as file:
        good = 0
        for number, line in enumerate(file, 1):
            torn = not line.endswith(b"\n")
            if torn and (line.startswith(_START) or _START.startswith(line)):
                file.truncate(good)
                return
            try:
                found = _found(line, whole)
                if torn:
                    raise ValueError("it has no end of line")
            except ValueError as error:
                raise UsageError(f"{path}:{number}: {error}: fix that line, or remove the file "
                                 "from results/") from error
            if found:
                yield found
            good += len(line)


def _found(line, whole):
    """Return what read() yields for a line, or None: it is not the last record of a point.

    Raises ValueError.
    """
    item, point = None, None if whole else _quick(line)
    if point is None:
        item = record.parse_line(line.decode(errors="replace"))
        point = item.params.get("point")
    if not isinstance(point, dict) or "key" not in point:
        return None
    try:
        return unhexlify(point["key"]), _state(point), item
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"params.point cannot be used: {error}") from error


def _quick(line):
    """Return params.point of a line that the sweep wrote, whatever else is in it, or None."""
    at = line.find(_POINT)
    ours = line.startswith(_START) and line.endswith(b"}\n") and line.find(_START, 1) < 0
    if at < 0 or not ours:
        return None
    try:
        return _DECODER.raw_decode(line[at + len(b'"point": ') :].decode(errors="replace"))[0]
    except (ValueError, RecursionError):
        return None


def _state(point):
    ended, metric, limit = point["ended"], point["metric"], point["limit_s"]
    if ended not in ENDS:
        raise ValueError(f"ended is {ended!r}")
    for name, value in (("metric", 0.0 if metric is None else metric), ("limit_s", limit)):
        if number(value) is None:
            raise ValueError(f"{name} is not a number")
    if metric is not None and ended != "passed":
        raise ValueError("it has a metric but did not pass")
    return State.of(point)

