"""Change settings of the machine temporarily; they are always restored.

A process of its own, common/machine/keeper.py, changes them. It restores them when this process
closes their pipe, or dies: by a signal, by SIGKILL, by a crash in a driver. Where this user is not
root, the copy of it that `fab provision --system` installed runs as root.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from common.errors import SampleError, UsageError
from common.machine import keeper
from common.machine.sysfs import SYSFS

HELPER = "/opt/opencl-samples/keeper"
_KEEP = "import runpy, sys; _, file, word, root, seconds = sys.argv; " \
    "sys.exit(runpy.run_path(file)['main'](word, root, float(seconds)))"


def by_helper(tree=SYSFS):
    """Tell whether the installed helper makes the changes."""
    return os.geteuid() != 0 and Path(tree) == SYSFS and os.path.exists(HELPER)


@contextmanager
def changed(word, plan, tree=SYSFS, patience=keeper.PATIENCE):
    """Change settings, and restore what there was at the end, in the reverse order.

    `word` is the keeper's: the option without its dashes. `plan()` returns the changes, (path, text
    to write). It is called when no other program has such changes made, so it sees what there was.
    Raises UsageError where a setting cannot be changed: nothing is then left changed.
    """
    command = [sys.executable, "-S", "-c", _KEEP, keeper.__file__, word, tree, patience]
    if by_helper(tree):
        command = ["sudo", "-n", HELPER, word]
    guard = subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )
    back = []
    try:
        said = guard.stdout.readline()
        if said == "busy\n":
            raise UsageError(f"--{word}: another program uses these settings: wait until it ends")
        if said != "ready\n":
            raise SampleError(f"--{word}: the process that restores the settings did not start")
        guard.stdin.write(json.dumps([[str(path), text] for path, text in plan()]) + "\n")
        guard.stdin.flush()
        answer = json.loads(guard.stdout.readline() or "{}")
        if not answer:
            raise SampleError(f"--{word}: the process that restores the settings ended")
        back = answer["back"]
        require_done(answer["problem"], word)
        yield
    finally:
        _restore(guard, back)


def require_done(problem, word):
    """Raise UsageError where the keeper has a problem with the settings for --`word`."""
    if not problem:
        return
    if problem["denied"]:
        raise UsageError(f"--{word} needs permission to write {problem['path']}: run it as root, "
                         "let `fab provision --system` install its helper, or omit the option")
    raise UsageError(f"--{word} cannot write {problem['value']} to {problem['path']}: "
                     f"{problem['error']}")


def _restore(guard, back):
    """Let the keeper restore, and do it here where the keeper is gone."""
    try:
        guard.communicate(timeout=keeper.PATIENCE)  # it closes the pipe
    except subprocess.TimeoutExpired:
        guard.kill()
        guard.communicate()
    if guard.returncode and (failures := keeper.restore(back)):
        raise SampleError("cannot restore " + ", ".join(failures))
