"""tools sweep: a journal that survives everything, and points that cannot hurt it."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, exhaustive_but
from stub import START, Stub

from tools import command, points, progress

SIZES = ("--axis", "--size", 4, 5, 6)
ONE = ("--", "--kernel", "1")


@pytest.fixture
def stub(tmp_path, monkeypatch, capsys):
    return Stub(tmp_path, monkeypatch, capsys)


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def processes_with(text):
    """Return the ids of the processes whose command line has the text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_the_cross_product_is_run_recorded_and_not_run_again(stub):
    status, out, err = stub.sweep(*SIZES)
    assert (status, err) == (0, "")
    runs = [f"--kernel {k} --size {n}" for k in (1, 2) for n in (4, 5, 6)]
    assert stub.runs() == runs
    lines = out.splitlines()
    assert lines[0] == f"6 points, 0 of them in {stub.journal} already"
    assert re.fullmatch(r"\[1/6, 0:\d\d left\] --kernel 1 --size 4: 40 GFLOPS", lines[1])
    assert lines[-2] == f"6 passed: records in {stub.journal}"
    assert lines[-1].startswith("fastest: --kernel 1 --size 4: 40 GFLOPS")
    point = stub.records()[0].params["point"]
    assert point["options"] == ["--kernel", "1", "--size", "4"]
    assert (point["ended"], point["metric"], point["exit_status"]) == ("passed", 40, 0)
    status, out, _ = stub.sweep(*SIZES)
    assert status == 0
    assert stub.runs() == runs
    assert f"6 points, 6 of them in {stub.journal} already" in out
    assert "6 passed: " in out
    assert len(stub.records()) == 6


def test_other_code_driver_or_options_make_other_points(stub, monkeypatch):
    stub.sweep(*ONE)
    for name in ("STUB_CODE", "STUB_DRIVER", "STUB_PLATFORM"):
        monkeypatch.setenv(name, "another")
        assert "1 point, 0 of them" in stub.sweep(*ONE)[1]
        assert "1 point, 1 of them" in stub.sweep(*ONE)[1]
    assert "1 point, 0 of them" in stub.sweep(*ONE, "--repeat", 3)[1]


def test_a_seeded_random_subset(stub):
    args = (*SIZES, "--random", 2, "--seed", 3)
    stub.sweep(*args)
    first = stub.runs()
    assert len(set(first)) == 2
    assert "2 points, 2 of them" in stub.sweep(*args)[1]
    stub.sweep(*SIZES)
    assert len(stub.runs()) == len(set(stub.runs())) == 6


def test_points_that_fail_are_recorded_with_their_reason_and_are_not_run_again(stub):
    ways = ("pass", "wrong", "crash", "hang", "refuse", "lack", "silent")
    args = ("--axis", "--do", *ways, "--limit", 0.5, *ONE)
    status, out, _ = stub.sweep(*args)
    assert status == 1
    reasons = {tuple(r.params["point"]["options"])[-1]: (r.status, r.reason)
               for r in stub.records()}
    assert reasons["wrong"] == ("failed", "it is wrong")
    assert reasons["crash"] == ("error", "killed by SIGSEGV: last words ?[1m")
    assert reasons["hang"] == ("error", "no end within 0.5 s: killed")
    assert reasons["silent"] == ("error", "ended with status 3 and left no record")
    assert "1 passed, 1 unsupported, 1 refused, 3 error, 1 failed: records in " in out
    assert "\x1b" not in out
    stub.sweep(*args)
    assert len(stub.runs()) == len(ways)


def test_a_point_that_had_too_little_time_is_run_again_with_more(stub):
    args = ("--axis", "--do", "hang", *ONE)
    stub.sweep("--limit", 0.4, *args)
    stub.sweep("--limit", 0.3, *args)
    assert len(stub.runs()) == 1
    stub.sweep("--limit", 0.5, *args)
    assert stub.records()[-1].reason == "no end within 0.5 s: killed"
    assert len(stub.runs()) == 2


def test_a_point_with_several_records(stub):
    stub.sweep("--axis", "--do", "two", *ONE)
    first, last = stub.records()
    assert first.params["point"] == {
        "of": last.params["point"]["key"], "options": last.params["point"]["options"],
    }
    assert "1 point, 1 of them" in stub.sweep("--axis", "--do", "two", *ONE)[1]


def test_a_status_counts_more_than_records_that_passed(stub):
    assert stub.sweep("--axis", "--do", "lie", *ONE)[0] == 2
    first, last = stub.records()
    assert (first.status, last.status, last.reason) == (
        "passed",
        "error",
        "cannot write the output",
    )
    assert last.params["point"]["ended"] == "refused"


def test_nothing_passed(stub):
    assert stub.sweep("--axis", "--do", "lack", *ONE)[0] == 77
    assert stub.sweep("--axis", "--do", "refuse", *ONE)[0] == 2
    assert stub.sweep("--axis", "--do", "lack", "pass", *ONE)[0] == 0


