"""Interleaved timing of kernels and libraries: each round times every contender once.

A machine's speed drifts. What is compared is timed in the same round, and a ratio is the median of
the ratios within the rounds.
"""

import time
from contextlib import nullcontext, suppress
from itertools import chain, cycle, islice
from operator import itemgetter
from statistics import fmean, median
from typing import NamedTuple

import pyopencl as cl

from common.device import type_of
from common.errors import SampleError
from common.flush import flusher
from common.machine import cores
from common.text import listed
from common.timing import Timing, elapsed, require_complete, settle, stamps

FAILURES = (SampleError, cl.Error, MemoryError)  # what ends a launch
_LONG = 4e-3  # seconds that a sample should take at least: to wait for its end costs 0.1e-3
SHORT = 0.1  # seconds of a sample to which it matters that cores slept before
AWAKE = 0.05  # seconds of launches after which the threads of a driver have a core each
_MOST_IN_FLIGHT = 200
_MOST_QUEUES = 8
_TRIALS = 3  # samples in one queue, and in several, of which the best counts
_GAIN = 0.95  # of the time in several queues: one queue is taken if its time is less


def finish(streams):
    """Wait until all launches in the streams' queues are done."""
    for stream in streams:
        stream.queue.flush()
    for stream in streams:
        stream.queue.finish()


class Contender:
    """A kernel or a library that is timed beside others.

    `launcher(stream)` returns a function that launches it once in that stream; with `events` it
    returns those of its steps. A stream has a `queue`, and whatever else the launcher wants of it.
    With `bare` the host's time is that of launches in stream.bare(), whose queue takes no times: on
    some GPUs, taking them delays each launch. `finish(streams)` waits. What is not `queued` does
    not run on OpenCL's queues, and its launches follow one another whatever the streams.
    """

    def __init__(self, name, launcher, finish=finish, events=False, queued=True, bare=False):
        self.name, self.launcher, self.finish = name, launcher, finish
        self._events, self._queued, self._bare = events, queued, bare
        self.error = None  # what ended its samples
        self.announce = lambda: None  # called before each attempt
        self.failed = lambda error: None  # called with the error of one that fails
        self.flush = lambda: None  # called before its launches, outside of their times
        self.steps = []  # of each sample: the seconds of each step of a launch that is alone
        self.leave()

    def enter(self, stream, launcher=None):
        """Take a further stream. Raises what making a launcher raises."""
        self._entered.append((stream, launcher or self.launcher(stream)))
        if self._bare:
            bare = stream.bare()
            self._bare_entered.append((bare, self.launcher(bare)))

    def choose_queues(self, in_flight):
        """Keep all streams, or the first alone where launches take longer if they overlap.

        Two launches that overlap may keep a core each, and the caches of a core then hold half of
        what one launch on both cores would find there.
        """
        every, times = self._entered, ([], [])
        for _ in range(_TRIALS):
            for streams, taken in zip((every[:1], every), times):
                self._entered = streams
                taken.append(self.sample(in_flight)[-1])
        of_one, of_all = map(min, times)
        self._entered = every[:1] if of_one < _GAIN * of_all else every

    def rest(self):
        """Wait until the threads of a library are at rest; return whether there are any."""
        if not self._queued:
            settle()
        return not self._queued

    def leave(self):
        """Let go of all streams, and of their buffers."""
        self._entered, self._bare_entered = [], []  # pairs of a stream and its launcher

    @property
    def queues(self):
        """The number of command queues for its launches; 0 for a library that uses none."""
        return len(self._entered) if self._queued else 0

    def attempt(self, do, *args):
        """Return `do(*args)`, or None if the contender fails now or has failed before."""
        if self.error:
            return None
        self.announce()
        try:
            return do(*args)
        except FAILURES as error:
            self.error = error.with_traceback(None)  # its frames would keep the buffers
            error.__cause__ = error.__context__ = None
        with suppress(*FAILURES):
            # What it launched is not to run in the sample of another.
            self.finish([stream for stream, _ in (*self._entered, *self._bare_entered)])
        self.failed(self.error)
        return None

    def sample(self, in_flight, awake=0):
        """Launch it `in_flight` times back to back, spread over its streams; return times of one.

        They are queued, wait and run time by the device's clock, the latter from the start of the
        first launch to the end of the last, and the host's time until all are done. With `bare` the
        run time is the host's if that is less: taking times may delay launches. A short sample is
        taken twice, and the second time counts: cores that slept are slow at first, whatever
        ran on them. It is repeated for `awake` seconds: an operating system may wake two threads
        on one core, and leave them there a while. Raises cl.Error for a launch that failed.
        """
        launches, host = self._launch(in_flight)
        spent, again = host, host < SHORT
        while again:
            launches, host = self._launch(in_flight)
            spent += host
            again = spent < awake
        if self._bare:
            host = self._launch(in_flight, self._bare_entered)[1]
        host /= in_flight
        if not self._events:
            return 0, 0, 0, host
        marks = _marks(launches)
        # Launches that overlap have steps that wait for cores.
        lone = marks if self.queues == 1 else _marks(self._launch(1)[0])
        if not (marks and lone):
            return 0, 0, 0, host
        self.steps.append([
            fmean(elapsed(begin, end) for *_, begin, end in step) for step in zip(*lone)
        ])
        queued, submit, begin, _ = min((launch[0] for launch in marks), key=itemgetter(2))
        end = max(launch[-1][-1] for launch in marks)
        run = elapsed(begin, end) / in_flight
        if self._bare:  # the device took no longer than the host waited
            run = min(run, host)
        return elapsed(queued, submit), elapsed(submit, begin), run, host

    def _launch(self, count, entered=None):
        """Return what `count` launches return, and the host's seconds until all are done."""
        entered = entered or self._entered
        self.flush()
        with cores.beside_workers() if self._queued else nullcontext():
            start = time.perf_counter()
            launches = [launch() for _, launch in islice(cycle(entered), count)]
            self.finish([stream for stream, _ in entered])
            return launches, time.perf_counter() - start


