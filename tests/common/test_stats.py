"""Medians and spreads of times and rates."""

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
