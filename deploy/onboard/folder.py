"""The remote folder: its files, and its lock.

suite.json           marks the folder as ours: nothing is deleted from a folder without it
lock                 held while a deploy, a run or a clean is going on; says by whom
current -> trees/N   the deployed files; switched in one step when a copy is whole
results/RUN/         records and logs that the host has not fetched yet
results/RUN.left/    what of a run was too large to be fetched
points/KEY/          results of a sweep that the host has not stored yet
cache/               compiled Python
environment.json, envs/, vendors/    what `fab provision` made: see environment.py
"""

import contextlib
import fcntl
import json
import os
import re
import time

from deploy.onboard.wire import Refused

MARKER = "suite.json"
RUN_NAME = re.compile(r"\d{8}T\d{6}\.\d{3}Z")


def place(folder, *parts):
    """Return a path below the remote folder, which is relative to the home folder."""
    expanded = os.path.expanduser(folder)
    if expanded.startswith("~"):
        raise Refused("%s: there is no such user on the board" % folder)
    return os.path.join(os.path.expanduser("~"), expanded, *parts)


@contextlib.contextmanager
def locked(folder, holder):
    with open(place(folder, "lock"), "a+") as lock:
        if not grab(lock):
            raise Refused("the board is in use: " + holder_of(lock))
        if (
            not os.path.exists(lock.name)
            or os.stat(lock.name).st_ino != os.fstat(lock.fileno()).st_ino
        ):
            raise Refused("the board was just cleaned: try again")
        lock.seek(0)
        lock.truncate()
        lock.write("%s, process %d on the board" % (holder, os.getpid()))
        lock.flush()
        yield


def grab(file):
    """Lock an open file; tell whether nobody else holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def holder_of(lock):
    """Return who holds the lock. It may be just about to write its name."""
    for _ in range(20):
        lock.seek(0)
        name = lock.read().strip()
        if name:
            return name
        time.sleep(0.05)
    return "by someone who left no name"


def require_ours(folder, part=MARKER):
    if not os.path.exists(place(folder, part)):
        raise Refused("nothing is deployed in %s: deploy first" % place(folder))


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())


def waiting(folder):
    """Return the names of the runs whose results are still here, oldest first."""
    return [name for name in kept(folder) if RUN_NAME.fullmatch(name)]


def kept(folder):
    """Return the names of the runs of which something is here, also what was too large."""
    results = place(folder, "results")
    names = sorted(os.listdir(results)) if os.path.isdir(results) else []
    return [name for name in names if RUN_NAME.match(name)]
