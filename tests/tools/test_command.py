"""What all tools share: their command lines, and the end of what they started."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from stub import Stub

from common import manifest
from tests.conftest import ROOT
from tools import command, points

ONE = ("--", "--kernel", "1")
EMULATE = """\
import os, sys
os.execv(sys.executable, [sys.executable, *sys.argv[sys.argv.index("python3") + 1 :]])
"""


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


def test_nothing_is_left_of_runs_on_an_emulated_board(stub, tmp_path, monkeypatch):
    """SIGTERM comes more than once, as of `timeout`, which sends it to the group as well."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "emulate.py").write_text(EMULATE)
    shutil.copy(ROOT / "boards.toml", tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    process = stub.start("tune", "stub", "--gpu", "mali-g52", "--", "--do", "hang")
    wait_for(lambda: len(stub.runs()) == os.cpu_count())
    assert len(list((tmp_path / ".emulated").iterdir())) == 2 * os.cpu_count()
    for _ in range(4):
        process.terminate()
        time.sleep(0.001)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (143, "tools: error: stopped\n")
    assert list((tmp_path / ".emulated").iterdir()) == list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--limit", "0"), "'0' is not a number above 0"),
        (("--limit", "nan"), "'nan' is not a number above 0"),
        (("--", "--json", "x"), "--json cannot be used after --"),
        (("--", "--output=x"), "--output cannot be used after --"),
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
        "tools: error: 'nonesuch' is not a tool: choose from tune, keep, replay, inspect, check\n"
    )
    assert stub()[0] == 0


def test_an_option_with_several_values_is_an_axis():
    words = ["--alpha", "-1", "2", "2", "--kernel", "6", "-n", "8", "--debug"]
    alpha = ("-1", "2")
    assert points.apart(words) == (["--kernel", "6", "-n", "8", "--debug"], {"--alpha": alpha})
    assert points.apart(words, ["--kernel"]) == (
        ["-n", "8", "--debug"], {"--alpha": alpha, "--kernel": ("6",)})
    joined = ["--kernel=6", "--size=8", "-f=a"]
    assert points.apart(joined, ["--kernel"]) == (joined[1:], {"--kernel": ("6",)})
    assert points.words([("--alpha", "-1"), ("-n", "8")]) == ["--alpha=-1", "-n", "8"]


def test_labels_that_are_alike_have_folders_of_their_own(tmp_path):
    labels = ["-f a_b", "-f a-b", "-f a-b-2", 120 * "x", 110 * "x", "%", "/"]
    names = [folder.name for folder in command.folders(tmp_path, labels)]
    assert names == [
        "f-a-b", "f-a-b-2", "f-a-b-2-2", 100 * "x", 100 * "x" + "-2", "point", "point-2"]
    assert {path.name for path in tmp_path.iterdir()} == {*names, ".inspect"}


def test_what_is_asked_for_stands_in_place_of_the_samples_own():
    found = manifest.read("sgemm")
    (axis,) = found.tools.axes
    assert command.plan(found, ["--beta", "0"]) == (
        ("--size", "9x10x7", "--beta", "0"), [["--kernel", value] for value in axis[1]])
    words = ["--kernel", "row4", "--size", "4", "8"]
    every = [["--kernel", "row4", "--size", size] for size in ("4", "8")]
    assert command.plan(found, words) == ((), every)
    assert command.plan(found, words, whole=True) == ((), every)
    assert command.plan(found, [], whole=True) == (("--kernel", "all"), [[]])
