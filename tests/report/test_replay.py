"""The replay command: what is copied, pasted and run gives the record's arguments again."""

import json
import re
import shlex
import subprocess
import sys
import tomllib

import pytest
from report_data import item, make_run, write

from deploy import samples
from report import reading, replay
from tests.conftest import ROOT

NASTY = ["--name", "it's", 'a "b" $HOME `id` *', "\\", "", "-n", "7"]


def command(*paths, **more):
    (point,) = reading.collect(paths, "/nowhere", **more).points
    return replay.command(point)


def test_in_this_checkout(tmp_path):
    argv = ["/elsewhere/samples/sgemm/run.py", *NASTY, "--json", "x.jsonl", "--json=y.jsonl",
            "/elsewhere/samples/sgemm/sgemm.cl"]
    line = str(command(make_run(tmp_path, item(argv=argv), board="local")))
    assert line.startswith("python samples/sgemm/run.py --name ")
    show = "import json, sys; print(json.dumps(sys.argv[1:]))"
    line = line.replace("python samples/sgemm/run.py", f"{sys.executable} -c '{show}'")
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [*NASTY, "samples/sgemm/sgemm.cl"]


def test_a_run_of_the_local_board_is_repeated_here(tmp_path):
    run = make_run(tmp_path, item(), board="local")
    assert str(command(run)) == "python samples/sgemm/run.py --kernel dot4"


def test_a_run_of_a_board_is_repeated_there(tmp_path):
    run = make_run(tmp_path, item(), board="anna@192.168.1.2:2222")
    assert command(run) == "fab run sgemm --case speed --host anna@192.168.1.2:2222"


def test_so_are_options_that_were_asked_for(tmp_path):
    argv = ["samples/sgemm/run.py", *NASTY]
    line = command(make_run(tmp_path, item(argv=argv), case="asked"))
    assert line.startswith("fab run sgemm --host odroid -- --name ")
    assert shlex.split(line)[6:] == NASTY


def test_a_point_of_a_sweep_is_replayed_where_it_ran(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = item(params={"size": "8", "point": {"options": ["-n", "8"]}})
    assert command(make_run(tmp_path, mine)) == (
        "fab replay --host odroid odroid/20260102T030405.678Z/sgemm/speed.jsonl:1"
    )
    with_file = make_run(tmp_path / "s", mine, ssh_file=str(tmp_path / "my ssh"))
    assert command(with_file) == (
        "fab -S 'my ssh' replay --host odroid s/odroid/20260102T030405.678Z/sgemm/speed.jsonl:1"
    )


def test_a_point_of_a_journal_is_replayed_by_the_tool(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = {"size": "8", "point": {"options": ["-n", "8"], "seconds": 1.0}}
    again = {**mine, "point": {**mine["point"], "seconds": 2.0}}
    other = item(params={**mine, "size": "9"})
    write(tmp_path / "my journal.jsonl", other, item(params=mine), item(params=again))
    found = reading.collect(["my journal.jsonl"], "/nowhere").points
    lines = [str(replay.command(point)) for point in found]
    # The newest record of a point.
    assert lines == [
        "python -m tools replay 'my journal.jsonl:1'",
        "python -m tools replay 'my journal.jsonl:3'",
    ]


def test_records_of_other_code_are_other_points(tmp_path):
    """By the digest that a record has of its own; a run has had one for longer."""
    items = [item(code=code) for code in ("a" * 64, "a" * 64, "b" * 64, None)]
    found = reading.collect([write(tmp_path / "r.jsonl", *items)], "/nowhere").points
    assert len(found) == 3


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["samples/sgemm/run.py", "\x1b[201~\n"],
        ["samples/sgemm/run.py", "\u202e"],
        ["samples/sgemm/run.py", 7],
        ["/bin/sh"],
        ["samples/sgemm/run.py; rm"],
        ["-m"],
    ],
)
def test_what_cannot_be_a_command_of_ours_is_none(tmp_path, argv):
    assert command(write(tmp_path / "r.jsonl", item(argv=argv))) is None


