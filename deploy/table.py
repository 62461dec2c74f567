"""The summary of runs for the terminal: in brief, or as a table with a row for each kernel."""

import sys
from collections import Counter
from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from common import record
from common.text import figures, printable
from deploy import samples
from deploy.boards import LOCAL
from deploy.screen import SCREEN, shortened

STYLE = {"passed": "green", "built": "green", "unsupported": "yellow", "failed": "bold red",
         "error": "bold red"}  # fmt: skip

MOST_GROUPS = 20  # different reasons for one status
MOST_CASES = 4  # that are named for one reason


def brief(rows, failures, folders):
    """Print what did not pass, each reason once, where it ran, how many passed, what to do next.

    `failures` says, by the board's name, why a board was given up; `folders` are those with the
    records and logs of these rows.
    """
    several = len({row.board for row in rows}) > 1
    bad = [row for row in rows if row.record.status not in record.GOOD]
    groups = grouped(bad, lambda row: (row.record.status, row.record.reason))
    lines = []
    for status in ("unsupported", "failed", "error"):
        mine = [(reason, found) for (each, reason), found in groups.items() if each == status]
        for reason, found in mine[:MOST_GROUPS]:
            lines.append(shortened(f"{status}: {_where(found, several)}: {reason}"))
        if len(mine) > MOST_GROUPS:
            lines.append(f"{status}: {len(mine) - MOST_GROUPS} more reasons")
    lines += ran_on(rows)
    lines += [_home(folder) for folder in folders]
    wrong = [row for row in bad if row.record.status != "unsupported" and _can_run(row)]
    if wrong:
        host = "" if wrong[0].board == LOCAL else f" --host {wrong[0].board}"
        case = f"{wrong[0].record.sample} --case {wrong[0].case}{host}"
        lines.append(f"next: `fab run {case} --verbose` shows the output of the first failed case")
    lines.append(f"{'also' if wrong else 'next'}: `fab report` makes one page of all results")
    cases = len({(row.board, row.record.sample, row.case) for row in rows})
    lines.append(f"{_count(rows)} ({cases} {'case' if cases == 1 else 'cases'})")
    lines += [f"no results of {board}: {reason}" for board, reason in failures.items()]
    SCREEN.put(["", *lines], indent=4)


def _count(rows):
    """Return how many records there are of each status, such as `3 of 4 passed, 1 failed`."""
    counts = Counter(row.record.status for row in rows)
    first = "built" if counts["built"] and not counts["passed"] else "passed"
    others = [f"{counts[each]} {each}" for each in STYLE if each != first and counts[each]]
    return ", ".join([f"{counts[first]} of {len(rows)} {first}", *others])


def _can_run(row):
    """Tell whether a record names a case that a command can: boards write what they like."""
    return all(samples.NAME.fullmatch(name) for name in (row.record.sample, row.case))


def _where(rows, several):
    """Return which cases, and on which boards, a reason is of."""
    cases = list(dict.fromkeys(f"{row.record.sample} {row.case}" for row in rows))
    more = [f"{len(cases) - MOST_CASES} more cases"] if len(cases) > MOST_CASES else []
    boards = f"{', '.join(dict.fromkeys(row.board for row in rows))}: " if several else ""
    count = f" ({len(rows)} times)" if len(rows) > 1 else ""
    return f"{boards}{', '.join([*cases[:MOST_CASES], *more])}{count}"


def grouped(items, key):
    """Return lists of the items that have the same key, by that key, in their order."""
    groups = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


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
            *(Text(printable(cell)) for cell in cells), Text(item.status, STYLE[item.status]),
            _run_time(item), rate(item)[1], _error(item),
        )  # fmt: skip
    put(table)
    for row in rows:
        if row.record.status not in record.GOOD:
            where = f"{row.board}: {row.record.sample} {row.case}"
            line(f"{where}: {row.record.status}: {row.record.reason}")
    devices(rows)
    line(_count(rows))
    for board, reason in failures.items():
        line(f"no results of {board}: {reason}")


def devices(rows):
    """Print on which device each board ran: one on the CPU must not pass for one on the GPU."""
    for text in ran_on(rows):
        line(text)


def ran_on(rows):
    """Return lines that say on which device each board ran, and which drivers it passed over."""
    known = {(row.board, _device(row.record)) for row in rows if row.record.device}
    silent = {row.board for row in rows} - {board for board, _ in known}
    found = sorted({*known, *((board, "no device") for board in silent)})
    passed = sorted({(r.board, text) for r in rows for text in _skipped(r.record)})
    return [
        *(f"{board} ran on {name}" for board, name in found),
        *(shortened(f"{board} skipped {text}") for board, text in passed),
    ]


def folders(found):
    """Print where records and logs are."""
    for folder in found:
        line(_home(folder))


def _home(folder):
    return f"records and logs: {folder}"


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
    if SCREEN.progress:
        return SCREEN.console  # other boards are still at work: it prints above what is shown
    # Off a terminal rich assumes 80 columns and would truncate the cells.
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=160)


def _device(item):
    about = item.device
    return shortened(f"{about.get('name')} ({about.get('type')})") if about else "no device"


def _skipped(item):
    """Return why drivers were not chosen by default, as the board says it."""
    texts = item.device.get("skipped")
    return map(str, texts) if isinstance(texts, list) else []


def _run_time(item):
    times = item.times()
    return f"{median(times) * 1e3:.4g} ms" if times else "-"


def rate(item):
    """Return the rate of a record as a number and as text with its unit; (0, "-") without one."""
    for key, unit in (("gflops", "GFLOPS"), ("gbytes_per_s", "GB/s")):
        value = item.metrics.get(key)
        # JSON has whole numbers that no float can hold.
        if value is not None and abs(value) < sys.float_info.max:
            return value, f"{figures(value)} {unit}"
    return 0, "-"


def _error(item):
    value = item.check.get("error_over_bound")
    return "-" if value is None else f"{value:.3g}"
