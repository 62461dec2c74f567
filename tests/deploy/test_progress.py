"""What a user sees of a run: plain lines through a pipe, and progress on a terminal."""

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from types import SimpleNamespace

import pytest

from common.record import GOOD, Record
from deploy import home, progress, runs, table
from deploy.onboard import cases, limits
from tests.conftest import FAB

RATES = """
append(args.json, Record('rates', 'slow', 'passed', metrics={'gflops': 1.5}))
append(args.json, Record('rates', '[red]fast[/red]', 'passed', metrics={'gflops': 12.25}))
append(args.json, Record('rates', 'blas', 'passed', params={'peer': 'b'}, metrics={'gflops': 99.0}))
sys.exit(0)
"""
FAILS = """
for number in range(40):
    print('line', number, 'of ' + 'many words ' * 9)
append(args.json, Record('fails', 'one', 'failed', 'it is wrong'))
append(args.json, Record('fails', 'two', 'failed', 'it is wrong'))
sys.exit(1)
"""
LACKS = """
for number in range(10):
    append(args.json, Record('lacks', 'k%d' % number, 'unsupported', 'it has no fp64'))
sys.exit(77)
"""
SGR = re.compile(r"\x1b\[[0-9;]*m")
TOKEN = re.compile(r"\x1b\[\??[0-9;]*[A-Za-z]|[\r\n]|[^\x1b\r\n]+")


def on_a_terminal(project, *args, env=None, columns=80, see=None, then=None):
    """Run fab on a terminal; gives its exit status and all that it wrote there.

    When `see` appears, the process gets the signal `then`.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen(
        [FAB, *args], cwd=project, stdin=its, stdout=its, stderr=its, start_new_session=True,
        env={**os.environ, "TERM": "xterm-256color", "HOME": str(project.parent), **(env or {})},
    )
    os.close(its)
    said = b""
    while True:
        try:
            said += os.read(ours, 65536)
        except OSError:  # nobody has it open any more
            break
        if see and see.encode() in said:
            process.send_signal(then)
            see = None
    os.close(ours)
    return process.wait(30), said.decode()


def screen_of(text, columns=80):
    """Return the lines that a terminal shows after `text`: enough of one for rich."""
    rows, row, column = [""], 0, 0
    for token in TOKEN.findall(text):
        if token == "\r":
            column = 0
        elif token == "\n":
            row += 1
        elif token == "\x1b[1A":
            row -= 1
        elif token == "\x1b[2K":
            rows[row] = ""
        elif token[0] != "\x1b":
            for letter in token:
                if column == columns:
                    row, column = row + 1, 0
                rows += [""] * (row + 1 - len(rows))
                rows[row] = f"{rows[row]:<{column}}"[:column] + letter + rows[row][column + 1 :]
                column += 1
        else:
            assert SGR.fullmatch(token) or token in ("\x1b[?25l", "\x1b[?25h"), repr(token)
        rows += [""] * (row + 1 - len(rows))
    return [line.rstrip() for line in rows]


@pytest.fixture(autouse=True)
def _no_wishes(monkeypatch):
    """No wish of the tester's own for colours or widths."""
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def stubs(stub):
    """Three samples: with rates, one that fails, and one that is not supported."""
    stub("rates", RATES, cases=("first", "second"))
    stub("fails", FAILS)
    stub("lacks", LACKS)


