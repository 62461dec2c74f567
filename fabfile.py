"""`fab --list` shows the tasks; they are in deploy/tasks.py."""

import os
import sys

from deploy.errors import WRONG_USAGE
from deploy.fleet import complain
from deploy.tasks import namespace

__all__ = ["namespace"]


def _one_line(kind, error, _):
    """End fab when it breaks before a task begins, e.g. over a file of -S that is not there."""
    complain(f"{kind.__name__}: {error}")
    sys.stdout.flush()
    os._exit(WRONG_USAGE)  # an exception hook cannot choose the exit status otherwise


sys.excepthook = _one_line
