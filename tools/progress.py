"""Progress with the time left: a bar on a terminal, else plain lines."""

import sys

from rich import progress as bars
from rich.text import Text

from common.text import printable


class Progress(bars.Progress):
    """Counts steps of a known number. Each step says what came of it."""

    def __init__(self, total):
        super().__init__(
            bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn(),
            bars.TextColumn("left"), bars.TimeRemainingColumn(), disable=not sys.stdout.isatty(),
        )
        self.add_task("points", total=total)

    def step(self, text):
        """Count one more, and say what came of it."""
        (task,) = self.tasks
        self.advance(task.id)
        text = printable(text)
        if not self.disable:
            self.console.print(Text(text), soft_wrap=True)
            return
        left = task.elapsed / task.completed * (task.total - task.completed)
        print(f"[{task.completed}/{task.total}, {clock(left)} left] {text}", flush=True)


def clock(seconds):
    """Return seconds as a person reads them: 1:05, or 2:00:00."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
