"""Start the program `report` on the runs in results/."""

import subprocess
import sys

from invoke import Exit

from common import files
from common.errors import UsageError
from deploy import runs
from deploy.boards import ROOT, shown


def make(words):
    """Make a page as `python -m report` does with these options. Raises invoke's Exit."""
    process = subprocess.Popen(
        [sys.executable, ROOT / "report", *words], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
        text=True, errors="replace",
        start_new_session=True,  # Ctrl-C is for fab, which then tells it
    )
    try:
        errors = process.communicate()[1]
    except KeyboardInterrupt:
        process.terminate()  # it leaves nothing half made
        process.communicate()
        raise
    sys.stderr.write(errors)
    if process.returncode:
        raise Exit(code=process.returncode)


def export(board, name=None, rights=None):
    """Pack a run of the board of that name, the newest that ended by itself if none is named.

    `rights` is a file of authors and licences, as `python -m report` takes it.
    Raises UsageError where there is none, and invoke's Exit where it cannot be packed.
    """
    folder = runs.RESULTS / board
    names = sorted(path.parent.name for path in folder.glob("*/plan.json"))
    if name is None and not names:
        raise UsageError(f"no run of {board} is in {shown(folder)}: `fab run-all` makes one")
    if name is not None and name not in names:
        raise UsageError(f"no run {name} is in {shown(folder)}")
    ended = [(n, files.object_in(folder / n / "ended.json")) for n in names]  # a sweep has none
    whole = [n for n, about in ended if about and not about.get("stopped")]
    run = name or (whole or names)[-1]
    if run != names[-1] and not name:
        why = f"{names[-1]} is of a sweep, or was stopped: --run {names[-1]} packs it"
        print(f"{board}: {why}", flush=True)
    words = [f"--rights={rights}"] if rights is not None else []
    make([f"--export={runs.RESULTS / f'{board}-{run}.zip'}", *words, folder / run])
