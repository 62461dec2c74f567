"""Temporary folders for incomplete files from boards; deletes those of a killed fab."""

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = ".incoming-"


@contextmanager
def folder(beside):
    """Give a new folder in the folder `beside`, and delete it afterwards.

    It is locked meanwhile: the kernel unlocks it whatever ends this process. Raises OSError.
    """
    with _held(beside):  # else `sweep` could take it between these two
        path = tempfile.mkdtemp(dir=beside, prefix=_PREFIX)
        lock = _lock(path)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def sweep(results):
    """Delete the folders that a fab left which was killed; those in use stay."""
    for board in _folders(results, "*"):
        if not _folders(board, f"{_PREFIX}*"):
            continue
        with _held(board) as held:
            for path in _folders(board, f"{_PREFIX}*") if held else ():
                lock = _lock(path)
                if lock is not None:
                    shutil.rmtree(path, ignore_errors=True)
                    os.close(lock)


def _folders(parent, pattern):
    return [path for path in Path(parent).glob(pattern) if path.is_dir() and not path.is_symlink()]


@contextmanager
def _held(path):
    """Hold the lock of a folder briefly; yields whether that was possible."""
    lock = _lock(path, fcntl.LOCK_EX)
    try:
        yield lock is not None
    finally:
        if lock is not None:
            os.close(lock)


def _lock(path, how=fcntl.LOCK_EX | fcntl.LOCK_NB):
    """Return a descriptor that locks a folder; None where another has it, or none can."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    with suppress(OSError):  # some file systems have no locks for folders
        fcntl.flock(descriptor, how)
        return descriptor
    os.close(descriptor)
    return None
