"""The two sums on the host: exact, timed, and compared with a kernel's.

They are an array of uint64: the sum of the squares of the pixels, and the sum of the pixels.
"""

from statistics import median

import numpy as np

from common import interleaved, table
from common.gemm import Check
from common.text import figures

# Pixels at a time: 65536 squares of 255 are 4261478400, which uint32 still holds.
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


def check(sums, expected, intact):
    """Return the Check of a kernel's sums. They are exact, so they must be equal.

    `intact` tells whether the guards of the buffers are.
    """
    error = max(abs(int(mine) - int(right)) for mine, right in zip(sums, expected))
    reason = None
    if not intact:
        reason = "the kernel wrote outside of its buffers"
    elif error:
        reason = (f"squares {sums[0]} instead of {expected[0]}, "
                  f"sum {sums[1]} instead of {expected[1]}")
    return Check(error, float("inf") if error else 0.0, reason)


def exact(image):
    """Return the sums of a uint8 image, part by part, in the narrowest integers that hold them."""
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
    passes = {**passes, "numpy on the host": lambda: exact(image)}
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
