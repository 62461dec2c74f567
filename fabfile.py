"""`fab --list` shows the tasks; they stand in deploy/tasks.py."""

from deploy.tasks import namespace

__all__ = ["namespace"]
