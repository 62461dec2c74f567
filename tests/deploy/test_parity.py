"""fab parity: what a board gives beside what this machine gives."""

from types import SimpleNamespace

import pytest

from common.errors import UsageError
from common.manifest import Case
from common.record import Record
from deploy import parity, samples
from deploy.runs import Row

# A sample whose result depends on the environment: boards.toml makes the board's another one.
SAMPLE = """
import argparse, os, sys
sys.path.insert(0, sys.path[0] + '/../..')
import numpy as np
from common import outputs
from common.outputs import digest
from common.record import Record, append
p = argparse.ArgumentParser()
p.add_argument('--json'); p.add_argument('--output'); p.add_argument('--kernels', default='one')
args = p.parse_args()
inputs = np.full(4, float(os.environ.get('INPUT', 1)), np.float32)
steps, status = int(os.environ.get('STEPS', 0)), os.environ.get('STATUS', 'passed')
print('what a sample prints')
outputs.start(args.output)
for kernel in args.kernels.split(','):
    result = np.ones(4, np.float32)
    for _ in range(steps * (kernel == 'one')):
        result[2] = np.nextafter(result[2], np.float32(2))
    check = {'inputs_sha256': digest(inputs), 'output_sha256': digest(result)}
    reason = None if status == 'passed' else 'for a reason'
    append(args.json, Record('s', kernel, status, reason, check=check))
    outputs.append(args.output, kernel, result)
sys.exit({'passed': 0, 'failed': 1, 'unsupported': 77}[status])
"""
TOML = """
description = "a stub"
files = ["run.py"]
[cases.exact]
args = ["--kernels", "one,two"]
timeout = 60
golden = true
[cases.seeded]
args = ["--kernels", "two,one"]
timeout = 60
[cases.speed]
args = []
timeout = 60
"""


@pytest.fixture
def compared(fab, odroid, stub, boards_toml):
    """Run `fab parity` on a board with these variables; gives the process and its table's cells."""
    folder = stub("s")
    (folder / "run.py").write_text(SAMPLE)
    (folder / "sample.toml").write_text(TOML)

    def run(*args, python="python3", **variables):
        lines = [f'{name} = "{value}"\n' for name, value in variables.items()]
        boards_toml(f'[odroid]\npython = "{python}"\nskip = ["speed"]\n[odroid.env]\n'
                    + "".join(lines))
        done = fab("parity", *(args or ("--host", "odroid")))
        rows = [line.split() for line in done.stdout.splitlines() if line.startswith("  s ")]
        return done, {row[1]: row[2:] for row in rows}

    return run


def test_a_board_that_gives_the_same(compared, project):
    done, cells = compared()
    assert done.returncode == 0, done.stdout + done.stderr
    assert cells == {
        "exact": ["2", "equal", "equal", "-"],
        "seeded": ["2", "equal", "-", "0", "ulp"],
    }
    assert "odroid: 1 of 1 golden cases equal to this machine's, 2 of 2 cases good" in done.stdout
    assert "what a sample prints" not in done.stdout
    assert list(project.glob("results/odroid/*/s/seeded.npz"))


def test_nothing_runs_here_for_a_board_that_cannot_be_reached(compared, project):
    done, _ = compared(python="/no/python")
    assert (done.returncode, done.stderr.count("\n")) == (3, 1), done.stderr
    assert done.stderr.startswith("fab: error: odroid: ")
    assert not (project / "results" / "local").exists()


def test_a_golden_case_that_differs(compared):
    done, cells = compared(STEPS=3)
    assert done.returncode == 1
    assert cells["exact"] == ["2", "equal", "DIFFER", "-"]
    assert cells["seeded"] == ["2", "equal", "-", "3", "ulp", "(one)"]
    assert "0 of 1 golden cases equal" in done.stdout


