"""The two sums on the host: exact, timed, and compared with a kernel's."""

from statistics import median
from typing import NamedTuple

import numpy as np

from common import interleaved, table
from common.outputs import digest
from common.text import figures

_PART = 2**20  # pixels at a time, so that numpy's copies stay in the caches
# 65536 squares of 255 are 4261478400: uint32 still holds them.
_EXACT_IN_32_BITS = 65536


class Sums(NamedTuple):
    """The sum of the squares of `count` pixels and the sum of the pixels: Python integers."""

    count: int
    squares: int
    pixels: int

    def lines(self):
        """Return the two lines of the SDK's sample, and the mean and the variance."""
        # E[p^2] - E[p]^2 is subtracted in whole numbers: in floats most digits would cancel.
        variance = (self.count * self.squares - self.pixels**2) / self.count**2
        return [
            f"Square of the pixel values = {self.squares}",
            f"Sum of the pixel values = {self.pixels}",
            f"Mean of the pixel values = {self.pixels / self.count:.3f}",
            f"Variance of the pixel values = {variance:.3f}",
        ]

    def check(self, expected):
        """Return what is wrong with these sums, or None: they are exact, so they must be equal."""
        if self == expected:
            return None
        return (f"squares {self.squares} instead of {expected.squares}, "
                f"sum {self.pixels} instead of {expected.pixels}")

    def values(self, expected, image):
        """Return the `check` of a record: the largest difference, and the digests."""
        error = max(abs(mine - right) for mine, right in zip(self, expected))
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
    """Return the Sums as array code computes them fast: part by part, in the narrowest integers."""
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
    host's part. All are timed by the host's clock, interleaved. `plain read` is the ceiling.
    """
    passes = {**passes, "numpy on the host": lambda: by_numpy(image)}
    contenders = [
        interleaved.Contender(name, lambda _, run=run: run, lambda _: None, queued=False)
        for name, run in passes.items()
    ]
    for each in contenders:
        each.enter(None)
    times = interleaved.rounds(contenders, repeat, warmup, in_flight=1)
    others = [n for n in ("long_vectors", "numpy on the host", "plain read") if n in times]
    rows = []
    for name, taken in times.items():
        seconds = median(taken.host_s)
        ratios = (f"{interleaved.ratio(taken, times[other]):.2f}" for other in others)
        rows.append((name, f"{seconds * 1e3:.4g}ms", figures(image.size / 1e9 / seconds), *ratios))
    return table.lines(["whole pass", "time", "GB/s", *(f"to {other}" for other in others)], rows)
