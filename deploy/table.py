"""The summary of runs as a table for the terminal."""

from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from common.text import printable
from common.timing import figures

_STYLE = {"passed": "green", "failed": "bold red", "error": "bold red", "unsupported": "yellow"}


def show(rows, failures):
    """Print a row for each record, then the reasons of those that did not pass.

    `failures` says, by the board's name, why a board was given up.
    """
    boards = {row.board for row in rows}
    table = new(
        [*(["board"] if len(boards) > 1 else []), "sample", "case", "kernel", "status"],
        ["run time", "rate", "error/bound"],
    )
    for row in rows:
        item = row.record
        cells = [*([row.board] if len(boards) > 1 else []), item.sample, row.case]
        cells += [item.variant or "-"]
        table.add_row(
            *(Text(printable(cell)) for cell in cells), Text(item.status, _STYLE[item.status]),
            _run_time(item), _rate(item), _error(item),
        )  # fmt: skip
    put(table)
    for row in rows:
        if row.record.status != "passed":
            where = f"{row.board}: {row.record.sample} {row.case}"
            line(f"{where}: {row.record.status}: {row.record.reason}")
    devices(rows)
    passed = sum(row.record.status == "passed" for row in rows)
    line(f"{passed} of {len(rows)} passed")
    for board, reason in failures.items():
        line(f"no results of {board}: {reason}")


def devices(rows):
    """Print on which device each board ran: one on the CPU must not pass for one on the GPU."""
    for board, name in sorted({(row.board, _device(row.record)) for row in rows}):
        line(f"{board} ran on {name}")
    for board, text in sorted({(r.board, text) for r in rows for text in _passed_over(r.record)}):
        line(f"{board} passed over {text}")


def new(left, right):
    """Return a Table with columns of text, headed `left`, and then of numbers, headed `right`."""
    table = Table(box=box.SIMPLE_HEAD)
    for heading in left:
        table.add_column(heading, no_wrap=True)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def put(table):
    """Print a Table."""
    _console().print(table)


def line(text):
    """Print a line of any length."""
    _console().print(Text(printable(text)), soft_wrap=True)


def _console():
    # Off a terminal rich assumes 80 columns and would cut the cells.
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=160)


def _device(item):
    return f"{item.device['name']} ({item.device['type']})" if item.device else "no device"


def _passed_over(item):
    """Return why drivers were not chosen by default, as the board says it."""
    texts = item.device.get("passed_over")
    return map(str, texts) if isinstance(texts, list) else []


def _run_time(item):
    times = item.times()
    return f"{median(times) * 1e3:.4g} ms" if times else "-"


def _rate(item):
    for key, unit in (("gflops", "GFLOPS"), ("gbytes_per_s", "GB/s")):
        if item.metrics.get(key) is not None:
            return f"{figures(item.metrics[key])} {unit}"
    return "-"


def _error(item):
    value = item.check.get("error_over_bound")
    return "-" if value is None else f"{value:.3g}"
