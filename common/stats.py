"""Checked numbers of records, their groups and statistics. No OpenCL."""

import sys
from statistics import median, quantiles
from typing import NamedTuple

FEWEST = 3  # times: the spread of fewer says little
LEAST = 0.03  # of a median: runs differ by as much, even where a spread is smaller


class Spread(NamedTuple):
    """Statistics of times or rates. `low` and `high` are the 10th and the 90th percentile."""

    count: int
    median: float
    mean: float
    least: float
    most: float
    low: float
    high: float

    @property
    def relative(self):
        """(high - low) / median."""
        return (self.high - self.low) / self.median


def spread(values):
    """Return the Spread of positive numbers, or None of none."""
    if not values:
        return None
    order = sorted(values)
    tenths = quantiles(order, n=10, method="inclusive") if len(order) > 1 else order
    mean, middle = sum(order) / len(order), median(order)
    # Of equal values a tenth may be rounded to the other side of the median.
    low, high = min(middle, tenths[0]), max(middle, tenths[-1])
    return Spread(len(order), middle, mean, order[0], order[-1], low, high)


def rate(values, times):
    """Return the Spread of a rate: its median by the records, its range as the times spread.

    A rate is an amount over a time, so its lowest is that of the longest time. Without times the
    records' own values are all there is. None where a value is not positive.
    """
    if min(values) <= 0:
        return None
    if times is None:
        return spread(values)
    middle = median(values)
    at = (times.mean, times.most, times.least, times.high, times.low)
    return Spread(times.count, middle, *(middle * (times.median / time) for time in at))


def noise(new, old):
    """Return by how much the medians of two Spreads may differ by chance; None of few values.

    It is the sum of both spreads, and at least LEAST of the old median.
    """
    if min(new.count, old.count) < FEWEST:
        return None
    return max((new.high - new.low) + (old.high - old.low), LEAST * old.median)


def grouped(items, key):
    """Return lists of the items by their key, in their order."""
    groups = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def number(value):
    """Return a value as a finite float, or None."""
    if type(value) not in (int, float) or abs(value) > sys.float_info.max or value != value:
        return None
    return float(value)
