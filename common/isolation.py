"""A sample works in a child process, so that a driver that crashes costs one kernel.

The parent loads no driver. It waits for the child. Where a signal ended the child, the parent
records the kernel that was at work, and starts another child for what is left. The progress is in
memory that both share, and that a crash leaves as it was.
"""

import ctypes
import json
import mmap
import os
import signal
import sys
from contextlib import suppress

from common.errors import INTERRUPTED, OPENCL_FAILURE, STOPPED, worst

_ROOM = 1 << 20  # bytes for the progress
_LOST = 70  # exit status of a child whose device does not answer any more
_GRACE = 5  # seconds that a child has to end after a signal; in a driver it may never look up
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Progress:
    """Which kernels are done, which one is at work, and which ones crashed the driver.

    A kernel is named by its variant, and by its size where a run has several.
    """

    def __init__(self):
        self._memory = mmap.mmap(-1, _ROOM)
        self._state = {"at": None, "doing": "starting", "done": [], "statuses": [], "end": None}
        self.crashed = {}  # (variant, size): the reason
        self.isolated = False  # whether this is a child, whose parent starts another one
        self._write()

    def each(self, variants):
        """Yield the variants that are still to run, and note each as at work, then as done."""
        for variant in variants:
            if not self.is_done(variant) and (variant, None) not in self.crashed:
                self.at(variant, "running")
                yield variant
                self.done(variant)

    def now(self, doing):
        """Note what happens now, where it is of no single kernel."""
        self._state.update(at=None, doing=doing)
        self._write()

    def at(self, variant, doing, size=None):
        """Note what happens now: `doing` is such as `building`."""
        self._state.update(at=[variant, size], doing=doing)
        self._write()

    def done(self, variant, size=None):
        """Note that all of a kernel is on the disk: it is not run again."""
        self._state["at"] = None
        self._state["done"].append([variant, size])
        self._write()

    def is_done(self, variant, size=None):
        """Tell whether done() was called for this one."""
        return [variant, size] in self._state["done"]

    def require_alive(self, queue, error):
        """End this process where the device does not answer any more; the parent goes on.

        Some drivers do not crash at a bad access: the launch fails with `error`, and all that comes
        after it in this process fails as well.
        """
        if not (self.isolated and self._state["at"]):
            return
        try:
            queue.finish()
        except Exception:
            self._state["doing"] = f"{' '.join(str(error).split())[:500]}, and the device is lost"
            self._write()
            sys.stdout.flush()
            os._exit(_LOST)

    def saved(self, exit_status):
        """Note what a record that was saved means for the exit status."""
        self._state["statuses"].append(exit_status)
        self._write()

    def ended(self, exit_status):
        """Note that the work is over: a crash from now on is one of the driver's own end."""
        self._state["end"] = exit_status
        self._write()

    def read(self):
        """Take over what the other process wrote; return (variant, size) at work, or None."""
        with suppress(ValueError):
            self._state = json.loads(self._memory[:].split(b"\0", 1)[0])
        return self._state["at"] and tuple(self._state["at"])

    @property
    def doing(self):
        """What the kernel at work was doing."""
        return self._state["doing"]

    @property
    def statuses(self):
        """What was given to saved()."""
        return self._state["statuses"]

    @property
    def end(self):
        """What was given to ended(), or None."""
        return self._state["end"]

    def lose(self, unit, reason):
        """Note that a kernel crashed the driver: the next child goes on without it."""
        self.crashed[unit] = reason
        self._state["at"] = None
        self._write()

    def _write(self):
        text = json.dumps(self._state).encode()
        if len(text) < _ROOM:
            self._memory[: len(text) + 1] = text + b"\0"


def enter(progress, lost, stopped):
    """Return in a child process; the parent waits here, and exits with the status of the run.

    `lost(variant, size, reason)` records a kernel that crashed the driver, with a variant of None
    where none was at work. `stopped(exit_status, reason)` records that a person ended the run.
    """
    failed = []
    progress.isolated = True
    while (child := _fork()) != 0:
        wait_status, stopping = _wait(child)
        unit = progress.read()
        if os.WIFEXITED(wait_status) and os.WEXITSTATUS(wait_status) != _LOST:
            status = os.WEXITSTATUS(wait_status)
            sys.exit(worst([status, *failed, *progress.statuses]) if failed else status)
        number = os.WTERMSIG(wait_status)
        if stopping or number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            number = stopping or number
            status = INTERRUPTED if number == signal.SIGINT else STOPPED
            stopped(status, "interrupted" if status == INTERRUPTED else "stopped")
            sys.exit(status)
        if progress.end is not None:
            sys.exit(progress.end)  # all was done and is on the disk
        reason = progress.doing
        if number:
            reason = f"killed by {_name(number)} while {progress.doing}"
        if unit is None or unit in progress.crashed:
            lost(None, None, reason)
            sys.exit(OPENCL_FAILURE)
        failed.append(OPENCL_FAILURE)
        progress.lose(unit, reason)
        lost(*unit, reason)


def _name(number):
    names = {each.value: each.name for each in signal.Signals}
    return names.get(number, f"signal {number}")


def _fork():
    sys.stdout.flush()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        _end_with_parent(parent)
        signal.signal(signal.SIGINT, _interrupt_once)
    return child


def _end_with_parent(parent):
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before this could take effect
        os._exit(OPENCL_FAILURE)


def _interrupt_once(*_):
    # Ctrl-C reaches both processes, and the parent passes it on as well.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def _wait(child):
    """Return (wait status, signal that this process got meanwhile, or 0)."""
    got = []

    def pass_on(number, _):
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL if got else number)
        got.append(number)
        signal.setitimer(signal.ITIMER_REAL, _GRACE)

    def kill(*_):
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)

    handlers = {signal.SIGINT: pass_on, signal.SIGTERM: pass_on, signal.SIGALRM: kill}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        return os.waitpid(child, 0)[1], got[0] if got else 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