def test_a_run_through_a_pipe(fab, stubs, project):
    done = fab("deploy", "run-all")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.replace("\n", "").isprintable()  # no control character
    lines = done.stdout.splitlines()
    assert [line.split()[:3] for line in lines if re.match("(rates|fails|lacks) ", line)] == [
        ["fails", "only", "failed"],
        ["lacks", "only", "unsupported"],
        ["rates", "first", "passed"],
        ["rates", "second", "passed"],
    ]
    assert sum(line.endswith(" s  12.25 GFLOPS [red]fast[/red]") for line in lines) == 2
    # Its reason once, the end of its output, and where all of it is.
    at = next(number for number, line in enumerate(lines) if line.startswith("fails"))
    assert lines[at].endswith(" s  2 kernels failed")
    assert lines[at + 1] == "    one, two: it is wrong"
    tail = lines[at + 2 : at + 2 + progress.TAIL]
    assert [line.split()[2] for line in tail] == [str(n) for n in range(40 - progress.TAIL, 40)]
    log = lines[at + 2 + progress.TAIL].removeprefix("    whole log: ")
    assert (project / log).read_text().count("\n") == 40
    # Ten identical reasons are one line.
    assert [line for line in lines if "fp64" in line] == [
        "unsupported: lacks only (10 times): it has no fp64"
    ]
    assert f"records and logs: {log.rsplit('/', 2)[0]}" in lines
    assert any("`fab run fails --case only --verbose`" in line for line in lines)
    assert any("`fab report`" in line for line in lines)
    assert lines[-1] == "6 of 18 passed, 10 unsupported, 2 failed (4 cases)"


def test_verbose_prints_all_that_a_sample_prints(fab, stubs):
    done = fab("deploy", "run-all", "--verbose")
    assert done.returncode == 1
    assert done.stdout.count("   line ") == 40
    assert "== rates second (4 of 4)" in done.stdout
    assert done.stdout.count("it has no fp64") == 1  # its reason once
    assert "error/bound" in done.stdout


def test_a_run_on_a_terminal_of_80_columns(fab, stubs, project):
    assert fab("deploy").returncode == 0
    status, text = on_a_terminal(project, "run-all")
    assert status == 1
    assert re.search(r"local 0/4 fails only \d+ s ", SGR.sub("", text))  # while it ran
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")  # the cursor is there again
    assert "\x1b[32mpassed" in text
    lines = screen_of(text)
    assert max(map(len, lines)) <= 80
    assert not any("━" in line or "0/4" in line for line in lines)  # nothing of it is left
    assert "[red]fast[/red]" in "".join(lines)
    tail = [line for line in lines if line.startswith("    | line")]
    assert len(tail) == progress.TAIL
    assert lines[-2:] == ["6 of 18 passed, 10 unsupported, 2 failed (4 cases)", ""]


@pytest.mark.parametrize(
    ("env", "never", "progresses"),
    [({"NO_COLOR": "1"}, r"\x1b\[(\d+;)*[349]\d[;m]", True), ({"TERM": "dumb"}, "\x1b", False)],
)
def test_a_terminal_that_can_or_shall_do_less(stub, project, env, never, progresses):
    stub("one", "time.sleep(0.5)")
    status, text = on_a_terminal(project, "deploy", "run-all", env=env)
    assert status == 0
    assert not re.search(never, text)
    assert ("0/1" in text) == progresses
    assert screen_of(text)[-2] == "1 of 1 passed (1 case)"


def test_colours_that_are_forced_into_a_pipe_are_no_progress(fab, stub):
    stub("one")
    done = fab("deploy", "run-all", env={"FORCE_COLOR": "1"})
    assert "\x1b[32mpassed" in done.stdout
    assert "\x1b[?25l" not in done.stdout
    assert "\r" not in done.stdout


def test_ctrl_c_leaves_the_terminal_clean(fab, stub, project):
    stub("slow", "time.sleep(300)")
    stub("z_later")
    assert fab("deploy").returncode == 0
    status, text = on_a_terminal(project, "run-all", see="slow only 1 s", then=signal.SIGINT)
    assert status == 130
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    lines = screen_of(text)
    assert not any("━" in line for line in lines)
    assert "stopping" in lines
    assert "    stopped" in lines  # the case's reason
    assert not any("z_later" in line for line in lines)  # it never ran
    assert any(line.startswith("records and logs: results/local/") for line in lines)
    assert "Traceback" not in text


