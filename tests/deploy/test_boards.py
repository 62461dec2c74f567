"""boards.toml and sample.toml: what is wrong in them is named."""

import os
import sys
from pathlib import Path

import pytest

from common.errors import UsageError
from deploy import boards, samples
from dev.emulate import root
from dev.emulate.board import Emulated


@pytest.fixture
def load(tmp_path):
    def load(text):
        path = tmp_path / "boards.toml"
        path.write_text(text)
        return boards.load(path)

    return load


def test_everything_is_optional(load):
    assert set(load("")) == {"local"}
    odroid = load("[odroid]\n")["odroid"]
    assert odroid == boards.Settings()
    assert odroid.device_options() == []


def test_the_file_of_the_project_can_be_used():
    assert "local" in boards.load(boards.ROOT / "boards.toml")


def test_settings(load):
    text = '[a]\nfolder = "x y"\ntime_limit = 9\ndevice = "Mali"\n[a.env]\nLD_LIBRARY_PATH = "/x"\n'
    settings = load(text)["a"]
    assert (settings.folder, settings.time_limit) == ("x y", 9)
    assert settings.device_options() == ["--device=Mali"]
    both = load('[a]\nlimits = "mali-g52"\nbuild_only = true\n')["a"]
    assert both.device_options() == ["--limits=mali-g52", "--build-only"]
    assert settings.env == {"LD_LIBRARY_PATH": "/x"}


def test_several_boards_in_one_table(load):
    both = load('["a,b"]\nlimits = "x-{board}"\nssh_config = "/{board}"\nskip = ["speed"]\n')
    for name in "ab":
        mine = both[name]
        assert (mine.limits, mine.ssh_config) == (f"x-{name}", f"/{name}")
        assert mine.skip == ("speed",)


def test_local_may_share_a_table(load):
    assert load('["other, local"]\nskip = ["speed"]\n')["local"].skip == ("speed",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[odroid\n", r"boards\.toml: .*line 1"),
        ("odroid = 1\n", r"board odroid is not a table"),
        ('["a,odroid"]\n[odroid]\n', "boards.toml: board odroid is named twice"),
        ('["a,b,a"]\n', "board a is named twice"),
        ("[odroid]\npasword = 'x'\n", "board odroid has the unknown setting pasword"),
        ("[odroid]\ntime_limit = 0\n", "time_limit must be a whole number of seconds"),
        ("[odroid]\ntime_limit = true\n", "time_limit must be a whole number"),
        ("[odroid]\nfolder = 3\n", "folder must be a string"),
        ("[odroid]\npython = ''\n", "python must be a string"),
        ("[odroid]\nenv = { 'A=B' = 'x' }\n", "env must be a table of NAME"),
        ("[odroid]\nbuild_only = 1\n", "build_only must be true or false"),
        ("[odroid]\nskip = 'speed'\n", "skip must be a list of names of cases"),
        ("[odroid]\nssh_config = ''\n", "ssh_config must be a string that is not empty"),
        ("[odroid]\ntype = 'npu'\n", "type must be one of all, cpu, gpu"),
        ('[odroid]\nfolder = "a\\u0000b"\n', "folder must be a string"),
        ("[odroid]\nenv = { A = 1 }\n", "env must be a table of NAME"),
        ("['-x']\n", r"boards\.toml: '-x' is not a host"),
        (f"['{'a' * 201}']\n", "is not a host"),
        ("[reference]\n", "no board can be called reference"),
        ("[experiments]\n", r"boards\.toml: no board can be called experiments"),
        (f"[a]\ntime_limit = 1{'0' * 5000}\n", r"boards\.toml: line 2 has more than 4096"),
        (f"[a]\ntime_limit = 1{'0' * 4000}\n", "from 1 up to 1000000"),
        ("x = " + "[" * 4000, r"boards\.toml: its values are nested too deeply"),
        ("[" + "a." * 2000 + "a]\n", "unknown setting a"),
        ("\n" + "a." * 100_000 + "a = 1\n", r"boards\.toml: line 2 has more than 4096 characters"),
        ("#" * 2_000_000, r"boards\.toml: it is larger than 262,144 bytes"),
    ],
)
def test_what_is_wrong_is_named(load, text, message):
    with pytest.raises(UsageError, match=message):
        load(text)


def test_an_ssh_config_is_sought_beside_boards_toml(load, tmp_path):
    assert load('[a]\nssh_config = "x/y"\n')["a"].ssh_config == str(tmp_path / "x" / "y")
    assert load('[a]\nssh_config = "/x/y"\n')["a"].ssh_config == "/x/y"


def test_the_emulated_boards_are_known():
    known = boards.load(boards.ROOT / "boards.toml")
    for name in root.ARCHES:
        board = Emulated(name)
        assert known[board.alias].ssh_config == str(board.ssh_config)
        assert known[board.alias].skip == ("speed", "paper")


def test_fab_says_it_in_one_line(fab, boards_toml):
    boards_toml("[odroid]\nfolder = 3\n")
    done = fab("deploy", "--host", "odroid")
    assert done.returncode == 2
    assert (
        done.stderr
        == "fab: error: boards.toml: board odroid: folder must be a string that is not empty\n"
    )