@pytest.mark.parametrize("wait", exhaustive_but([0.0], [0.0, 0.1, 0.2]))
def test_sigkill_loses_no_point_and_redoes_at_most_one(stub, wait):
    args = ("sweep", "stub", "--journal", stub.journal, *SIZES, *ONE, "--wait", 0.1)
    process = stub.start(*args)
    for line in process.stdout:
        if line.startswith("[1/3"):
            break
    time.sleep(wait)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = stub.records()
    assert 1 <= len(before) <= 3
    _, out, errors = stub(*args)
    assert f"3 points, {len(before)} of them" in out, errors
    assert [r.params["point"]["options"][3] for r in stub.records()] == ["0.1"] * 3
    assert stub.records()[: len(before)] == before
    assert len(stub.runs()) <= 4


@pytest.mark.parametrize(
    ("number", "status", "line"),
    [(signal.SIGINT, 130, "tools: error: interrupted\n"),
     (signal.SIGTERM, 143, "tools: error: stopped\n"), (signal.SIGKILL, -9, "")],
)
def test_the_running_point_ends_with_its_tool(stub, number, status, line):
    process = stub.start("sweep", "stub", "--journal", stub.journal, "--axis", "--do", "hang", *ONE)
    script = str(stub.folder / "run.py")
    wait_for(lambda: stub.runs())
    assert len(processes_with(script)) == 1
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (status, line)
    wait_for(lambda: processes_with(script) == [])
    assert stub.journal.read_bytes() == b""


# The command line.


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--random", "0"), "'0' is not a whole number from 1 up"),
        (("--seed", "x"), "'x' is not a whole number from 0 up"),
        (("--limit", "0"), "'0' is not a number above 0"),
        (("--limit", "nan"), "'nan' is not a number above 0"),
        (("--journal", "/no/such/folder/x"), "cannot use the journal /no/such/folder/x: No such"),
        (("--journal", "/tmp"), "cannot use the journal /tmp: "),
        (("--journal", "/dev/full"), "cannot use the journal /dev/full: it is no file"),
        (("--axis",), "--axis NAME VALUE...: an option of the sample"),
        (("--axis", "--size"), "--axis NAME VALUE...: an option of the sample"),
        (("--axis", "--size", "4", "--", "--size", "5"), "--size is given twice: as an axis"),
        (("--", "--json", "x"), "--json cannot be used after --"),
        (("--", "--output=x"), "--output=x cannot be used after --"),
        (("--odd",), "unrecognized arguments: --odd; see --help"),
    ],
)
def test_bad_input(stub, args, message):
    status, _, errors = stub("sweep", "stub", *args)
    assert message in errors
    assert (status, errors.count("\n")) == (2, 1)
    assert stub.runs() == []


def test_a_sample_that_is_not_there(stub):
    status, _, errors = stub("sweep", "nonesuch")
    assert status == 2
    assert "argument SAMPLE: invalid choice: 'nonesuch'" in errors
    assert stub("nonesuch")[2] == (
        "tools: error: 'nonesuch' is not a tool: choose from sweep, tune, replay, inspect, check\n"
    )
    assert stub()[0] == 0


def test_axes_may_have_values_with_hyphens():
    result = command.parser("x", "")
    line = command.parse(result, ["--axis", "alpha", "-1", "2", "2", "--axis", "-n", "8", "--debug",
                                  "--", "--axis", "z"])
    assert line.axes == (("--alpha", ("-1", "2")), ("-n", ("8",)))
    assert line.options == ("--axis", "z")
    assert line.args.debug
    assert points.words([("--alpha", "-1"), ("-n", "8")]) == ["--alpha=-1", "-n", "8"]


def test_the_device_is_a_part_of_a_point():
    words = ("--size", "4", "-p", "0", "--device=x", "--limits", "embedded", "-v")
    device = ("-p", "0", "--device=x", "--limits", "embedded")
    assert points.apart(words) == (device, ("--size", "4", "-v"))


# Progress.


def test_a_bar_on_a_terminal(stub):
    master, slave = os.openpty()
    command_line = [sys.executable, "-c", START, stub.root, "sweep", "stub", "--journal",
                    stub.journal, *SIZES, *ONE]
    with subprocess.Popen(
        list(map(str, command_line)), cwd=ROOT, stdout=slave, stderr=slave,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ) as process:
        os.close(slave)
        text = b""
        while True:
            try:
                text += os.read(master, 4096)
            except OSError:  # the other end is closed
                break
        assert process.wait(30) == 0
    os.close(master)
    assert "3/3" in text.decode()
    assert "left" in text.decode()
    assert "--size 6: 40 GFLOPS" in text.decode()


def test_off_a_terminal_there_are_plain_lines(capsys):
    with progress.Progress(2) as shown:
        shown.step("one")
        shown.step("two")
    assert re.findall(r"\[(\d)/2, 0:00 left\] (\w+)", capsys.readouterr().out) == [
        ("1", "one"), ("2", "two"),
    ]
    assert [progress.clock(s) for s in (0, 59.6, 3725)] == ["0:00", "1:00", "1:02:05"]
