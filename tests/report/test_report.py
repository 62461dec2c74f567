"""python -m report: what it reads, what it makes of it, and what it says where it cannot."""

import json
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from report_data import ENVIRONMENT, LATER, item, make_run, program, write

from report import gemm, inputs, reading, selection, timeline
from tests.conftest import ROOT


@pytest.fixture
def report(tmp_path, capsys):
    """Make a page, page.html, if not an archive; gives what a finished process has."""
    page = "-o", tmp_path / "page.html"
    return lambda *args: program(capsys, *args, *(() if "--export" in args else page))


def collect(*paths, **more):
    return reading.collect(paths, "/nowhere", **more)


def test_a_page_of_a_run(tmp_path):
    make_run(tmp_path / "results", item(), item("row4", "failed"))
    done = subprocess.run(
        [sys.executable, "-m", "report", tmp_path / "results", "-o", tmp_path / "page.html"],
        cwd=ROOT, timeout=60, capture_output=True, text=True, check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "2 records, 2 points, boards: 1" in done.stdout
    page = (tmp_path / "page.html").read_text()
    for text in ("Mali-T628 (gpu)", "it is broken", "it says\nmuch", "odroid", "24.4 GFLOPS"):
        assert text in page, text
    assert page.index("Not passed</h2>") < page.index("Overview</h2>")


def test_a_home_that_cannot_be_written_is_no_news(tmp_path):
    """Matplotlib keeps its settings there."""
    make_run(tmp_path / "results", item())
    env = {name: text for name, text in os.environ.items()
           if name != "MPLCONFIGDIR" and not name.startswith("XDG_")}
    done = subprocess.run(
        [sys.executable, "-m", "report", tmp_path / "results", "-o", tmp_path / "page.html"],
        cwd=ROOT, timeout=60, capture_output=True, text=True, check=False,
        env={**env, "HOME": "/proc/none"},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_of_each_case_the_newest_run_counts(tmp_path):
    old = make_run(tmp_path, item("old"))
    make_run(tmp_path, item("odd"), case="odd")
    make_run(tmp_path, item("new"), name=LATER)
    assert [p.kernel for p in collect(tmp_path).points] == ["odd", "new"]
    assert [p.kernel for p in collect(old).points] == ["odd", "old"]
    assert len(collect(tmp_path, old).points) == 3
    assert len(collect(tmp_path, all_runs=True).points) == 3


def test_what_came_with_the_samples_counts_only_where_it_is_named(tmp_path, monkeypatch):
    make_run(tmp_path, item(), board="reference")
    make_run(tmp_path / "local", item("own"), board="reference")
    assert len(collect(tmp_path).points) == 2
    monkeypatch.setattr(inputs, "RESULTS", tmp_path)
    assert [p.kernel for p in collect(tmp_path).points] == ["own"]
    assert len(collect(tmp_path / "reference").points) == 1


def test_a_run_that_was_stopped_counts_for_the_cases_that_it_came_to(tmp_path):
    make_run(tmp_path, item("whole"))
    stopped = make_run(tmp_path, item("never ran", "error"), name=LATER)
    (stopped / "ended.json").write_text('{"stopped": true}')
    outcome = stopped / "sgemm" / "speed.outcome.json"
    for came in ({"reason": None}, {"reason": "stopped"}, None):
        outcome.unlink() if came is None else outcome.write_text(json.dumps(came))
        ran = came == {"reason": None}
        assert [p.kernel for p in collect(tmp_path).points] == ["never ran" if ran else "whole"]
    (stopped / "ended.json").unlink()  # the power failed: that is a finding
    assert [p.kernel for p in collect(tmp_path).points] == ["never ran"]


def test_records_of_the_same_thing_are_one_point(tmp_path):
    hot = {**ENVIRONMENT, "temperatures_c": {"gpu": 71.0}}
    slow = {**ENVIRONMENT, "governors": {"policy0": "powersave"}}
    write(
        tmp_path / "sweep.jsonl", item(times=(1, 2)), item(times=(3, 4), environment=hot),
        item(status="failed", environment=hot), item(environment=slow),
        item(params={"size": "512", "seed": 2}),
    )
    found = collect(tmp_path).points
    # A temperature is measured, a governor is chosen.
    assert [p.records for p in found] == [3, 1, 1]
    assert found[0].state["temperatures_c.gpu"] == (71.0, 71.0)
    assert list(found[0].times) == [1, 2, 3, 4, 0.010, 0.011, 0.012]
    assert (found[0].status, found[0].reason) == ("failed", "it is broken")
    assert found[0].board == "odroid"  # outside a run the machine's name is all there is


def test_a_rate_spreads_as_its_times_do(tmp_path):
    write(tmp_path / "r.jsonl", item(times=(1.0, 2.0, 4.0), metrics={"gflops": 10.0}))
    rate = collect(tmp_path).points[0].rate("gflops")
    assert (rate.median, rate.least, rate.most) == (10, 5, 20)
    assert rate.low < 10 < rate.high


@pytest.mark.parametrize(("old", "new"), [("0.01,", "1e999,"), ("24.4", "1" + "0" * 400)])
def test_numbers_that_are_none_cost_their_record(tmp_path, old, new):
    line = item().to_line()
    assert old in line
    (tmp_path / "r.jsonl").write_text(line.replace(old, new) + "\n" + line + "\n")
    found = collect(tmp_path)
    assert len(found.points) == 1
    assert list(found.points[0].times) == [0.01, 0.011, 0.012]
    assert len(found.notices) == 1
    assert "r.jsonl:1: " in found.notices[0]


@pytest.mark.parametrize(
    "odd",
    [
        item("odd", "failed", reason=""),
        item("odd", times=(5e-324, 5e-324, 1e8)),
        item("odd", times=(5e-324, 1e8), metrics={"gflops": 1e308, "gbytes_per_s": 5e-324}),
        item("odd", times=(5e-324, 1e8, 1e8), metrics={"gflops": 1e308}),
    ],
    ids=["no reason", "times", "rates", "longest"],
)
def test_one_odd_record_does_not_take_the_page(report, tmp_path, odd):
    file = write(tmp_path / "r.jsonl", item(), odd)
    done = report(file, "--baseline", file)
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "page.html").read_text()
    assert ("no reason given" in page) == (odd.reason == "")


def test_what_cannot_be_read_is_named_and_skipped(report, tmp_path):
    good = make_run(tmp_path / "r", item())
    whole = item("whole").to_line()
    for name, text in (
        ("half", whole + "\n" + whole[:100]),
        ("empty", ""),
        ("unknown", whole.replace('"schema": 1', '"schema": 9') + "\n"),
        ("nested", '{"a":' * 50_000 + "\n"),
        ("binary", "\x00\x01\n"),
    ):
        (tmp_path / "r" / f"{name}.jsonl").write_text(text)
    (good / "plan.json").write_text("{")
    done = report(tmp_path / "r")
    assert done.returncode == 0
    assert "2 records" in done.stdout
    page = (tmp_path / "page.html").read_text()
    for text in ("half.jsonl:2: not a JSON", "empty.jsonl: empty", "unknown.jsonl:1: schema 9",
                 "nested.jsonl:1: ", "binary.jsonl:1: ", "plan.json: "):
        assert text in page, text
        assert text in done.stderr, text


def test_records_in_a_file_of_another_name(report, tmp_path):
    write(tmp_path / "sweep.json", item())
    write(tmp_path / "r" / "more.jsonl", item())
    write(tmp_path / "r" / "other.json", item())
    assert "1 records" in report(tmp_path / "sweep.json").stdout
    done = report(tmp_path / "r")
    assert "1 records" in done.stdout
    assert "other.json: not named .jsonl; name it itself" in done.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nowhere"], "nowhere does not exist"),
        (["{tmp}"], "no records in .*fab deploy run-all"),
        (["{tmp}/broken.txt"], "no records in .*broken.txt:1: not a JSON"),
        (["{tmp}/broken.zip"], "broken.zip is refused: File is not a zip file"),
        (["--surprise"], "unrecognized arguments: --surprise"),
        (["--fail-on-regression"], "needs --baseline"),
        *((args, f"{args[-2]}: give a path: it is empty") for args in (
            ["--fail-on-regression", "--baseline", ""], ["--figures", ""],
            ["{tmp}/sub", "--export", ""], ["--export", "x.zip", "--rights", ""],
            ["--output", ""])),
        ([""], "argument results: give a path: it is empty"),
        (["--export", "x.zip", "{tmp}/sub", "{tmp}/sub"], "name its folder"),
        (["--export", "x.zip", "{tmp}/sub"], "no run that has ended"),
    ],
)
def test_bad_input_gets_one_line(report, tmp_path, args, message):
    (tmp_path / "sub").mkdir()
    for name in ("broken.txt", "broken.zip"):
        (tmp_path / name).write_text("x")
    done = report(*(arg.format(tmp=tmp_path) for arg in args))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("report: error: ")
    assert re.search(message, done.stderr), done.stderr


