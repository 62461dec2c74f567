"""The table of all points."""

import base64
import gzip
import json

import pytest
from report_data import ENVIRONMENT, item, write

from report import overview, reading, rows


def collect(*paths):
    return reading.collect(paths, "/nowhere")


def column_of(found, name):
    """Return a column of the table of all points."""
    table = json.loads(gzip.decompress(base64.b64decode(rows.packed(found))))
    at = list(table["columns"]).index(name)
    return [row[at] for row in table["rows"]]


def test_what_the_machine_did_meanwhile(tmp_path):
    """Clocks before, while and after are measured; that they moved does not make another point."""
    for low, high, changed in ((100e6, 600e6, ["gpu ran at 100 to 600 MHz"]), (600e6, 600e6, [])):
        states = [{"clocks_hz": {"gpu": hz, "cpu": None}} for hz in (600e6, low, high)]
        about = {"before": states[0], "during": states[1:], "after": states[2],
                 "throttled": changed, "cpus": 8, "board": {"memory_bytes": 2**31}}
        write(tmp_path / "r.jsonl", item(environment=ENVIRONMENT | about))
    (point,) = collect(tmp_path).points
    assert point.state["clocks_hz.gpu"] == (100e6, 600e6)
    assert "clocks_hz.cpu" not in point.state
    assert point.throttled == ("gpu ran at 100 to 600 MHz",)
    told = "governors.policy0=performance clocks_mhz.gpu=100..600 gpu ran at 100 to 600 MHz"
    assert column_of([point], "state") == [told]


def test_the_spread_in_the_table_is_that_of_the_rate(tmp_path):
    """As in a sample's output and in the overview: 7.5 to 12.5 around 10, not 8 to 13.3 s."""
    times = [8.0, 10.0, 40 / 3]
    write(tmp_path / "r.jsonl", item(times=times, metrics={"gflops": 10.0}))
    (point,) = collect(tmp_path).points
    relative = 100 * point.rate("gflops").relative
    assert column_of([point], "spread") == [pytest.approx(relative, rel=1e-4)]
    assert abs(relative - 100 * point.spread.relative) > 1


def test_a_single_launch_has_no_spread(tmp_path):
    write(tmp_path / "r.jsonl", item(times=[1.0], metrics={"gflops": 10.0}))
    points = collect(tmp_path).points
    assert column_of(points, "spread") == [None]
    _, ((_, ((_, key, text),)),) = overview.table(points)
    assert (key, text) == ("10 GFLOPS", "dot4, 1 launch, no spread")


def test_the_rate_of_several_records_is_that_of_all_their_launches(tmp_path):
    """A launch is of 20 GFLOP. The median time of most records is 1 s, of all launches 2 s."""
    for times in ([1.0], [2.0] * 5, [1.0]):
        write(tmp_path / "r.jsonl", item(times=times, metrics={"gflops": 20 / times[0]}))
    (point,) = collect(tmp_path).points
    assert point.metric("gflops") == point.rate("gflops").median == 10
    assert column_of([point], "gflops") == [10]
    assert column_of([point], "median_ms") == [2000]


def test_energy_is_in_the_table(tmp_path):
    metrics = {"gflops": 1.0, "energy": {"gpu": {"joules": 0.5, "reason": None}, "cpu": {}}}
    write(tmp_path / "r.jsonl", item(metrics=metrics))
    assert column_of(collect(tmp_path).points, "energy") == ["gpu=0.5J"]
