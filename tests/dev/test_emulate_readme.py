"""The README's way to a board, command by command, on an emulated one: make test-arm64.

The tests are the steps of one walk-through, in their order.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from deploy import samples
from dev.emulate.board import Emulated
from tests.conftest import FAB
from tests.deploy.test_deploy import records, until
from tests.test_readme import EMULATED, shell

ARCH = os.environ.get("TEST_BOARD")
pytestmark = [
    pytest.mark.skipif(not ARCH, reason="it takes minutes: make test-arm64, test-armhf"),
    pytest.mark.timeout(7200),
]

CPU, _, RELEASE = (ARCH or "").partition("-")
ALIAS = Emulated(ARCH or "arm64").alias
MACHINE = {"arm64": "aarch64", "armhf": "armv7l"}.get(CPU)
BOARDS_SKIP = ["speed", "paper"]  # by boards.toml
SKIPPED = {*BOARDS_SKIP, *filter(None, os.environ.get("SKIP", "").split(","))}


def for_this_arch(command):
    """Return a command of the README for the board under test."""
    command = command.replace("--host emulated", f"--host {ALIAS}")
    which = " ARCH=armhf" * (CPU == "armhf") + f" RELEASE={RELEASE}" * bool(RELEASE)
    return re.sub("make board$", f"make board{which}", command)


def processes_of(emulated):
    """Return the processes in the board's process namespace."""
    inside = os.readlink(f"/proc/{emulated.leader()}/ns/pid_for_children")
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(entry / "ns" / "pid") == inside:
                found.append(entry)
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """The home folder of a new user: nothing is cached there."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def emulated(walk_through, home):
    """The board of the walk-through; it ends with these tests, whatever happened."""
    toml = walk_through / "boards.toml"
    skip, more = json.dumps(BOARDS_SKIP), json.dumps(sorted(SKIPPED))
    assert skip in toml.read_text()
    toml.write_text(toml.read_text().replace(skip, more))
    board = Emulated(ARCH, walk_through / ".emulated")
    yield board
    board.stop()


def test_the_walk_through_is_in_the_readme():
    assert EMULATED[0] == "make board"
    assert EMULATED[-1] == "make board-stop"
    assert len(EMULATED) == 6


def test_every_command_but_the_last(emulated, walk_through, home):
    said = {}
    for command in map(for_this_arch, EMULATED[:-1]):
        start = time.monotonic()
        done = shell(command, walk_through, home, timeout=1200)
        print(f"{command}: {time.monotonic() - start:.1f} s\n{done.stdout}{done.stderr}")
        # The board has no packages for Python yet: the doctor says so.
        assert done.returncode == ("doctor" in command), command
        assert done.stderr == "", command
        said[command.split()[1]] = done.stdout
    assert f"fab doctor --host {ALIAS}" in said["board"]
    assert "FAIL  pyopencl" in said["doctor"]
    by_wheel = "wheels numpy, pyopencl, Pillow for CPython 3.11, aarch64"
    by_debs = "python3-numpy, python3-pil, python3-pyopencl and what they need, of debian "
    assert (by_wheel if ARCH == "arm64" else by_debs) in said["provision"]
    assert "/envs/1" in said["provision"]
    golden = [c for c in samples.every(samples.load(), SKIPPED) if c.golden]
    assert f"{len(golden)} of {len(golden)} golden cases equal" in said["parity"]


def test_every_record_came_home(walk_through):
    came = records(walk_through, ALIAS)
    assert set(came) == {(c.sample, c.name) for c in samples.every(samples.load(), SKIPPED)}
    for items in came.values():
        assert any(item.status == "passed" for item in items)
        for item in items:
            assert item.status in ("passed", "unsupported"), item.reason
            assert item.environment["machine"] == MACHINE
            assert item.environment["host"] == "emulated"


def test_a_second_copy_runs_beside_it(emulated, walk_through, home, tmp_path):
    command = f"python -m dev.emulate {{}} {ARCH} --state {tmp_path}"
    second = Emulated(ARCH, tmp_path)
    try:
        done = shell(command.format("start"), walk_through, home)
        assert done.returncode == 0, done.stderr
        assert "building" not in done.stdout
        assert "is running already" in shell(command.format("start"), walk_through, home).stdout
        assert second.leader() not in (None, emulated.leader())
        asked = ["ssh", "-F", second.ssh_config, ALIAS, "uname", "-m"]
        assert subprocess.check_output(asked, text=True, timeout=60).strip() == MACHINE
    finally:
        shell(command.format("stop"), walk_through, home)
    assert second.leader() is None
    assert emulated.leader()


def test_power_that_fails_while_a_sample_runs(emulated, walk_through, home):
    running = subprocess.Popen(
        [FAB, "run", "sgemm", "--host", ALIAS, "--verbose"], cwd=walk_through,
        env={**os.environ, "HOME": str(home)}, stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )
    for line in running.stdout:
        if line.startswith("== sgemm"):
            break
    os.kill(emulated.leader(), signal.SIGKILL)
    output = running.communicate(timeout=120)[0]
    assert running.returncode == 3, output
    assert f"fab collect --host {ALIAS}" in output

    for command in (for_this_arch("make board"), f"fab collect --host {ALIAS}"):
        done = shell(command, walk_through, home)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the run was interrupted" in done.stdout
    again = shell(f"fab run sgemm --case golden --host {ALIAS}", walk_through, home)
    assert again.returncode == 0, again.stdout + again.stderr


def test_the_last_command_leaves_nothing(emulated, walk_through, home):
    processes = processes_of(emulated)
    assert processes
    done = shell(EMULATED[-1], walk_through, home)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"stopped {ALIAS}\n"
    until(lambda: not any(process.exists() for process in processes))
    asked = shell(f"fab doctor --host {ALIAS}", walk_through, home)
    assert asked.returncode == 2
    assert "`make board` starts an emulated board" in asked.stderr


@pytest.mark.skipif(
    os.getuid() != 0 or ARCH != "arm64", reason="it takes minutes: make test-arm64, by root only"
)
def test_an_ordinary_user_needs_no_right_beyond_their_own(walk_through):
    nobody = 65534
    folder = Path(tempfile.mkdtemp(prefix="ordinary-"))  # pytest's folders are closed to others
    try:
        for part in ("deploy", "common", "dev"):
            shutil.copytree(walk_through / part, folder / part)
        shutil.chown(folder, nobody, nobody)
        folder.chmod(0o755)
        user = ["setpriv", f"--reuid={nobody}", f"--regid={nobody}", "--clear-groups",
                "env", "-i", "PATH=/usr/bin:/bin", f"HOME={folder}"]
        emulate = [*user, "/usr/bin/python3", "-m", "dev.emulate"]
        done = subprocess.run(
            [*emulate, "start"], cwd=folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        try:
            asked = [
                "ssh",
                "-F",
                folder / ".emulated/arm64/ssh_config",
                "emulated",
                "uname -m; id -u",
            ]
            assert subprocess.check_output(asked, text=True, timeout=60).split() == [
                "aarch64", "1000",
            ]
        finally:
            stopped = subprocess.check_output([*emulate, "stop"], cwd=folder, text=True)
        assert stopped == "stopped emulated\n"
    finally:
        shutil.rmtree(folder)
