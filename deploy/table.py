"""The summary of runs as a table for the terminal."""

from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from common.timing import figures
from deploy.errors import printable

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
        cells += [item.variant or "-"]
        table.add_row(
            *(Text(printable(cell)) for cell in cells), Text(item.status, _STYLE[item.status]),
            _run_time(item), _rate(item), _error(item),
        )  # fmt: skip
    # Off a terminal rich assumes 80 columns and would cut the cells.
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=160)
    console.print(table)
    for row in rows:
        if row.record.status != "passed":
            where = f"{row.board}: {row.record.sample} {row.case}"
            _line(console, f"{where}: {row.record.status}: {row.record.reason}")
    for board, name in sorted({(row.board, _device(row.record)) for row in rows}):
        _line(console, f"{board} ran on {name}")
    passed = sum(row.record.status == "passed" for row in rows)
    _line(console, f"{passed} of {len(rows)} passed")
    for board, reason in failures.items():
        _line(console, f"no results of {board}: {reason}")


def _line(console, text):
    console.print(Text(printable(text)), soft_wrap=True)


def _device(item):
    """Return the device of a record: a run on the CPU must not pass for one on the GPU."""
    return f"{item.device['name']} ({item.device['type']})" if item.device else "no device"


def _run_time(item):
    times = item.timing.get("run_s")
    if times and min(times) <= 0:  # the driver's events hold no times
        times = item.timing.get("host_s")
    return f"{median(times) * 1e3:.4g} ms" if times else "-"


def _rate(item):
    for key, unit in (("gflops", "GFLOPS"), ("gbytes_per_s", "GB/s")):
        if item.metrics.get(key) is not None:
            return f"{figures(item.metrics[key])} {unit}"
    return "-"


def _error(item):
    value = item.check.get("error_over_bound")
    return "-" if value is None else f"{value:.3g}"
