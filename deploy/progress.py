"""Show the progress of a board's run: in brief, or every line of output."""

import time
from collections import Counter, deque

from rich import progress
from rich.table import Column
from rich.text import Text

from common.record import GOOD, of_library
from common.stats import grouped
from common.text import printable
from deploy.boards import shown
from deploy.screen import SCREEN, shortened, some
from deploy.table import STYLE, rate

TAIL = 15  # lines of a failed case's output
MOST_REASONS = 8  # different ones of a failed case
ALIVE = 60  # seconds between two lines that a case is still running, off a terminal


class View:
    """A line for each case as it ends, all that is needed about one that failed, and progress.

    `cases` are those that are to run, as (sample, case), and `folder` is where their records and
    logs will lie: what is not known at first comes with `home`. `verbose` shows all output, too.
    """

    def __init__(self, board, cases=(), folder=None, verbose=False):
        self.board, self.folder, self.verbose = board, folder, verbose
        self.total, self.number, self.tail = len(cases), 0, deque(maxlen=TAIL)
        self._align(cases)
        self.said = {}  # of each case: it is not said again when it is at home
        self.task, self.name, self.since, self.told = None, "", 0.0, 0.0

    def start(self, event):
        """A case begins."""
        self.name = f"{event['sample']} {event['case']}"
        self.tail.clear()
        self.since = self.told = time.monotonic()
        if self.number == 0:
            self.board.say(f"running {self.total} {'case' if self.total == 1 else 'cases'}")
        if self.verbose:
            number = f"{event['number']} of {event['of']}"
            self.board.say(f"== {self.name} ({number})")
        self._progress(self.name)

    def lines(self, texts):
        """A case printed lines."""
        texts = [line.rstrip("\r") for line in texts]
        if self.verbose:
            self.board.say("\n".join(f"   {line}" for line in texts))
        else:
            self.tail.extend(map(shortened, texts[-TAIL:]))

    def beat(self):
        """The board is alive, and the case, if any, is still running."""
        now = time.monotonic()
        if self.name and SCREEN.progress is None and now - self.told >= ALIVE:
            self.told = now
            self.board.say(f"{self.name}: still running after {now - self.since:.0f} s")

    def end(self, event, records):
        """A case ended, with these records as far as they are known."""
        self.number, self.name = self.number + 1, ""
        self._say(event["sample"], event["case"], records, event["seconds"], self.tail)
        if self.number == self.total:
            self._progress("fetching")

    def home(self, cases, folder):
        """Show the Cases that ended without a connection, or whose verdict has changed since.

        Their records and logs are in `folder`. Those that never ran are left to the summary, where
        one line is enough for all.
        """
        self.folder = folder
        self._align([(each.sample, each.name) for each in cases])
        if self.board.stopping:  # so no summary follows
            self.board.say(f"records and logs: {shown(folder)}")
        for sample, case, records, seconds in cases:
            log = folder / sample / f"{case}.log"
            ran = seconds is not None or log.exists()
            if ran and self.said.get((sample, case)) != _verdict(records):
                self._say(sample, case, records, seconds, _tail(log))

    def close(self):
        """No more comes of this run."""
        with SCREEN.lock:
            if self.task is not None and SCREEN.progress:
                SCREEN.progress.remove_task(self.task)
            self.task = None

    def _align(self, cases):
        self.widths = [max(map(len, names)) for names in zip(*cases)] or [0, 0]

    def _progress(self, case):
        with SCREEN.lock:
            if SCREEN.progress is None:
                return
            fields = {"board": printable(self.board.name), "case": case}
            if self.task is None:
                self.task = SCREEN.progress.add_task("", total=self.total, **fields)
            SCREEN.progress.reset(self.task, completed=self.number, **fields)  # also its clock

    def _say(self, sample, case, records, seconds, tail):
        self.said[sample, case] = _verdict(records)
        status = status_of(records)
        names = [f"{n:<{width}}" for n, width in zip((sample, case), self.widths)]
        text = Text(f"{names[0]} {names[1]} ")
        text.append(f"{status:<11}", STYLE[status])
        # What never ran has no time.
        text.append(f"{seconds:6.1f} s  " if seconds is not None else " " * 10)
        text.append(printable(key_figure(records)))
        lines = [text]
        if status in ("failed", "error"):
            lines += [f"    {line}" for line in _reasons(records)]
            lines += [f"    | {line}" for line in tail]
            lines += [f"    whole log: {shown(self.folder / sample / case)}.log"] if tail else []
        SCREEN.put(lines, self.board.prefix)


def _verdict(records):
    return Counter((item.variant, item.status) for item in records)


def _tail(path):
    """Return the last lines of a log, short ones; none where there is no log."""
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            return [shortened(line.rstrip("\r\n")) for line in deque(log, TAIL)]
    except OSError:
        return []


def _reasons(records):
    """Return the reasons of what failed in a case, each once, with the kernels' names."""
    bad = [item for item in records if item.status in ("failed", "error")]
    groups = grouped(bad, lambda item: item.reason)
    lines = []
    for reason, items in groups.items():
        kernels = [item.variant for item in items if item.variant]
        who = f"{', '.join(some(kernels, 3, 'kernels'))}: " if kernels else ""
        lines.append(shortened(f"{who}{reason}"))
    return some(lines, MOST_REASONS, "reasons")


def status_of(records):
    """Return the status of a case: the worst of its records', unless only some are unsupported."""
    statuses = {item.status for item in records}
    return next((s for s in ("error", "failed", *GOOD) if s in statuses), "unsupported")


def key_figure(records):
    """Return what a case's line says of it: the best rate, or how many kernels passed."""
    counts = Counter(item.status for item in records if item.variant)
    parts = [f"{counts[each]} {each}" for each in STYLE if counts[each]]
    kernels = [item for item in records if item.status == "passed" and not of_library(item.params)]
    best = max(kernels, key=lambda item: rate(item)[0], default=None)
    if best and rate(best)[0] > 0 and not counts["failed"] + counts["error"]:
        parts[:1] = [f"{rate(best)[1]} {best.variant or ''}"]
    elif parts:
        number, status = parts[0].split()
        parts[0] = f"{number} {'kernel' if number == '1' else 'kernels'} {status}"
    return ", ".join(parts)


def display():
    """Return the Progress for all boards: which, how far, which case, and for how many seconds."""
    texts = ("{task.fields[board]}", "{task.completed:.0f}/{task.total:.0f}",
             "{task.fields[case]} {task.elapsed:.0f} s")
    return progress.Progress(
        progress.SpinnerColumn("line"),
        *(progress.TextColumn(text, markup=False,
                              table_column=Column(no_wrap=True, overflow="ellipsis"))
          for text in texts),
        progress.BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
        console=SCREEN.console, transient=True, expand=True,
        redirect_stdout=False, redirect_stderr=False,
    )