def _marks(launches):
    """Return the stamps of each step of each launch; nothing where a driver leaves some out."""
    require_complete(launches[-1][-1])
    for event in chain(*launches):
        event.wait()  # it is done; but this raises where it failed
    marks = [[stamps(event) for event in launch] for launch in launches]
    return marks if all(begin and end for steps in marks for *_, begin, end in steps) else []


class Launches(NamedTuple):
    """What a sample is made of: launches back to back, and queues that they are spread over.

    With several queues launches overlap; the time of one is that of all, divided by their number.
    """

    in_flight: int
    queues: int


def measure(contenders, stream, repeat, warmup, in_flight=None, queues=None, caches="warm",
            between=lambda: None):
    """Time the contenders, from `stream` on; return (their Timings, their Launches) by their names.

    Short ones are launched several times in a sample, `in_flight` times if that is given, in
    `queues` command queues. Without a number, those of each contender are in one queue, or on a CPU
    in as many as it has cores if that is faster: in one queue a core that waits for another one
    falls asleep. stream.beside() gives a further stream, stream.own_bytes() tells its memory.
    With `caches` flushed each launch is timed alone. `between` is called before each timed round.
    """
    flush = flusher(stream.queue, caches)
    if caches == "flushed":
        in_flight = queues = 1
    for each in contenders:
        each.attempt(each.enter, stream)
        each.flush = flush
        if not each.queues and caches == "flushed":
            # The threads of Intel's CPU driver spin for a millisecond after the flush.
            each.flush = lambda: (flush(), settle())
    device = stream.queue.device
    most = min(device.max_compute_units, _MOST_QUEUES) if type_of(device) == "cpu" else 1
    enough = [in_flight or enough_in_flight(each) for each in contenders]
    count = max(enough)
    spread = 1 + _spread(contenders, stream, min(count, queues or most) - 1)
    if not in_flight:  # at least as many in each queue as one queue needs
        count = min(count * spread, _MOST_IN_FLIGHT) // spread * spread
    for each, own in zip(contenders, enough):
        if each.queues > 1 and not queues:
            each.attempt(each.choose_queues, -(-own // spread) * spread)
    awake = AWAKE if caches == "warm" else 0
    times = rounds(contenders, repeat, warmup, count, awake, between)
    launches = {each.name: Launches(count, max(each.queues, 1)) for each in contenders}
    for each in contenders:
        each.leave()
    return times, launches


def _spread(contenders, stream, count):
    """Let all enter `count` further streams, or as many as have room; return how many."""
    if not any(each.queues for each in contenders if not each.error):
        return 0
    room = stream.queue.device.global_mem_size // 2  # the rest is for A, B and others
    count = min(count, room // stream.own_bytes() - 1)
    for entered in range(count):
        try:
            another = stream.beside()
            launchers = [(each, each.launcher(another)) for each in contenders if not each.error]
        except FAILURES:
            return entered
        for each, launcher in launchers:
            each.enter(another, launcher)
    return max(count, 0)


def enough_in_flight(contender):
    """Return how many launches back to back make a sample of it long enough."""
    count, least = 1, _LONG
    while times := contender.attempt(contender.sample, count):
        contender.rest()
        least = min(least, times[-1])  # a sample that is disturbed says too little
        enough = min(_MOST_IN_FLIGHT, round(_LONG / least))
        if enough <= count:
            return max(1, enough)
        count = min(2 * count, enough)
    return 1


def rounds(contenders, repeat, warmup, in_flight, awake=0, between=lambda: None):
    """Return the Timing of each contender by its name; the lists of all go round by round.

    What follows a library, which is given time to rest, is launched for `awake` seconds first. One
    that fails is left out from then on, and has no Timing but an `error`. `between` is called
    before each round that counts.
    """
    taken, rested = {each.name: [] for each in contenders}, False
    for number in range(-warmup, repeat):
        if number >= 0:
            between()
        for each in contenders:
            if number == 0:
                each.steps.clear()
            times = each.attempt(each.sample, in_flight, rested * awake)
            if times and number >= 0:
                taken[each.name].append(times)
            rested = each.rest()
    whole = (each.name for each in contenders if each.error is None)
    return {name: Timing(*map(list, zip(*taken[name])), warmup) for name in whole}


def ratio(times, other):
    """Return how many times as fast as `other`: median over the rounds, by the host's clock."""
    return median(b / a for a, b in zip(times.host_s, other.host_s))


def remarks(launches, libraries):
    """Return the lines that say what a time is made of, where it is not that of one launch.

    `launches` are Launches by name; `libraries` names those that are no kernels.
    """
    count, queues = (max(counts) for counts in zip(*launches.values()))
    lines = []
    if count > 1:
        lines.append(f"Each time is that of {count} launches back to back, divided by {count}.")
    if queues > 1:
        overlap = [name for name, of in launches.items() if of.queues > 1]
        others = [name for name in launches if name not in overlap]
        what = "Launches"
        if {*others} <= {*libraries}:  # there may be many kernels
            what, overlap = "Calls", ["kernels", *(name for name in overlap if name in libraries)]
        lines.append(f"Launches of {listed(overlap)} overlap: they are in {queues} command "
                     "queues, each with a C of its own.")
        if others:
            lines.append(f"{what} of {listed(others)} run back to back.")
    return lines
