"""expected.json: written by a command, with the output's digest for golden cases only."""

import json

import pytest

from common.errors import UsageError
from deploy import samples


@pytest.mark.exhaustive
def test_update_expected_writes_what_is_in_the_repository(fab, project):
    path = project / "samples" / "sgemm" / "expected.json"
    before = path.read_text()
    path.write_text("{}")
    done = fab("update-expected", "--sample", "sgemm")
    assert done.returncode == 0, done.stdout + done.stderr
    assert path.read_text() == before
    exact = {name for name, case in json.loads(before).items() if "output_sha256" in case}
    assert exact == {case.name for case in samples.load()["sgemm"].cases if case.golden}


UNSUPPORTED = """
sys.path.insert(0, sys.path[0] + '/../..')
append(args.json, Record('two', 'odd', 'unsupported', 'this device lacks it'))
if args.case == 'none':
    sys.exit(77)
check = {'inputs_sha256': 'abc', 'output_sha256': 'def'}
append(args.json, Record('two', 'even', 'passed', params={'seed': 3}, check=check))
sys.exit(77)
"""


def test_what_this_machine_does_not_support_is_left_to_the_others_of_its_case(fab, stub):
    folder = stub("two", UNSUPPORTED, cases=("both",))
    done = fab("update-expected", "--sample", "two")
    assert done.returncode == 0, done.stdout + done.stderr
    kept = json.loads((folder / "expected.json").read_text())
    assert kept == {"both": {"seed": 3, "inputs_sha256": "abc"}}
    stub("three", UNSUPPORTED, cases=("none",))
    done = fab("update-expected", "--sample", "three")
    assert done.returncode != 0
    assert "three none: none of its kernels runs here; nothing" in done.stdout + done.stderr


def test_a_sample_that_is_not_there_is_refused_before_anything_is_copied(fab, stub):
    stub("two")
    done = fab("update-expected", "--sample", "none")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "fab: error: no sample 'none': choose from two\n"


def test_golden_is_true_or_false(project):
    path = project / "samples" / "sgemm" / "sample.toml"
    path.write_text(path.read_text().replace("golden = true", 'golden = "yes"'))
    with pytest.raises(UsageError, match="case golden: golden must be true or false"):
        samples.load(project)
