"""Run a kernel back to back for minutes: its rate over time, with clocks and temperatures.

A board that is quick for a second may be slow after ten minutes: it becomes hot, and its clocks go
down. The duration is split into PARTS; each gives one value, so that a record stays small.
"""

import signal
import time
from collections import deque
from contextlib import contextmanager
from itertools import chain
from statistics import fmean, median

import pyopencl as cl

from common import stopping, timing
from common.errors import SampleError
from common.machine import state
from common.stats import spread
from common.text import figures, one_line

PARTS = 200
_IN_FLIGHT = 2  # launches that the device has, so that it does not wait for the host
_LOOK_EVERY = 1.0  # seconds between two looks at the machine's state, at least
_COMPARED = 60.0  # seconds at the start and at the end, or a tenth of all where that is less
_SLOWER = 0.03  # of the rate: a smaller difference is not one
_SHOWN = ("clocks_hz", "temperatures_c", "power_w")
RULE = (
    f"slower: the median rate at the end is more than {_SLOWER:.0%} below that at the start, and "
    "its 90th percentile is below the 10th percentile of the start; throttled: the device's clock "
    f"was also more than {state.CLOCK_TOLERANCE:.0%} lower at the end, on average"
)


class Run:
    """What run() measured, and in `error` what ended it early, or None. The timing is by part."""

    def __init__(self, asked, warmup):
        self.asked, self.seconds, self.launches, self.error = asked, 0.0, 0, None
        self.at, self.states = [], []  # seconds; (seconds, state)
        self.times = timing.Timing([], [], [], [], warmup)

    def add(self, part, seconds):
        """Add a part: the (queued, wait, run) of its launches; it ended after `seconds`."""
        lists = self.times.queued_s, self.times.wait_s, self.times.run_s
        for values, stage in zip(lists, zip(*part)):
            values.append(median(stage))
        self.times.host_s.append((seconds - self.seconds) / len(part))
        self.at.append(seconds)
        self.seconds, self.launches = seconds, self.launches + len(part)

    @property
    def reason(self):
        """Why it ended early, as a text, or None."""
        if self.error is None:
            return None
        stopped = isinstance(self.error, KeyboardInterrupt)
        what = "stopped" if stopped else f"failed: {one_line(self.error)};"
        return f"{what} after {self.seconds:.0f} s of {self.asked} s"


