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
import shutil
import tarfile
import zlib

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
            lock.seek(0)
            holder = lock.read().strip() or "the holder left no name"
            raise Refused("the board is in use: " + holder)
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


@contextlib.contextmanager
def claimed(folder, holder):
    """Hold the lock of our folder, which is made if it is not there yet; refuse one of others."""
    path = place(folder)
    if os.path.lexists(path) and not os.path.isdir(path):
        raise Refused("%s is not a folder: name another one in boards.toml" % path)
    path = os.path.realpath(path)  # else that of x/.. makes x
    os.makedirs(path, exist_ok=True)
    if not os.path.exists(os.path.join(path, MARKER)) and set(os.listdir(path)) - {"lock"}:
        raise Refused("%s has other files: name an empty folder in boards.toml" % path)
    with locked(folder, holder):
        write_json(place(folder, MARKER), {"layout": 1})
        yield


def grab(file):
    """Lock an open file; tell whether nobody else holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def require_ours(folder, part=MARKER):
    if not os.path.exists(place(folder, part)):
        raise Refused("nothing is deployed in %s: deploy first" % place(folder))


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file, indent=1, sort_keys=True)
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def new_in(path):
    """Give a new folder in `path`, whose names are numbers: at the end the only one.

    It goes, and the others stay, where the block fails.
    """
    os.makedirs(path, exist_ok=True)
    others = os.listdir(path)
    made = os.path.join(path, str(1 + max([int(name) for name in others if name.isdigit()] or [0])))
    os.mkdir(made)
    try:
        yield made
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)  # a full disk needs the room
        raise
    for name in others:
        shutil.rmtree(os.path.join(path, name), ignore_errors=True)


def unpack(payload, target, wanted=None):
    """Unpack files, a tar.gz, into a folder. Those that are not `wanted`, if given, are refused."""
    try:
        with tarfile.open(fileobj=payload, mode="r:gz") as archive:
            for member in archive:
                # Some wheels have links: second names of a file that came before.
                is_file = member.isfile() or member.islnk()
                is_outside = os.path.isabs(member.name) or ".." in member.name.split("/")
                if not is_file or is_outside or (wanted and member.name not in wanted):
                    raise Refused("the copy has an unexpected file: " + member.name)
                archive.extract(member, target, set_attrs=False)
                mode = 0o755 if member.mode & 0o100 else 0o644
                os.chmod(os.path.join(target, member.name), mode)
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise Refused("the copy was interrupted: %s" % error)


def waiting(folder):
    """Return the names of the runs whose results are still here, oldest first."""
    return [name for name in kept(folder) if RUN_NAME.fullmatch(name)]


def kept(folder):
    """Return the names of the runs of which something is here, also what was too large."""
    results = place(folder, "results")
    names = sorted(os.listdir(results)) if os.path.isdir(results) else []
    return [name for name in names if RUN_NAME.match(name)]
