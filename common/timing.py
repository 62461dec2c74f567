"""Times of a kernel, from OpenCL's events and from the host's clock. All in seconds."""

import time
from dataclasses import dataclass
from statistics import fmean, median

import pyopencl as cl

from common import stats
from common.errors import OpenCLFailure
from common.record import clock_doubt
from common.text import figures

_BY_HOST = "by the host's clock: "
_SINGLE = "1 run, no spread"
_QUIET = 0.01  # seconds without work that show that this process is at rest
_PATIENCE = 0.5  # seconds to wait for that


@dataclass(frozen=True)
class Timing:
    """The raw times of the repetitions; the warm-up launches are not among them.

    queued: in the host's queue (SUBMIT - QUEUED), wait: at the device (START - SUBMIT), run: the
    kernel itself (END - START), host: from before the enqueue call to the end of the wait.
    """

    queued_s: list
    wait_s: list
    run_s: list
    host_s: list
    warmup: int

    def seconds(self):
        """Return the run times, or the host's where those of the driver's events are in doubt."""
        return self.host_s if self.doubt() else self.run_s

    def doubt(self):
        """Return why the driver's events do not tell the times, or None where they do."""
        return clock_doubt(self.queued_s, self.wait_s, self.run_s, self.host_s)

    def rate(self, amount):
        """Return the stats.Spread of `amount` per second; its median is that of the median time."""
        times = stats.spread(self.seconds())
        return stats.rate([amount / times.median], times)

    def rate_line(self, unit, amount, of=""):
        """Return one line with the rate of `amount` (in units) per second: median and spread.

        `of` is what there is a time of each, if not of a run. A single time has no spread.
        """
        rate, about = self.rate(amount), _SINGLE
        if rate.count > 1:
            count = f"{rate.count} {of}".rstrip()
            about = f"median of {count}, spread {figures(rate.low)} to {figures(rate.high)}"
        return f"{unit + ':':<16}{figures(rate.median)} ({about}{self._clock()})"

    def statistics_line(self, amount, of="runs"):
        """Return the statistics of `amount` per second; the range is max - min.

        `of` is what there is a time of each.
        """
        rate, mean = self.rate(amount), fmean(amount / seconds for seconds in self.seconds())
        if rate.count == 1:
            return f"{figures(mean)}, {_SINGLE}{self._clock()}"
        values = {"median": rate.median, "mean": mean, "min": rate.least, "max": rate.most,
                  "range": rate.most - rate.least}
        shown = ", ".join(f"{name} {figures(value)}" for name, value in values.items())
        return f"{shown}, spread {rate.relative:.1%}, {rate.count} {of}{self._clock()}"

    def _clock(self):
        doubt = self.doubt()
        return f", {_BY_HOST}{doubt}" if doubt else ""

    def lines(self, verbose=False):
        """Return the Profiling block of the Mali SDK's samples, of the median times."""
        rows = (("Queued", self.queued_s), ("Wait", self.wait_s), ("Run", self.run_s))
        lines = ["Profiling information:"]
        lines += [f"{name + ' time:':<16}{_ms(median(times))}" for name, times in rows]
        if verbose:
            lines.append("Run times:      " + " ".join(map(_ms, self.run_s)))
        return lines


def _ms(seconds):
    """Return a time as the SDK's samples print it, but never with an exponent."""
    text = f"{seconds * 1e3:g}"
    return f"{text if 'e' not in text else f'{seconds * 1e3:.6f}'}ms"


def measure(enqueue, repeat, warmup, between=lambda: None):
    """Call `enqueue`, which launches a kernel, again and again; return the Timing.

    `between` is called before the first of the timed launches, and after each.
    """
    for _ in range(warmup):
        wait(enqueue())
    between()
    launches = []
    for _ in range(repeat):
        launches.append(launch(enqueue))
        between()
    return Timing(*map(list, zip(*launches)), warmup)


def launch(enqueue):
    """Call `enqueue` once and wait; return its times (queued, wait, run, host)."""
    start = time.perf_counter()
    events = wait(enqueue())
    host = time.perf_counter() - start
    return (*spans(events), host)


def wait(launched):
    """Wait for a launch, which is an event or a list of those of its steps; return the list."""
    events = launched if isinstance(launched, list) else [launched]
    events[-1].wait()
    return events


def spans(events):
    """Return how long a launch was queued, waited and ran, by the events of its steps."""
    first, last = stamps(events[0]), stamps(events[-1])
    marks = (*first[:3], last[3])
    return [*map(elapsed, marks, marks[1:])]


def settle():
    """Wait until this process is at rest.

    A BLAS leaves its threads spinning, OpenBLAS for 0.11 s and MKL for 0.2 s: they would take the
    cores from a kernel on the CPU.
    """
    deadline = time.perf_counter() + _PATIENCE
    while time.perf_counter() < deadline:
        worked = time.process_time()
        time.sleep(_QUIET)
        if time.process_time() - worked < _QUIET / 2:
            return


def stamps(event):
    """Return when an event was queued, submitted, started and ended; zeros without times.

    In ns, as whole numbers: some drivers count from 1970, more digits than a float has.
    """
    try:
        at = event.profile
        return at.queued, at.submit, at.start, at.end
    except cl.Error:
        require_complete(event)
        return 0, 0, 0, 0


def require_complete(event):
    """Raise OpenCLFailure where a launch that was waited for goes on: then no time is right."""
    if event.command_execution_status > cl.command_execution_status.COMPLETE:
        raise OpenCLFailure("the driver's wait for a launch returns before the launch is complete")


def elapsed(before, after):
    """Return the seconds between two stamps; 0 where the driver has them in the wrong order."""
    return max(0, after - before) * 1e-9
