"""Temporary folders for incomplete files from boards; deletes those of a killed fab."""

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = ".incoming-"
_NEW = 60  # seconds until a folder that is not locked counts as left: it may be just made


@contextmanager
def folder(beside):
    """Give a new folder in the folder `beside`, and delete it afterwards.

    It is locked meanwhile: the kernel unlocks it whatever ends this process. Raises OSError.
    """
    with tempfile.TemporaryDirectory(dir=beside, prefix=_PREFIX) as path, _locked(path):
        yield path


def sweep(results):
    """Delete the folders that a fab left which was killed; those in use stay."""
    for path in Path(results).glob(f"*/{_PREFIX}*"):
        with suppress(OSError), _locked(path) as alone:
            if alone and not path.is_symlink() and time.time() - path.stat().st_mtime > _NEW:
                shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _locked(path):
    """Lock a folder; yields whether that is possible, and nobody else has. Raises OSError."""
    descriptor, alone = os.open(path, os.O_RDONLY | os.O_CLOEXEC), False
    try:
        with suppress(OSError):  # some file systems have no locks for folders
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        yield alone
    finally:
        os.close(descriptor)