@pytest.mark.exhaustive
def test_a_seeded_case_that_differs_is_no_failure(compared, project):
    toml = project / "samples" / "s" / "sample.toml"
    toml.write_text(toml.read_text().replace("golden = true", ""))
    done, cells = compared(STEPS=70000)
    assert done.returncode == 0, done.stdout
    assert cells["exact"] == ["2", "equal", "-", "70000", "ulp", "(one)"]


def test_other_inputs(compared):
    done, cells = compared(INPUT=2)
    assert done.returncode == 1
    assert cells["exact"] == ["2", "DIFFER", "equal", "-"]
    assert cells["seeded"] == ["2", "DIFFER", "-", "0", "ulp"]


def test_a_case_that_fails_on_the_board(compared):
    done, _ = compared(STATUS="failed")
    assert done.returncode == 1
    assert "s exact: odroid: for a reason" in done.stdout


def test_a_case_that_the_board_does_not_support(compared):
    done, _ = compared(STATUS="unsupported")
    assert done.returncode == 0
    assert "s exact: odroid: for a reason" in done.stdout


def test_a_golden_case_that_was_compared_with_nothing_is_not_good():
    case = Case("s", "exact", (), 1, golden=True)
    digests = {"inputs_sha256": "a", "output_sha256": "b"}
    row = Row("odroid", "exact", Record("s", "one", "passed", check=digests))
    loaded = {"s": SimpleNamespace(cases=(case,))}
    (both,) = parity.compare([row], [row], "run", loaded)
    assert both.good
    (alone,) = parity.compare([], [row], "run", loaded)
    assert not alone.good
    assert alone.trouble == "local: it did not run here"
    bare = Row("odroid", "exact", Record("s", "one", "passed"))
    (found,) = parity.compare([bare], [bare], "run", loaded)
    assert not found.good


def test_a_board_that_lost_what_it_was_to_do():
    lost = Row("odroid", "-", Record("-", None, "error", "the run has no plan"))
    (found,) = parity.compare([], [lost], "run", {})
    assert not found.good
    assert found.trouble == "odroid: the run has no plan"


def test_it_needs_a_board(compared):
    done, _ = compared("--host", "local")
    assert done.returncode == 2
    assert done.stderr == ("fab: error: parity compares this machine with a board: give --host\n")


@pytest.mark.exhaustive
def test_several_boards_and_one_that_is_gone(compared, odroid, tmp_path):
    with open(tmp_path / ".ssh" / "config", "a") as config:
        config.write("Host gone\n    HostName 127.0.0.1\n    Port 1\n")
    done, _ = compared("-H", "odroid,gone")
    assert done.returncode == 3
    assert "gone" in done.stderr
    assert "odroid: 1 of 1 golden cases equal" in done.stdout


def test_a_skip_that_no_sample_knows():
    with pytest.raises(UsageError, match=r"skip: no sample has a case 'sped'"):
        samples.every(samples.load(), ["sped"])


def test_a_case_that_is_skipped(fab, stub, boards_toml):
    stub("one")
    done = fab("deploy", "run-all", "--skip", "only, sped")
    assert (done.returncode, done.stderr) == (
        2, "fab: error: --skip: no sample has a case 'sped'\n")
    boards_toml('[local]\nskip = ["sped"]\n')
    assert fab("run-all").stderr == (
        "fab: error: board local in boards.toml: skip: no sample has a case 'sped'\n")
    for words, setting in ((("--skip", "only"), ""), ((), 'skip = ["only"]\n')):
        boards_toml(f"[local]\n{setting}")
        done = fab("deploy", "run-all", *words)
        assert "skipped, as boards.toml or --skip says: only" in done.stdout
        assert "one only" not in done.stdout


def test_a_board_that_runs_nothing_has_nothing_to_compare(fab, odroid, boards_toml):
    boards_toml("[odroid]\nbuild_only = true\n")
    done = fab("parity", "--host", "odroid")
    assert done.returncode == 2
    assert "parity compares results: odroid compiles and runs nothing" in done.stderr
