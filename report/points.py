"""A point: what was measured again and again, with its statistics."""

from dataclasses import dataclass, field
from functools import cached_property
from statistics import median

from common import stats
from common.stats import number
from report.inputs import Source
from report.values import device_name, measured, parameters, text

SEVERITY = ("passed", "unsupported", "error", "failed")  # the last is the worst
RATES = {"gflops": "GFLOPS", "gbytes_per_s": "GB/s"}  # with their units
NO_KERNEL = "-"  # of a record that broke off before there was one
LONGEST_TIME = 1e9  # seconds; what is longer, or not finite, is none
_STATES = ("before", "during", "after")  # of the machine, around what was timed


@dataclass(eq=False)
class Point:
    """All launches of one kernel with the same parameters on the same machine.

    `times` are in seconds, `metrics` holds the values of each metric by record, `state` the lowest
    and highest of each number of the machine's state, `throttled` what changed there. `source` and
    `line` are those of the newest record.
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
    argv: list = field(default_factory=list)
    started: str = ""
    records: int = 0
    counts: dict = field(default_factory=dict)
    reason: str | None = None
    times: list = field(default_factory=list)
    metrics: dict = field(default_factory=dict)
    state: dict = field(default_factory=dict)
    throttled: list = field(default_factory=list)
    error_over_bound: float | None = None

    @property
    def status(self):
        """The worst that happened."""
        return max(self.counts, key=SEVERITY.index)

    @property
    def run(self):
        """The Run of its newest record, or None."""
        return self.source.run

    @property
    def is_peer(self):
        """Whether it is a library's, to compare with."""
        return bool(self.params.get("peer"))

    @property
    def device_name(self):
        return device_name(self.device)

    @cached_property
    def words(self):
        """Its parameters as words: see values.parameters()."""
        return parameters(self.params)

    @cached_property
    def spread(self):
        """The Spread of its times, or None. To be asked for when all records are read."""
        return stats.spread(self.times)

    @cached_property
    def rates(self):
        """The Spread of each rate by its metric, of those that have one."""
        there = {name: self.metrics[name] for name in RATES if name in self.metrics}
        rates = {name: stats.rate(values, self.spread) for name, values in there.items()}
        return {name: rate for name, rate in rates.items() if rate}

    def metric(self, name):
        """Return the median over the records, or None where there is no such metric."""
        values = self.metrics.get(name)
        return median(values) if values else None

    def add(self, item, source, line):
        """Add a record, the one in that line."""
        self.records += 1
        self.counts[item.status] = self.counts.get(item.status, 0) + 1
        if item.status == self.status and item.reason:
            self.reason = text(item.reason, 2000)
        if item.started >= self.started:
            self.started, self.argv = item.started, item.argv
            self.source, self.line = source, line
        self.times += [t for t in item.times() if 0 < t < LONGEST_TIME]
        # Its own statistics are those of its times.
        metrics = {name: value for name, value in item.metrics.items() if name != "statistics"}
        for name, value in measured(metrics):
            self.metrics.setdefault(name, []).append(value)
        for name, value in _state(item.environment):
            low, high = self.state.get(name, (value, value))
            self.state[name] = min(low, value), max(high, value)
        if isinstance(changed := item.environment.get("throttled"), list):
            self.throttled += map(text, changed)
        if (error := number(item.check.get("error_over_bound"))) is not None:
            self.error_over_bound = max(error, self.error_over_bound or 0.0)


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
