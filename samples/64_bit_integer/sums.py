"""The two sums on the host: exact, timed, and compared with a kernel's.

They are an array of uint64: the sum of the squares of the pixels, and the sum of the pixels.
"""

from statistics import median

import numpy as np

from common import interleaved, table
from common.outputs import digest
from common.text import figures

_PART = 2**20  # pixels at a time, so that numpy's copies stay in the caches
# 65536 squares of 255 are 4261478400: uint32 still holds them.
_EXACT_IN_32_BITS = 65536


def lines(sums, count):
    """Return the two lines of the SDK's sample, and the mean and the variance of `count` pixels."""
    squares, pixels = map(int, sums)
    # E[p^2] - E[p]^2 is subtracted in whole numbers: in floats most digits would cancel.
    variance = (count * squares - pixels**2) / count**2
    return [
        f"Square of the pixel values = {squares}",
        f"Sum of the pixel values = {pixels}",
        f"Mean of the pixel values = {pixels / count:.3f}",
        f"Variance of the pixel values = {variance:.3f}",
    ]


def check(sums, expected, image):
    """Return what is wrong with the sums, or None, and the `check` of a record.

    They are exact, so they must be equal.
    """
    error = max(abs(int(mine) - int(right)) for mine, right in zip(sums, expected))
    reason = (f"squares {sums[0]} instead of {expected[0]}, sum {sums[1]} instead of {expected[1]}"
              if error else None)
    return reason, {
        "max_abs_error": error,
        "error_over_bound": float("inf") if error else 0.0,
        "inputs_sha256": digest(image),
        "output_sha256": digest(sums),
    }


def exact(image):
    """Return the sums of a uint8 image by counting how often each value occurs.

    No sum is formed before the counts are Python integers, so nothing can overflow.
    """
    flat = image.reshape(-1)
    counts = np.zeros(256, np.int64)
    for start in range(0, flat.size, _PART):
        counts += np.bincount(flat[start : start + _PART], minlength=256)
    pairs = list(enumerate(counts.tolist()))
    squares, pixels = (sum(value**power * n for value, n in pairs) for power in (2, 1))
    return np.array([squares, pixels], np.uint64)


def by_numpy(image):
    """Return the sums as array code computes them fast: part by part, in the narrowest integers."""
    flat = image.reshape(-1)
    squares = pixels = 0
    for start in range(0, flat.size, _EXACT_IN_32_BITS):
        part = flat[start : start + _EXACT_IN_32_BITS]
        square = part.astype(np.uint16)
        square *= square
        squares += int(square.sum(dtype=np.uint32))
        pixels += int(part.sum(dtype=np.uint32))
    return np.array([squares, pixels], np.uint64)


def side_by_side(passes, image, repeat, warmup):
    """Return lines that compare `passes`, functions by name, with numpy and with each other.

    A pass is all that a user waits for once the image is in the device's memory: reset of the sums
    if needed, launch, read-back, and the host's part. All are timed by the host's clock,
    interleaved. `plain read` is the ceiling.
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
