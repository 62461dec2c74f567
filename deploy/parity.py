"""Compare a board's outputs with this machine's, case by case and bit by bit."""

from typing import NamedTuple

from rich.text import Text

from common import outputs
from common.errors import UsageError
from deploy import progress, runs, samples, ship, table
from deploy.boards import LOCAL
from deploy.screen import SCREEN, shortened

EQUAL, DIFFER, UNKNOWN = "equal", "DIFFER", "-"
_STYLE = {EQUAL: "green", DIFFER: "bold red"}


class Finding(NamedTuple):
    """One case on one board, beside this machine.

    inputs, golden: EQUAL, DIFFER or UNKNOWN, golden only for a golden case. ulp: (distance, kernel)
    of the outputs that are farthest apart, None where none can be compared. trouble: why a kernel
    gave no result that passed, on either side. good: nothing of it need worry a person.
    """

    board: str
    case: samples.Case
    kernels: int
    inputs: str
    golden: str
    ulp: tuple | None
    trouble: str | None
    good: bool


def parity(fleet, host):
    """Run the cases here and on the boards, print how they compare; return whether all is good."""
    boards = [board for board in fleet.select(host) if board.name != LOCAL]
    if not boards:
        raise UsageError("parity compares this machine with a board: give --host")
    if only := [board.name for board in boards if board.settings.build_only]:
        raise UsageError(f"parity compares results: {only[0]} compiles and runs nothing")
    loaded, name = samples.load(), runs.name_run()
    nowhere = set.intersection(*(set(board.settings.skip) for board in boards))

    def work(board):
        ship.deploy(board)
        skip = nowhere if board.name == LOCAL else board.settings.skip
        return runs.run(board, samples.every(loaded, skip), name, arrays=True)

    rows = fleet.each(host, work, progress.display, also=[LOCAL])
    here = rows.pop(LOCAL, None)
    if here is None:
        return False
    findings = [item for there in rows.values() for item in compare(here, there, name, loaded)]
    _show(findings)
    SCREEN.put(table.ran_on([*here, *(row for there in rows.values() for row in there)]))
    return all(item.good for item in findings)


def compare(here, there, name, loaded):
    """Return a Finding for each case of the board's Rows `there`, beside this machine's `here`.

    `name` is the run's, under which both kept their arrays; `loaded` the samples.
    """
    cases = {(case.sample, case.name): case for case in samples.every(loaded)}
    found = []
    for key in dict.fromkeys((row.record.sample, row.case) for row in there):
        sides = [[r for r in rows if (r.record.sample, r.case) == key] for rows in (here, there)]
        # A board may have lost what it was to do, or have cases that this checkout lacks.
        case = cases.get(key) or samples.Case(*key, args=(), timeout=1, golden=False)
        found.append(_finding(case, *sides, name))
    return found


def _finding(case, here, there, name):
    board, trouble, good = there[0].board, None, True
    inputs = _digests(here, there, "inputs_sha256")
    golden = _digests(here, there, "output_sha256") if case.golden else UNKNOWN
    bad = [row for row in [*here, *there] if row.record.status != "passed"]
    if bad:
        worst = next((row for row in bad if row.record.status != "unsupported"), bad[0])
        trouble = f"{worst.board}: {worst.record.reason}"
        good = worst.record.status == "unsupported"
    elif not here:
        trouble, good = f"{LOCAL}: it did not run here", False
    elif case.golden:  # compared with nothing is not equal
        good = golden == EQUAL
    good = good and DIFFER not in (inputs, golden)
    ulp = None if case.golden else _farthest(case, board, name)
    return Finding(board, case, len(there), inputs, golden, ulp, trouble, good)


def _digests(here, there, key):
    """Tell whether all kernels on both sides have the same digest, as those of one case must."""
    ours, theirs = ({r.record.check.get(key) for r in rows} - {None} for rows in (here, there))
    if not (ours and theirs):
        return UNKNOWN
    return EQUAL if len(ours | theirs) == 1 else DIFFER


def _farthest(case, board, name):
    """Return (distance, kernel) of the arrays that are farthest apart, or None without arrays."""
    try:
        ours, theirs = (
            outputs.read(runs.RESULTS / side / name / case.sample / f"{case.name}.npz")
            for side in (LOCAL, board)
        )
        both = [kernel for kernel in ours if kernel in theirs]
        distances = [(outputs.ulp_distance(ours[k], theirs[k]), shortened(k)) for k in both]
    except ValueError:
        return None
    return max(distances, default=None)


def _show(findings):
    alone = len({item.board for item in findings}) == 1
    left = ["board", "sample", "case", "kernels", "inputs", "golden bits"]
    SCREEN.table(left[alone:], ["largest distance"], [_cells(item)[alone:] for item in findings])
    lines = [f"{f.case.sample} {f.case.name}: {f.trouble}" for f in findings if f.trouble]
    for board in dict.fromkeys(item.board for item in findings):
        mine = [item for item in findings if item.board == board]
        golden = [item.golden for item in mine if item.case.golden]
        text = f"{golden.count(EQUAL)} of {len(golden)} golden cases equal to this machine's"
        lines.append(f"{board}: {text}, {sum(f.good for f in mine)} of {len(mine)} cases good")
    SCREEN.put(lines)


def _cells(item):
    distance = f"{item.ulp[0]} ulp" if item.ulp else UNKNOWN
    distance += f" ({item.ulp[1]})" if item.ulp and item.ulp[0] else ""
    compared = (Text(text, _STYLE.get(text, "")) for text in (item.inputs, item.golden))
    return [item.board, item.case.sample, item.case.name, str(item.kernels), *compared, distance]