def test_a_page_that_cannot_be_written(report, tmp_path):
    make_run(tmp_path / "r", item())
    (tmp_path / "page.html").mkdir()
    done = report(tmp_path / "r")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "page.html" in done.stderr


def test_without_its_packages(tmp_path):
    code = "import sys; sys.modules['jinja2'] = None; sys.argv[0] = 'report'\n"
    code += "import runpy; runpy.run_module('report', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3
    assert done.stderr.startswith("report: error: ")
    assert "make run" in done.stderr


@pytest.mark.parametrize(
    ("value", "size"),
    [("512", (512,) * 3), (512, (512,) * 3), ("2x3x4", (2, 3, 4)), ([2, 3, 4], (2, 3, 4)),
     ("2x3", None), ("0", None), ("x", None), (None, None), ({}, None), (True, None),
     ("9" * 99, None), (-1, None), ("٣", None)],
)
def test_sizes(value, size):
    assert gemm.parse_size(value) == size


@pytest.mark.parametrize(
    ("value", "local"),
    [("16x4", (16, 4)), ("16,4", (16, 4)), (64, (64, 1)), ([8, 8, 1], (8, 8)), ("8x8x8x8", None),
     ("", None), ("0x0", None)],
)
def test_local_sizes(value, local):
    point = SimpleNamespace(params={"local": value})
    assert gemm.Gemm(point, (8, 8, 8), 1.0).local == local


