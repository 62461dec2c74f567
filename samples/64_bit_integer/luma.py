"""Images for the kernels: one byte of luma per pixel, uint8 of height x width."""

import argparse
import re
import warnings
from pathlib import Path

import numpy as np

from common import files, rng
from common.errors import UsageError
from common.text import printable

DEFAULT = Path(__file__).with_name("assets") / "input.bmp"
MOST_PIXELS = 2**32 - 1  # the kernels count pixels in 32-bit integers
_RED, _GREEN, _BLUE = np.float32(0.2126), np.float32(0.7152), np.float32(0.0722)
_PART = 2**18  # pixels at a time, so that their floats stay small whatever the image's shape
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
    if size is None:
        if data is not None:
            raise UsageError("--data needs --size: it fills a generated image")
        image, name = read(path or DEFAULT), path or "assets/input.bmp"
    else:
        if path is not None:
            raise UsageError("give an image file or --size, not both")
        name = data or "noise"
        image = make(size, name, seed)
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
