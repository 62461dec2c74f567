"""Start the program `report`, which works on what the runs left in results/."""

import subprocess
import sys

from invoke import Exit

from deploy import runs
from deploy.boards import ROOT
from deploy.errors import BoardError


def make(words):
    """Make a page as `python -m report` does with these options. Raises invoke's Exit."""
    if status := _start(words).returncode:
        raise Exit(code=status)


def export(board, name=None):
    """Pack a run of a board, the newest if none is named, beside the board's results."""
    folder = runs.RESULTS / board.name
    names = sorted(path.parent.name for path in folder.glob("*/plan.json"))
    if name is None and not names:
        raise BoardError(f"no run of it is in {runs.shown(folder)}: `fab run-all` makes one")
    if name is not None and name not in names:
        raise BoardError(f"no run {name} is in {runs.shown(folder)}")
    run = folder / (name or names[-1])
    archive = runs.RESULTS / f"{board.name}-{run.name}.zip"
    done = _start([f"--export={archive}", run], capture_output=True, text=True)
    if done.returncode:
        raise BoardError(done.stderr.strip().removeprefix("report: error: "))
    board.say(done.stdout.rstrip())


def _start(words, **more):
    command = [sys.executable, ROOT / "report", *words]
    return subprocess.run(command, stdin=subprocess.DEVNULL, check=False, **more)