def many():
    """Records that have something for every plot."""
    peaks = item("peaks", sample="peak", times=(), metrics={"peak_gflops": 100.0,
                 "peak_gbytes_per_s": 10.0})
    yield peaks
    yield item("cublas", times=(0.009,) * 3, params={"size": "512", "peer": True})
    for speed, kernel in enumerate(("_naive", "$tiled$", "wide"), 1):
        for order in (64, 128, 512):
            for x in (2, 4, 8):
                for y in (1, 2, 4):
                    params = {"size": str(order), "local": f"{x}x{y}", "unroll": x, "width": y}
                    times = [t / x / speed for t in (0.01, 0.02, 0.03)]
                    # By the host's clock they are slower than by the device's.
                    metrics = {"gflops": 2e-9 * order**3 / times[1], "ratios": {"cublas": speed}}
                    if kernel == "_naive":
                        del metrics["ratios"]
                    yield item(kernel, times=times, params=params, metrics=metrics)


def test_every_plot_has_its_numbers_and_a_file(report, tmp_path, monkeypatch):
    monkeypatch.setattr(selection, "MOST_OF_A_KIND", 1)
    write(tmp_path / "r" / "sweep.jsonl", *many())
    make_run(tmp_path / "r", item())
    done = report(tmp_path / "r", "--figures", tmp_path / "figures")
    assert (done.returncode, done.stderr) == (0, "")
    page = (tmp_path / "page.html").read_text()
    titles = ("GFLOPS over size", "Kernels at 512", "Roofline", "Local sizes of wide at",
              "Tuning of wide at", "Timeline of odroid")
    for title in titles:
        assert f"<strong>{title}" in page
        assert f"<caption>{title}" in page
    assert page.count("<figure") == page.count("<svg ") == page.count("The numbers of ")
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert len(names) == 2 * page.count("<figure")
    assert "gflops-over-size-odroid-mali-t628-gpu-single-precision.png" in names
    for path in (tmp_path / "figures").glob("*.svg"):
        assert path.read_text().startswith("<?xml")
    # Names stay as they are: no mathematics between $, nothing hidden behind _.
    assert "$tiled$" in page
    assert page.count(">_naive") + page.count("> _naive") > 2


