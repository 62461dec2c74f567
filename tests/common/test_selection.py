"""What a command line names: sizes, kernels, and their parameters."""

from argparse import ArgumentParser, ArgumentTypeError
from types import SimpleNamespace

import pytest

from common import gemm, selection
from common.constraints import Space
from common.errors import UsageError
from common.gemm import Size
from tests.conftest import ROOT


class Kernel(SimpleNamespace):
    """As much of a kernel as is looked at."""

    def path(self, name):
        return self.file.with_name(f"{name}.cl")

    __hash__ = object.__hash__


KERNELS = [
    Kernel(number=n, name=name, label=f"{n:02}_{name}", space=Space(defaults, {}), before=(),
           file=ROOT / f"samples/mygemm/kernels/{n:02}_{name}.cl")
    for n, name, defaults in ((1, "naive", {"TS": 32}), (2, "tiles", {"TS": 16, "WPT": 8}))
]


def test_sizes():
    parse = gemm.parse_sizes
    assert parse("64,100") == [Size(64, 64, 64), Size(100, 100, 100)]
    assert parse("640x48x1000") == [Size(640, 48, 1000)]
    assert [s.M for s in parse("1024:4096:1024")] == [1024, 2048, 3072, 4096]
    assert [s.M for s in parse("5:9:3,8,5")] == [5, 8]
    for text in ("", ",", "1:2", "1x2:3x4:5", "4:1:1", "1:2:0", "-1", "1:999999:1", "1:2:3:4"):
        with pytest.raises(ArgumentTypeError):
            parse(text)


def test_kernels_by_number_name_and_label():
    for text, numbers in (("1", [1]), ("2,naive", [2, 1]), ("01_naive,01,1", [1]), ("all", [1, 2]),
                          ("1-2", [1, 2]), ("2,1-9", [2, 1])):
        assert [kernel.number for kernel in selection.parse(KERNELS, text)] == numbers
    assert selection.parse(KERNELS, "best") == "best"
    with pytest.raises(
        ArgumentTypeError, match="'x' is not a kernel: give all, best, or some of 1 n"
    ):
        selection.parse(KERNELS, "1,x")
    for text in ("3-9", "2-1", "1-", "-2", "1-2-3"):
        with pytest.raises(ArgumentTypeError, match=f"'{text}' is not a kernel"):
            selection.parse(KERNELS, text)
    with pytest.raises(ArgumentTypeError, match="'best' cannot be combined"):
        selection.parse(KERNELS, "best,1")


def test_parameters_are_given_to_the_kernels_that_have_them():
    parser = ArgumentParser()
    parser.add_argument("--describe", action="store_true")
    selection.add_options(parser, KERNELS, "best")

    def named(*words):
        return selection.named(parser.parse_args(words), KERNELS)

    assert named() == []
    assert named("--kernel", "all", "--TS", "4", "--WPT", "2") == [
        (KERNELS[0], {"TS": 4}),
        (KERNELS[1], {"TS": 4, "WPT": 2}),
    ]
    with pytest.raises(UsageError, match="--WPT is not a parameter of 01_naive, which has --TS"):
        named("--kernel", "1", "--WPT", "2")
    with pytest.raises(UsageError, match="--TS is a parameter of only some kernels"):
        named("--TS", "4")
    said = " ".join(parser.format_help().split())
    assert "'default 8 in 3 5' means: in kernels 3 and 5" in said
    assert "side of a work-group (default 32 in 1); side of a tile (default 16 in 2)" in said
    assert "--WPT N (default 8 in 2)" in said  # which that source does not explain
