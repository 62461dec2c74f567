"""The bars of the kernels for Mali. `make mali` measures the kernels themselves."""

from types import SimpleNamespace

import pytest

from common.errors import UsageError
from dev import bars
from tools import gpus
from tools.mali import Cost

FIGURES = {"threads": 2, "spills": 0, "fills": 0}
COST = Cost(16, 1.5, {"arithmetic": 0.05, "load_store": 0.0625, "texture": 0.0625})


@pytest.fixture
def built(monkeypatch):
    """Let a build give these figures and this Cost; gives what was asked for."""

    def give(figures=FIGURES, cost=COST):
        asked = []

        def build(found, gpu, options, limit_s, folder):
            asked.append((found.name, gpu, options))
            item = SimpleNamespace(variant="23_mali_image", metrics={"compiler": figures})
            return SimpleNamespace(reason="killed by SIGSEGV"), [(item, cost)] if cost else []

        monkeypatch.setattr(gpus, "build", build)
        return asked

    return give


BAR = bars.Bar("mygemm", "--kernel 23", "23_mali_image", {"mali-g52": (0.065, 1.6)}, threads=2)


@pytest.mark.parametrize(
    ("figures", "cost", "within"),
    [
        (FIGURES, COST, True),
        ({**FIGURES, "threads": 1}, COST, False),
        ({**FIGURES, "fills": 1}, COST, False),
        (FIGURES, COST._replace(instructions=1.61), False),
        (FIGURES, COST._replace(cycles={"load_store": 0.066}), False),
    ],
)
def test_a_bar_is_of_cycles_instructions_threads_and_spills(built, figures, cost, within):
    asked = built(figures, cost)
    cells, met = bars.measured(BAR, "mali-g52")
    assert met is within
    assert (cells[-1] == "") is within
    assert asked == [("mygemm", "mali-g52", ("--kernel", "23"))]


def test_a_kernel_that_was_not_built_misses_its_bar(built, monkeypatch, capsys):
    built(cost=None)
    monkeypatch.setattr(bars, "BARS", (BAR,))
    assert bars.main(["mali-g52,mali-g31"]) == 1
    assert "killed by SIGSEGV" in capsys.readouterr().out


def test_a_gpu_without_bars_is_named(capsys):
    assert bars.main(["mali-g31,mali-t760"]) == 0
    assert "no targets: mali-g31, mali-t760" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "said"), [
    (["mali-g99"], "mali-g99: no such GPU: choose from mali-t760"),
    (["--gpu"], "unrecognized arguments: --gpu"),
])
def test_its_command_line(words, said):
    with pytest.raises(UsageError, match=said):
        bars.main(words)


def test_every_bar_names_a_kernel_that_is_there():
    for bar in bars.BARS:
        names = [path.stem for path in (bars.manifest.ROOT / "samples" / bar.sample).rglob("*.cl")]
        assert any(name.endswith(bar.variant) for name in names)
