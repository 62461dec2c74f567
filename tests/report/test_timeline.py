"""A long run on the page: its rate, clocks and temperatures over time."""

import copy
from dataclasses import asdict

import pytest
from long_run import HOT, hot
from report_data import item, program, write

from common.sustained import Run
from report import draw, timeline
from report.reading import Phases, collect

TABLE, _ = hot(1.3, HOT)


def plots(folder, table, **more):
    path = write(folder / "long.jsonl", item(metrics={"gflops": 40.0, "sustained": table}, **more))
    read = collect([path], folder / "unpacked")
    return timeline.long_runs(read.sustained)


def test_it_has_rate_clocks_and_temperatures(tmp_path):
    (made,) = plots(tmp_path, TABLE)
    assert made.title == "sgemm dot4 for 600 s"
    assert made.note.startswith("odroid, Mali-T628 (gpu): 50 GFLOPS at first, 38.46 at the end. "
                                "Throttled: the rate at the end is 23.1% below")
    first, last = made.rows[0], made.rows[-1]
    assert list(first) == ["time, s", "rate, GFLOPS", "cpu c: clock, MHz", "gpu g: clock, MHz",
                           "soc: temperature, °C"]
    assert [*first.values()] == [3.0, pytest.approx(50), 1800, 1000, 40.25]
    assert [*last.values()] == [600.0, pytest.approx(38.46, rel=1e-3), 1800, 750, 90]
    axes = made.draw().axes
    assert [each.get_ylabel() for each in axes] == ["GFLOPS", "clock, MHz", "temperature, °C"]
    assert "<svg" in draw.svg_for_page(made, 1)


def test_it_stands_on_the_page_and_among_the_figures(tmp_path, capsys):
    path = write(tmp_path / "long.jsonl", item(metrics={"gflops": 40.0, "sustained": TABLE}))
    done = program(capsys, path, "--output", tmp_path / "p.html", "--figures", tmp_path / "figures")
    assert done.returncode == 0
    page = (tmp_path / "p.html").read_text()
    assert "Where the time went" in page
    assert "sgemm dot4 for 600 s" in page
    assert (tmp_path / "figures" / "sgemm-dot4-for-600-s.svg").exists()


def broken(key, value):
    table = copy.deepcopy(TABLE)
    table[key] = value
    return table


@pytest.mark.parametrize(
    "table",
    [
        {"a": 1}, broken("at_s", 3), broken("at_s", []), broken("rates", TABLE["rates"][1:]),
        broken("rates", [None] * 200), broken("first", "x"), broken("at_s", [0.0] * 3000),
    ],
)
def test_what_is_no_such_table_is_left_out(tmp_path, table):
    assert plots(tmp_path, table) == []


@pytest.mark.parametrize(
    "states",
    [3, {}, {"at_s": "x"}, {"at_s": [1.0], "clocks_hz": 3},
     {"at_s": [None], "clocks_hz": {"gpu": [1.0]}}, {"at_s": [1.0], "clocks_hz": {"gpu": [1, 2]}}],
)
def test_states_that_cannot_be_used_leave_the_rate(tmp_path, states):
    (made,) = plots(tmp_path, broken("states", states))
    assert len(made.draw().axes) == 1
    assert len(made.rows[0]) == 2


def test_a_gap_in_a_line(tmp_path):
    states = {"at_s": [0.0, 300.0], "temperatures_c": {"soc": [40.0, None]}}
    (made,) = plots(tmp_path, broken("states", states))
    assert {row["soc: temperature, °C"] for row in made.rows} == {40.0, None}
    made.draw()


def test_the_timeline_counts_all_launches():
    made = Run(600, 1)
    for n in range(1, 201):
        made.add([[0, 0, 0.1]] * 30, n * 3)
    times = asdict(made.times)
    phases = Phases()
    phases.add(item(timing=times, metrics={"gflops": 1.0, "sustained": {"seconds": 600.0}}))
    assert phases.stages["host_s"] == pytest.approx(600)
    assert phases.stages["run_s"] == pytest.approx(600)
