"""The machine and its state."""

import os
import platform
import time
from pathlib import Path

from common.machine import cores, identity, sysfs
from common.machine.sysfs import SYSFS

# What a reading may differ by before the machine counts as changed. Clocks that are locked still
# show a percent of jitter; sensors jump by a few degrees as soon as there is load.
CLOCK_TOLERANCE = 0.02
TEMPERATURE_TOLERANCE = 5.0  # degrees Celsius
_TOLD = 3  # changes in a line
_LOOK_EVERY = 0.1  # seconds from one look at the machine's state to the next
# Prefixes of environment variables that affect libraries, and of those that affect drivers as well.
OF_LIBRARIES = (
    "OMP_", "KMP_", "GOMP_", "OPENBLAS_", "GOTO_", "MKL_", "BLIS_", "ARMPL_", "NVIDIA_TF32_")
_SETTINGS = (
    *OF_LIBRARIES, "POCL_", "OCL_", "CL_", "RUSTICL_", "MALI_", "CUDA_", "DPCPP_", "SYCL_")


def environment(tree=SYSFS):
    """Return what a record keeps of the machine: plain data. `tree` stands for /sys."""
    machine = os.uname()
    return {
        "host": machine.nodename,
        "machine": machine.machine,
        "kernel": f"{machine.sysname} {machine.release}",
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "cores": cores.named(),
        "board": identity.board(),
        "governors": sysfs.governors(tree),
        "variables": settings(os.environ),
    }


def settings(variables, prefixes=_SETTINGS):
    """Return the environment variables whose names begin with one of `prefixes`, except paths.

    By default they affect drivers and libraries.
    """
    return {
        name: value
        for name, value in sorted(variables.items())
        if name.startswith(prefixes) and "/" not in value
    }


def now(tree=SYSFS):
    """Return the present clocks in Hz, temperatures in Celsius, power in watts, joules counted.

    Of joules only differences mean much.
    """
    read = [(s, s.read()) for s in sysfs.sensors(tree) if not s.off()]
    return {
        "clocks_hz": {f"{clock.kind} {clock.name}": clock.hz() for clock in sysfs.clocks(tree)},
        "temperatures_c": sysfs.temperatures(tree),
        "power_w": {s.name: w for s, w in read if w is not None and not s.counts},
        "energy_j": {s.name: j for s, j in read if j is not None and s.counts},
    }


class Watch:
    """The states of the machine during a measurement."""

    def __init__(self, tree=SYSFS):
        self._tree, self._states, self._looked = tree, [], float("-inf")

    def look(self):
        """Keep the present state: the first time, the second time, then now and again."""
        if not self._states:
            self._states.append(now(self._tree))
        elif time.monotonic() - self._looked > _LOOK_EVERY:
            self._states.append(now(self._tree))
            self._looked = time.monotonic()

    def end(self):
        """Return what a record keeps: the states `before`, `during` and `after`, and `throttled`,
        what changed between them."""
        before, *during = self._states
        after = now(self._tree)
        changes = moved([before, *during, after])
        return {"before": before, "during": during, "after": after, "throttled": changes}


def moved(states):
    """Return what changed between the states, as texts; what is measured then is `throttled`.

    Compared are the extremes of each clock and each temperature over all of `states`.
    """
    texts = []
    for name, low, high in _extremes(states, "clocks_hz"):
        if high - low > CLOCK_TOLERANCE * high:
            texts.append(f"{name} ran at {mhz(low)} to {mhz(high)}")
    for name, low, high in _extremes(states, "temperatures_c"):
        if high - low > TEMPERATURE_TOLERANCE:
            texts.append(f"{name} went from {low:.0f} to {high:.0f} degrees")
    return texts


def told(texts):
    """Return one line on what moved() returned, or None of nothing."""
    more = f", and {len(texts) - _TOLD} more" if len(texts) > _TOLD else ""
    return f"{', '.join(texts[:_TOLD])}{more}" if texts else None


def _extremes(states, group):
    for name in sorted({name for each in states for name in each[group]}):
        values = [each[group][name] for each in states if each[group].get(name) is not None]
        if values:
            yield name, min(values), max(values)


def mhz(hz):
    """Return a frequency as a person reads it: 600 MHz."""
    return f"{hz / 1e6:.4g} MHz" if hz < 1e10 else f"{hz / 1e6:.0f} MHz"


def line(state):
    """Return one line on what now() returned."""
    parts = [f"{name} {mhz(hz)}" for name, hz in state["clocks_hz"].items() if hz is not None]
    parts += [f"{name} {value:.0f} degrees" for name, value in state["temperatures_c"].items()]
    parts += [f"{name} {watts:.3g} W" for name, watts in state["power_w"].items()]
    return ", ".join(parts) or "this machine reports no clocks, temperatures or power"


def busy(path="/proc/loadavg"):
    """Return a line that says that others use this machine's CPUs, or None.

    The load of the last minute counts earlier runs of one's own, too: so another thread, beside
    this one, must run now.
    """
    cpus = os.cpu_count() or 1
    try:
        load, _, _, threads, _ = Path(path).read_text().split()
    except (OSError, ValueError):  # no Linux
        return None
    if float(load) < cpus / 2 or int(threads.split("/")[0]) < 2:
        return None
    return (
        f"This machine is busy (load {load} on {cpus} CPUs): what runs on them takes longer, "
        "most of all what has several threads"
    )
