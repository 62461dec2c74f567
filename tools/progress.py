"""Progress with the time left: a bar on a terminal, else plain lines."""

import sys
import time

from rich import progress as bars
from rich.text import Text

from common.text import printable


class Progress:
    """Counts steps of a known number. Each step says what came of it."""

    def __init__(self, total):
        self._total, self._done, self._start = total, 0, time.monotonic()
        self._bar = None
        if sys.stdout.isatty():
            self._bar = bars.Progress(
                bars.BarColumn(), bars.MofNCompleteColumn(), bars.TimeElapsedColumn(),
                bars.TextColumn("left"), bars.TimeRemainingColumn(),
            )

    def __enter__(self):
        if self._bar:
            self._bar.start()
            self._task = self._bar.add_task("points", total=self._total)
        return self

    def __exit__(self, *_):
        if self._bar:
            self._bar.stop()

    def step(self, text):
        """Count one more, and say what came of it."""
        self._done += 1
        text = printable(text)
        if self._bar:
            self._bar.console.print(Text(text), soft_wrap=True)
            self._bar.advance(self._task)
            return
        passed = time.monotonic() - self._start
        left = passed / self._done * (self._total - self._done)
        print(f"[{self._done}/{self._total}, {clock(left)} left] {text}", flush=True)


def clock(seconds):
    """Return seconds as a person reads them: 1:05, or 2:00:00."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
