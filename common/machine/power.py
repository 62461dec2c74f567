"""Energy of a kernel: power sensors are read while it repeats; idle power is subtracted.

A sensor shows a new value now and then, an INA231 every 0.26 s, and the old one in between. So only
values that are new count, each until the next one comes, and a mean of fewer than FRESH of them is
no measurement. Nor is power at work that idle power also reaches: the ranges from the 10th to the
90th percentile must be apart.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import nullcontext
from typing import NamedTuple

from common import stats
from common.machine import sysfs
from common.machine.settings import by_helper, changed
from common.machine.sysfs import SYSFS
from common.text import figures

LIMIT = 15.0  # seconds that a sensor has for its readings
FRESH = 20  # new readings of each sensor that a mean needs at least
_PERIOD = 0.005  # seconds between two looks at the sensors
SETTLE = 2.0  # seconds until a sensor that was switched on measures
_CLOSED = "only root may read it: see docs/boards.md, Rights"


class Mean(NamedTuple):
    """The mean power of one sensor: `watts` is None where `samples` new readings were too few.

    `spread` has the 10th and the 90th percentile of the readings, `interval` the seconds from one
    to the next.
    """

    samples: int
    watts: float | None = None
    spread: tuple = (None, None)
    interval: float | None = None


class Readings:
    """New values of one sensor, and when they came."""

    def __init__(self, sensor):
        self.sensor, self.times, self.values = sensor, [], []

    def look(self, now):
        """Read the sensor, and keep a new value; `now` is the time in seconds."""
        value = self.sensor.read()
        if value is not None and [value] != self.values[-1:]:
            self.times.append(now)
            self.values.append(value)

    def fresh(self):
        """Return how many values count.

        The first one is of before, the second may be the mean of before and after, and the time of
        the last one is not over.
        """
        return max(0, len(self.values) - 3)

    def mean(self):
        """Return the Mean of the values that count."""
        if self.fresh() < FRESH:
            return Mean(self.fresh())
        times, values = self.times[2:], self.values[2:]
        pairs = list(zip(times, times[1:], values, values[1:]))
        if self.sensor.counts:
            span = (self.sensor.wraps or 0) * self.sensor.unit
            joules = [b - a if b >= a else b - a + span for _, _, a, b in pairs]
            watts = [each / (end - start) for each, (start, end, *_) in zip(joules, pairs)]
        else:
            joules = [(end - start) * value for start, end, value, _ in pairs]
            watts = values
        seconds = times[-1] - times[0]
        spread = stats.spread(watts)
        return Mean(self.fresh(), sum(joules) / seconds, (spread.low, spread.high),
                    seconds / self.fresh())


def measure(work, amount, unit, limit_s=LIMIT, tree=SYSFS):
    """Return the energy of one `work()` by each sensor's name, as a record keeps it.

    `work` runs over and over until every sensor gave FRESH new values, at most `limit_s` seconds;
    so long the machine idles before. Joules are (active - idle power) * seconds of one `work`, or
    None with a `reason`. `amount` is what one `work` does: <unit>_per_watt is amount / joules.
    Sensors that were off are switched off again, and those that root alone may read are so again.
    """
    sensors, closed = sysfs.sensors(tree), []
    if os.geteuid() and not by_helper(tree):
        closed = [sensor for sensor in sensors if sensor.locked()]
    sensors = [sensor for sensor in sensors if sensor not in closed]
    changes = [(sensor.enable, "1") for sensor in sensors if sensor.off()]
    settling = SETTLE * bool(changes)
    changes += [(sensor.path, "444") for sensor in sensors if sensor.locked()]
    with changed("energy", lambda: changes, tree) if changes else nullcontext():
        time.sleep(settling)
        idle, _, _ = _watch(sensors, lambda: time.sleep(0.02), limit_s)
        active, runs, seconds = _watch(sensors, work, limit_s)
    found = {s.name: _energy(idle[s.name], active[s.name], seconds / runs, amount, unit)
             for s in sensors}
    return {**found, **{s.name: {"joules": None, "reason": _CLOSED} for s in closed}}


def _watch(sensors, work, limit_s):
    """Repeat `work` while a thread reads the sensors; return (Means by name, runs, seconds)."""
    readings, ended = [Readings(sensor) for sensor in sensors], threading.Event()

    def look():
        while not ended.wait(_PERIOD):
            for each in readings:
                each.look(time.perf_counter())

    thread = threading.Thread(target=look, daemon=True)
    start, runs, seconds = time.perf_counter(), 0, 0.0
    thread.start()
    try:
        while not runs or (seconds < limit_s and any(r.fresh() < FRESH for r in readings)):
            work()
            runs, seconds = runs + 1, time.perf_counter() - start
    finally:
        ended.set()
        thread.join()
    return {each.sensor.name: each.mean() for each in readings}, runs, seconds


def _energy(idle, active, seconds, amount, unit):
    reason = None
    if idle.watts is None or active.watts is None:
        reason = "insufficient samples"
    elif min(active.watts, active.spread[0]) <= max(idle.watts, idle.spread[1]):
        reason = "the power under load does not differ from the idle power"
    found = {
        "idle_w": idle.watts, "active_w": active.watts, "active_spread_w": active.spread,
        "idle_samples": idle.samples, "active_samples": active.samples,
        "interval_s": active.interval, "joules": None, "reason": reason,
    }
    if not reason:
        low, high = (watts - idle.watts for watts in active.spread)
        found["joules"] = (active.watts - idle.watts) * seconds
        found[f"{unit}_per_watt"] = amount / found["joules"]
        found["spread_per_watt"] = [amount / seconds / watts for watts in (high, low)]
    return found


def lines(energies, unit, shown):
    """Return a line on each sensor's energy, as measure() returned it; one where there is none.

    `shown` is the text of the unit, such as GFLOPS.
    """
    if not energies:
        return ["this machine has no readable power sensor"]
    return [f"{name}: {_text(energy, unit, shown)}" for name, energy in energies.items()]


def _text(e, unit, shown):
    if "idle_w" not in e:
        return e["reason"]
    if e["active_w"] is None or e["idle_w"] is None:
        counts = f"{e['idle_samples']} idle and {e['active_samples']} active"
        return f"{e['reason']} ({counts}, {FRESH} are needed)"
    power = f"{e['active_w']:.3g} W less {e['idle_w']:.3g} W idle"
    if e["reason"]:
        return f"{e['reason']} ({power})"
    count = min(e["idle_samples"], e["active_samples"])
    low, high = map(figures, e["spread_per_watt"])
    rate = f"{figures(e[f'{unit}_per_watt'])} {shown} per watt (spread {low} to {high})"
    return f"{e['joules']:.3g} J per launch ({power}, {count} samples), {rate}"
