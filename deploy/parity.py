"""Compare a board's outputs with this machine's, case by case and bit by bit."""

from typing import NamedTuple

from rich.text import Text

from common import outputs
from common.errors import UsageError
from common.manifest import Case
from common.stats import grouped
from deploy import progress, runs, samples, ship, table
from deploy.boards import LOCAL
from deploy.screen import SCREEN, shortened

EQUAL, DIFFER, UNKNOWN = "equal", "DIFFER", "-"
_STYLE = {EQUAL: "green", DIFFER: "bold red"}


class Finding(NamedTuple):
    """One case on one board, beside this machine.

    inputs, golden: EQUAL, DIFFER or UNKNOWN, golden only for a golden case. farthest: how far apart
    the outputs are, and of which kernel. trouble: why a kernel gave no result that passed, on
    either side. good: nothing of it need worry a person.
    """

    board: str
    case: Case
    kernels: int
    inputs: str
    golden: str
    farthest: str
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
        skip = nowhere if board.name == LOCAL else board.settings.skip
        cases = samples.every(loaded, skip, f"board {board.name} in boards.toml: skip")
        return runs.run(board, cases, name, arrays=True)

    fleet.each(host, ship.deploy, also=[LOCAL])
    if all(board.failed for board in boards):
        return False
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
    ours, theirs = (grouped(rows, lambda row: (row.record.sample, row.case))
                    for rows in (here, there))
    # A board may have lost what it was to do, or have cases that this checkout lacks.
    return [_finding(cases.get(key) or Case(*key, (), 1), ours.get(key, []), rows, name)
            for key, rows in theirs.items()]


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
    farthest = UNKNOWN if case.golden else _farthest(case, board, name)
    return Finding(board, case, len(there), inputs, golden, farthest, trouble, good)


def _digests(here, there, key):
    """Tell whether all kernels on both sides have the same digest, as those of one case must."""
    ours, theirs = ({r.record.check.get(key) for r in rows} - {None} for rows in (here, there))
    if not (ours and theirs):
        return UNKNOWN
    return EQUAL if len(ours | theirs) == 1 else DIFFER


def _farthest(case, board, name):
    """Return the distance of the arrays that are farthest apart, as text with their kernel."""
    try:
        ours, theirs = (
            outputs.read(runs.RESULTS / side / name / case.sample / f"{case.name}.npz")
            for side in (LOCAL, board)
        )
        distances = [(outputs.ulp_distance(ours[k], theirs[k]), k) for k in ours if k in theirs]
        distance, kernel = max(distances)
    except ValueError:  # also where there are none
        return UNKNOWN
    return f"{distance} ulp" + (f" ({shortened(kernel)})" if distance else "")


def _show(findings):
    left = ["board", "sample", "case", "kernels", "inputs", "golden bits"]
    SCREEN.table(left, ["largest distance"], [
        [f.board, f.case.sample, f.case.name, str(f.kernels),
         *(Text(text, _STYLE.get(text, "")) for text in (f.inputs, f.golden)), f.farthest]
        for f in findings])
    lines = [f"{f.case.sample} {f.case.name}: {f.trouble}" for f in findings if f.trouble]
    for board in dict.fromkeys(item.board for item in findings):
        mine = [item for item in findings if item.board == board]
        golden = [item.golden for item in mine if item.case.golden]
        text = f"{golden.count(EQUAL)} of {len(golden)} golden cases equal to this machine's"
        lines.append(f"{board}: {text}, {sum(f.good for f in mine)} of {len(mine)} cases good")
    SCREEN.put(lines)
