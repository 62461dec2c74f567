"""A point that is a matrix multiplication: its size, precision, work-group, and rate."""

import re
from dataclasses import dataclass

from common.manifest import as_asked
from common.record import LIBRARY, unit
from common.sizes import Size
from report.points import Point
from report.values import text

BYTES = {"half": 2, "single": 4, "double": 8}  # of an element
_ALIKE = {"float": "single", "float32": "single", "float64": "double", "float16": "half"}
_LAYER = re.compile("^@|=@")  # a size by its name
_NO_CHOICE = {  # by no tuner
    "seed", "local", "size", *LIBRARY, "exit_status", "caches", "precision", "arithmetic",
}


@dataclass(frozen=True, slots=True)
class Gemm:
    """A point that is a matrix multiplication, of that Size. `gflops` is the median rate."""

    point: Point
    size: Size
    gflops: float

    @property
    def rate(self):
        return self.point.rate("gflops")

    @property
    def unit(self):
        return unit("gflops", self.point.params)

    @property
    def name(self):
        return self.point.kernel

    @property
    def order(self):
        """The order of the square product with as many operations."""
        M, N, K = self.size
        return round((M * N * K) ** (1 / 3), 1)

    @property
    def size_text(self):
        return str(self.size.M) if len(set(self.size)) == 1 else str(self.size)

    @property
    def intensity(self):
        """Operations per byte, if A and B are read once, C written once, and read if beta is not 0.

        None where the bytes of an element are not known.
        """
        params = self.point.params
        size = BYTES.get(precision(params))
        return size and self.size.flop() / (size * self.size.moved(params.get("beta") != 0))

    @property
    def kind(self):
        """Its precision, and as words what else separates plots: products of a launch, caches."""
        params = self.point.params
        batch, caches = text(params.get("batch", ""), 20), text(params.get("caches", "warm"), 80)
        more = f", batches of {batch}" if batch else ""
        more += f", caches {caches}" if caches != "warm" else ""  # older records do not tell
        return precision(params), more

    @property
    def local(self):
        """The work-group as (x, y), or None."""
        numbers = _numbers(self.point.params.get("local"))
        return (*numbers, 1)[:2] if numbers else None

    @property
    def order_and_clock(self):
        """The order, and the clock in MHz at which the device was held, or None."""
        clock = _numbers(self.point.params.get("pin"))
        return (self.order, clock[0]) if clock else None

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
    named = text(params.get("precision") or params.get("arithmetic") or "single", 40)
    return _ALIKE.get(named, named)


def parse_size(value):
    """Return the Size that is n or MxNxK, a text or a number or a list; None of anything else."""
    numbers = _numbers(value)
    return Size(*(numbers * 3)[:3]) if len(numbers) in (1, 3) else None


def _numbers(value):
    """Return the positive numbers of 4, "16x4" or [16, 4], at most three; else none."""
    words = "x".join(map(str, value)) if isinstance(value, list) else str(value)
    if not re.fullmatch(r"\d{1,9}([x,]\d{1,9}){0,2}", words, re.ASCII):
        return ()
    numbers = tuple(map(int, re.split("[x,]", words)))
    return numbers if min(numbers) > 0 else ()
