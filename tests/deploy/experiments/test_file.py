"""The file of an experiment: every one that ships can be read, and a mistake has one line."""

import pytest
from stub import Stub

from common import manifest
from common.errors import UsageError
from deploy.experiments import file
from tests.conftest import ROOT

SHIPPED = sorted(ROOT.glob("samples/*/experiments/*.toml"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parts[-3]}/{path.stem}")
def test_those_of_the_samples_can_be_read(path):
    sample = path.parts[-3]
    found = file.read(f"{sample}/{path.stem}")
    assert found.found.name == sample
    pairs = [(flag, values[0]) for flag, values in found.axes.items() if flag != "--pin"]
    words = [*found.options, *(word for pair in pairs for word in pair)]
    assert manifest.more_than_choice(sample, words) is None


@pytest.fixture
def read(tmp_path, monkeypatch, capsys):
    Stub(tmp_path, monkeypatch, capsys)

    def read(text, *words, **more):
        (tmp_path / "x.toml").write_text(text)
        return file.read(str(tmp_path / "x.toml"), words, **more)

    return read


def test_options_after_the_name_replace_axes(read):
    text = 'sample = "stub"\n[axes]\n"--size" = [8, 16]\n'
    assert read(text).axes == {"--kernel": ("1", "2"), "--size": ("8", "16")}
    found = read(text, "--size=4", "--kernel", "1")
    assert (found.axes, found.options) == ({}, ("--size=4", "--kernel", "1"))


def test_an_option_with_several_values_is_an_axis(read):
    words = ("--repeat", "3", "--size", "4", "5", "--check-only", "--alpha", "-1", "2")
    found = read('sample = "stub"\n[axes]\n"--size" = [8, 16]\n', *words)
    assert found.axes == {"--kernel": ("1", "2"), "--size": ("4", "5"), "--alpha": ("-1", "2")}
    assert found.options == ("--repeat", "3", "--check-only")


def test_a_duration_is_added_to_the_limit():
    assert file.read("sgemm", ("--duration", "60", "600")).limit == 660
    assert file.read("sgemm", ("--duration=90",), limit=5).limit == 95


def test_numbers_of_the_command_line(read):
    found = read('sample = "stub"\nbudget = 9\nrounds = 9\n', budget=None, limit=3, rounds=0)
    assert (found.budget, found.limit, found.rounds) == (9, 3, 0)


def test_a_kernel_and_a_budget_of_the_command_line(read):
    found = read('sample = "stub"\n', kernel="1", budget=3)
    assert (found.name, found.kernel, found.budget, found.search) == ("x-1", "1", 3, "random")
    assert file.read("stub").axes == {"--kernel": ("1", "2")}


def test_the_name_of_the_sample_begins_a_message_once(read):
    with pytest.raises(UsageError, match=r"^stub: '--nonesuch' cannot be run on a board"):
        file.read("stub", words=["--nonesuch"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks 'sample'"),
        ('sample = "none"', "samples/none/sample.toml"),
        ('sample = "stub"\naxis = 1', "unknown key axis"),
        ('sample = "stub"\nsearch = "best"', "search must be one of all, random, learn"),
        ('sample = "stub"\nbudget = 0', "budget must be a whole number from 1 to 1000000"),
        ('sample = "stub"\noptions = ["--json", "x"]', "--json cannot be used"),
        ('sample = "stub"\noptions = ["--size", "1", "--size", "-1"]', "--size is given more"),
        ('sample = "stub"\n[axes]\nsize = [1]', "axes: size must be an option with a list"),
        ('sample = "stub"\n[axes]\n"--size" = []', "axes: --size must be an option with a list"),
        ('sample = "stub"\n[axes]\n"--size" = "512"', "axes: --size must be an option with a list"),
        ('sample = "stub"\n[axes]\n"--size" = {a = 1}', "axes: --size must be an option with a"),
        ('sample = "stub"\n[axes]\n"--size" = 8', "axes: --size must be an option with a list"),
        ('sample = "stub"\n[parameters]\nTS = [1]', "parameters need a kernel"),
        ('sample = "stub"\nkernel = "1"\n[parameters]\nTS = ["x"]', "TS must be a list of whole"),
        ('sample = "stub"\nobjectives = []', "objectives must be one or two"),
        ("sample = ", "x.toml"),
    ],
)
def test_a_mistake(read, text, message):
    with pytest.raises(UsageError, match=message) as raised:
        read(text)
    assert "\n" not in str(raised.value)
