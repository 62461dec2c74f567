"""The CPU cores that this process runs on, as --cores names them: 0-3,6."""

import os
import re
import sys
import threading
from argparse import ArgumentTypeError
from collections import Counter
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
    """Let PoCL start one thread for each core that this process may run on, and bind it there.

    It would start one for each core of the machine, report as many compute units, and leave them to
    Linux, which may run two on one core. With POCL_AFFINITY=1 it binds thread n to core n. Where
    that is not among the cores, bind_threads() does it. POCL_AFFINITY=0 leaves threads unbound.
    """
    mine = os.sched_getaffinity(0)
    if len(mine) < (os.cpu_count() or 0):
        os.environ.setdefault("POCL_MAX_PTHREAD_COUNT", str(len(mine)))
    if mine == set(range(len(mine))):
        os.environ.setdefault("POCL_AFFINITY", "1")
    elif os.environ.get("POCL_AFFINITY") != "0":
        os.environ.pop("POCL_AFFINITY", None)


def bind_threads(before):
    """Bind each thread that started since threads() returned `before` to a core of its own.

    If there are not as many threads as cores, none is bound: other drivers may have started some.
    Nor is one where POCL_AFFINITY is set.
    """
    started, mine = sorted(threads() - before), sorted(os.sched_getaffinity(0))
    if len(started) == len(mine) and "POCL_AFFINITY" not in os.environ:
        for thread, core in zip(started, mine):
            with suppress(OSError):  # it has ended
                os.sched_setaffinity(thread, {core})


@contextmanager
def beside_workers():
    """Keep this thread, while it waits for launches, off the cores that a driver's are bound to.

    Intel's CPU runtime binds its threads to cores, but not the thread that waits for a launch and
    works on it as well. On two cores Linux ran both on one, and the launch took twice as long.
    Where each core has as many bound threads, as with PoCL, this thread may run on all.
    """
    mine = os.sched_getaffinity(0)
    bound = _bound_threads()
    least = min(bound[core] for core in mine)
    left = {core for core in mine if bound[core] == least}
    if left == mine:
        yield
        return
    try:
        with suppress(OSError):  # the system does not allow it
            os.sched_setaffinity(0, left)
        yield
    finally:  # a library that starts threads now may use all cores
        with suppress(OSError):
            os.sched_setaffinity(0, mine)


def _bound_threads():
    """Return how many other threads of this process are bound to one core, for each core."""
    found = Counter()
    for thread in threads() - {threading.get_native_id()}:
        with suppress(OSError):  # it has ended
            allowed = os.sched_getaffinity(thread)
            if len(allowed) == 1:
                found.update(allowed)
    return found


def threads():
    """Return the threads of this process, as a set of their numbers."""
    return set(map(int, os.listdir("/proc/self/task")))
