"""What came of points, and the summary of many."""

import pytest

from common import manifest
from common.record import Record
from tools import engine
from tools.child import Outcome
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


@pytest.mark.parametrize(
    ("ends", "status"),
    [((), 0), (("passed", "built"), 0), (("unsupported",), 77), (("unsupported", "passed"), 0),
     (("refused", "passed"), 2), (("unsupported", "refused"), 2), (("error", "refused"), 3),
     (("failed", "error", "passed"), 1)],
)
def test_the_worst_point_gives_the_exit_status(ends, status):
    summary = Summary(manifest.read("mygemm"))
    for ended in ends:
        summary.add(Point(()), State(ended, None, None))
    assert summary.status() == status


def test_the_last_record_of_a_point_that_passed_is_the_fastest():
    """Which may be any of those that --kernel best runs; one that failed stays the last."""
    def ended(*kernels):
        records = [Record("mygemm", name, status, None if rate else "wrong",
                          metrics={"gflops": rate})
                   for name, status, rate in kernels]
        done = Outcome(records=records, status=0, seconds=1.0, reason=None)
        found = engine.result(manifest.read("mygemm"), Point(()), done, 10)
        assert [("ended" in item.params["point"]) for item in found.records] == [False, True]
        return found.records[-1].variant, found.state.metric

    assert ended(("a", "passed", 9.0), ("b", "passed", 3.0)) == ("a", 9.0)
    assert ended(("a", "passed", 3.0), ("b", "passed", 9.0)) == ("b", 9.0)
    assert ended(("a", "passed", 9.0), ("b", "failed", None)) == ("b", None)
