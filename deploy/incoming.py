"""Temporary folders for incomplete files from boards; deletes those of a killed fab."""

import os
import shutil
import tempfile
from pathlib import Path

_PREFIX = ".incoming-"  # and the process ID of the fab that made it


def folder(beside):
    """Return a TemporaryDirectory in the folder `beside`. Raises OSError."""
    return tempfile.TemporaryDirectory(dir=beside, prefix=f"{_PREFIX}{os.getpid()}-")


def sweep(results):
    """Delete the folders that a fab left which was killed; those in use stay."""
    for path in Path(results).glob(f"*/{_PREFIX}*"):
        try:
            os.kill(int(path.name.removeprefix(_PREFIX).partition("-")[0]), 0)
        except ProcessLookupError:
            shutil.rmtree(path, ignore_errors=True)
        except (ValueError, OverflowError, PermissionError):  # none of ours
            continue