def run(enqueue, seconds, warmup, tree):
    """Launch a kernel back to back for so many seconds; return the Run.

    `enqueue` launches it once and returns its event, or those of its steps. The Timing has a value
    for each part: medians of its launches, but host_s is the whole part divided by their number.
    `tree` is /sys. Ctrl-C, SIGTERM or an error of OpenCL end it early; an error before the end of
    the first launch goes through.
    """
    for _ in range(warmup):
        timing.wait(enqueue())
    found, part, flying = Run(seconds, warmup), [], deque()
    with _stoppable() as stops:
        found.states.append((0.0, state.now(tree)))
        width, now = seconds / PARTS, 0.0
        start, ends = time.perf_counter(), width
        try:
            while flying or now < seconds:
                while len(flying) < _IN_FLIGHT and now < seconds:
                    flying.append(enqueue())
                part.append(timing.spans(timing.wait(flying.popleft())))
                now = time.perf_counter() - start
                if stops:
                    raise stops[0]
                # Short launches that are still under way at the very end are of the last part.
                if now >= ends and (now < seconds or not flying or len(part) == 1):
                    found.add(part, now)
                    part, ends = [], (now // width + 1) * width
                    if now - found.states[-1][0] >= _LOOK_EVERY:  # it takes some milliseconds
                        found.states.append((now, state.now(tree)))
        except (KeyboardInterrupt, SampleError, cl.Error) as error:
            if not (found.at or part):
                raise
            found.error = error.with_traceback(None)
        if part:
            found.add(part, now)
        found.states.append((now, state.now(tree)))
    return found


@contextmanager
def _stoppable():
    """Give a list that gets a Stopped at the first Ctrl-C or SIGTERM; the others are ignored."""
    stops = []

    def stop(number, _):
        for each in stopping.NUMBERS:  # both processes of a sample get it, and pass it on
            signal.signal(each, signal.SIG_IGN)
        stops.append(stopping.Stopped(number))

    before = {number: signal.signal(number, stop) for number in stopping.NUMBERS}
    try:
        yield stops
    finally:
        if not stops:
            for number, handler in before.items():
                signal.signal(number, handler)


def summary(found, amount, unit, kind):
    """Return what a record keeps of a Run: its metric `sustained`, and the machine meanwhile.

    `amount` of the `unit` is what one launch does; `kind` is the device's type, whose clock counts.
    """
    times = found.times.seconds()
    rates = [amount / seconds for seconds in times]
    span = min(_COMPARED, found.seconds / 10)
    first = spread([rate for at, rate in zip(found.at, rates) if at <= found.at[0] + span])
    last = spread([rate for at, rate in zip(found.at, rates) if at >= found.seconds - span])
    verdict, why = _verdict(first, last, found.states, span, kind)
    states = {"at_s": _rounded(at for at, _ in found.states)}
    for group in _SHOWN:
        shown = [each[group] for _, each in found.states]
        names = sorted({*chain(*shown)})
        states[group] = {name: [each.get(name) for each in shown] for name in names}
    return {
        "seconds": found.seconds, "launches": found.launches, "unit": unit, "rule": RULE,
        "busy": min(1.0, found.launches * median(times) / found.seconds),
        "first": first.median, "last": last.median, "ratio": last.median / first.median,
        "verdict": verdict, "why": why, "at_s": _rounded(found.at), "rates": rates,
        "states": states,
    }, {
        "before": found.states[0][1], "during": [], "after": found.states[-1][1],
        "throttled": [f"{verdict}: {why}"] if verdict == "throttled" else [],
    }


def _rounded(seconds):
    return [round(each, 3) for each in seconds]


def _verdict(first, last, states, span, kind):
    """Return whether the rate is `steady`, `slower` or `throttled` at the end, and why, by RULE."""
    change = last.median / first.median - 1
    side = "below" if change < 0 else "above"
    why = f"the rate at the end is {abs(change):.1%} {side} that at the start"
    if change >= -_SLOWER:
        return "steady", why
    if last.high >= first.low:
        return "steady", f"{why}; their spreads overlap"
    if fallen := _fallen(states, span, kind):
        return "throttled", f"{why}, and {', '.join(fallen)}"
    known = any(name.startswith(f"{kind} ") for name in states[0][1]["clocks_hz"])
    clock = "the device's clock was not lower" if known else "the device's clock is not known"
    return "slower", f"{why}; {clock}"


def _fallen(states, span, kind):
    """Return a text on each clock of the kind that was lower in the last seconds than at first."""
    texts, end = [], states[-1][0]
    for name in states[0][1]["clocks_hz"]:
        seen = [(at, hz) for at, each in states
                if (hz := each["clocks_hz"].get(name)) is not None]
        # The very first look is from before there was load.
        first = [hz for at, hz in seen[1:] if at <= span + _LOOK_EVERY]
        last = [hz for at, hz in seen[:-1] if at >= end - span - _LOOK_EVERY]
        lower = first and last and fmean(last) < (1 - state.CLOCK_TOLERANCE) * fmean(first)
        if name.startswith(f"{kind} ") and lower:
            texts.append(f"{name} went from {state.mhz(fmean(first))} to {state.mhz(fmean(last))}")
    return texts


def lines(sustained):
    """Return the lines that tell a person what summary() found."""
    first, last = figures(sustained["first"]), figures(sustained["last"])
    hottest = [(max(known), name) for name, shown in sustained["states"]["temperatures_c"].items()
               if (known := [celsius for celsius in shown if celsius is not None])]
    heat = f", at most {max(hottest)[0]:.0f} degrees ({max(hottest)[1]})" if hottest else ""
    count, seconds = sustained["launches"], sustained["seconds"]
    return [
        f"Sustained:      {first} at first, {last} {sustained['unit']} at the end of {seconds:.0f} "
        f"s, {count} launches, which ran for {sustained['busy']:.0%} of the time{heat}",
        f"{sustained['verdict'].capitalize() + ':':<16}{sustained['why']}",
    ]
