"""What the user sees of an experiment: a line for each point, and progress on a terminal."""

import time
from datetime import timedelta
from math import inf

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from common.text import figures, printable
from deploy.screen import SCREEN


class Show:
    """Prints what happens, each line with the points done and the time left."""

    def __init__(self):
        whole = Column(no_wrap=True)
        self.progress = Progress(
            _text("{task.fields[kind]}", max_width=20),
            MofNCompleteColumn(table_column=whole),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=8)),
            TimeRemainingColumn(table_column=whole),
            _text("{task.fields[best]}", ratio=2),  # shortened where there are many boards
            console=SCREEN.console, auto_refresh=False, transient=True, expand=True,
            redirect_stdout=False, redirect_stderr=False, speed_estimate_period=inf,
        )
        self._tasks, self._start, self._done = {}, time.monotonic(), 0

    def line(self, text):
        SCREEN.put([text])

    def point(self, kinds, board, point, text):
        """Say what came of a point."""
        self._done += 1
        done = sum(kind.study.done for kind in kinds)
        total = sum(kind.study.total for kind in kinds)
        left = (total - done) * (time.monotonic() - self._start) / self._done
        where = f"{done}/{total}, {timedelta(seconds=round(left))} left"
        if finals := [kind.finals.counts for kind in kinds if kind.finals]:
            done, total = map(sum, zip(*finals))
            where = f"the best again: {done}/{total}"
        self.line(f"[{where}] {board}: {point.label}: {text}")

    def refresh(self, kinds):
        """Draw the progress anew."""
        if SCREEN.progress is None:
            return
        for kind in kinds:
            if kind not in self._tasks:
                self._tasks[kind] = self.progress.add_task("", kind=printable(kind.label), best="")
            boards = sorted(kind.best, key=lambda board: -kind.best[board][0])
            best = ", ".join(f"{board} {figures(kind.best[board][0])}" for board in boards)
            what = "best again" if kind.finals else "best"
            self.progress.update(
                self._tasks[kind], total=kind.study.total, completed=kind.study.done,
                best=best and printable(f"{what}: {best}"),
            )
        with SCREEN.lock:
            self.progress.refresh()


def _text(text, **column):
    column = Column(no_wrap=True, overflow="ellipsis", **column)
    return TextColumn(text, markup=False, table_column=column)
