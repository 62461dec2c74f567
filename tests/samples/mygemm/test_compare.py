"""The table of mygemm: what the kernels are compared with, and whether all are right."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from common.gemm import Problem, Size
from common.isolation import Progress
from common.roofline import Peak
from common.timing import Timing
from tests.conftest import sample_module

RUN = SimpleNamespace(args=SimpleNamespace(progress=Progress()))
PROBLEM = Problem(Size(64, 64, 64), np.dtype(np.float32), 64, 64, 64)


@pytest.fixture
def compare():
    return sample_module("mygemm", "compare")


@pytest.fixture
def results(compare):
    """Three kernels of which each is twice as fast as the one before, and a library."""

    def one(name, seconds, **more):
        result = compare.Result(PROBLEM, name, RUN)
        result.times = Timing(*([[seconds] * 5] * 4), 1)
        vars(result).update(more)
        return result

    kernels = [one(f"0{n}_kernel", 2.0**-n, plan=SimpleNamespace()) for n in (1, 2, 3)]
    return [*kernels, one("numpy", 0.25, version="numpy 2")]


def lose(result, status="error"):
    result.times, result.status, result.reason = None, status, "the driver crashed"


def head(compare, results):
    compare.compare(results, None, 0)
    return compare.rates_table(results)[0].split()


def test_all_are_compared_with_the_first_and_with_libraries(compare, results):
    assert " ".join(head(compare, results)).endswith("90 % to 01 to numpy* error/bound")
    assert results[2].ratios == {"01_kernel": 4, "numpy": 2}


def test_where_the_first_is_lost_the_next_takes_its_place(compare, results):
    lose(results[0])
    del results[3]
    assert " ".join(head(compare, results)).endswith("90 % to 02 error/bound")
    assert results[2].ratios == {"02_kernel": 2}


def test_a_column_for_the_ceiling_if_it_was_measured(compare, results):
    for result in results:
        result.ratios = {"ceiling": 0.5}
    top, first, *_ = compare.rates_table(results)
    assert top.endswith("of ceiling  error/bound")
    assert first.split()[-2:] == ["50.0%", "-"]


def test_a_single_time_has_no_percentiles(compare, results):
    for result in results:
        result.times = Timing([0], [0], [1.0], [1.0], 1)
    compare.compare(results, None, 0)
    top, first, *_ = compare.rates_table(results)
    assert top.startswith("1 run ")
    assert first.split()[3:6] == ["0.0005366", "-", "-"]


def test_a_long_run_has_a_time_for_each_part(compare, results):
    results[0].found = SimpleNamespace(sustained=["Sustained: ..."])
    compare.compare(results, None, 0)
    assert compare.rates_table(results)[0].startswith("median of 5 parts ")


def test_it_says_whose_clock_gave_the_times(compare, results):
    """All times are alike here: those of the device may be the host's."""
    compare.compare(results, None, 0)
    said = "by the device's clock{}, of libraries by the host's"
    assert said.format(" or, if that is less, the host's") in compare.rates_table(results)[-1]
    for result in results[:3]:
        run = result.times.run_s[0]
        result.times = Timing(*[[run] * 5] * 3, [2 * run] * 5, 1)
    assert said.format("") in compare.rates_table(results)[-1]


def test_it_says_that_all_are_right(compare, results):
    bound = "is within its bound"
    assert compare.passed(results) == [f"PASSED: every element of 3 kernels {bound}"]
    lose(results[0], "unsupported")
    lose(results[1], "unsupported")
    left = "2 unsupported: exit status 77"
    assert compare.passed(results) == [f"PASSED: every element of 1 kernel {bound}; {left}"]


@pytest.mark.parametrize("lost", [2, 3])
def test_it_does_not_where_a_kernel_or_a_library_is_wrong(compare, results, lost):
    lose(results[lost], "failed")
    assert compare.passed(results) == []


@pytest.mark.parametrize("names", ["numpy", "none"])
def test_environment_variables_that_affect_libraries_are_named(recorded, monkeypatch, names):
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    args = "--kernel", 4, "--size", 32, "--libraries", names, "--in-flight", 1
    done, _ = recorded("mygemm", *args)
    line = re.search("(?m)^Environment variables that affect libraries: .*$", done.stdout)
    assert (names == "numpy") == bool(line and "OPENBLAS_CORETYPE=Haswell" in line[0]), done.stdout


@pytest.mark.parametrize("timed", [(), ("--duration", 1)], ids=["rounds", "duration"])
def test_a_result_that_is_another_after_the_timed_launches_is_wrong(run_here, monkeypatch, timed):
    """As of a kernel that changes its inputs, or of a board that is hot."""
    run, compare = sample_module("mygemm", "run"), sample_module("mygemm", "compare")
    args = ("--size", 8, "--kernel", 1, "--libraries", "none", "--repeat", 1, *timed)
    status, said, _ = run_here(run.main, *args, options=run.options())
    assert (status, said.count("PASSED: ")) == (0, 1), said
    time_them = compare.Comparison._time

    def and_change_an_input(self, results, stream):
        time_them(self, results, stream)
        stream.A.write(1)

    monkeypatch.setattr(compare.Comparison, "_time", and_change_an_input)
    status, said, errors = run_here(run.main, *args, options=run.options())
    why = "a launch after the timed ones gave another result than the first"
    assert f"01_naive: FAILED: {why}" in said
    assert (status, errors) == (1, f"run.py: error: {why}\n")


@pytest.mark.parametrize(("near", "why"), [
    (100.0, "perhaps while others used the machine"),
    (1e-6, "Launches that overlap may share what they read from memory"),
])
def test_it_says_why_a_rate_may_be_above_the_ceiling(compare, results, near, why):
    """The rates are around 0.001 GFLOPS."""
    peak, args = Peak(1e-4, near, near, "fma"), SimpleNamespace(verbose=False, beta=0)
    compare.compare(results, peak, 0)
    *_, last = compare.remarks(results, {}, peak, args)
    assert last.startswith("Above the ceiling: 01_kernel, 02_kernel, 03_kernel, numpy. ")
    assert last.endswith(why)
