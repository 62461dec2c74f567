"""Boards that are broken, or controlled by others: fab stays small, ends in time and says why."""

import os
import re
import subprocess
import sys
import time

import pytest

from common import manifest
from deploy import doctor, link, provision, runs, ship
from deploy.boards import Settings
from deploy.errors import BoardError
from deploy.fleet import Board
from deploy.onboard import limits
from tests.conftest import FAB
from tests.deploy.test_deploy import records
from tests.dev import usage

LARGEST = 300 * 1024  # KiB of memory that fab may take, whatever comes
RUN = "20260101T000000.000Z"

# What is started in place of a board's python. It takes fab's program, and runs `code` instead.
BOARD = """#!{python}
import itertools, json, os, sys, time
i, o = sys.stdin.buffer, sys.stdout.buffer
for _ in range(2):
    i.read(int(i.readline()))
request = json.loads(i.readline())

def say(event, data=b"", **more):
    o.write(json.dumps(dict(more, event=event)).encode() + b"\\n" + data)

def send(path, data):
    say("file", data, path=path, bytes=len(data))

def whole():
    say("whole", left=[], files=0, bytes=0)
    o.flush()
    return i.readline()

def plan(*names):
    cases = [{{"sample": "s", "case": n}} for n in names]
    send("plan.json", json.dumps({{"cases": cases}}).encode())

OUTCOME = json.dumps(dict(reason=None, exit_status=0, seconds=1.0, argv=[])).encode()
RECORD = dict(sample="s", variant="k", status="passed", reason=None, params={{}}, device={{}},
              environment={{}}, timing={{}}, metrics={{}}, check={{}}, argv=[], schema=1,
              started="")
RUN = "{run}"
say("hello", token=request["token"])
try:
{code}
    o.flush()
except BrokenPipeError:
    os._exit(1)
"""


