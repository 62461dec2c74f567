"""What came of points, and the summary of many."""

from common import manifest
from common.record import Record
from tools.engine import State, Summary
from tools.points import Point


def item(precision):
    return Record("mygemm", "k", "passed", params={"precision": precision}, metrics={"gflops": 1.0})


def test_the_fastest_point_has_the_unit_of_its_own_records():
    summary = Summary(manifest.read("mygemm"))
    summary.add(Point((), label="slow"), State("passed", 1.0, None))
    assert summary.lines() == ["1 passed", "fastest: slow: 1 GFLOPS"]
    summary.add(Point((), label="bytes"), State("passed", 3.0, None), [item("int8")])
    summary.add(Point((), label="float"), State("passed", 2.0, None), [item("single")])
    assert summary.lines() == ["3 passed", "fastest: bytes: 3 GOPS"]
