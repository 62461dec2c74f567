"""Energy of a kernel: power sensors are read while it repeats; idle power is subtracted.

A sensor shows a new value now and then, an INA231 every 0.26 s, and the old one in between. So only
values that are new count, each until the next one comes, and a mean of fewer than FRESH of them is
no measurement.
"""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, field

from common.machine.settings import change, changed

FRESH = 20  # new readings of each sensor that a mean needs at least
_PERIOD = 0.005  # seconds between two looks at the sensors
_SETTLE = 2.0  # seconds until a sensor that was switched on measures


@dataclass
class Mean:
    """The mean power of one sensor: `watts` is None where `samples` new readings were too few."""

    samples: int
    watts: float | None


@dataclass
class _Readings:
    """New values of one sensor, and when they came."""

    sensor: object
    times: list = field(default_factory=list)
    values: list = field(default_factory=list)
    last: float | None = None
    seen: int = 0

    def look(self, now):
        value = self.sensor.read()
        if value is None or value == self.last:
            return
        self.last = value
        self.seen += 1
        # The first value is of before, and the second may be the mean of before and after.
        if self.seen > 2:
            self.times.append(now)
            self.values.append(value)

    def fresh(self):
        """Return how many values there are whose time is known: the last one's is not over."""
        return max(0, len(self.values) - 1)

    def mean(self):
        if self.fresh() < FRESH:
            return Mean(self.fresh(), None)
        pairs = list(zip(self.times, self.times[1:], self.values, self.values[1:]))
        if self.sensor.counts:
            span = (self.sensor.wraps or 0) * self.sensor.unit
            joules = sum(b - a if b >= a else b - a + span for _, _, a, b in pairs)
        else:
            joules = sum((end - start) * value for start, end, value, _ in pairs)
        return Mean(self.fresh(), joules / (self.times[-1] - self.times[0]))


def measure(sensors, work, limit_s):
    """Return the energy of one `work()` by each sensor's name, as a record keeps it.

    `work` runs over and over until every sensor gave FRESH new values, at most `limit_s` seconds;
    so long the machine idles before. Joules are (active - idle power) * seconds of one `work`, or
    None with a `reason`. Sensors that were off are switched off again.
    """
    off = [change(sensor.enable, "1") for sensor in sensors if sensor.off()]
    with changed(off, "--energy") if off else nullcontext():
        time.sleep(_SETTLE * bool(off))
        idle, _, _ = _watch(sensors, lambda: time.sleep(0.02), limit_s)
        active, runs, seconds = _watch(sensors, work, limit_s)
    return {s.name: _energy(idle[s.name], active[s.name], seconds / runs) for s in sensors}


def _watch(sensors, work, limit_s):
    """Repeat `work` while a thread reads the sensors; return (Means by name, runs, seconds)."""
    readings, stop = [_Readings(sensor) for sensor in sensors], threading.Event()

    def follow():
        while not stop.wait(_PERIOD):
            for each in readings:
                each.look(time.perf_counter())

    thread = threading.Thread(target=follow, daemon=True)
    start, runs, seconds = time.perf_counter(), 0, 0.0
    thread.start()
    try:
        while not runs or (seconds < limit_s and any(r.fresh() < FRESH for r in readings)):
            work()
            runs, seconds = runs + 1, time.perf_counter() - start
    finally:
        stop.set()
        thread.join()
    return {each.sensor.name: each.mean() for each in readings}, runs, seconds


def _energy(idle, active, seconds):
    measured = idle.watts is not None and active.watts is not None
    return {
        "idle_w": idle.watts,
        "active_w": active.watts,
        "idle_samples": idle.samples,
        "active_samples": active.samples,
        "joules": (active.watts - idle.watts) * seconds if measured else None,
        "reason": None if measured else "insufficient samples",
    }


def lines(energies):
    """Return a line on each sensor's energy, as measure() returned it; one where there is none."""
    if not energies:
        return ["this machine has no readable power sensor"]
    texts = []
    for name, e in energies.items():
        if e["joules"] is None:
            counts = f"{e['idle_samples']} idle and {e['active_samples']} active"
            texts.append(f"{name}: insufficient samples ({counts}, {FRESH} are needed)")
        else:
            power = f"{e['active_w']:.3g} W less {e['idle_w']:.3g} W idle"
            count = min(e["idle_samples"], e["active_samples"])
            texts.append(f"{name}: {e['joules']:.3g} J per launch ({power}, {count} samples)")
    return texts