FRIENDLY = [
    ("sgemm", ["--size", "640x48x1000", "--kernel=all", "--alpha", "-1.5e-3", "--print"]),
    ("gemmbench", ["-f", "SGEMM_N?_4x*", "-n", "512", "--energy"]),
    ("gemmbench", ["paper", "--orders", "64,96"]),
    ("mygemm", ["--kernel", "1,6,10", "--size", "256:1024:256", "--TSM", "64", "--check-only"]),
    ("gemm_intel", ["-s", "512", "--tile-size-M", "16"]),
    ("64_bit_integer", ["--size", "1021x769", "--seed", "7"]),
]
NASTIER = [
    ("mygemm", ["--blas", "./friend.zip"]),
    ("mygemm", ["--blas=./friend.zip"]),
    ("mygemm", ["--kernel", "all", "--blas", "friend.zip"]),
    ("mygemm", ["tune", "--kernel", "6"]),
    ("mygemm", ["inspect"]),
    ("mygemm", ["--tuned", "there"]),
    ("gemmbench", ["--kernels", "theirs", "-f", "all"]),
    ("gemmbench", ["-f", "../theirs/kernel.json"]),
    ("gemmbench", ["-n", "-fx/y.json"]),
    ("gemmbench", ["-ftheirs"]),
    ("gemmbench", ["explore", "--journal", "x"]),
    ("gemmbench", ["replay", "friend.jsonl:1"]),
    ("gemmbench", ["--pin"]),
    ("64_bit_integer", ["friend.bmp"]),
    ("64_bit_integer", ["--size", "8x8", "friend.bmp"]),
    ("sgemm", ["--size"]),
    ("sgemm", ["--size", "--kernel", "all"]),
    ("sgemm", ["--print", "x"]),
    ("nonesuch", ["--size", "4"]),
]


@pytest.mark.parametrize(("sample", "args"), FRIENDLY)
def test_what_others_ran_is_offered_where_it_only_chooses(tmp_path, sample, args):
    path = write(
        tmp_path / "r.jsonl", item(sample=sample, argv=[f"samples/{sample}/run.py", *args])
    )
    assert str(command(path)).startswith(f"python samples/{sample}/run.py ")


@pytest.mark.parametrize(("sample", "args"), NASTIER)
def test_what_others_ran_is_not_offered_where_it_may_name_a_file(tmp_path, sample, args):
    path = write(
        tmp_path / "r.jsonl", item(sample=sample, argv=[f"samples/{sample}/run.py", *args])
    )
    assert command(path) is None


@pytest.mark.parametrize("sample", samples.load())
def test_each_sample_states_options_that_it_has_and_that_name_no_file(run_sample, sample):
    table = tomllib.loads((ROOT / "samples" / sample / "sample.toml").read_text())["options"]
    more = ["paper"] if sample == "gemmbench" else []
    told = "".join(run_sample(sample, *words, "--help").stdout for words in ([], more))
    hidden = {"--peers"}  # an older name
    for option in {*table["values"], *table["words"]} - hidden:
        assert re.search(rf"(^|[\s,]){re.escape(option)}\b", told), option
        about = re.search(rf"(^|[\s,]){re.escape(option)}\b[^\n]*", told)[0]
        assert not re.search(r"\b(FILE|DIR|FOLDER|IMAGE)\b", about), about


@pytest.mark.parametrize("sample", ["../../evil", "-c", "Sgemm", "a b", ""])
def test_a_sample_that_cannot_be_one_of_ours(tmp_path, sample):
    argv = ["samples/sgemm/run.py"]
    assert command(write(tmp_path / "r.jsonl", item(sample=sample, argv=argv))) is None


def test_a_board_that_makes_no_command(tmp_path):
    assert command(make_run(tmp_path, item(), board="-oProxyCommand=evil")) is None
