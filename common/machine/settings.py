"""Change settings of the machine temporarily; they are always restored.

Before the first change a process of its own, common/machine/keeper.py, is told what there was. It
restores when this process closes their pipe, or dies: by a signal, by SIGKILL, by a crash in a
driver.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from common.errors import SampleError, UsageError
from common.files import lock
from common.machine import keeper
from common.machine.sysfs import text

_PATIENCE = 30  # seconds that putting back may take, or another's end


@dataclass(frozen=True)
class Change:
    """Write `value` to `path`; `before` is what is written to restore it, None for nothing.

    A change that only makes room for the next one has no `before` of its own, and a restoring
    that needs such room has only `before`.
    """

    path: Path
    value: str | None
    before: str | None


def change(path, value):
    """Return the Change of a setting that is read as it is written."""
    return Change(path, value, text(path))


@contextmanager
def held(folder, why):
    """Hold the folder against every other program that asks for it here; gives its descriptor.

    A child that gets the descriptor holds it, too, until it ends. Else the next program would take
    settings that are not restored yet for the original ones.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            lock(descriptor, _PATIENCE)
        except BlockingIOError as error:
            text = "another program uses these settings: wait until it ends"
            raise UsageError(f"{why}: {text}") from error
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def changed(changes, why, holds=()):
    """Make the changes, and restore what there was at the end, in the reverse order.

    The keeper gets the descriptors `holds`. Raises UsageError, which begins with `why`, where a
    setting cannot be changed: nothing is then left changed.
    """
    back = [[str(c.path), c.before] for c in reversed(changes) if c.before is not None]
    guard = subprocess.Popen(
        [sys.executable, "-S", keeper.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True, start_new_session=True, pass_fds=holds,
    )
    try:
        guard.stdin.write(json.dumps(back) + "\n")
        guard.stdin.flush()
        if guard.stdout.readline() != "ready\n":
            raise SampleError(f"{why}: the process that restores the settings does not start")
        for each in changes:
            if each.value is not None:
                _write(each, why)
        yield
    finally:
        _restore(guard, back)


def _write(change, why):
    try:
        change.path.write_text(change.value, encoding="utf-8")
    except PermissionError as error:
        raise UsageError(
            f"{why} needs permission to write {change.path}: run it as root, or omit the option"
        ) from error
    except OSError as error:
        problem = f"cannot write {change.value} to {change.path}: {error.strerror}"
        raise UsageError(f"{why} {problem}") from error


def _restore(guard, back):
    """Let the keeper restore, and do it here where the keeper is gone."""
    try:
        guard.communicate(timeout=_PATIENCE)  # it closes the pipe
    except subprocess.TimeoutExpired:
        guard.kill()
        guard.communicate()
    if guard.returncode and (failures := keeper.restore(back)):
        raise SampleError("cannot restore " + ", ".join(failures))
