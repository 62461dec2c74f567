"""Ctrl-C and SIGTERM at any time: one line, 130 or 143, and nothing left behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest
from stub import TOML

from deploy import fleet, home
from tests.conftest import FAB, ROOT
from tests.deploy.test_deploy import processes_with, records, until

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.fixture
def start(project, tmp_path):
    """Start a program in the copied project; gives the process. Its folder for the like is tmp/."""
    (tmp_path / "tmp").mkdir()
    started = []

    def run(*command, **env):
        env = {"HOME": str(tmp_path), "TMPDIR": str(tmp_path / "tmp"), **env}
        started.append(subprocess.Popen(
            [str(word) for word in command], cwd=project, env={**os.environ, **env},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        ))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def slow_import(tmp_path):
    """Make a package that takes long to import; gives PYTHONPATH, and the file that says it began.

    What it raises on a signal is taken for something else, as some packages do.
    """

    def make(name):
        package, began = tmp_path / "slow" / name, tmp_path / "began"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(
            f"import time\nopen({str(began)!r}, 'w').close()\n"
            "try:\n    time.sleep(60)\n"
            "except BaseException as error:\n    raise ImportError('broken') from error\n"
        )
        return str(package.parent), began

    return make


def stop(process, number):
    """Send a signal; return (exit status, stdout, stderr)."""
    process.send_signal(number)
    said = process.communicate(timeout=30)
    return process.returncode, *said


@pytest.mark.parametrize("package", ["fabric", "rich"])
def test_fab_is_stopped_while_packages_are_imported(start, slow_import, package):
    path, began = slow_import(package)
    process = start(FAB, "list", PYTHONPATH=path)
    until(began.exists)
    assert stop(process, signal.SIGINT) == (130, "", "fab: error: stopped\n")


@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_a_run_is_stopped_on_the_board(start, project, stub, tmp_path, number, status):
    stub("a_slow", f"import subprocess\nsubprocess.run(['sleep', '301.{os.getpid()}'])")
    stub("b_next")
    process = start(FAB, "deploy", "run-all")
    until(lambda: processes_with(f"sleep 301.{os.getpid()}"))
    ended, output, errors = stop(process, number)
    assert (ended, errors.count("\n")) == (status, 1), output + errors
    assert errors.startswith("fab: error: stopped; `fab collect`")
    until(lambda: not processes_with(f"sleep 301.{os.getpid()}"))
    came = records(project, "local")
    assert came["a_slow", "only"][0].reason == "stopped"
    assert came["b_next", "only"][0].reason == "not run: the run was stopped"
    assert not list(project.glob("results/*/.*"))
    assert not list((tmp_path / "tmp").iterdir())


def test_a_run_whose_output_cannot_be_written_is_stopped_on_the_board(start, stub, project):
    seconds = f"304.{os.getpid()}"
    stub("slow", f"import subprocess\nsubprocess.run(['sleep', '{seconds}'])")
    assert start(FAB, "deploy").wait(30) == 0
    process = start("bash", "-c", f"{FAB} run slow >/dev/full")
    errors = process.communicate(timeout=30)[1]
    assert (process.returncode, errors) == (
        2, "fab: error: cannot write the output: No space left on device; `fab collect` fetches "
        "results that are still on a board\n",
    )
    assert not processes_with(f"sleep {seconds}")
    assert start(FAB, "collect").wait(30) == 1
    assert records(project, "local")["slow", "only"][0].reason == "stopped"


def test_a_second_ctrl_c_ends_it_at_once(start, stub, project, boards_toml):
    stub("one")
    deaf = project / "deaf"
    deaf.write_text(f"#!/bin/sh\nexec sleep 302.{os.getpid()}\n")
    deaf.chmod(0o755)
    boards_toml(f'[local]\npython = "{deaf}"\n')
    process = start(FAB, "deploy")
    asleep = until(lambda: processes_with(f"sleep 302.{os.getpid()}"))
    try:
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopping\n"
        assert process.poll() is None
        began = time.monotonic()
        assert stop(process, signal.SIGINT) == (130, "", "fab: error: stopped\n")
        assert time.monotonic() - began < 15
    finally:
        for each in asleep:
            os.kill(each, signal.SIGKILL)


@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_a_board_that_does_not_answer_is_stopped_at_once(start, odroid, tmp_path, number, status):
    with socket.socket() as mute, open(tmp_path / ".ssh" / "config", "a") as config:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        config.write(odroid.host_block("mute", Port=mute.getsockname()[1],
                                       ConnectTimeout=60))
        config.flush()
        process = start(FAB, "deploy", "--host", "mute")
        accepted = mute.accept()  # held open
        began = time.monotonic()
        ended, output, errors = stop(process, number)
        assert (ended, output, errors.count("\n")) == (status, "stopping\n", 1)
        assert time.monotonic() - began < 15
        until(lambda: not processes_with(f"{tmp_path}/.ssh"))
        accepted[0].close()


def test_a_board_that_was_stopped_is_not_told_as_one_that_failed(start, stub, project):
    """... where fab was stopped before the board's next program began."""
    stub("slow", f"import subprocess\nsubprocess.run(['sleep', '303.{os.getpid()}'])")
    process = start(FAB, "deploy", "run-all", "doctor")
    until(lambda: processes_with(f"sleep 303.{os.getpid()}"))
    status, output, errors = stop(process, signal.SIGINT)
    assert (status, errors.count("\n")) == (130, 1), errors
    assert "doctor of" not in output


