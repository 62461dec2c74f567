"""Pin the clocks of CPU and GPU for a measurement: no governor, one frequency."""

from contextlib import contextmanager

from common.errors import Unsupported, UsageError
from common.machine import sysfs
from common.machine.settings import changed
from common.machine.state import mhz

_GOVERNOR = "performance"
_BY_HAND = "userspace"
_STEADY = 0.005  # two figures for one frequency may differ so much: some files hold whole MHz


@contextmanager
def pinned(kind, hz=None, tree=sysfs.SYSFS, **more):
    """Run a block with the clocks held: every governor `performance`, every clock at its maximum.

    With `hz`, the clocks of `kind` (cpu or gpu) run at that frequency. Restores at the end what
    there was, see common/machine/settings.py. Raises Unsupported where nothing can be pinned,
    UsageError where the frequency is not one of the clock's, or the rights are missing.
    """
    clocks = [clock for clock in sysfs.clocks(tree)
              if any(map(sysfs.text, (clock.least, clock.governor)))]
    if not clocks:
        raise Unsupported("--pin: this machine has no clock that can be set")
    if hz is not None and kind not in {clock.kind for clock in clocks}:
        raise Unsupported(f"--pin: this machine has no {kind} clock that can be set")

    with changed("pin", lambda: plan(clocks, kind, hz), tree, **more):
        yield


def plan(clocks, kind, hz):
    """Return the changes that hold the clocks, see pinned()."""
    return [c for clock in clocks for c in _changes(clock, hz if clock.kind == kind else None)]


def _changes(clock, hz):
    known = (sysfs.text(clock.governors) or _GOVERNOR).split()
    governor = sysfs.text(clock.governor)
    if governor is not None and _GOVERNOR in known:
        # A governor forgets its speed. What is written before it is restored after it.
        speed = sysfs.whole(clock.set_speed) if governor == _BY_HAND else None
        if speed is not None:
            yield clock.set_speed, str(speed)
        yield clock.governor, _GOVERNOR
    most = sysfs.whole(clock.most)
    if most is None or sysfs.whole(clock.least) is None:
        return
    there = clock.frequencies()
    # Mali's old drivers show 0 or -1 for "no lock".
    wanted = clock.in_files(_chosen(clock, hz, there or [most * clock.unit] * (most > 0)))
    # The minimum may never be above the maximum, on the way there and on the way back: first it
    # goes down to where it cannot be in the way.
    yield clock.least, clock.in_files(there[0]) if there else "0"
    yield clock.most, wanted
    yield clock.least, wanted


def _chosen(clock, hz, there):
    if hz is None:
        if not there:
            raise UsageError(f"--pin: {clock.name} does not report its maximum: give --pin MHZ")
        return there[-1]
    near = [f for f in there if abs(f - hz) <= _STEADY * hz]
    if near:
        return near[0]
    # One or no frequency says little, and two are the ends of a range.
    if len(there) < 2 or (len(there) == 2 and there[0] <= hz <= there[1]):
        return hz
    have = ", ".join(mhz(f) for f in there)
    raise UsageError(f"--pin: {clock.name} cannot run at {mhz(hz)}: choose from {have}")
