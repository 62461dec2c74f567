"""What fab refuses before a task begins: one line, and exit status 2."""

import os
import subprocess
import sys

import pytest

from tests.conftest import FAB, ROOT


def refused(done):
    """Return the line with which fab ended for wrong usage."""
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert done.stderr.startswith("fab: error: ")
    return done.stderr[len("fab: error: ") : -1]


@pytest.mark.parametrize(
    "before", [("-H", "odroid"), ("-H", "local"), ("-r", "/", "-H", "odroid"), ()]
)
def test_a_command_without_a_task_is_run_nowhere(fab, odroid, tmp_path, before):
    """Fabric would run it by an ssh client that does not care for a changed host key."""
    assert refused(fab(*before, "--", "touch", tmp_path / "ran")) == "name a task before --"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("-t", "x", "list"), "--connect-timeout x: give a whole number"),
        (("-t", "0", "list"), "--connect-timeout 0: give seconds, from 1 up"),
        (("-T", "x", "list"), "--command-timeout x: give a whole number"),
        (("list", "-t", "x"), "--connect-timeout x: give a whole number"),
        (("-l", "-D", "x"), "--list-depth x: give a whole number"),
        (("-F", "x", "--list"), "--list-format x: choose from flat, nested, json"),
        (("-f", "/dev/null", "list"), "(from file '/dev/null') are not supported"),
        (("-l", "nosuch"), "'nosuch' not found"),
        (("-c", "nosuch", "list"), "no nosuch.py: run fab in the checkout"),
        (("--help", "nosuch"), "'nosuch'"),
    ],
)
def test_options_of_fabric(fab, line, message):
    assert message in refused(fab(*line))


@pytest.mark.parametrize(
    "text", [b"run: [", b"run: 3", b"\xff\xfe\xfa", b"just text", b"!!python/x y", None]
)
def test_a_configuration_of_fabric_that_cannot_be_used_is_named(fab, tmp_path, text):
    file = tmp_path / ".fabric.yaml"
    file.mkdir() if text is None else file.write_bytes(text)
    assert refused(fab("list")).startswith(f"{file}: ")


def test_an_environment_that_cannot_be_used_is_named(fab):
    assert refused(fab("list", env={"FABRIC_PORT": "abc"})).startswith("environment, FABRIC_PORT: ")


@pytest.mark.parametrize("words", ["--version", "--list", "--help"])
def test_output_of_fabric_that_cannot_be_written(project, words):
    done = subprocess.run(["bash", "-c", f"{FAB} {words} >/dev/full"], cwd=project, timeout=60,
                          stderr=subprocess.PIPE, text=True, check=False)
    assert refused(done) == "cannot write the output: No space left on device"


def test_elsewhere_it_names_the_checkout(tmp_path):
    done = subprocess.run([FAB, "list"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert refused(done) == f"there is no fabfile.py: run fab in the checkout, {ROOT}"


def test_in_a_folder_that_was_deleted(tmp_path):
    (tmp_path / "gone").mkdir()
    code = f"cd gone && rmdir ../gone && exec {sys.executable} {ROOT}/deploy/launcher.py list"
    done = subprocess.run(["bash", "-c", code], cwd=tmp_path, capture_output=True, text=True,
                          check=False)
    assert refused(done) == "run it in the checkout"


@pytest.mark.parametrize("python", ["#!/a/python3\n# -*- coding: utf-8 -*-\n",
                                    "#!/bin/sh\n'''exec' \"/a b/python3\" \"$0\" \"$@\"\n' '''\n"])
def test_make_replaces_fabrics_program_and_keeps_its_python(tmp_path, python):
    program = tmp_path / "bin" / "fab"
    program.parent.mkdir()
    program.write_text(f"{python}import sys\nfrom fabric.main import program\n")
    program.chmod(0o755)
    (tmp_path / "ready").touch()
    for _ in range(2):
        subprocess.run(["make", f"VENV={tmp_path}", tmp_path / "launcher"], cwd=ROOT, check=True)
        assert program.read_text() == python + (ROOT / "deploy/launcher.py").read_text()
        assert os.access(program, os.X_OK)
        (tmp_path / "launcher").unlink()
