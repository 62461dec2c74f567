"""Images for the kernels, one byte of luma per pixel, uint8 of height x width; and their sums.

The sums are an array of uint64: the sum of the squares of the pixels, and the sum of the pixels.
"""

import argparse
import re
import warnings
from pathlib import Path

import numpy as np

from common import files, rng
from common.bounds import Check
from common.errors import UsageError
from common.text import printable

DEFAULT = Path(__file__).with_name("assets") / "input.bmp"
MOST_PIXELS = 2**32 - 1  # the kernels count pixels in 32-bit integers
_RED, _GREEN, _BLUE = np.float32(0.2126), np.float32(0.7152), np.float32(0.0722)
_PART = 2**18  # pixels at a time, so that their floats stay small whatever the image's shape
# Pixels at a time: 65536 squares of 255 are 4261478400, which uint32 still holds.
_EXACT_IN_32_BITS = 65536
_DRAWS = 65537  # pixels of noise before it starts again; odd, so that no two rows are in step


def parse_size(text):
    """Return (width, height) in pixels that `text`, such as `641x479`, names: an argparse type."""
    match = re.fullmatch(r"(\d{1,10})x(\d{1,10})", text.lower(), re.ASCII)
    width, height = map(int, match.groups()) if match else (0, 0)
    if not 0 < width * height <= MOST_PIXELS:
        raise argparse.ArgumentTypeError(f"'{text}' is not a size: give width x height such as "
                                         f"640x480, of 1 to {MOST_PIXELS} pixels")
    return width, height


def get(path, size, data, seed):
    """Return the image that a command line asks for, and what to call it; all may be None.

    With a `size` the image is made, else it is read from `path`, by default from assets/.
    """
    if data and not size:
        raise UsageError("--data needs --size: it fills a generated image")
    if path and size:
        raise UsageError("give an image file or --size, not both")
    name = (data or "noise") if size else path or "assets/input.bmp"
    image = make(size, name, seed) if size else read(path or DEFAULT)
    return image, f"{printable(str(name))}, {image.shape[1]}x{image.shape[0]} pixels"


def make(size, kind, seed):
    """Return an image of `size` (width, height): `noise` from the seed, `white` or `black`."""
    width, height = size
    if kind == "noise":
        draws = (rng.rand(seed, _DRAWS) >> np.uint32(23)).astype(np.uint8)
        return np.resize(draws, (height, width))
    return np.full((height, width), {"white": 255, "black": 0}[kind], np.uint8)


def read(path):
    """Return the luma of an image file that Pillow opens: its first picture, without alpha.

    Raises UsageError for whatever cannot be read, in one line.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise UsageError(
            f"reading {path} needs Pillow (Debian: python3-pil): install it, or give --size"
        ) from error
    try:
        files.regular(path)  # a FIFO would be waited for
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # e.g. of a size that Pillow still accepts
            with Image.open(path) as image:
                if image.mode.startswith(("I", "F")):
                    raise UsageError(f"{path} has more than 8 bits per channel: convert it first")
                return truncated(np.asarray(image.convert("RGB")))
    except (UsageError, MemoryError):
        raise
    except Exception as error:  # a broken file can raise almost anything in a decoder
        raise UsageError(f"cannot read {path} as an image: {error}") from error


def truncated(rgb):
    """Return 0.2126 R + 0.7152 G + 0.0722 B of a uint8 array (height, width, 3), truncated.

    It is computed in float32 as in the SDK's sample: each product and each sum is rounded, in this
    order. Only then an image gives the SDK's sums. For 299 of all colours, 23 greys among them, the
    result is just below a whole number, and truncation makes it one less than exact arithmetic.
    """
    flat = rgb.reshape(-1, 3)
    luma = np.empty(len(flat), np.uint8)
    for start in range(0, len(flat), _PART):
        # numpy does one operation at a time, so nothing becomes a fused multiply-add.
        red, green, blue = flat[start : start + _PART].T.astype(np.float32)
        luma[start : start + _PART] = _RED * red + _GREEN * green + _BLUE * blue
    return luma.reshape(rgb.shape[:2])


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
