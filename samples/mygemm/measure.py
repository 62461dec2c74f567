"""Times of kernels and peers that take turns, round after round.

A machine's speed drifts. What is compared is timed in the same round, and a ratio is the median of
the ratios within the rounds.
"""

import os
import time
from statistics import fmean, median

import pyopencl as cl

from common.errors import SampleError
from common.timing import Timing, elapsed, stamps

SETTLE = 0.15  # seconds for which a host BLAS's threads spin on, and slow what comes next
_TURN = 4e-3  # seconds that a turn should take at least: to wait for its end costs 0.1e-3
_MOST_IN_FLIGHT = 100


class Bar:
    """A kernel or a library that takes its turn.

    `enqueue()` launches it; with `events` it returns those of its steps. `finish()` waits. After
    each turn the round pauses for `settle` seconds.
    """

    def __init__(self, name, enqueue, finish, events=False, settle=0):
        self.name, self._enqueue, self._finish = name, enqueue, finish
        self._events, self.settle = events, settle
        self.error = None  # what ended its turns
        self.steps = []  # of each turn: the seconds of each step of a launch

    def try_to_take(self, in_flight):
        """Return take()'s times, or None where the bar fails now or has failed before."""
        try:
            return None if self.error else self.take(in_flight)
        except (SampleError, cl.Error) as error:
            self.error = error
            return None

    def take(self, in_flight):
        """Launch it `in_flight` times back to back; return the seconds of one.

        They are queued, wait and run time by the device's clock, the latter from the start of the
        first launch to the end of the last, and the host's time until all are done. Short ones are
        launched twice, and the second time counts: cores that slept are slow at first, whosever
        turn it is.
        """
        for _ in range(1 if in_flight == 1 else 2):
            start = time.perf_counter()
            launches = [self._enqueue() for _ in range(in_flight)]
            self._finish()
        host = (time.perf_counter() - start) / in_flight
        if not self._events:
            return 0, 0, 0, host
        marks = [[stamps(event) for event in launch] for launch in launches]
        self.steps.append([
            fmean(elapsed(begin, end) for *_, begin, end in step) for step in zip(*marks)
        ])  # fmt: skip
        queued, submit, begin, _ = marks[0][0]
        *_, end = marks[-1][-1]
        run = elapsed(begin, end) / in_flight
        return elapsed(queued, submit), elapsed(submit, begin), run, host


def enough_in_flight(bars):
    """Return how many launches back to back hide what a single launch costs the fastest bar."""
    turns = [bar.try_to_take(1) for bar in bars for _ in range(2)]
    fastest = min((times[-1] for times in turns if times), default=_TURN)
    return max(1, min(_MOST_IN_FLIGHT, round(_TURN / fastest)))


def rounds(bars, repeat, warmup, in_flight):
    """Return the Timing of each bar by its name; the lists of all go round by round.

    A bar that fails is left out from then on, and has no Timing but an `error`.
    """
    taken = {bar.name: [] for bar in bars}
    for number in range(-warmup, repeat):
        for bar in bars:
            if number == 0:
                bar.steps.clear()
            times = bar.try_to_take(in_flight)
            if times and number >= 0:
                taken[bar.name].append(times)
            time.sleep(bar.settle)
    whole = (bar.name for bar in bars if bar.error is None)
    return {name: Timing(*map(list, zip(*taken[name])), warmup) for name in whole}


def ratio(times, other):
    """Return how many times as fast as `other`: median over the rounds, by the host's clock."""
    return median(b / a for a, b in zip(times.host_s, other.host_s))


def busy():
    """Return a line that says that others use this machine's CPUs, or None."""
    cpus = os.cpu_count() or 1
    try:
        load = os.getloadavg()[0]
    except (OSError, AttributeError):
        return None
    if load < cpus / 2:
        return None
    return (
        f"This machine is busy (load {load:.1f} on {cpus} CPUs): all that runs on it is slow, and "
        "libraries with several threads most of all\n"
    )
