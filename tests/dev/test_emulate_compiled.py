"""A board whose OpenCL compiles for a GPU and runs nothing: TEST_BOARD=mali-g52, see make mali."""

import os
import subprocess
import sys

import pytest

from deploy import samples
from dev.emulate.board import Emulated
from dev.emulate.root import GPUS
from tests.conftest import FAB, ROOT
from tests.deploy.test_deploy import records

GPU = os.environ.get("TEST_BOARD")
pytestmark = [
    pytest.mark.skipif(GPU not in GPUS, reason="it takes minutes: TEST_BOARD=mali-g52"),
    pytest.mark.timeout(3600),
]
DEVICE = "import pyopencl; print(pyopencl.get_platforms()[0].get_devices()[0].name)"


def run(*command, state):
    """Run a command on the board, without ssh."""
    emulate = [sys.executable, "-m", "dev.emulate", "--state", state, "run", GPU, "--", *command]
    return subprocess.run(emulate, cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_command_runs_there_in_this_folder(tmp_path):
    done = run("python3", "-c", f"{DEVICE}; open('README.md'); raise SystemExit(7)", state=tmp_path)
    assert done.returncode == 7, done.stderr
    assert done.stdout.lower().startswith(GPU.split("-")[0][:4])


def test_nothing_is_added_to_mesas_cache(tmp_path):
    listing = "find /run/cache/mesa_shader_cache -type f | sort"
    build = "python3 samples/sgemm/run.py --build-only >&2"
    done = run("sh", "-c", f"{listing}; {build}; {listing}", state=tmp_path)
    files = done.stdout.splitlines()
    assert len(files) == 4, done.stderr  # the index, and OpenCL C's built-in functions
    assert files[:2] == files[2:]


def test_the_commands_of_any_board(walk_through):
    board = Emulated(GPU, walk_through / ".emulated")
    board.start(print)
    try:
        for command in ("doctor", "provision", "deploy"):
            done = subprocess.run([FAB, command, "--host", GPU], cwd=walk_through, check=False,
                                  capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr
        done = subprocess.run([FAB, "run", "sgemm", "--host", GPU], cwd=walk_through, check=False,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    finally:
        board.stop()
    came = records(walk_through, GPU)
    assert set(came) == {("sgemm", case.name) for case in samples.load()["sgemm"].cases}
    assert {item.status for items in came.values() for item in items} == {"built"}
