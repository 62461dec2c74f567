"""Run points, each in a process of its own, and judge what came of them."""

from collections import Counter
from sys import intern
from typing import NamedTuple

from common.errors import EXIT_STATUS, PASSED, UNSUPPORTED, WRONG_USAGE, worst
from common.record import RATES, STATUSES, Record, unit
from common.text import figures, printable
from tools import child

ENDS = (*STATUSES[:3], "refused", *STATUSES[3:])  # the worst comes last


class State(NamedTuple):
    """How a point ended: one of ENDS, its best metric or None, and the seconds that it was given
    where they did not suffice, else None."""

    ended: str
    metric: float | None
    late_s: float | None

    @classmethod
    def of(cls, point):
        """Return that of the table params.point in the last record of a point."""
        late = point["limit_s"] if point["exit_status"] is None else None
        return cls(intern(point["ended"]), point["metric"], late)  # there may be a million

    def settled(self, limit_s):
        """Tell whether the point need not run again: more time may help one that had too little."""
        return self.late_s is None or self.late_s >= limit_s


class Result(NamedTuple):
    """What came of a point; `reason` says why it did not pass, or is None."""

    state: State
    records: list
    reason: str | None


def run(manifest, point, limit_s, env=None, run=child.run):
    """Run a point, at most `limit_s` seconds; return the Result.

    `env` are variables of its process. `run` runs it elsewhere, as child.run().
    """
    done = run(manifest.name, point.options, limit_s, env)
    return result(manifest, point, done, limit_s)


def result(manifest, point, done, limit_s):
    """Return the Result of an Outcome: its last record says how the point ended.

    If it passed, that is the fastest one: `--kernel best` may run several kernels.
    """
    records = list(done.records)
    if done.reason:
        records.append(Record(manifest.name, None, "error", done.reason, argv=list(point.options)))
    worst = max((item.status for item in records), key=ENDS.index)
    ended = "refused" if done.status == WRONG_USAGE else worst
    rates = [r for item in records if (r := rate(manifest, item)) is not None]
    if ended == "passed":
        records.sort(key=lambda item: rate(manifest, item) or 0)
    table = {
        "ended": ended, "exit_status": done.status, "key": point.key, "limit_s": float(limit_s),
        "metric": max(rates, default=None) if ended == "passed" else None,
        "options": list(point.options), "seconds": round(done.seconds, 3),
    }
    for item in records[:-1]:
        item.params["point"] = {"options": table["options"], "of": point.key}
    records[-1].params["point"] = table
    reason = [item.reason for item in records if item.status == worst][-1]
    return Result(State.of(table), records, reason)


def rate(manifest, item):
    """Return a record's number of the sample's metric, if it passed and has one."""
    value = item.metrics.get(manifest.tools.metric)
    return float(value) if item.status == "passed" and value is not None else None


def line(manifest, result):
    """Return what a person wants to know of a Result first."""
    state = result.state
    if state.ended != "passed":
        return printable(f"{state.ended}: {result.reason}") if result.reason else state.ended
    hot = any(item.environment.get("throttled") for item in result.records)
    return amount(manifest, state.metric, result.records) + (", throttled" if hot else "")


def amount(manifest, metric, records):
    """Return a number of the sample's metric as text, with the unit that its records say."""
    if metric is None:
        return "passed"
    name = manifest.tools.metric
    units = {unit(name, item.params) for item in records if name in item.metrics}
    return f"{figures(metric)} {min(units, default=RATES.get(name, name))}"


class Summary:
    """Counts how points ended, and keeps the fastest."""

    def __init__(self, manifest):
        self._manifest, self._counts, self._best = manifest, Counter(), None

    def add(self, point, state, records=()):
        """Count one. Its records have the unit, where they are known."""
        self._counts[state.ended] += 1
        if state.metric is not None and (self._best is None or state.metric > self._best[0]):
            self._best = state.metric, point.label, records

    def lines(self):
        """Return how many points ended how, and which one was the fastest."""
        shown = ", ".join(f"{self._counts[n]} {n}" for n in ENDS if self._counts[n])
        if not self._best:
            return [shown]
        metric, label, records = self._best
        return [shown, f"fastest: {label}: {amount(self._manifest, metric, records)}"]

    def status(self):
        """Return the exit_status() of all."""
        return exit_status(self._counts)


def exit_status(ends):
    """Return the worst exit status of points that ended so; each is one of ENDS.

    What the device cannot do is no failure where another point passed.
    """
    found = {EXIT_STATUS.get(ended, WRONG_USAGE) for ended in ends}
    return worst(found - {UNSUPPORTED} if PASSED in found else found)
