"""Write input.bmp: a house with a tree by a lake, at sunset. Whole numbers and a seed only.

python tests/draw_input.py FILE
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from common import rng

SIDE = 512
HORIZON = 330
SEED = 1


def draw():
    """Return the picture: uint8 of SIDE x SIDE x 3."""
    y, x = np.mgrid[:SIDE, :SIDE]
    picture = np.zeros((SIDE, SIDE, 3), np.int64)
    draws = rng.rand(SEED, 3 * SIDE * SIDE).astype(np.int64) >> 8

    # The sky, from dark blue down to orange, with a sun and its glow.
    blend(picture, y < SIDE, (28, 44, 96), (255, 158, 84), np.minimum(y, HORIZON), HORIZON)
    off = (x - 360) ** 2 + (y - 250) ** 2
    glow = np.maximum(0, 160**2 - off) // 160
    picture += glow[..., np.newaxis] * np.array((90, 60, 20)) // 160
    paint(picture, off < 42**2, (255, 240, 190))

    # Two ridges of hills: a polyline through drawn heights, each point the mean of its neighbours.
    for number, (base, rough, colour) in enumerate(
        ((285, 70, (96, 84, 120)), (318, 36, (58, 62, 88)))
    ):
        knots = draws[100 * number : 100 * number + 18] % rough
        at = np.arange(SIDE)
        left, part = at // 32, at % 32
        ridge = base - (knots[left] * (32 - part) + knots[left + 1] * part) // 32
        paint(picture, (y > ridge) & (y < HORIZON), colour)

    # The lake mirrors what is above the horizon, darker, in waves.
    depth = y - HORIZON
    wave = draws[1000 : 1000 + SIDE] % 7 - 3
    mirrored = np.clip(HORIZON - 1 - 2 * depth, 0, HORIZON - 1)
    sideways = np.clip(x + wave[y] * (1 + depth // 24), 0, SIDE - 1)
    lake = picture[mirrored, sideways] * 5 // 8 + np.array((0, 8, 24))
    picture[HORIZON:] = lake[HORIZON:]

    # The shore, in grass, with a house: wall, roof, door, two lit windows, chimney.
    shore = 400 + (x - 140) ** 2 // 700
    paint(picture, y > shore, (44, 74, 40))
    paint(
        picture, (y > shore + 3) & ((x * 7 + y * 13 + draws[2000 + x] % 11) % 17 < 4), (60, 96, 48)
    )
    paint(picture, inside(x, y, 72, 300, 212, 410), (196, 168, 138))
    paint(picture, inside(x, y, 182, 222, 202, 280), (110, 60, 52))
    paint(picture, (y >= 232) & (y < 300) & (abs(x - 142) * 68 <= (y - 232) * 92), (134, 52, 44))
    paint(picture, inside(x, y, 128, 346, 156, 410), (84, 54, 36))
    for left in (86, 168):
        paint(picture, inside(x, y, left, 326, left + 30, 358), (255, 226, 128))
        paint(picture, inside(x, y, left + 14, 326, left + 16, 358), (84, 54, 36))
        paint(picture, inside(x, y, left, 341, left + 30, 343), (84, 54, 36))

    # A tree in front of it: a trunk, and a crown of drawn circles.
    paint(picture, inside(x, y, 268, 330, 284, 420), (64, 44, 34))
    for n in range(60):
        dx, dy, shade = draws[5000 + 3 * n : 5003 + 3 * n]
        cx, cy = 276 + dx % 81 - 40, 292 + dy % 97 - 56
        green = int(shade % 40)
        paint(picture, (x - cx) ** 2 + (y - cy) ** 2 < 20**2, (22 + green // 2, 58 + green, 34))

    # A little grain, so that neighbours differ.
    grain = draws.reshape(SIDE, SIDE, 3) % 9 - 4
    return np.clip(picture + grain, 0, 255).astype(np.uint8)


def blend(picture, where, top, bottom, step, steps):
    colours = [np.array(colour) for colour in (top, bottom)]
    step = step[..., np.newaxis]
    mixed = (colours[0] * (steps - step) + colours[1] * step) // steps
    picture[where] = mixed[where]


def paint(picture, where, colour):
    picture[where] = colour


def inside(x, y, left, top, right, bottom):
    return (x >= left) & (x < right) & (y >= top) & (y < bottom)


if __name__ == "__main__":
    Image.fromarray(draw(), "RGB").save(sys.argv[1])
