"""The progress of a sweep on a terminal: what there is, in the width that there is."""

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from deploy.experiments.show import Show
from deploy.screen import SCREEN


class Kind:
    """What the progress shows of a kind of device."""

    def __init__(self, label, done, total, **best):
        self.label, self.finals = label, None
        self.study = SimpleNamespace(done=done, total=total)
        self.best = {board: (rate,) for board, rate in best.items()}


@pytest.fixture
def screen(monkeypatch):
    """Gives a function: for a terminal of that width, what is drawn of kinds after some seconds."""
    clock = SimpleNamespace(now=0.0)

    def make(width):
        console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width,
                          get_time=lambda: clock.now)
        monkeypatch.setattr(SCREEN, "console", console)
        show = Show()
        monkeypatch.setattr(SCREEN, "progress", show.progress)

        def drawn(seconds, *kinds):
            clock.now = seconds
            show.refresh(kinds)
            with console.capture() as shown:
                console.print(show.progress)
            return shown.get().splitlines()

        return drawn

    return make


def test_each_kind_has_a_line_with_its_own_rate(screen):
    drawn = screen(100)
    cpu = Kind("pthread-skylake-avx512-Intel(R) Xeon(R) Processor, driver 3.1", 100, 500)
    mali = Kind("Mali-G610, driver 3", 0, 50)
    assert "".join(drawn(1, cpu, mali)).count("-:--:--") == 2  # nothing ended yet
    cpu.study.done, cpu.best = 140, {"slow": (1.5,), "fast": (33.25,)}
    first, second = drawn(11, cpu, mali)
    assert "140/500" in first
    assert "0:01:30" in first  # those of an earlier sweep count as done, not as pace
    assert "best: fast 33.25, slow 1.5" in first
    assert "0/50" in second
    cpu.finals = True
    assert "best again: fast 33.25" in drawn(11, cpu, mali)[0]


def test_a_line_of_the_rounds_at_the_end_counts_them():
    kind = Kind("a device", 20, 20)
    kind.finals = SimpleNamespace(counts=(3, 35))
    lines = []
    show = Show()
    show.line = lines.append
    show.point([kind], "odroid", SimpleNamespace(label="--TS 8"), "5 GFLOPS")
    assert lines == ["[the best again: 3/35] odroid: --TS 8: 5 GFLOPS"]


@pytest.mark.parametrize("width", [50, 80, 200])
def test_many_boards_do_not_push_out_the_rest(screen, width):
    drawn = screen(width)
    kind = Kind("a device with a long name, and its driver", 1, 500)
    drawn(1, kind)
    kind.study.done, kind.best = 41, {f"board{n}": (10.0 + n,) for n in range(40)}
    (line,) = drawn(11, kind)
    assert len(line) <= width
    assert "41/500" in line
    assert "0:01:55" in line