def test_the_lines_of_two_boards_do_not_mix(fab, stubs, odroid, ssh_server, tmp_path):
    blocks = odroid.host_block("odroid") + ssh_server("firefly").host_block("firefly")
    (tmp_path / ".ssh" / "config").write_text(blocks)
    done = fab("-H", "odroid,firefly", "deploy", "run-all")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    during = lines[: lines.index("")]
    assert all(re.match(r"(odroid |firefly) \| ", line) for line in during)
    for board in ("odroid ", "firefly"):
        # All about a failure stands together.
        at = next(n for n, line in enumerate(during) if line.startswith(f"{board} | fails"))
        block = during[at + 1 : at + 3 + progress.TAIL]
        assert all(line.startswith(f"{board} |     ") for line in block)
        assert "whole log: " in block[-1]
    assert "unsupported: odroid, firefly: lacks only (20 times): it has no fp64" in lines
    assert lines[-1] == "12 of 36 passed, 20 unsupported, 4 failed (8 cases)"


class Board:
    """What a view needs of a board."""

    name, prefix, stopping = "odroid", "", False

    def __init__(self):
        self.said = []

    def say(self, text):
        self.said.append(text)


def event(*lines, **more):
    """Return the end of a case with these lines as its records."""
    return {"sample": "s", "case": "c", "reason": None, "exit_status": 0, "seconds": 1.0,
            "records": list(lines), "whole": True, **more}


LINE = Record("s", "k", "passed").to_line()


def test_records_that_come_with_the_end_of_a_case():
    assert [item.status for item in runs.sent(event(LINE), {})] == ["passed"]
    more = runs.sent(event(LINE, "{", "[]", '{"schema": 2}'), {})
    assert [item.status for item in more] == ["passed", "error"]
    assert more[1].reason.startswith("a record cannot be read: c.jsonl:2: ")
    (none,) = runs.sent(event(), {})
    assert none.reason == "ended with status 0 and left no record"
    # What was too much to be sent may explain the status.
    cut = runs.sent(event(LINE, whole=False, exit_status=1), {})
    assert [item.status for item in cut] == ["passed"]


KNOWN = {"s": SimpleNamespace(expected={"c": {"output_sha256": "right"}},
                              texts={"c": "a line that is not printed"})}


def test_a_result_that_differs_from_expected_json_shows_as_the_case_ends():
    line = Record("s", "k", "passed", check={"output_sha256": "wrong"}).to_line()
    assert runs.sent(event(line), KNOWN)[0].status == "failed"
    assert runs.sent(event(line), {})[0].status == "passed"


@pytest.mark.parametrize(
    "bad",
    [
        event("x" * (limits.FIRST_RECORDS + 1)),
        event(records=None),
        event(records=[7]),
        event(seconds="[red]"),
        event(seconds=10**400),
        event(sample=[]),
        event(sample="another"),
        {"sample": "s", "case": "c"},
    ],
    ids=lambda bad: str(bad)[:40],
)
def test_an_end_that_makes_no_sense_costs_one_board(bad):
    view = progress.View(Board(), [("s", "c")], "results")
    session = SimpleNamespace(event=lambda beats: {**bad, "event": "end"})
    with pytest.raises(runs.BoardError, match="it sends invalid data") as caught:
        runs._Talk(view, session, {}, [("s", "c")], "run").follow()
    assert len(str(caught.value)) < 1000


def test_a_number_that_no_float_holds_is_no_rate():
    line = LINE.replace('"metrics": {}', '"metrics": {"gflops": 1%s}' % ("0" * 400))
    (item,) = runs.sent(event(line), {})
    assert item.status == "error"
    assert "metrics.gflops is not a number that a float holds" in item.reason


def test_the_board_sends_whole_lines_up_to_a_limit(tmp_path, monkeypatch):
    path = tmp_path / "records.jsonl"
    assert cases.first_records(str(path)) == ([], True)
    path.write_bytes(b"one\ntwo\xff\n")
    assert cases.first_records(str(path)) == (["one", "two\ufffd"], True)
    path.write_bytes(b"one\ntwo")  # what ended before its newline is for the reader to refuse
    assert cases.first_records(str(path)) == (["one", "two"], True)
    monkeypatch.setattr(limits, "FIRST_RECORDS", 6)
    assert cases.first_records(str(path)) == (["one"], False)
    path.write_bytes(b"\xff\xff\n")  # as JSON it is larger: twelve letters, and two quotes
    assert cases.first_records(str(path)) == ([], False)