GOOD = 'description = "d"\nfiles = ["run.py"]\n[cases.one]\nargs = []\ntimeout = 5\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", r"samples/s/sample\.toml: Expected "),
        (GOOD.replace("description", "descrption"), "unknown key descrption: choose from cases"),
        (GOOD.replace("timeout = 5\n", ""), "lacks timeout"),
        (GOOD.replace("[cases.one]", "[cases.'a/b']"), "'a/b' is not a name"),
        (GOOD.replace("args = []", "args = 3"), "args of case one must be a list of strings"),
        (GOOD.replace("args = []", 'args = "x"'), "args of case one must be a list of strings"),
        (GOOD.replace("= 5", "= 0"), "timeout must be a whole number of seconds from 1 up"),
        (GOOD.replace("= 5", "= 0.5"), "timeout must be a whole number"),
        (GOOD.replace('["run.py"]', '"run.py"'), "files must be a list of strings"),
        (GOOD.replace("run.py", "nope.cl"), "there is no 'nope.cl'"),
        (GOOD.replace("run.py", "/etc/passwd"), "is outside the sample's folder"),
        (GOOD.replace("run.py", "../x"), "is outside the sample's folder"),
        ("files = []\n", "lacks cases"),
        ("x = " + "[" * 4000, r"samples/s/sample\.toml: its values are nested too deeply"),
        (
            GOOD.replace("= 5", f"= {'5' * 5000}"),
            r"samples/s/sample\.toml: line 5 has more than 4096",
        ),
        (GOOD.replace("= 5", f"= {'5' * 4000}"), "from 1 up to 1000000"),
        ("[cases]\none = 5\n", "must be a table with the keys args"),
        ("options = 5\n[cases]\n", "must be a table with the keys own, seconds, values"),
        ("cases = 5\n", r"samples/s/sample\.toml: "),
    ],
)
def test_a_sample_toml_that_cannot_be_used(tmp_path, text, message):
    folder = tmp_path / "samples" / "s"
    folder.mkdir(parents=True)
    (folder / "sample.toml").write_text(text)
    (folder / "run.py").touch()
    with pytest.raises(UsageError, match=message):
        samples.load(tmp_path)


@pytest.mark.parametrize("text", ["x", "[]", "3", '{"golden": 3}', '{"a":' * 100_000, "1" * 5000])
def test_an_expected_json_that_cannot_be_used(tmp_path, text):
    folder = tmp_path / "samples" / "s"
    folder.mkdir(parents=True)
    (folder / "sample.toml").write_text(GOOD)
    (folder / "run.py").touch()
    (folder / "expected.json").write_text(text)
    with pytest.raises(UsageError, match=r"samples/s/expected\.json: "):
        samples.load(tmp_path)


@pytest.mark.parametrize("name", ["sample.toml", "expected.json", "expected/one.txt"])
def test_a_file_of_a_sample_that_is_no_file(tmp_path, name):
    folder = tmp_path / "samples" / "s"
    (folder / "expected").mkdir(parents=True)
    (folder / "sample.toml").write_text(GOOD)
    (folder / "run.py").touch()
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(UsageError, match=rf"samples/s/{name}: it is a FIFO"):
        samples.load(tmp_path)


@pytest.mark.parametrize("path", ["fifo", ".", "/dev/zero", "large"])
def test_a_boards_toml_that_is_no_file_for_it(tmp_path, path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 2**30)
    with pytest.raises(UsageError, match=f"^cannot read {tmp_path / path}: it is "):
        boards.load(tmp_path / path)


def test_every_sample_is_complete():
    loaded = samples.load()
    assert loaded
    for sample in loaded.values():
        names = {path.name for path in sample.files}
        assert {"run.py", "README.md", "expected.json"} <= names, sample.name
        assert any(path.suffix == ".cl" for path in sample.files)
        assert set(sample.expected) == {case.name for case in sample.cases}
        exact = {name for name, case in sample.expected.items() if "output_sha256" in case}
        assert exact == {case.name for case in sample.cases if case.golden} != set()


def test_names_of_samples_and_cases_that_are_not_there():
    with pytest.raises(UsageError, match=r"^no sample 'sgem': choose from "):
        samples.pick(samples.load(), "sgem")
    with pytest.raises(UsageError, match=r"^sample sgemm has no case 'gold': choose from docum"):
        samples.pick(samples.load(), "sgemm", "gold")


@pytest.mark.parametrize("args", [["nope"], ["deploy", "--host"]])
def test_an_unknown_task_or_option(fab, args):
    done = fab(*args)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("fab: error: ")
    if args == ["nope"]:
        assert "no task or option 'nope'; tasks: check, clean, collect, deploy, " in done.stderr


def test_list_shows_samples_cases_and_boards(fab, boards_toml):
    boards_toml("[odroid]\n")
    done = fab("list")
    assert done.returncode == 0
    assert "sgemm: C = alpha" in done.stdout
    assert "    golden " in done.stdout
    assert "boards: odroid, local" in done.stdout


def test_local_uses_the_python_that_it_is_given(fab, project, stub, boards_toml):
    stub("who", "print(sys.executable)")
    done = fab("deploy", "run-all", "--verbose")
    assert f"   {Path(sys.executable).parent}/python" in done.stdout
    boards_toml("[local]\npython = '/no/python'\n")
    done = fab("run-all")
    assert done.returncode == 3
    assert "cannot start /no/python: No such file" in done.stderr
