"""A point: repeated measurements of the same thing, with their statistics.

There may be hundreds of thousands: a point keeps little, and computes the rest anew.
"""

import sys
from array import array
from dataclasses import dataclass, field
from statistics import median

from common import stats
from common.record import RATES, STATUSES, of_library
from common.stats import number
from report.inputs import Source
from report.values import measured, text, word

NO_KERNEL = "-"  # of a record that broke off before there was one
LONGEST_TIME = 1e9  # seconds; what is longer, or not finite, is none


@dataclass(eq=False, slots=True)
class Point:
    """All launches of one kernel with the same parameters on the same machine.

    `settings` are those of the machine, as texts by name. `times` are in seconds, `counts` says how
    many records have each status, `metrics` holds the values of each metric by record, `amounts`
    what a launch does by the name of its rate, if there are several records. `state` holds the
    (lowest, highest) of each number of the machine's state, `throttled` says what changed there.
    `source` and `line` are those of the newest record.
    """

    board: str
    sample: str
    case: str
    kernel: str
    params: dict
    device: dict
    settings: dict
    source: Source
    line: int = 0
    argv: tuple = ()
    started: str = ""
    counts: dict = field(default_factory=dict)
    reason: str | None = None
    times: array = field(default_factory=lambda: array("d"))
    metrics: dict = field(default_factory=dict)
    amounts: dict | None = None
    state: dict = field(default_factory=dict)
    throttled: tuple = ()
    error_over_bound: float | None = None

    @property
    def records(self):
        return sum(self.counts.values())

    @property
    def status(self):
        """The worst that happened."""
        return max(self.counts, key=STATUSES.index)

    @property
    def is_library(self):
        """Whether it is of a baseline library, not of a kernel."""
        return of_library(self.params)

    @property
    def device_name(self):
        """Its name and type: a run on the CPU must not pass for one on the GPU."""
        if not self.device:
            return "no device"
        return f"{text(self.device['name'])} ({text(self.device['type'])})"

    @property
    def words(self):
        """Its parameters as words, the size first.

        Left out are those that are null, and nested ones: these are how a sample names the point
        to itself.
        """
        params = {"size": self.params.get("size")} | self.params
        return [word(name, value if isinstance(value, str) else text(value, 120))
                for name, value in params.items()
                if value is not None and not isinstance(value, dict)]

    @property
    def spread(self):
        """The Spread of its times, or None."""
        return stats.spread(self.times)

    def rate(self, name):
        """Return the Spread of a metric of RATES, or None. Its median is that of metric()."""
        return stats.rate([self.metric(name)], self.spread) if name in self.metrics else None

    def metric(self, name):
        """Return the median over the records, or None where there is no such metric.

        That of a rate is over all launches: it is the rate of their median time.
        """
        if self.amounts and name in self.amounts:
            return self.amounts[name] / median(self.times)
        return median(self.metrics[name]) if name in self.metrics else None

    def add(self, item, numbers, source, line):
        """Add a record, the one in that line; `numbers` are those of values.machine()."""
        self.counts[item.status] = self.counts.get(item.status, 0) + 1
        if item.status == self.status and item.reason:
            self.reason = text(item.reason, 2000)
        if item.started >= self.started:
            self.started, self.argv = item.started, tuple(map(interned, item.argv))
            self.source, self.line = source, line
        times = [t for t in item.times() if 0 < t < LONGEST_TIME]
        pooled = bool(self.times and times)
        self.times.extend(times)
        # Its own statistics are those of its times.
        metrics = {name: value for name, value in item.metrics.items() if name != "statistics"}
        for name, value in measured(metrics):
            if value > 0 or name not in RATES:
                self.metrics.setdefault(name, []).append(value)
                if pooled and name in RATES and (amount := number(value * median(times))):
                    self.amounts = {**(self.amounts or {}), name: amount}
        for name, value in numbers:
            low, high = self.state.get(name, (value, value))
            self.state[name] = min(low, value), max(high, value)
        if isinstance(changed := item.environment.get("throttled"), list) and changed:
            self.throttled += tuple(map(text, changed))
        if (error := number(item.check.get("error_over_bound"))) is not None:
            self.error_over_bound = max(error, self.error_over_bound or 0.0)


def interned(value):
    """Return the value; a text as the one object of all that are equal: records repeat theirs."""
    return sys.intern(value) if type(value) is str else value
