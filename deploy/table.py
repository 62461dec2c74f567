"""The summary of runs as a table for the terminal."""

from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from common.timing import figures

_STYLE = {"passed": "green", "failed": "bold red", "error": "bold red", "unsupported": "yellow"}


def show(rows, failures):
    """Print a row for each record, then the reasons of those that did not pass.

    `failures` says, by the board's name, why a board was given up.
    """
    boards = {row.board for row in rows}
    table = Table(box=box.SIMPLE_HEAD)
    for heading in (*(["board"] if len(boards) > 1 else []), "sample", "case", "kernel", "status"):
        table.add_column(heading, no_wrap=True)
    for heading in ("run time", "rate", "error/bound"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        item = row.record
        cells = [*([row.board] if len(boards) > 1 else []), item.sample, row.case]
        table.add_row(
            *cells, item.variant or "-", Text(item.status, _STYLE[item.status]),
            _run_time(item), _rate(item), _error(item),
        )  # fmt: skip
    # Off a terminal rich assumes 80 columns and would cut the cells.
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=160)
    console.print(table)
    for row in rows:
        if row.record.status != "passed":
            where = f"{row.board}: {row.record.sample} {row.case}"
            console.print(f"{where}: {row.record.status}: {row.record.reason}", markup=False)
    passed = sum(row.record.status == "passed" for row in rows)
    console.print(f"{passed} of {len(rows)} passed")
    for board, reason in failures.items():
        console.print(f"no results of {board}: {reason}", markup=False)


def _run_time(item):
    times = item.timing.get("run_s")
    return f"{median(times) * 1e3:.4g} ms" if times else "-"


def _rate(item):
    for key, unit in (("gflops", "GFLOPS"), ("gbytes_per_s", "GB/s")):
        if item.metrics.get(key) is not None:
            return f"{figures(item.metrics[key])} {unit}"
    return "-"


def _error(item):
    value = item.check.get("error_over_bound")
    return "-" if value is None else f"{value:.3g}"
