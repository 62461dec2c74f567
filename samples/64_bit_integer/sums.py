"""The two sums on the host: exact, timed, and compared with a kernel's."""

from dataclasses import dataclass
from statistics import median

import numpy as np

from common import interleaved
from common.outputs import digest
from common.text import figures

_PART = 2**20  # pixels at a time, so that numpy's copies stay in the caches
# 65536 squares of 255 are 4261478400: uint32 still holds them.
_EXACT_IN_32_BITS = 65536


@dataclass(frozen=True)
class Sums:
    """The sum of the squares of `count` pixels and the sum of the pixels: Python integers."""

    count: int
    squares: int
    pixels: int

    @property
    def mean(self):
        """E[p]."""
        return self.pixels / self.count

    @property
    def variance(self):
        """E[p^2] - E[p]^2. Subtracted in whole numbers: in floats most digits would cancel."""
        return (self.count * self.squares - self.pixels**2) / self.count**2

    def lines(self):
        """Return the two lines of the SDK's sample, and the mean and the variance."""
        return [
            f"Square of the pixel values = {self.squares}",
            f"Sum of the pixel values = {self.pixels}",
            f"Mean of the pixel values = {self.mean:.3f}",
            f"Variance of the pixel values = {self.variance:.3f}",
        ]

    def check(self, expected):
        """Return what is wrong with these sums, or None: they are exact, so they must be equal."""
        if self == expected:
            return None
        return (
            f"squares {self.squares} instead of {expected.squares}, "
            f"sum {self.pixels} instead of {expected.pixels}"
        )

    def values(self, expected, image):
        """Return the `check` of a record: the largest difference, and the digests."""
        pairs = (self.squares, expected.squares), (self.pixels, expected.pixels)
        error = max(abs(a - b) for a, b in pairs)
        return {
            "max_abs_error": error,
            "error_over_bound": float("inf") if error else 0.0,
            "inputs_sha256": digest(image),
            "output_sha256": digest(self.array()),
        }

    def array(self):
        """Return the two sums as uint64, the squares first."""
        return np.array([self.squares, self.pixels], np.uint64)


def exact(image):
    """Return the Sums of a uint8 image by counting how often each value occurs.

    No sum is formed before the counts are Python integers, so nothing can overflow.
    """
    flat = image.reshape(-1)
    counts = np.zeros(256, np.int64)
    for start in range(0, flat.size, _PART):
        counts += np.bincount(flat[start : start + _PART], minlength=256)
    counts = counts.tolist()
    squares = sum(value * value * n for value, n in enumerate(counts))
    return Sums(flat.size, squares, sum(value * n for value, n in enumerate(counts)))


def by_numpy(image):
    """Return the Sums as array code does them fast: part by part, in the narrowest integers."""
    flat = image.reshape(-1)
    squares = pixels = 0
    for start in range(0, flat.size, _EXACT_IN_32_BITS):
        part = flat[start : start + _EXACT_IN_32_BITS]
        square = part.astype(np.uint16)
        square *= square
        squares += int(square.sum(dtype=np.uint32))
        pixels += int(part.sum(dtype=np.uint32))
    return Sums(flat.size, squares, pixels)


def side_by_side(passes, image, repeat, warmup):
    """Return lines that compare `passes`, functions by name, with numpy and with each other.

    A pass is all that a user waits for: reset of the sums if needed, launch, read-back, and the
    host's part.
    All are timed by the host's clock, interleaved. `plain read` among them is the ceiling.
    """
    passes = {**passes, "numpy on the host": lambda: by_numpy(image)}
    contenders = [
        interleaved.Contender(name, lambda _, run=run: run, lambda _: None, queued=False)
        for name, run in passes.items()
    ]
    for each in contenders:
        each.enter(None)
    times = interleaved.rounds(contenders, repeat, warmup, in_flight=1)
    columns = [
        name for name in ("long_vectors", "numpy on the host", "plain read") if name in times
    ]
    head = "".join(f"{'to ' + name:>21}" for name in columns)
    lines = [f"{'whole pass':<20}{'time':>12}{'GB/s':>11}{head}"]
    for name, taken in times.items():
        seconds = median(taken.host_s)
        ratios = "".join(f"{interleaved.ratio(taken, times[c]):>21.2f}" for c in columns)
        rate = figures(image.size / 1e9 / seconds)
        lines.append(f"{name:<20}{seconds * 1e3:>10.4g}ms{rate:>11}{ratios}")
    return lines
