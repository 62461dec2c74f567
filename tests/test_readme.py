"""Every command of the README does what the README says."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT

from deploy import samples

README = (ROOT / "README.md").read_text()
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", README, re.S) for line in block.splitlines()
]
SET_UP = [". .venv/bin/activate"]
OURSELVES = ["make test"]  # these tests are what it runs


def test_there_are_commands():
    assert {"make run", "make test", "fab deploy --host odroid run-all"} <= set(COMMANDS)


@pytest.fixture(scope="module")
def walk_through(tmp_path_factory):
    """A fresh copy of the project that is set up: .venv is the one that runs the tests."""
    copy = tmp_path_factory.mktemp("readme") / "opencl-samples"
    wanted = shutil.ignore_patterns(".git", ".venv", ".board", "results", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, copy, ignore=wanted)
    (copy / ".venv").mkdir()
    for part in Path(sys.prefix).iterdir():
        (copy / ".venv" / part.name).symlink_to(part)
    (copy / ".venv" / "ready").unlink(missing_ok=True)
    (copy / ".venv" / "ready").touch()
    return copy


def shell(command, folder, home, **more):
    """Run a line in bash as a user who followed the README would."""
    lines = f"set -e\n{SET_UP[0]}\n{command}"
    env = {**os.environ, "HOME": str(home)}
    return subprocess.run(
        ["bash", "-c", lines], cwd=folder, env=env, capture_output=True, text=True, check=False,
        stdin=subprocess.DEVNULL, timeout=300, **more,
    )  # fmt: skip


def test_every_command(walk_through, odroid, ssh_server, tmp_path):
    firefly = ssh_server("firefly")
    blocks = odroid.host_block("odroid") + firefly.host_block("firefly")
    (tmp_path / ".ssh" / "config").write_text(blocks)
    for command in COMMANDS:
        if command in SET_UP + OURSELVES:
            continue
        done = shell(command, walk_through, tmp_path)
        assert done.returncode == 0, command + "\n" + done.stdout + done.stderr
        assert done.stderr == "", command
    for board in ("local", "odroid", "firefly"):
        assert list(walk_through.glob(f"results/{board}/*/sgemm/golden.jsonl"))
    assert not (odroid.home / "opencl-samples").exists()  # clean was the last


def test_make_test_is_this_suite(walk_through, tmp_path):
    done = shell("make -n test", walk_through, tmp_path)
    assert done.stdout == ".venv/bin/python -m pytest\n"


def test_a_second_make_run_starts_within_a_second(walk_through, tmp_path):
    times = []
    for _ in range(3):
        start = time.monotonic()
        with subprocess.Popen(
            ["make", "run"], cwd=walk_through, env={**os.environ, "HOME": str(tmp_path)},
            stdout=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            for line in process.stdout:
                if line.startswith("=="):
                    times.append(time.monotonic() - start)
                    break
            process.stdout.read()
    assert min(times) < 1, times


def test_the_table_names_every_sample():
    assert all(f"[{name}](samples/{name}/README.md)" in README for name in samples.load())


def test_links_lead_somewhere():
    for text in [README, *(p.read_text() for p in ROOT.glob("samples/*/README.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (ROOT / target).exists(), target
