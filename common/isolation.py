"""A sample works in a child process, so that a driver's crash loses only one kernel.

The parent loads no driver. It waits for the child. Where a signal ended the child, the parent
records the kernel that was at work, and starts another child for what is left. The progress is in
memory that both share, and that a crash leaves as it was; the list of the kernels that are done,
which may be long, is in a file that nobody else sees.
"""

import ctypes
import json
import mmap
import os
import signal
import sys
import tempfile
from contextlib import suppress

from common.errors import INTERRUPTED, OPENCL_FAILURE, PASSED, STOPPED, SampleError, worst
from common.text import one_line, show_log, signal_name

_ROOM = 1 << 16  # bytes for what happens now
_MOST = 500  # characters of a text there: it is cut, so that there is room for all
_GRACE = 5  # seconds that a child has to end after a signal; in a driver it may never look up
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Progress:
    """Which kernels are done, which one is at work, and which ones crashed the driver.

    A kernel is named by its variant, and by its size where a run has several.
    """

    def __init__(self):
        self._memory = mmap.mmap(-1, _ROOM)
        self._state = {"at": None, "doing": "starting", "last": False, "reason": None,
                       "status": PASSED, "end": None}
        self._done, self._file, self._taken = {}, None, 0  # bytes that were read
        self.crashed = False  # whether a child before this one did
        self.isolated = False  # whether this is a child, whose parent starts another one
        self._note()

    def each(self, variants):
        """Yield the variants that are still to run, and note each as at work, then as done."""
        left = [v for v in variants if self.past(v) is None]
        for variant in left:
            self._state["last"] = variant == left[-1]
            self.at(variant, "running")
            yield variant
            self.done(variant)

    def single(self):
        """Note that nothing is left to do after the kernel at work."""
        self._note(last=True)

    def now(self, doing):
        """Note what happens now, if it concerns no single kernel."""
        self._note(at=None, doing=doing)

    def at(self, variant, doing, size=None):
        """Note what happens now: `doing` is such as `building`."""
        self._note(at=[variant[:_MOST], size], doing=doing)

    def done(self, variant, size=None, status="passed", reason=None):
        """Note that a kernel's records are on the disk: it is not run again."""
        unit = _key(variant, size)
        self._done[unit] = status, reason
        if self._file:  # a line begins with its end: a process that is killed may leave half of one
            self._file.write(f"\n{json.dumps([unit, status, reason])}".encode())
        self._note(at=None)

    def past(self, variant, size=None):
        """Return the status and the reason of a kernel that is done, or that crashed; else None."""
        return self._done.get(_key(variant, size))

    def share(self):
        """Let child processes that are started from now on tell this one what is done."""
        self.isolated = True
        try:
            descriptor = os.memfd_create("progress")
            self._file = open(descriptor, "w+b", buffering=0)  # noqa: SIM115
        except (AttributeError, OSError):  # Linux before 3.17
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115

    def give_up(self, reason):
        """End this process, if kernels are left that a new process can run.

        Some drivers do not crash at an invalid access: the launch fails, and so does everything
        after it in this process.
        """
        if self.isolated and self._state["at"] and not self._state["last"]:
            self._note(reason=reason[:_MOST])
            sys.stdout.flush()
            os._exit(OPENCL_FAILURE)

    def survive(self, error, queue=None, alone=False):
        """Return (exit status, status of a record, reason) of the error that ended one kernel.

        With `alone` there is no other kernel, and the error is raised. If `queue` fails after an
        error that is no SampleError, a new process runs the others.
        """
        if queue is not None and not isinstance(error, SampleError):
            try:
                queue.finish()
            except Exception:
                self.give_up(f"{one_line(error)}, and the device is lost")
        if alone:
            raise error
        show_log(error)
        exit_status = getattr(error, "exit_status", OPENCL_FAILURE)
        reason = one_line(error) or "not enough memory"  # Python's own MemoryError has no text
        return exit_status, getattr(error, "record_status", "error"), reason

    def saved(self, exit_status):
        """Note the exit status that a saved record stands for; return the worst so far."""
        self._note(status=worst([self._state["status"], exit_status]))
        return self._state["status"]

    def ended(self, exit_status):
        """Note that the work is done: a later crash happens while the driver shuts down."""
        self._note(end=exit_status)

    def _read(self):
        """Take over what the child wrote; return its exit status, or None where it was lost."""
        with suppress(ValueError):
            self._state = json.loads(self._memory[:].split(b"\0", 1)[0])
        self._file.seek(self._taken)
        new = self._file.read()
        self._taken += len(new)
        for line in filter(None, new.split(b"\n")):
            with suppress(ValueError):
                unit, *result = json.loads(line)
                self._done[unit] = tuple(result)
        return self._state["end"]

    def _lose(self, how):
        """Return (unit, reason, whether kernels are left) after a child was lost."""
        state = self._state
        unit, self.crashed = state["at"], True
        reason = state["reason"] or f"{how} while {state['doing']}"
        left = unit and not self.past(*unit) and not state["last"]
        if unit:
            self.done(*unit, "error", reason)
        self._note(reason=None, doing="starting")
        return unit or (None, None), reason, left

    def _note(self, **news):
        self._state.update(news)
        text = json.dumps(self._state).encode()
        self._memory[: len(text) + 1] = text + b"\0"


