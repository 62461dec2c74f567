"""The summary of runs for the terminal, and a table with a row for each kernel."""

import shlex
from collections import Counter
from statistics import median

from rich.text import Text

from common import record
from common.manifest import NAME
from common.stats import grouped
from common.text import figures
from deploy.boards import LOCAL
from deploy.screen import SCREEN, shortened, some

STYLE = {"passed": "green", "built": "green", "unsupported": "yellow", "failed": "bold red",
         "error": "bold red"}

MOST_GROUPS = 20  # different reasons for one status
MOST_CASES = 4  # that are named for one reason


def brief(rows, failures, words=()):
    """Print what did not pass, each reason once, where it ran, how many passed, what to do next.

    `failures` says, by the board's name, why a board was given up. `words` are the options that the
    user gave in place of a case.
    """
    several = len({row.board for row in rows}) > 1
    bad = [row for row in rows if row.record.status not in record.GOOD]
    groups = grouped(bad, lambda row: (row.record.status, row.record.reason))
    lines = []
    for status in ("unsupported", "failed", "error"):
        mine = [shortened(f"{status}: {_where(found, several)}: {reason}")
                for (each, reason), found in groups.items() if each == status]
        lines += some(mine, MOST_GROUPS, f"reasons for {status}")
    lines += dict.fromkeys(map(shortened, _remarks(rows)))
    lines += ran_on(rows)
    # Boards write what they like: it may be nothing for a command.
    wrong = [row for row in bad if row.record.status != "unsupported"
             and NAME.fullmatch(row.record.sample) and NAME.fullmatch(row.case)]
    if wrong:
        host = "" if wrong[0].board == LOCAL else f" --host {wrong[0].board}"
        case = "" if words else f" --case {wrong[0].case}"
        again = f"{wrong[0].record.sample}{case}{host} --verbose"
        again += f" -- {shlex.join(words)}" if words else ""
        lines.append(f"next: `fab run {again}` shows the output of the first failed case")
    lines.append(f"{'also' if wrong else 'next'}: `fab report` makes one page of all results")
    cases = len({(row.board, row.record.sample, row.case) for row in rows})
    lines.append(f"{_count(rows)} ({cases} {'case' if cases == 1 else 'cases'})")
    lines += [f"no results of {board}: {reason}" for board, reason in failures.items()]
    SCREEN.put(["", *lines])


def _remarks(rows):
    """Yield what a person must know of records that passed: how a long run ended, and energy that
    could not be measured."""
    for row in rows:
        metrics, where = row.record.metrics, f"{row.record.sample} {row.case}"
        if long := metrics.get("sustained"):
            yield f"{where}: {long.get('verdict')}: {long.get('why')}"
        if metrics.get("energy") == {}:
            yield f"{where}: no energy: {row.board} has no readable power sensor"


def _count(rows):
    """Return how many records there are of each status, such as `3 of 4 passed, 1 failed`."""
    counts = Counter(row.record.status for row in rows)
    first = "built" if counts["built"] and not counts["passed"] else "passed"
    others = [f"{counts[each]} {each}" for each in STYLE if each != first and counts[each]]
    return ", ".join([f"{counts[first]} of {len(rows)} {first}", *others])


def _where(rows, several):
    """Return which cases, and on which boards, a reason is of."""
    cases = list(dict.fromkeys(f"{row.record.sample} {row.case}" for row in rows))
    boards = f"{', '.join(dict.fromkeys(row.board for row in rows))}: " if several else ""
    count = f" ({len(rows)} times)" if len(rows) > 1 else ""
    return f"{boards}{', '.join(some(cases, MOST_CASES, 'cases'))}{count}"


def show(rows):
    """Print a table with a row for each record."""
    left = ["board", "sample", "case", "kernel", "status"]
    SCREEN.table(left, ["run time", "rate", "error/bound"], [_cells(row) for row in rows])


def _cells(row):
    item = row.record
    times, error = item.times(), item.check.get("error_over_bound")
    return [
        row.board,
        item.sample,
        row.case,
        item.variant or "-",
        Text(item.status, STYLE[item.status]),
        f"{median(times) * 1e3:.4g} ms" if times else "-",
        rate(item)[1],
        "-" if error is None else f"{error:.3g}",
    ]


def ran_on(rows):
    """Return lines with each board's device and skipped drivers, and with the folders of runs."""
    compiled = {row.board for row in rows if row.record.status == "built"}
    about = [(row.board, row.record.device) for row in rows]
    found = {(board, shortened(f"{its['name']} ({its['type']})")) for board, its in about if its}
    found |= {(board, "no device") for board, _ in about if board not in dict(found)}
    passed = {(board, text) for board, its in about for text in its.get("skipped", ())}
    return [
        *(f"{board} {'compiled for' if board in compiled else 'ran on'} {name}"
          for board, name in sorted(found)),
        *(shortened(f"{board} skipped {text}") for board, text in sorted(passed)),
        *dict.fromkeys(f"records and logs: {row.folder}" for row in rows if row.folder),
    ]


def rate(item):
    """Return the rate of a record as a number and as text with its unit; (0, "-") without one."""
    for key in record.RATES:
        if (value := item.metrics.get(key)) is not None:
            return value, f"{figures(value)} {record.unit(key, item.params)}"
    return 0, "-"
