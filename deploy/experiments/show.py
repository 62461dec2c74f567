"""What the user sees of an experiment: a line for each point, and progress on a terminal."""

import time

from rich.progress import BarColumn, Progress, TextColumn

from common.text import figures, printable
from deploy.screen import SCREEN
from tools.progress import clock


class Show:
    """Prints what happens, each line with the points done and the time left."""

    def __init__(self):
        self.progress = Progress(
            TextColumn("{task.fields[kind]}", markup=False),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[rate]}", markup=False),
            TextColumn("{task.fields[best]}", markup=False),
            console=SCREEN.console, auto_refresh=False, transient=True, expand=True,
            redirect_stdout=False, redirect_stderr=False,
        )
        self._tasks, self._start, self._done = {}, time.monotonic(), 0

    def line(self, text):
        """Print a line."""
        SCREEN.put([text])

    def point(self, kinds, board, point, text):
        """Say what came of a point."""
        self._done += 1
        done = sum(kind.study.done for kind in kinds)
        total = sum(kind.study.total for kind in kinds)
        where = f"{done}/{total}, {clock((total - done) / self._rate())} left"
        if any(kind.finals for kind in kinds):
            where = "again"
        self.line(f"[{where}] {board or 'lost'}: {point.label}: {text}")

    def _rate(self):
        return max(self._done, 1) / (time.monotonic() - self._start)

    def refresh(self, kinds):
        """Draw the progress anew."""
        if SCREEN.progress is None:
            return
        for kind in kinds:
            if kind not in self._tasks:
                self._tasks[kind] = self.progress.add_task("", kind="", rate="", best="")
            study = kind.study
            left = clock((study.total - study.done) / self._rate())
            best = ", ".join(f"{board} {figures(values[0])}" for board, values in kind.best.items())
            self.progress.update(
                self._tasks[kind], total=study.total, completed=study.done,
                kind=printable(kind.label), rate=f"{self._rate():.2g}/s, {left} left",
                best=f"best: {best}",
            )
        SCREEN.refresh()
