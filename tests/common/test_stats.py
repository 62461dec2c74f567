"""Medians and spreads of times and rates."""

import math
import random

import pytest

from common import stats


@pytest.mark.parametrize("count", [1, 2, 3, 6, 9, 20])
def test_equal_values_have_no_spread_beyond_their_median(count):
    rng = random.Random(count)
    for _ in range(500):
        times = stats.spread([rng.randrange(1, 10**6) * 32e-9] * count)
        assert times.low <= times.median <= times.high
        rate = stats.rate([1 / times.median], times)
        assert rate.low <= rate.median <= rate.high


TIMES = [4.0, 1.0, 2.0, 8.0, 5.0]


def test_a_spread_in_any_order():
    assert stats.spread(TIMES) == (5, 4.0, 4.0, 1.0, 8.0, pytest.approx(1.4), pytest.approx(6.8))
    assert stats.spread(TIMES).relative == pytest.approx(5.4 / 4)
    assert stats.spread([3.0]) == (1, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0)
    assert stats.spread([]) is None


def test_the_lowest_rate_is_that_of_the_longest_time():
    times = stats.spread([4.0, 1.0, 2.0, 8.0, 10.0])
    assert stats.rate([7.0, 9.0, 8.0], times) == pytest.approx(
        (5, 8.0, 6.4, 3.2, 32.0, 32 / times.high, 32 / times.low))
    assert stats.rate([7.0, 9.0, 8.0], None) == stats.spread([7.0, 8.0, 9.0])
    assert stats.rate([7.0, 0.0], times) is None


def test_by_how_much_medians_differ_by_chance():
    wide, narrow = stats.spread(TIMES), stats.spread([2.0, 2.01, 2.02])
    assert stats.noise(wide, narrow) == pytest.approx(6.8 - 1.4 + 0.016)
    assert stats.noise(narrow, narrow) == pytest.approx(0.03 * 2.01)  # their spreads are smaller
    same = stats.spread([1.0, 1.0, 1.0])
    assert stats.noise(same, narrow) == pytest.approx(0.03 * 2.01)  # of the old median
    for pair in ((wide, stats.spread([1.0, 2.0])), (stats.spread([1.0, 2.0]), wide)):
        assert stats.noise(*pair) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, True, "1", None])
def test_what_is_no_finite_number(value):
    assert stats.number(value) is None
    assert type(stats.number(3)) is float
