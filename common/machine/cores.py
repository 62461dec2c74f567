"""The CPU cores that this process runs on, as --cores names them: 0-3,6."""

import os
import re
import sys
from argparse import ArgumentTypeError
from contextlib import contextmanager, suppress

from common.errors import UsageError


def named():
    """Return the cores that this process may run on, as --cores takes them."""
    ranges = []
    for core in sorted(os.sched_getaffinity(0)):
        if ranges and ranges[-1][1] == core - 1:
            ranges[-1][1] = core
        else:
            ranges.append([core, core])
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in ranges)


def parsed(value):
    """Return the set of cores that a text such as 0-3,6 names: an argparse type.

    The host asks it about cores that only a board has.
    """
    if not re.fullmatch(r"\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*", value, re.ASCII):
        raise ArgumentTypeError(f"'{value}' is not a list of cores, such as 0-3,6")
    pairs = [part.split("-") for part in value.split(",")]
    if wrong := next(("-".join(p) for p in pairs if int(p[0]) > int(p[-1])), None):
        raise ArgumentTypeError(f"'{wrong}' is not a range of cores: the lower number stands first")
    return {core for pair in pairs for core in range(int(pair[0]), int(pair[-1]) + 1)}


def use(chosen):
    """Start this program anew on the cores `chosen`, unless those are all it may run on.

    Libraries count the cores when they are loaded. OpenBLAS, which numpy has loaded by now, would
    keep a thread for each core that there was, and they would all wait for one another. Raises
    UsageError for cores that the process may not run on.
    """
    mine = os.sched_getaffinity(0)
    if lacking := chosen - mine:
        raise UsageError(f"--cores: there is no core {min(lacking)}: this machine has the cores "
                         f"{named()}")
    if chosen != mine:
        os.sched_setaffinity(0, chosen)
        os.execv(sys.executable, getattr(sys, "orig_argv", [sys.executable, *sys.argv]))


def tell_pocl():
    """Let PoCL start one thread for each core that this process may run on.

    It would start one for each core of the machine, and report as many compute units. With
    POCL_AFFINITY it would bind thread n to core n, which may not be among them.
    """
    mine = os.sched_getaffinity(0)
    if len(mine) < (os.cpu_count() or 0):
        os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", str(len(mine)))
        if mine != set(range(len(mine))):
            os.environ.pop("POCL_AFFINITY", None)


@contextmanager
def bind_threads():
    """Bind the threads that start in this block, if they are as many as our cores, to a core each.

    For a driver's threads on some of the machine's cores. On two cores of a machine with 16, Linux
    left both threads of PoCL on one. On all cores it places them well.
    """
    before = _threads()
    yield
    started, mine = sorted(_threads() - before), sorted(os.sched_getaffinity(0))
    if len(started) == len(mine) < (os.cpu_count() or 0):
        for thread, core in zip(started, mine):
            with suppress(OSError):  # it has ended
                os.sched_setaffinity(thread, {core})


def _threads():
    return set(map(int, os.listdir("/proc/self/task")))
