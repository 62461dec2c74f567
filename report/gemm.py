"""A point that is a matrix multiplication: its size, precision, work-group, and rate."""

import re
from dataclasses import dataclass
from functools import lru_cache

from common.manifest import as_asked
from common.record import LIBRARY, RATES
from common.sizes import Size
from report.points import Point
from report.values import text

BYTES = {"half": 2, "single": 4, "double": 8}  # of an element
_ALIKE = {"float": "single", "float32": "single", "float64": "double", "float16": "half"}
_PRECISIONS = ("precision", "arithmetic")
_LAYER = re.compile("^@|=@")  # a size by its name
_NO_CHOICE = {  # by no tuner
    "seed", "local", "size", *LIBRARY, "exit_status", "caches", *_PRECISIONS,
}


@dataclass(frozen=True, slots=True)
class Gemm:
    """A point that is a matrix multiplication, of that Size. `gflops` is the median rate."""

    point: Point
    size: Size
    gflops: float

    @property
    def rate(self):
        """Spread of GFLOPS."""
        return self.point.rate("gflops")

    @property
    def unit(self):
        """The unit of `gflops`."""
        return unit("gflops", self.point.params)

    @property
    def order(self):
        """The order of the square product with as many operations."""
        M, N, K = self.size
        return round((M * N * K) ** (1 / 3), 1)

    @property
    def size_text(self):
        return str(self.size.M) if len(set(self.size)) == 1 else str(self.size)

    @property
    def name(self):
        return self.point.kernel

    @property
    def intensity(self):
        """Operations per byte, if A and B are read once, C written once, and read if beta is not 0.

        None where the bytes of an element are not known.
        """
        params = self.point.params
        if precision(params) not in BYTES:
            return None
        moved = BYTES[precision(params)] * self.size.moved(params.get("beta") != 0)
        return self.size.flop() / moved

    @property
    def local(self):
        """The work-group as (x, y), or None."""
        numbers = _numbers(self.point.params.get("local"), r"\d+([x,]\d+){0,2}")
        return numbers and (*numbers, 1)[:2]

    @property
    def batch(self):
        """How many products a launch makes, as a text; empty if it is one."""
        return text(self.point.params.get("batch", ""), 20)

    @property
    def clock(self):
        """The clock in MHz at which the device was held, or None."""
        numbers = _numbers(self.point.params.get("pin"), r"\d+")
        return numbers and numbers[0]

    @property
    def caches(self):
        """Their state before each timed launch; older records, all of warm ones, do not tell."""
        return text(self.point.params.get("caches", "warm"), 80)

    @property
    def choices(self):
        """What a tuner may have chosen, as texts by parameter."""
        return {
            text(name, 80): text(value, 80)
            for name, value in self.point.params.items()
            if isinstance(value, (str, int, float)) and name not in _NO_CHOICE
        }

    @property
    def asked(self):
        """The options, as given, without the size."""
        words, first = map(str, as_asked(self.point.argv[1:])), str(self.size[0])
        return tuple(w for w in words if not _LAYER.search(w) and (
            first not in w or parse_size(w.rpartition("=")[2]) != self.size))


def of_point(point):
    """Return the Gemm that a point is, or None."""
    size = parse_size(point.params.get("size"))
    gflops = size and point.status == "passed" and point.metric("gflops")
    return Gemm(point, size, gflops) if gflops else None


def precision(params):
    """Return half, single or double, or what the parameters call it; single if they do not."""
    named = (params.get(name) for name in _PRECISIONS)
    found = next((text(value, 40) for value in named if value), "single")
    return _ALIKE.get(found, found)


def unit(metric, params):
    """Return the unit of a metric of RATES: of integer operations it is GOPS."""
    return "GOPS" if metric == "gflops" and precision(params) == "int8" else RATES[metric]


def parse_size(value):
    """Return the Size that is n or MxNxK, a text or a number or a list; None of anything else."""
    numbers = _numbers(value, r"\d+(x\d+x\d+)?")
    return numbers and Size(*(numbers * 3)[:3])


def _numbers(value, pattern):
    """Return the positive numbers of 4, "16x4" or [16, 4], if they have the pattern; else None."""
    return _parsed("x".join(map(str, value)) if isinstance(value, list) else str(value), pattern)


@lru_cache(10_000)
def _parsed(text, pattern):
    if len(text) > 30 or not text.isascii() or not re.fullmatch(pattern, text):
        return None
    numbers = tuple(map(int, re.split("[x,]", text)))
    return numbers if min(numbers) > 0 else None