def _key(variant, size):
    return f"{variant[:_MOST]} {size}"


class _Child:
    """The process that works, and the signals that this one passes on to it."""

    def __init__(self):
        self.pid, self.got = 0, []
        handlers = dict.fromkeys((*_STOPS, signal.SIGALRM), self._pass_on)
        if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:  # nohup
            del handlers[signal.SIGHUP]
        self._before = {n: signal.signal(n, handler) for n, handler in handlers.items()}
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # else there is nothing to wait for

    def start(self):
        """Start the process; return whether this is it."""
        sys.stdout.flush()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid:
            if self.got:  # meanwhile
                os.kill(self.pid, signal.SIGKILL)
            return False
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.signal(signal.SIGINT, _interrupt_once)
        with suppress(AttributeError, ValueError):
            sys.stdout.reconfigure(line_buffering=True)  # a crash leaves no line behind
        with suppress(OSError, AttributeError):  # Linux ends this process with its parent
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it ended before this could take effect
            os._exit(OPENCL_FAILURE)
        return True

    def wait(self):
        """Wait for its end; return how it ended, in words, and the signal or None."""
        status = os.waitpid(self.pid, 0)[1]
        self.pid = 0
        signal.setitimer(signal.ITIMER_REAL, 0)
        if os.WIFEXITED(status):
            return f"the driver ended the process with status {os.WEXITSTATUS(status)}", None
        number = os.WTERMSIG(status)
        if number in _STOPS and not self.got:
            self.got.append(number)  # sent to all of this group, or to the child alone
        return f"killed by {signal_name(number)}", number

    def _pass_on(self, number, _):
        # The second signal, as that of the alarm, finds a child that does not end by itself.
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL if self.got else number)
        self.got.append(number)
        signal.setitimer(signal.ITIMER_REAL, _GRACE)


def enter(progress, lost, stopped):
    """Return in a child process; the parent waits here, and exits with the status of the run.

    `lost(variant, size, reason, number)` records a kernel that crashed the driver, by the signal
    of that number or None, and returns the exit status that this means. The variant is None where
    no kernel was at work. `stopped(exit_status, reason)` records that a person ended the run.
    """
    progress.share()
    child = _Child()
    while not child.start():
        how, number = child.wait()
        status = progress._read()
        if status is None and child.got:
            status = INTERRUPTED if child.got[0] == signal.SIGINT else STOPPED
            stopped(status, "interrupted" if status == INTERRUPTED else "stopped")
        if status is not None:
            leave(progress.saved(status) if progress.crashed else status)
        unit, reason, left = progress._lose(how)
        status = progress.saved(lost(*unit, reason, number))
        if not left:
            leave(status)


def leave(status):
    """End this process at once, with all that it printed.

    Python's own end takes a tenth of a short run, twice, and some drivers crash in theirs.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _interrupt_once(*_):
    # Ctrl-C reaches both processes, and the parent passes it on as well.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt
