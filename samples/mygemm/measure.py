"""Times of kernels and peers that take turns, round after round.

A machine's speed drifts. What is compared is timed in the same round, and a ratio is the median of
the ratios within the rounds.
"""

import os
import time
from operator import itemgetter
from statistics import fmean, median
from typing import NamedTuple

import pyopencl as cl
from runner import finish

from common.device import type_of
from common.errors import SampleError
from common.timing import Timing, elapsed, stamps

SETTLE = 0.15  # seconds for which a host BLAS's threads spin on, and slow what comes next
_TURN = 4e-3  # seconds that a turn should take at least: to wait for its end costs 0.1e-3
_MOST_IN_FLIGHT = 200
_MOST_LANES = 8


class Bar:
    """A kernel or a library that takes its turn.

    `launcher(lane)` returns a function that launches it once in a lane; with `events` that returns
    those of its steps. `finish(lanes)` waits. After each turn the round pauses for `settle`
    seconds.
    """

    def __init__(self, name, launcher, finish, events=False, settle=0):
        self.name, self._launcher, self._finish = name, launcher, finish
        self._events, self.settle = events, settle
        self.error = None  # what ended its turns
        self.steps = []  # of each turn: the seconds of each step of a launch
        self._lanes, self._launchers = [], []

    def enter(self, lane):
        """Take a further lane. Raises what the launcher raises."""
        self._launchers.append(self._launcher(lane))
        self._lanes.append(lane)

    def leave(self):
        """Let go of all lanes, and of their buffers."""
        self._lanes, self._launchers = [], []

    def try_to(self, do, *args):
        """Return what one of the other methods returns; None if the bar fails now or has before."""
        try:
            return None if self.error else do(*args)
        except (SampleError, cl.Error) as error:
            self.error = error
            return None

    def take(self, in_flight):
        """Launch it `in_flight` times back to back, spread over its lanes; return the times of one.

        They are queued, wait and run time by the device's clock, the latter from the start of the
        first launch to the end of the last, and the host's time until all are done. Short ones are
        launched twice, and the second time counts: cores that slept are slow at first, whosever
        turn it is.
        """
        every = [self._launchers[n % len(self._lanes)] for n in range(in_flight)]
        for _ in range(1 if in_flight == 1 else 2):
            start = time.perf_counter()
            launches = [launch() for launch in every]
            self._finish(self._lanes)
        host = (time.perf_counter() - start) / in_flight
        if not self._events:
            return 0, 0, 0, host
        marks = [[stamps(event) for event in launch] for launch in launches]
        self.steps.append([
            fmean(elapsed(begin, end) for *_, begin, end in step) for step in zip(*marks)
        ])  # fmt: skip
        queued, submit, begin, _ = min((launch[0] for launch in marks), key=itemgetter(2))
        end = max(launch[-1][-1] for launch in marks)
        run = elapsed(begin, end) / in_flight
        return elapsed(queued, submit), elapsed(submit, begin), run, host


def of_gemm(name, gemm, args):
    """Return the Bar of a runner.Gemm, with the alpha and beta of the command line."""

    def launcher(lane):
        return gemm.set_up(lane, args.alpha, args.beta).enqueue

    return Bar(name, launcher, finish, True)


class Rounds(NamedTuple):
    """What rounds were like: launches in a turn, and lanes that these were spread over."""

    in_flight: int
    lanes: int


def race(bars, lane, args):
    """Time the bars in turns; return (their Timings by their names, the Rounds).

    Short ones are launched several times in a turn: on a CPU in as many lanes as it has cores,
    since a core that waits for another one falls asleep. `args` are those of the command line,
    `lane` the one to begin with.
    """
    for bar in bars:
        bar.try_to(bar.enter, lane)
    in_flight = args.in_flight or enough_in_flight(bars)
    device = lane.queue.device
    cores = min(device.max_compute_units, _MOST_LANES) if type_of(device) == "cpu" else 1
    lanes = [lane]
    while len(lanes) < min(in_flight, args.queues or cores):
        lanes.append(lane.beside())
        for bar in bars:
            bar.try_to(bar.enter, lanes[-1])
    times = rounds(bars, args.repeat, args.warmup, in_flight)
    for bar in bars:
        bar.leave()
    return times, Rounds(in_flight, len(lanes))


def enough_in_flight(bars):
    """Return how many launches back to back hide what a single launch costs the fastest bar."""
    turns = [bar.try_to(bar.take, 1) for bar in bars for _ in range(2)]
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
            times = bar.try_to(bar.take, in_flight)
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
