"""expected.json: written by a command, with the output's digest for golden cases only."""

import json

import pytest

from deploy import samples
from deploy.errors import UsageError


def test_update_expected_writes_what_is_in_the_repository(fab, project):
    path = project / "samples" / "sgemm" / "expected.json"
    before = path.read_text()
    path.write_text("{}")
    done = fab("update-expected", "--sample", "sgemm")
    assert done.returncode == 0, done.stdout + done.stderr
    assert path.read_text() == before
    exact = {name for name, case in json.loads(before).items() if "output_sha256" in case}
    assert exact == {case.name for case in samples.load()["sgemm"].cases if case.golden}


def test_golden_is_true_or_false(project):
    path = project / "samples" / "sgemm" / "sample.toml"
    path.write_text(path.read_text().replace("golden = true", 'golden = "yes"'))
    with pytest.raises(UsageError, match="case golden: golden must be true or false"):
        samples.load(project)
