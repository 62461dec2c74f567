"""What the user sees of an experiment: a line for each point, and progress on a terminal."""

import time

from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from common.text import figures, printable
from deploy.screen import SCREEN
from tools.progress import clock


class Show:
    """Prints what happens, each line with the points done and the time left."""

    def __init__(self):
        self.progress = Progress(
            _text("{task.fields[kind]}", max_width=20),
            _text("{task.completed:.0f}/{task.total:.0f}"),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=8)),
            _text("{task.fields[rate]}"),
            _text("{task.fields[best]}", ratio=2),  # shortened where there are many boards
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
        pace = self._done / (time.monotonic() - self._start)
        where = f"{done}/{total}, {clock((total - done) / pace)} left"
        if any(kind.finals for kind in kinds):
            where = "again"
        self.line(f"[{where}] {board or 'lost'}: {point.label}: {text}")

    def refresh(self, kinds):
        """Draw the progress anew."""
        if SCREEN.progress is None:
            return
        for kind in kinds:
            if kind not in self._tasks:
                task = self.progress.add_task("", kind=printable(kind.label), rate="", best="")
                self._tasks[kind] = task, kind.study.done
            (task, before), study, rate = self._tasks[kind], kind.study, ""
            if kind.finals:
                rate = "the best again"
            elif pace := (study.done - before) / (time.monotonic() - self._start):
                rate = f"{pace:.2g}/s, {clock((study.total - study.done) / pace)} left"
            boards = sorted(kind.best, key=lambda board: -kind.best[board][0])
            best = ", ".join(f"{board} {figures(kind.best[board][0])}" for board in boards)
            self.progress.update(
                task, total=study.total, completed=study.done, rate=rate,
                best=best and f"best: {printable(best)}",
            )
        with SCREEN.lock:
            self.progress.refresh()


def _text(text, **column):
    column = Column(no_wrap=True, overflow="ellipsis", **column)
    return TextColumn(text, markup=False, table_column=column)
