"""Options of a sample after --: checked here before they travel."""

import json
import subprocess

import pytest

from common import record
from tests.conftest import FAB


@pytest.fixture
def deployed(stub, fab):
    folder = stub("hello")
    with open(folder / "sample.toml", "a") as toml:
        toml.write('[options]\nvalues = ["--case", "--number"]\n')
    assert fab("deploy").returncode == 0
    return folder


def test_a_run_with_options_comes_home(deployed, fab, project):
    done = fab("run", "hello", "--", "--case", "mine")
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 of 1 passed" in done.stdout
    (path,) = project.glob("results/local/*/hello/asked.jsonl")
    assert record.read(path)[0].variant == "mine"
    plan = json.loads((path.parents[1] / "plan.json").read_text())
    assert plan["cases"][0]["args"] == ["--case", "mine"]


@pytest.mark.parametrize(
    ("redirection", "status", "line"),
    [
        (">/dev/full", 2, "fab: error: cannot write the output: No space left on device\n"),
        (">&-", 0, ""),
    ],
)
def test_output_that_cannot_be_written(deployed, project, redirection, status, line):
    done = subprocess.run(["bash", "-c", f"{FAB} list {redirection}"], cwd=project, timeout=60,
                          stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (status, line)


@pytest.mark.parametrize("words", [("run", "--help"), ("run", "hello", "-h"), ("--help", "run")])
def test_help_on_a_task(fab, words):
    done = fab(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: fab [--core-opts] run ")


def test_a_record_is_repeated_on_a_board(deployed, fab, project):
    fab("run", "hello", "--", "--case", "mine")
    (path,) = project.glob("results/local/*/hello/asked.jsonl")
    done = fab("replay", f"{path}:1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "agree: both runs passed; there are no times to compare" in done.stdout
    toml = '[local]\npython = "/no/python"\n'  # it is the board that runs it
    (project / "boards.toml").write_text(toml)
    done = fab("replay", f"{path}:1")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1)
    assert done.stderr.startswith("fab: error: local: cannot start /no/python")
    (project / "samples" / "hello" / "run.py").write_text("raise SystemExit(2)")
    (project / "boards.toml").write_text("")
    done = fab("replay", f"{path}:1", "--", "--case", "other")
    assert (done.returncode, done.stderr) == (1, "")
    assert "differ: recorded as passed, now error" in done.stdout


def test_a_record_that_is_not_there_is_an_error_like_others(deployed, fab):
    done = fab("replay", "x.jsonl:1")
    line = "fab: error: cannot read x.jsonl: No such file or directory\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", line)


def test_a_sweep_without_boards_has_one_line(deployed, fab, project):
    (project / "boards.toml").write_text('[local]\npython = "/no/python"\n')
    done = fab("sweep", "hello")
    assert (done.returncode, done.stderr) == (
        3, "fab: error: no board is left; repeat the command to continue\n",
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("run", "hello", "--", "--json", "x"), "hello: '--json' cannot be run on a board"),
        (("run", "hello", "--", "--case", "/x"), "hello: '/x' cannot be run on a board: give a "),
        (("run", "hello", "--", "--case", "--number", "3"), "'--case' needs a number or a name"),
        (("sweep", "hello", "--kernel", "6,7"), "--kernel takes one kernel, such as "),
        (("sweep", "hello", "--kernel", ""), "--kernel takes one kernel, such as "),
        (("run", "none", "--", "--case", "x"), "no sample 'none'"),
        (("list", "--", "ls"), "options after -- are for run, sweep, replay, inspect, check only"),
        (("sweep", "none"), "no sample 'none': choose from hello"),
        (("run", "hello", "--case", "only", "--", "--case", "x"), "--case: a case has options"),
        (("run", "hello", "--", "--number", "x"), "hello: argument --number: invalid int value"),
        (("run", "hello", "--", "--number", "3", "--number=4"), "--number is given more"),
        (("sweep", "hello", "--", "--number", "3", "--number", "4"), "--number is given more"),
        (("sweep", "hello", "--", "--nosuch", "3"), "hello: '--nosuch' cannot be run"),
        (("--prompt-for-passphrase", "list"), "has no effect: ssh asks for nothing here: give"),
        (("-T", "60", "list"), "--command-timeout has no effect: each case has a time limit: see "),
        (("-w", "list"), "--warn-only has no effect: a case that fails does not stop the others"),
        (("--dry", "list"), "--dry has no effect: only provision can show"),
        (("run", "hello", "--size", "8"), "fab run has no option --size; options of the sample "
         "follow --: fab run hello -- --size ...; "),
        (("run", "hello", "--size=8"), "options of the sample follow --: fab run hello -- --size "),
        (("deploy", "--size", "8"), "no task or option '--size'; tasks: check, "),
        (("run", "hello", "elsewhere"), "no task or option 'elsewhere'; tasks: check, "),
        (("sweep", "hello", "--budget", "2", "--budget", "3"), "--budget is given more than once"),
        (("sweep", "hello", "--budget=2", "--budget=3"), "--budget is given more than once"),
        (("sweep",), "fab sweep needs EXPERIMENT: a sample, "),
        (("run", "--case", "x"), "fab run needs SAMPLE: a name from `fab list`"),
        (("sweep", "hello", "--rounds", "-1"), "--rounds"),
        (("sweep", "hello", "--budget", "x"), "--budget x: give a whole number"),
        (("sweep", "hello", "--scheduler", "tcp://h"), "it must begin with tls://"),
    ],
)
def test_wrong_usage(deployed, fab, line, message):
    done = fab(*line)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert message in done.stderr
