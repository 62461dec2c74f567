"""tools tune: every legal choice is tried once, and the best one is stored."""

import json
import re

import pytest
from stub import Stub

from common import record


@pytest.fixture
def stub(tmp_path, monkeypatch, capsys):
    return Stub(tmp_path, monkeypatch, capsys)


def tune(stub, *argv):
    return stub("tune", "stub", "--journal", stub.journal, "--rounds", 2, *argv)


def test_the_best_is_found_run_again_and_stored(stub):
    """The rate is 10 * TS / WPT; TS = 16 would be a work-group of 256, and 64 is the most."""
    status, out, errors = tune(stub, "--kernel", "1")
    assert (status, errors) == (0, "")
    tried = [tuple(map(int, re.findall(r"\d+", run)))[1:] for run in stub.runs()[:6]]
    assert tried[0] == (4, 1)  # the default
    assert sorted(tried) == [(2, 1), (2, 2), (4, 1), (4, 2), (8, 1), (8, 2)]
    again = stub.runs()[6:]
    assert len(again) == 2 * 5  # the default is one of the best five
    assert again[:5] == again[:4:-1]  # the second round the other way round
    assert "6 of 6 combinations passed" in out
    assert "best: --TS 8 --WPT 1\n" in out
    (path,) = (stub.folder / "tuned").glob("*.json")
    assert path.name == "a-device-a-platform.json"
    (entry,) = json.loads(path.read_text())["entries"]
    assert (entry["kernel"], entry["params"], entry["gflops"]) == ("01_k", {"TS": 8, "WPT": 1}, 80)
    assert (entry["size"], entry["driver"], entry["slower_than"]) == ("8x8x8", "1", None)


def test_it_goes_on_where_it_stopped(stub):
    tune(stub, "--kernel", "01_k", "--budget", 3)
    before = len(stub.records())
    assert before == 3
    _, out, _ = tune(stub, "--kernel", "01_k")
    assert len(stub.records()) == 6
    assert "6 of 6 combinations passed" in out


def test_a_budget_draws_by_a_seed_and_takes_the_default_first(stub):
    tune(stub, "--budget", 3, "--seed", 5)
    first = stub.runs()[:3]
    assert first[0] == "--kernel 1 --TS 4 --WPT 1"
    stub.journal.unlink()
    before = len(stub.runs())
    tune(stub, "--budget", 3, "--seed", 5)
    assert stub.runs()[before : before + 3] == first


def test_given_parameters_stay(stub):
    _, out, _ = tune(stub, "--", "--WPT", "2", "--size", "8")
    assert {"--WPT 2" in run for run in stub.runs()} == {True}
    assert "best: --TS 8 --WPT 2\n" in out


def test_axes_give_the_values_to_try(stub):
    _, out, _ = tune(stub, "--axis", "--TS", "2", "8", "--axis", "WPT", "1")
    tried = {tuple(map(int, re.findall(r"\d+", run)))[1:] for run in stub.runs()}
    assert tried == {(4, 1), (2, 1), (8, 1)}  # the default as well
    assert "best: --TS 8 --WPT 1\n" in out


def test_a_choice_that_fails_never_wins(stub):
    status, out, errors = tune(stub, "--kernel", "1", "--", "--do", "wrong")
    assert (status, errors) == (3, "tools: error: 01_k: no combination passed\n")
    assert "0 of 6 combinations passed" in out
    assert {item.status for item in record.read(stub.journal)} == {"failed"}
    assert not (stub.folder / "tuned").exists()


def test_what_the_sample_takes_by_itself_runs_beside(stub):
    path = stub.folder / "sample.toml"
    path.write_text(path.read_text().replace("[tools]\n", '[tools]\nbest = ["--TS", "32"]\n'))
    _, out, _ = tune(stub, "--kernel", "1")
    assert "the sample's own choice (--TS 32) is faster: k; it is kept" in out
    (path,) = (stub.folder / "tuned").glob("*.json")
    (entry,) = json.loads(path.read_text())["entries"]
    assert (entry["params"]["TS"], entry["slower_than"]) == (8, "k")


def test_a_sample_that_reads_no_tuned_parameters(stub, tmp_path):
    path = stub.folder / "sample.toml"
    path.write_text(path.read_text().replace('tuned = "tuned"\n', ""))
    status, out, _ = tune(stub, "--kernel", "1", "--budget", 2)
    assert (status, "stored" in out, "best: " in out) == (0, False, True)
    tune(stub, "--kernel", "1", "--budget", 2, "--tuned", tmp_path / "there")
    assert len(list((tmp_path / "there").iterdir())) == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--kernel", "3"), "--kernel 3: not among the kernels that the sample"),
        (("--kernel", "plain"), "--kernel plain: name one that has parameters: 01_k"),
        (("--budget", "0"), "'0' is not a whole number from 1 up"),
        (("--axis", "--TSX", "4"), "--axis --TSX: 01_k has --TS, --WPT"),
        (("--axis", "--TS", "4", "x"), "--TS x: give a whole number"),
        (("--", "--TS", "x"), "--TS x: give a whole number"),
        (("--", "--TS", "128"), "--TS 128: 128 work-items in dimension 0"),
    ],
)
def test_bad_input(stub, args, message):
    status, _, errors = tune(stub, *args)
    assert message in errors
    assert (status, errors.count("\n")) == (2, 1)
    assert stub.runs() == []
