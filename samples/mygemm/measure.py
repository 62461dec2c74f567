"""Times of kernels and peers that take turns, round after round.

A machine's speed drifts. What is compared is timed in the same round, and a ratio is the median of
the ratios within the rounds.
"""

import os
import time
from contextlib import suppress
from itertools import cycle, islice
from operator import itemgetter
from statistics import fmean, median
from typing import NamedTuple

import pyopencl as cl
from runner import finish

from common.device import type_of
from common.errors import SampleError
from common.timing import Timing, elapsed, stamps

_TURN = 4e-3  # seconds that a turn should take at least: to wait for its end costs 0.1e-3
_SHORT = 0.1  # seconds of a turn to which it matters that cores slept before
_MOST_IN_FLIGHT = 200
_MOST_QUEUES = 8
_NO_TIMES = 0, 0, 0


class Bar:
    """A kernel or a library that takes its turn.

    `launcher(stream)` returns a function that launches it once there; with `events` it returns
    those of its steps. `finish(streams)` waits. What is not `queued` does not run on OpenCL's
    queues, and its launches follow one another whatever the streams. After each turn the round
    pauses for `settle` seconds.
    """

    def __init__(self, name, launcher, finish, events=False, queued=True, settle=0):
        self.name, self.launcher, self._finish = name, launcher, finish
        self._events, self._queued, self.settle = events, queued, settle
        self.error = None  # what ended its turns
        self.announce = lambda: None  # called before each turn
        self.steps = []  # of each turn: the seconds of each step of a launch that is alone
        self._streams, self._launchers = [], []

    def enter(self, stream, launcher=None):
        """Take a further stream. Raises what making a launcher raises."""
        self._launchers.append(launcher or self.launcher(stream))
        self._streams.append(stream)

    def leave(self):
        """Let go of all streams, and of their buffers."""
        self._streams, self._launchers = [], []

    @property
    def queues(self):
        """Over how many command queues its launches are spread; 0 for a library without any."""
        return len(self._streams) if self._queued else 0

    def attempt(self, do, *args):
        """Return what another method returns; None if the bar fails now or has failed before."""
        if self.error:
            return None
        try:
            return do(*args)
        except (SampleError, cl.Error) as error:
            self.error = error.with_traceback(None)  # its frames would keep the buffers
            error.__cause__ = error.__context__ = None
        with suppress(SampleError, cl.Error):
            self._finish(self._streams)  # what it launched is not to run in the turn of another
        return None

    def take(self, in_flight):
        """Launch it `in_flight` times back to back, spread over its streams; return times of one.

        They are queued, wait and run time by the device's clock, the latter from the start of the
        first launch to the end of the last, and the host's time until all are done. A short turn
        is taken twice, and the second time counts: cores that slept are slow at first, whosever
        turn it is. Raises cl.Error for a launch that failed.
        """
        self.announce()
        launches, host = self._launch(in_flight)
        if host < _SHORT:
            launches, host = self._launch(in_flight)
        host /= in_flight
        if not self._events:
            return *_NO_TIMES, host
        marks = _marks(launches)
        # Launches that overlap have steps that wait for cores.
        lone = marks if self.queues == 1 else _marks(self._launch(1)[0])
        if not (marks and lone):
            return *_NO_TIMES, host
        self.steps.append([
            fmean(elapsed(begin, end) for *_, begin, end in step) for step in zip(*lone)
        ])  # fmt: skip
        queued, submit, begin, _ = min((launch[0] for launch in marks), key=itemgetter(2))
        end = max(launch[-1][-1] for launch in marks)
        run = elapsed(begin, end) / in_flight
        return elapsed(queued, submit), elapsed(submit, begin), run, host

    def _launch(self, count):
        """Return what `count` launches return, and the host's seconds until all are done."""
        start = time.perf_counter()
        launches = [launch() for launch in islice(cycle(self._launchers), count)]
        self._finish(self._streams)
        return launches, time.perf_counter() - start


def _marks(launches):
    """Return the stamps of each step of each launch; nothing where a driver leaves some out."""
    for launch in launches:
        for event in launch:
            event.wait()  # it is done; but this raises where it failed
    marks = [[stamps(event) for event in launch] for launch in launches]
    return marks if all(begin and end for steps in marks for *_, begin, end in steps) else []


def of_gemm(name, gemm, args):
    """Return the Bar of a runner.Gemm, with the alpha and beta of the command line."""

    def launcher(stream):
        return gemm.set_up(stream, args.alpha, args.beta).enqueue

    return Bar(name, launcher, finish, events=True)


class Turn(NamedTuple):
    """What a turn is made of: launches back to back, and command queues that they are spread over.

    With several queues launches overlap; the time of one is that of all, divided by their number.
    """

    in_flight: int
    queues: int


def race(bars, stream, args, like=None):
    """Time the bars in turns, from `stream` on; return (their Timings, their Turns) by their names.

    Short ones are launched several times in a turn: on a CPU in as many queues as it has cores,
    since a core that waits for another one falls asleep. `args` are those of the command line;
    `like` is the Turn of another race, to take the same.
    """
    for bar in bars:
        bar.attempt(bar.enter, stream)
    wanted = like or _wanted(bars, stream.queue.device, args)
    queues = 1 + spread(bars, stream, wanted.queues - 1)
    in_flight = wanted.in_flight
    if not (like or args.in_flight):  # at least as many in each queue as one queue needs
        in_flight = min(in_flight * queues, _MOST_IN_FLIGHT) // queues * queues
    times = rounds(bars, args.repeat, args.warmup, in_flight)
    turns = {bar.name: Turn(in_flight, max(bar.queues, 1)) for bar in bars}
    for bar in bars:
        bar.leave()
    return times, turns


def _wanted(bars, device, args):
    """Return the Turn to aim at."""
    in_flight = args.in_flight or enough_in_flight(bars)
    cores = min(device.max_compute_units, _MOST_QUEUES) if type_of(device) == "cpu" else 1
    return Turn(in_flight, min(in_flight, args.queues or cores))


def spread(bars, stream, count):
    """Let the bars enter `count` further streams, or as many as have room; return how many."""
    if not any(bar.queues for bar in bars if not bar.error):
        return 0
    room = stream.queue.device.global_mem_size // 2  # the rest is for A, B and others
    for entered in range(count):
        if (entered + 2) * stream.own_bytes() > room:
            return entered
        try:
            another = stream.beside()
            launchers = [(bar, bar.launcher(another)) for bar in bars if not bar.error]
        except (SampleError, cl.Error):
            return entered
        for bar, launcher in launchers:
            bar.enter(another, launcher)
    return count


def enough_in_flight(bars):
    """Return how many launches back to back make the turn of the fastest bar long enough."""
    return max((_enough(bar) for bar in bars), default=1)


def _enough(bar):
    count, least = 1, _TURN
    while times := bar.attempt(bar.take, count):
        time.sleep(bar.settle)
        least = min(least, times[-1])  # a turn that is disturbed says too little
        enough = min(_MOST_IN_FLIGHT, round(_TURN / least))
        if enough <= count:
            return max(1, enough)
        count = min(2 * count, enough)
    return 1


def rounds(bars, repeat, warmup, in_flight):
    """Return the Timing of each bar by its name; the lists of all go round by round.

    A bar that fails is left out from then on, and has no Timing but an `error`.
    """
    taken = {bar.name: [] for bar in bars}
    for number in range(-warmup, repeat):
        for bar in bars:
            if number == 0:
                bar.steps.clear()
            times = bar.attempt(bar.take, in_flight)
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
