"""A point: repeated measurements of the same thing, with their statistics.

There may be hundreds of thousands: a point keeps little, and computes the rest anew.
"""

from array import array
from dataclasses import dataclass, field
from functools import cache
from statistics import median

from common import stats
from common.record import STATUSES, of_library
from common.stats import number
from report.inputs import Source
from report.values import device_name, interned, measured, parameters, text

NO_KERNEL = "-"  # of a record that broke off before there was one
LONGEST_TIME = 1e9  # seconds; what is longer, or not finite, is none
_STATES = ("before", "during", "after")  # of the machine, around what was timed
_shared = {}  # equal tuples, of which most points have the same


@dataclass(eq=False, slots=True)
class Point:
    """All launches of one kernel with the same parameters on the same machine.

    `times` are in seconds, `counts` says how many records have each status of STATUSES, `metrics`
    holds the values of each metric by record, `state` the (lowest, highest) of each number of the
    machine's state, `throttled` what changed there. `source` and `line` are those of the newest
    record.
    """

    board: str
    sample: str
    case: str
    kernel: str
    params: dict
    device: dict
    environment: dict
    source: Source
    line: int = 0
    argv: tuple = ()
    started: str = ""
    counts: tuple = (0,) * len(STATUSES)
    reason: str | None = None
    times: array = field(default_factory=lambda: array("d"))
    metrics: dict = field(default_factory=dict)
    state: dict = field(default_factory=dict)
    throttled: tuple = ()
    error_over_bound: float | None = None

    @property
    def records(self):
        """How many records it has."""
        return sum(self.counts)

    @property
    def status(self):
        """The worst that happened."""
        return _worst(self.counts)

    @property
    def run(self):
        """The Run of its newest record, or None."""
        return self.source.run

    @property
    def is_library(self):
        """Whether it is of a baseline library, not of a kernel."""
        return of_library(self.params)

    @property
    def device_name(self):
        return device_name(self.device)

    @property
    def words(self):
        """Its parameters as words: see values.parameters()."""
        return parameters(self.params)

    @property
    def spread(self):
        """The Spread of its times, or None."""
        return stats.spread(self.times)

    def rate(self, name):
        """Return the Spread of a rate, of those in RATES, or None."""
        return stats.rate(self.metrics[name], self.spread) if self.typical(name) else None

    def typical(self, name):
        """Return the median of that Spread, or None."""
        return self.metric(name) if min(self.metrics.get(name, (0,))) > 0 else None

    def metric(self, name):
        """Return the median over the records, or None where there is no such metric."""
        values = self.metrics.get(name) or [None]
        return values[0] if len(values) == 1 else median(values)

    def add(self, item, source, line):
        """Add a record, the one in that line."""
        counts = tuple(n + (s == item.status) for s, n in zip(STATUSES, self.counts))
        self.counts = _shared.setdefault(counts, counts)
        if item.status == self.status and item.reason:
            self.reason = text(item.reason, 2000)
        if item.started >= self.started:
            self.started, self.argv = item.started, tuple(map(interned, item.argv))
            self.source, self.line = source, line
        self.times.extend(t for t in item.times() if 0 < t < LONGEST_TIME)
        # Its own statistics are those of its times.
        metrics = {name: value for name, value in item.metrics.items() if name != "statistics"}
        for name, value in measured(metrics):
            self.metrics.setdefault(name, []).append(value)
        for name, value in _state(item.environment):
            low, high = self.state.get(name, (value, value))
            self.state[name] = min(low, value), max(high, value)
        if isinstance(changed := item.environment.get("throttled"), list) and changed:
            self.throttled += tuple(map(text, changed))
        if (error := number(item.check.get("error_over_bound"))) is not None:
            self.error_over_bound = max(error, self.error_over_bound or 0.0)


@cache
def _worst(counts):
    return next(s for s, count in zip(STATUSES[::-1], counts[::-1]) if count)


def _state(environment):
    """Yield (name, number) for each number that a record has of the machine, at any time."""
    for name, value in environment.items():
        if name not in _STATES:
            yield from measured({name: value})
            continue
        for state in value if isinstance(value, list) else [value]:
            if isinstance(state, dict):
                yield from measured(state)


def settings(environment):
    """Return what a record says of the machine without what was measured, which differs."""
    changing = (*_STATES, "throttled")
    return {name: value for name, value in environment.items() if name not in changing}