def write_python(path, code):
    """Write what stands in for a board's python."""
    lines = "".join(f"    {line}\n" for line in code.strip("\n").split("\n"))
    path.write_text(BOARD.format(python=sys.executable, code=lines, run=RUN))
    path.chmod(0o755)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A Board with such a python; what comes home lies in tmp_path."""
    monkeypatch.setattr(runs, "RESULTS", tmp_path / "results")

    def make(code):
        write_python(tmp_path / "python", code)
        return Board("test", Settings(), link.LocalLink(str(tmp_path / "python")))

    return make


FLOODS = {
    "a line without end": (
        "for _ in itertools.count(): o.write(b'x' * 65536)",
        "it sends a line of more than 524288 bytes",
    ),
    "lines without a word": (
        "for _ in itertools.count(): o.write(b'\\n')",
        "it sends without end: 100 lines that are not messages",
    ),
    "JSON that is deep": (
        "for _ in itertools.count(): o.write(b'[' * 500000 + b'\\n')",
        "it sends without end: 100 lines",
    ),
    "JSON that is large in memory": (
        'for _ in itertools.count(): o.write(b\'{"event": "run", "run": [\' + '
        "b'[],' * 170000 + b'[]]}\\n')",
        "it sends invalid data",
    ),
    "signs of life": (
        "for _ in itertools.count(): say('beat')",
        "it did not finish within 2 s",
    ),
    "signs of life, much faster": (
        'line = b\'{"event": "beat"}\\n\' * 4000\nfor _ in itertools.count(): o.write(line)',
        "it did not finish within 2 s|without end",
    ),
    "a byte now and then": (
        "for _ in itertools.count(): o.write(b'x'); o.flush(); time.sleep(0.2)",
        "it did not finish within 2 s",
    ),
    "nothing": ("o.flush(); time.sleep(20)", "lost: no data for 1 s"),
    "files without end": (
        "say('run', run=RUN)\n"
        "for n in itertools.count(): send('s/c%d.log' % n, b'')",
        "it sends more than 403 files of one run",
    ),
    "runs without end": (
        "for n in itertools.count():\n"
        "    say('run', run='%08dT000000.000Z' % n); whole()",
        "it was not asked for",
    ),
    "a run without end": (
        "say('run', run=RUN)\n"
        "for n in itertools.count(): send('s/c%d.npz' % n, bytes(2**24))",
        "it sends s/c4.npz with an invalid size: 16777216",
    ),
    "a file that is too large": (
        "say('run', run=RUN)\nsay('file', path='plan.json', bytes=2**60)",
        "it sends plan.json with an invalid size: 1152921504606846976",
    ),
    "a file of less than nothing": (
        "say('run', run=RUN)\nsay('file', path='plan.json', bytes=-1)",
        "it sends plan.json with an invalid size: -1",
    ),
    "a file of a size in words": (
        "say('run', run=RUN)\nsay('file', path='plan.json', bytes='x' * 999)",
        "it sends plan.json with an invalid size: xxx",
    ),
    "a file that breaks off": (
        "say('run', run=RUN)\nsay('file', b'{', path='plan.json', bytes=9)",
        "the connection was lost during a transfer",
    ),
    "the end of its work": (
        "for _ in itertools.count(): say('broken', reason='x')",
        "it sends invalid data: .*it was not asked for",
    ),
    "cases that nobody asked for": (
        "for n in itertools.count(): say('end', sample='s', case='c%d' % n, records=[])",
        "it sends invalid data: .*it was not asked for",
    ),
}


# Smaller limits, so that the tests are quick.
SMALL = {
    "FETCH": 2, "SILENCE": 1, "MOST_NOISE": 100, "LARGEST_RUN": 2**26 + 100, "MOST_RUNS": 20,
    "LARGEST_CONVERSATION": 2**28, "MOST_CASES": 100,
}


@pytest.mark.parametrize("flood", FLOODS)
def test_a_board_that_sends_without_end(fake, flood, monkeypatch, tmp_path):
    code, reason = FLOODS[flood]
    for name, value in SMALL.items():
        monkeypatch.setattr(limits, name, value)
    if "did not finish within" not in reason:
        monkeypatch.setattr(limits, "FETCH", 60)
    start = time.monotonic()
    with pytest.raises(BoardError, match=reason):
        runs.collect(fake(code))
    assert time.monotonic() - start < 20
    assert not list(tmp_path.glob("results/*/.incoming-*"))


def test_a_program_that_closes_its_output_and_lives_on(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SILENCE", 1)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec 0<&- 1>&- 2>&-\nexec sleep 60\n")
    python.chmod(0o755)
    start = time.monotonic()
    with pytest.raises(BoardError, match="closed its output but does not end"):
        link.Session(link.LocalLink(str(python)), 60).greet({})
    assert time.monotonic() - start < 20


def test_a_program_that_reads_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SILENCE", 1)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)
    start = time.monotonic()
    with pytest.raises(BoardError, match="lost: no data for 1 s"):
        link.Session(link.LocalLink(str(python)), 60).greet({"x": "x" * 10**6})
    assert time.monotonic() - start < 20


def test_a_run_that_makes_no_sense_does_not_block_those_behind_it(fake, tmp_path):
    rows = runs.collect(fake(
        "say('run', run='20250101T000000.000Z'); plan('../c')\n"
        "assert whole() == b'kept 20250101T000000.000Z\\n'\n"
        "say('run', run='20250102T000000.000Z'); plan(*map(str, range(1001)))\n"
        "assert whole() == b'kept 20250102T000000.000Z\\n'\n"
        "say('run', run=RUN); plan('c')\n"
        "assert whole() == b'stored %s\\n' % RUN.encode()\n"
        "say('done')"
    ))
    assert [row.record.reason for row in rows] == [
        "run 20250101T000000.000Z: it sends an invalid name of a sample or case, '../c'. "
        "It stays on the board",
        "run 20250102T000000.000Z: its plan has 1001 cases, more than 1000. It stays on the board",
        "not run: the run was interrupted",
    ]
    assert [path.name for path in (tmp_path / "results" / "test").iterdir()] == [RUN]


def test_runs_are_summed_up_together(fake, monkeypatch):
    monkeypatch.setattr(limits, "MOST_RECORDS", 5)
    rows = runs.collect(fake(
        "for n in range(1, 4):\n"
        "    say('run', run='2026010%dT000000.000Z' % n); plan('c')\n"
        "    send('s/c.outcome.json', OUTCOME)\n"
        "    send('s/c.jsonl', (json.dumps(RECORD).encode() + b'\\n') * 4)\n"
        "    assert whole().startswith(b'stored')\n"
        "say('done')"
    ))
    assert [row.record.status for row in rows] == [*["passed"] * 5, "error", "error"]
    assert [row.record.reason for row in rows[5:]] == [
        f"{more} more records are in its files" for more in (3, 4)
    ]


@pytest.mark.parametrize(
    ("work", "code"),
    [
        (doctor.examine, "say('facts')"),
        (ship.deploy, "say('want', paths=['/etc/passwd'])"),
        (lambda board: ship.clean(board, False), "say('done', folder=7)"),
        (lambda board: provision.provision(board, False, True), "say('found', python=[])"),
        (lambda board: provision.provision(board, False, True), "say('done')"),
    ],
)
def test_answers_that_make_no_sense(fake, work, code):
    with pytest.raises(BoardError, match="it sends invalid data"):
        work(fake(code))


def test_a_board_that_wants_one_file_many_times(fake, capsys):
    board = fake(
        "say('want', paths=['samples/sgemm/run.py'] * 20000); o.flush()\n"
        "i.read(int(i.readline())); say('done', sent=1, files=1)"
    )
    ship.deploy(board)
    assert "copying 1 files" in capsys.readouterr().out


@pytest.fixture
def measured(project, tmp_path):
    """Run fab, which stays small and foresees all that comes; gives its Usage with `out`, `err`.

    The `sizes` replace values of limits.py.
    """

    def run(*args, **sizes):
        path = project / "deploy" / "onboard" / "limits.py"
        text = path.read_text()
        for name, value in sizes.items():
            text = re.sub(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.M)
        path.write_text(text)
        with open(tmp_path / "out", "w") as out, open(tmp_path / "err", "w") as err:
            done = usage.run(
                [FAB, *args], cwd=project, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env={**os.environ, "HOME": str(tmp_path)},
            )
        done.out, done.err = ((tmp_path / name).read_text() for name in ("out", "err"))
        print(args, f"{done.peak // 1024} MiB, {done.seconds:.1f} s")
        assert "Traceback" not in done.out + done.err
        assert "unforeseen" not in done.err
        assert done.peak < LARGEST, done.peak
        return done

    return run


@pytest.fixture
def hostile(measured, boards_toml, tmp_path):
    """Run fab where the board `local` is another program; gives how it ended, as `measured`."""

    def run(code, *args, **sizes):
        write_python(tmp_path / "python", code)
        boards_toml(f"[local]\npython = '{tmp_path}/python'\n")
        return measured(*args, **sizes)

    return run


@pytest.mark.parametrize("flood", [name for name in FLOODS if "line" in name or "large" in name])
def test_fab_stays_small_whatever_comes(hostile, flood):
    code, reason = FLOODS[flood]
    done = hostile(code, "collect", MOST_NOISE=100)
    assert done.status == 3, done.out + done.err
    assert re.fullmatch(rf"fab: error: local: .*({reason}).*\n", done.err), done.err[:1000]
    assert done.seconds < 30


# What each of four cases sends as its records, and the exit status of fab.
BOMBS = {
    "values that are large in memory": (
        "b''.join([json.dumps(dict(RECORD, params={'x': 'X'})).encode()"
        ".replace(b'\"X\"', b'[' + b'[],' * 80000 + b'[]]') + b'\\n'] * 8)",
        0,
    ),
    "a line that is too long": (
        "json.dumps(dict(RECORD, status='error', reason='x' * 2000000)).encode()", 1,
    ),
    "no records": ("b'\\n' * 2000000", 1),
    "as many as fit": ("(json.dumps(RECORD).encode() + b'\\n') * 3000", 1),
    "those of runs that never ended": (
        "b''.join(json.dumps(dict(RECORD, status='error', variant=str(n), reason="
        "'the run ended before it was timed; its result was right', params={'x': [[]] * 40000}))"
        ".encode() + b'\\n' for n in range(8))",
        1,
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_records_that_are_large_in_memory(hostile, bomb, project):
    data, status = BOMBS[bomb]
    done = hostile(
        "names = ['c%d' % n for n in range(4)]\n"
        "say('run', run=RUN)\nplan(*names)\n"
        f"data = {data}\n"
        "for name in names:\n"
        "    send('s/%s.outcome.json' % name, OUTCOME)\n"
        "    send('s/%s.jsonl' % name, data)\n"
        "assert whole() == b'stored %s\\n' % RUN.encode()\nsay('done')",
        "collect", MOST_RECORDS=10_000,
    )
    assert done.status == status, done.out[-1000:] + done.err
    assert len(done.out) < 100_000
    assert done.seconds < 60
    assert len(list(project.glob("results/local/*/s/*.jsonl"))) == 4


def test_the_other_boards_are_served(hostile, odroid, stub, project):
    stub("one")
    code = "for _ in itertools.count(): say('beat')"
    done = hostile(code, "-H", "local,odroid", "deploy", "run-all", COPY=2)
    assert done.status == 3
    assert "fab: error: local: it did not finish within 2 s\n" in done.err
    assert records(project, "odroid")["one", "only"][0].status == "passed"


def test_the_documented_limits_are_those_that_hold():
    text = (link.HERE.parent / "docs" / "boards.md").read_text()
    section = text[text.index("## Limits") : text.index("## Clocks")]
    mib, minutes = limits.MIB, 60
    for words in (
        f"| one message of a board | {limits.LONGEST_LINE // limits.KIB} KiB |",
        f"such as output of a login script | {limits.MOST_NOISE:,} |",
        f"| all data received in one task | {limits.LARGEST_CONVERSATION // (1024 * mib)} GiB |",
        f"| silence in both directions | {limits.SILENCE} s |",
        f"each check of `fab provision` | {limits.PROBES // minutes} minutes |",
        f"| `fab deploy` | {limits.COPY // minutes} minutes |",
        f"the cases, {limits.CASE_MARGIN} s for each case, and one hour to fetch |",
        f"one hour, {limits.MOST_RUNS} runs |",
        f"| {3 * limits.APT // minutes} minutes; one hour |",
        f"| `fab clean` | {limits.CLEAN // minutes} minutes |",
        f"| output of a case | {limits.LOG // mib} MiB; the case is stopped beyond that |",
        f"| {limits.RECORDS // mib} MiB, each {limits.LONGEST_RECORD // limits.KIB} KiB |",
        f"for `fab parity` | {limits.ARRAYS // mib} MiB |",
        f"| a run | {limits.LARGEST_RUN // mib} MiB, {limits.MOST_CASES} cases; "
        f"the summary shows {limits.MOST_RECORDS:,} records |",
    ):
        assert words in section
    assert limits.FETCH == limits.UNPACK == 60 * minutes
    assert manifest.NAME.pattern == limits.NAME  # both ends know it, and no board has deploy/
