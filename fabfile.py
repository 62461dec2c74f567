"""`fab --list` shows the tasks; they are in deploy/tasks.py."""

from deploy import start
from deploy.tasks import namespace

__all__ = ["namespace", "start"]  # the latter has done its work: see there
