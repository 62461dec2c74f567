"""What all tools share: their command lines, their progress, and the end of what they started."""

import os
import re
import signal
import time
from pathlib import Path

import pytest
from stub import Stub

from tools import command, points, progress

ONE = ("--", "--kernel", "1")


@pytest.fixture
def stub(tmp_path, monkeypatch, capsys):
    return Stub(tmp_path, monkeypatch, capsys)


def processes_with(word):
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path] if word.encode() in path.read_bytes().split(b"\0") else []
        except OSError:
            continue
    return found


def wait_for(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("number", "status", "line"),
    [(signal.SIGINT, 130, "tools: error: interrupted\n"),
     (signal.SIGTERM, 143, "tools: error: stopped\n"), (signal.SIGKILL, -9, "")],
)
def test_the_running_point_ends_with_its_tool(stub, number, status, line, tmp_path):
    process = stub.start("inspect", "stub", "--folder", tmp_path / "x", *ONE, "--do", "hang")
    script = str(stub.folder / "run.py")
    wait_for(stub.runs)
    assert len(processes_with(script)) == 1
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (status, line)
    wait_for(lambda: processes_with(script) == [])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--limit", "0"), "'0' is not a number above 0"),
        (("--limit", "nan"), "'nan' is not a number above 0"),
        (("--axis",), "--axis needs an option of the sample"),
        (("--axis", "--size"), "--axis needs an option of the sample"),
        (("--axis", "--size", "4", "--", "--size", "5"), "--size is given twice: as an axis"),
        (("--", "--json", "x"), "--json cannot be used after --"),
        (("--", "--output=x"), "--output=x cannot be used after --"),
        (("--odd",), "unrecognized arguments: --odd; see --help"),
    ],
)
def test_bad_input(stub, args, message, tmp_path):
    status, _, errors = stub("inspect", "stub", "--folder", tmp_path / "x", *args)
    assert message in errors
    assert (status, errors.count("\n")) == (2, 1)
    assert stub.runs() == []


def test_what_is_not_there(stub):
    assert "argument SAMPLE: invalid choice: 'nonesuch'" in stub("inspect", "nonesuch")[2]
    assert stub("nonesuch")[2] == (
        "tools: error: 'nonesuch' is not a tool: choose from tune, replay, inspect, check\n"
    )
    assert stub("sweep", "stub")[2] == (
        "tools: error: sweep is a task of fab now: fab sweep SAMPLE; see docs/experiments.md\n"
    )
    assert stub("tune", "stub", "--kernel", "1")[2] == (
        "tools: error: give --gpu; on a device search with: fab sweep stub --kernel 1\n"
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


def test_plain_lines_off_a_terminal(capsys):
    with progress.Progress(2) as shown:
        shown.step("one")
        shown.step("two")
    assert re.findall(r"\[(\d)/2, 0:00 left\] (\w+)", capsys.readouterr().out) == [
        ("1", "one"), ("2", "two"),
    ]
    assert [progress.clock(s) for s in (0, 59.6, 3725)] == ["0:00", "1:00", "1:02:05"]
