"""Start the program `report`, which works on what the runs left in results/."""

import subprocess
import sys

from invoke import Exit

from deploy import runs
from deploy.boards import ROOT
from deploy.errors import UsageError


def make(words):
    """Make a page as `python -m report` does with these options. Raises invoke's Exit."""
    if status := _start(words).returncode:
        raise Exit(code=status)


def export(board, name=None):
    """Pack a run of the board of that name, the newest that nobody stopped if none is named.

    Raises UsageError where there is none that can be packed.
    """
    folder = runs.RESULTS / board
    names = sorted(path.parent.name for path in folder.glob("*/plan.json"))
    if name is None and not names:
        raise UsageError(f"no run of {board} is in {runs.shown(folder)}: `fab run-all` makes one")
    if name is not None and name not in names:
        raise UsageError(f"no run {name} is in {runs.shown(folder)}")
    whole = [n for n in names if not runs.was_stopped(folder / n)]
    run = folder / (name or (whole or names)[-1])
    archive = runs.RESULTS / f"{board}-{run.name}.zip"
    done = _start([f"--export={archive}", run], capture_output=True, text=True)
    if done.returncode:
        raise UsageError(done.stderr.strip().removeprefix("report: error: "))
    print(done.stdout.rstrip())


def _start(words, **more):
    command = [sys.executable, ROOT / "report", *words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False, **more)
