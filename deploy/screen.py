"""Output for the user: whole lines and, on a terminal, one progress display below them.

Off a terminal there are plain lines only: no control characters, nothing is drawn anew.
"""

import sys
import threading
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from common.text import complain, printable

LONGEST = 300  # characters of a line that a board may fill


def shortened(text):
    """Return a line that cannot fill the screen."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def some(texts, most, what):
    """Return the first texts, and behind them how many more there are of `what`."""
    left = len(texts) - most
    return [*texts[:most], f"{left} more {what}"] if left > 0 else texts


class _Console(Console):
    def on_broken_pipe(self):
        raise  # rich calls this where it caught one; fab has an exit status for it


class Screen:
    """The one place that prints while boards are at work, each in a thread of its own."""

    def __init__(self):
        self.console = _Console(highlight=False)
        self.lock = threading.RLock()  # held for each write, so that no two of them mix
        self.progress = None  # a rich Progress, while one is shown

    def put(self, lines, prefix=""):
        """Print lines, each a str or a Text, behind `prefix`, with nothing between them."""
        texts = [Text(prefix) + (line if isinstance(line, Text) else printable(line))
                 for line in lines]
        for text in texts:
            text.rstrip()
        with self.lock:
            self.console.print(Text("\n").join(texts), soft_wrap=True)

    def table(self, left, right, rows):
        """Print a table: columns of text, headed `left`, then of numbers, headed `right`.

        The first column is left out where all rows have the same there.
        """
        table, first = Table(box=box.SIMPLE_HEAD), len({row[0] for row in rows}) == 1
        for heading in (*left, *right)[first:]:
            table.add_column(heading, justify="right" if heading in right else "left", no_wrap=True)
        for row in rows:
            table.add_row(*(c if isinstance(c, Text) else Text(printable(c)) for c in row[first:]))
        with self.lock:
            if not self.console.is_terminal:  # rich assumes 80 columns and would truncate the cells
                self.console.width = 160
            self.console.print(table)

    def complain(self, text):
        """Print one line of error on stderr; on a terminal above the progress."""
        text = f"fab: error: {text}"
        with self.lock:
            if self.progress and sys.stderr.isatty():
                self.put([text])
            else:
                complain(printable(text))

    @contextmanager
    def showing(self, progress):
        """Show a Progress, if any, below the lines, where there is a terminal that can."""
        # FORCE_COLOR asks for colours in a pipe, not for lines that are drawn again and again.
        if progress and self.console.is_interactive and self.console.file.isatty():
            with self.lock:
                self.progress = progress
                progress.start()
        try:
            yield
        finally:
            self.stop_progress()

    def stop_progress(self):
        """Take the progress away, if it is shown: the cursor is where the next line belongs."""
        with self.lock:
            progress, self.progress = self.progress, None
            if progress:
                progress.stop()


SCREEN = Screen()