def test_kernels_are_relative_to_the_library(tmp_path):
    # Not to one that is faster, but was timed in another run.
    later = item("libmkl", times=(0.001,) * 3, params={"size": "512", "library": "MKL"})
    write(tmp_path / "sweep.jsonl", *many(), later)
    plots = {plot.title: plot for plot in selection.plots(collect(tmp_path).points)}
    rows = plots["Kernels at 512"].rows
    shares = {row["kernel"]: row["% of cublas"] for row in rows}
    # Not by the rates, which are by two clocks: nothing is said of what was not in its rounds.
    assert shares == {"$tiled$": pytest.approx(200), "_naive": None, "wide": pytest.approx(300),
                      "cublas": 100, "libmkl": None}
    assert list(shares) == ["$tiled$", "_naive", "wide", "cublas", "libmkl"]
    roof = plots["Roofline"].rows
    # Order 64: 2*64^3 + 3*64^2 operations, 4 * 4 * 64^2 bytes, 10 GB/s.
    small = next(row for row in roof if row["kernel"].startswith("wide") and row["size"] == "64")
    assert small["operations per byte"] == pytest.approx((2 * 64 + 3) / 16)
    assert small["roof, GFLOPS"] == pytest.approx(10 * (2 * 64 + 3) / 16)
    json.dumps([plot.rows for plot in plots.values()])  # texts and numbers only


@pytest.mark.parametrize(
    ("own", "roof"),
    [({"near_gbytes_per_s": 40.0, "ceiling_gflops": 90.0}, 90), ({}, 81.875)],
)
def test_the_roof_is_that_of_the_records_own_size(report, tmp_path, own, roof):
    metrics = {"peak_gflops": 100.0, "peak_gbytes_per_s": 10.0}
    records = [item(params={"size": "64"}, metrics={"gflops": 85.0, **metrics, **own})]
    file = write(tmp_path / "r.jsonl", *records)
    plots = {plot.title: plot for plot in selection.plots(collect(file).points)}
    (row,) = plots["Roofline"].rows
    assert row["roof, GFLOPS"] == pytest.approx(roof)
    assert row["% of the roof"] == pytest.approx(100 * 85 / roof)
    assert ("above it had their matrices in a cache" in plots["Roofline"].note) == (not own)
    assert report(file).returncode == 0
    assert ("ceiling at that size" in (tmp_path / "page.html").read_text()) == bool(own)


@pytest.mark.parametrize(("old", "new"), [([8, 4], "8x4"), (64, "64")])
def test_a_local_size_of_an_older_record_is_the_same(tmp_path, old, new):
    write(tmp_path / "r.jsonl", *(item(params={"size": "8", "local": n}) for n in (old, new)))
    (point,) = collect(tmp_path).points
    assert (point.records, point.params["local"]) == (2, new)


def test_a_timeline_divides_the_wall_time(tmp_path):
    # 4 s in all; python took 1 s until the first record's start; launches (10+11+12 + 3*1) ms.
    make_run(tmp_path, item(started="2026-01-02T03:04:06.000+00:00"))
    read = collect(tmp_path)
    (plot,) = timeline.timelines(read.phases)
    (case,) = plot.rows
    assert (case["wall, s"], case["python, imports, s"]) == (4.0, pytest.approx(1.0))
    assert case["timed launches, s"] == pytest.approx(0.036)
    assert case["run, ms"] == pytest.approx(33)
    assert case["build, inputs, check, s"] == pytest.approx(4 - 1 - 0.036)
    assert "of which 99.1% was set-up" in plot.note
    assert len(plot.draw().axes) == 2


def test_a_timeline_without_launches_says_nothing_of_them(tmp_path):
    make_run(tmp_path, item(status="built", times=(), reason=None))
    (plot,) = timeline.timelines(collect(tmp_path).phases)
    assert plot.note.endswith("nothing was timed.")
    assert len(plot.draw().axes) == 1


@pytest.mark.parametrize("outcome", ["{", "[]", '{"seconds": 0, "started": 1}', '{"seconds": "x"}'])
def test_a_timeline_needs_an_outcome(tmp_path, outcome):
    run = make_run(tmp_path, item())
    (run / "sgemm" / "speed.outcome.json").write_text(outcome)
    assert timeline.timelines(collect(tmp_path).phases) == []