@pytest.mark.parametrize("task", ["doctor", "provision"])
def test_a_driver_that_hangs_does_not_delay_a_stop(start, slow_import, boards_toml, tmp_path, task):
    path, began = slow_import("pyopencl")
    boards_toml(f'[local.env]\nPYTHONPATH = "{path}"\n')
    process = start(FAB, task)
    until(began.exists)
    before = time.monotonic()
    status, output, errors = stop(process, signal.SIGINT)
    assert (status, errors) == (130, "fab: error: stopped\n")
    assert output.splitlines()[-1] == "stopping"
    assert time.monotonic() - before < 15
    until(lambda: not list((tmp_path / "tmp").iterdir()))


@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_a_download_is_stopped(start, boards_toml, project, tmp_path, number, status):
    venv.create(tmp_path / "bare")
    boards_toml(f'[local]\npython = "{tmp_path}/bare/bin/python"\n')
    shutil.copy(ROOT / "requirements.lock", project)
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        process = start(FAB, "provision", PIP_CONFIG_FILE=os.devnull, NO_PROXY="127.0.0.1",
                        PIP_INDEX_URL=f"http://127.0.0.1:{mute.getsockname()[1]}")
        accepted = mute.accept()  # held open
        ended, output, errors = stop(process, number)
        accepted[0].close()
    assert (ended, errors) == (status, "fab: error: stopped\n")
    assert output.splitlines()[-1] == "stopping"
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("task", ["doctor", "report"])
def test_what_leaves_nothing_on_a_board_does_not_advise_to_fetch_it(task):
    collect = "stopped; `fab collect` fetches results that are still on a board"
    assert (fleet._stopped({task}), fleet._stopped({task, "run-all"})) == ("stopped", collect)


@pytest.mark.parametrize(
    ("task", "said"), [("sweep", "stopped; repeat the command to continue"), ("check", "stopped")]
)
def test_what_is_stopped_at_a_point_ends_it_on_the_board(start, project, task, said):
    folder = project / "samples" / "stub"
    folder.mkdir()
    shutil.copy(ROOT / "tests/stub_sample.py", folder / "run.py")
    (folder / "sample.toml").write_text(TOML)
    seconds = f"305.{os.getpid()}"
    process = start(FAB, task, "stub", "--", "--wait", seconds, STUB_ROOT=str(project),
                    STUB_RUNS=str(project / "runs"))
    until((project / "runs").exists)
    status, _, errors = stop(process, signal.SIGINT)
    assert (status, errors) == (130, f"fab: error: {said}\n")
    until(lambda: not processes_with(f"--wait {seconds}"))


@pytest.mark.parametrize(
    ("words", "package", "line"),
    [("tools inspect sgemm", "rich", "tools: error: stopped\n"),
     ("tools inspect sgemm", "traceback", "tools: error: stopped\n"),
     ("dev.emulate stop", "traceback", "emulate: error: interrupted\n")],
)
def test_a_program_is_stopped_while_modules_are_imported(start, slow_import, words, package, line):
    path, began = slow_import(package)
    process = start(sys.executable, "-m", *words.split(), PYTHONPATH=f"{path}:{ROOT}")
    until(began.exists)
    assert stop(process, signal.SIGINT) == (130, "", line)


@pytest.mark.parametrize(("number", "status"), SIGNALS)
def test_a_report_is_stopped_while_matplotlib_is_imported(start, slow_import, number, status):
    path, began = slow_import("matplotlib")
    archive = ROOT / "results" / "reference" / "intel.zip"
    process = start(sys.executable, "-m", "report", archive, PYTHONPATH=path)
    until(began.exists)
    assert stop(process, number) == (status, "", "report: error: stopped\n")


def test_a_report_that_fab_started_is_stopped(start, slow_import, project):
    path, began = slow_import("matplotlib")
    (project / "results").mkdir()
    process = start(FAB, "report", PYTHONPATH=path)
    until(began.exists)
    status, output, errors = stop(process, signal.SIGINT)
    assert (status, output, errors.count("\n")) == (130, "", 1)
    assert errors.startswith("fab: error: stopped")


def test_the_help_of_a_report_needs_no_matplotlib():
    code = "import sys; sys.modules['matplotlib'] = sys.modules['jinja2'] = None\n"
    code += "sys.argv = ['report', '--help']; import runpy\n"
    code += "runpy.run_module('report', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--baseline DIR" in done.stdout


def test_folders_of_a_killed_fab_are_deleted_and_those_in_use_stay(tmp_path):
    board = tmp_path / "results" / "odroid"
    run = board / "20260102T030405.678Z"
    run.mkdir(parents=True)
    left = board / ".incoming-left"
    left.mkdir()
    (left / "file").touch()
    os.utime(left, (time.time() - 25 * 3600,) * 2)
    with home.incoming(board) as ours, home.incoming(board) as too:
        assert {Path(ours), Path(too), run} == set(board.iterdir())
    assert [run] == list(board.iterdir())