@pytest.mark.parametrize(
    ("statuses", "figure", "status"),
    [
        (["passed"], "1 kernel passed", "passed"),
        (["passed", "passed", "unsupported"], "2 kernels passed, 1 unsupported", "passed"),
        (["unsupported", "unsupported"], "2 kernels unsupported", "unsupported"),
        (["built", "built", "unsupported"], "2 kernels built, 1 unsupported", "built"),
        (["built", "failed"], "1 kernel built, 1 failed", "failed"),
        (["passed", "failed", "error"], "1 kernel passed, 1 failed, 1 error", "error"),
    ],
)
def test_what_a_checking_case_shows(statuses, figure, status):
    records = [Record("s", "k", each, None if each in GOOD else each) for each in statuses]
    assert (progress.key_figure(records), progress.status_of(records)) == (figure, status)


def test_what_was_only_built_is_a_success_and_is_not_compared(capsys, tmp_path):
    (item,) = runs.sent(event(Record("s", "k", "built").to_line()), KNOWN)
    assert item.status == "built"
    assert home.misprinted([item], KNOWN, tmp_path / "s" / "c") == []
    bad = Record("s", "k", "failed", "it does not compile")
    table.brief([runs.Row("g52", "c", each) for each in (item, item, bad)], {})
    said = capsys.readouterr().out.splitlines()
    assert said[-1] == "2 of 3 built, 1 failed (1 case)"
    assert not any(line.startswith("built") for line in said)
    item.device = {"name": "Mali-G52", "type": "gpu"}
    assert table.ran_on([runs.Row("g52", "c", item)]) == ["g52 compiled for Mali-G52 (gpu)"]


def test_a_case_is_shown_again_only_if_it_was_judged_otherwise(capsys, tmp_path):
    view = progress.View(Board(), [("s", "c")], tmp_path)
    view.end(event(), [Record("s", "k", "passed")])
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "c.log").write_text("what it printed\n")
    view.home([home.Case("s", "c", [Record("s", "k", "passed")], 1.0)], tmp_path)
    assert capsys.readouterr().out == "s c passed        1.0 s  1 kernel passed\n"
    failed = Record("s", "k", "failed", "not the same")
    view.home([home.Case("s", "c", [failed], 1.0), home.Case("s", "d", [], None)], tmp_path)
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "s c failed        1.0 s  1 kernel failed"
    assert said[1:3] == ["    k: not the same", "    | what it printed"]


def test_what_a_board_calls_a_sample_never_gets_into_a_command(capsys):
    rows = [runs.Row("odroid", "c", Record("x; rm -rf ~ #", "k", "failed", "it is wrong"))]
    table.brief(rows, {})
    assert "fab run" not in capsys.readouterr().out
    rows = [runs.Row("odroid", "c", Record("x", "k", "failed", "it is wrong"))]
    table.brief(rows, {})
    assert "`fab run x --case c --host odroid --verbose`" in capsys.readouterr().out


def test_off_a_terminal_a_long_case_says_that_it_is_alive(monkeypatch):
    board = Board()
    view = progress.View(board, [("s", "c")], "results")
    view.start({"sample": "s", "case": "c"})
    view.beat()
    assert board.said == ["running 1 case"]
    now = time.monotonic()
    monkeypatch.setattr(progress.time, "monotonic", lambda: now + progress.ALIVE + 5)
    view.beat()
    view.beat()
    assert board.said[1:] == ["s c: still running after 65 s"]
    view.end(event(), [Record("s", "k", "passed")])
    monkeypatch.setattr(progress.time, "monotonic", lambda: now + 3 * progress.ALIVE)
    view.beat()
    assert len(board.said) == 2
