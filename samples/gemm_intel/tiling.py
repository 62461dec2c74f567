"""Tiles and work-groups of gemm_intel: which are legal, the nearest legal ones, and their padding.

A work-item makes size_m x size_n elements of C, and a work-group has group_m x group_n work-items.
gemm_nn goes through k in steps of size_k; for gemm_nt, size_k is 1.
"""

import argparse
from dataclasses import asdict
from functools import reduce
from math import gcd, isqrt
from typing import NamedTuple

from common.constraints import Space, broken, facts, is_legal
from common.errors import UsageError
from common.gemm import Size, padded, parse_size
from common.room import require_room

OPTIONS = {
    "size_m": "--tile-size-M",
    "group_m": "--tile-group-M",
    "size_n": "--tile-size-N",
    "group_n": "--tile-group-N",
    "size_k": "--tile-size-K",
}
# What each kernel uses.
USED = {"nn": tuple(OPTIONS), "nt": tuple(OPTIONS)[:-1]}
# The kernels unroll a tile. So many products take some ten seconds to compile.
MOST_PRODUCTS = 16384

# With --strict, the products of these divide the order.
_DIVIDE = (
    ("size_m",), ("group_m",), ("size_m", "group_m"),
    ("size_n",), ("group_n",), ("size_n", "group_n"), ("size_k",),
)
# What a tuner tries.
_VALUES = {
    "size_m": (1, 2, 4, 8, 16), "group_m": (1, 2, 4, 8, 16, 32),
    "size_n": (4, 8, 16, 32, 64, 128), "group_n": (1, 2, 4, 8, 16), "size_k": (1, 2, 4, 8, 16),
}


def _space(tiles, used, strict=False):
    """Return the Space of the parameters `used`, of which the Tiles are the defaults."""
    products = " * ".join(name for name in used if name.startswith("size"))
    divide = (f"order % ({' * '.join(names)}) == 0" for names in _DIVIDE if strict)
    return Space(
        {name: getattr(tiles, name) for name in used},
        {name: _VALUES[name] for name in used},
        (f"{products} <= {MOST_PRODUCTS}", *divide),
        ("group_m", "group_n"),
    )


def kernels(defaults):
    """Return what --describe says of both kernels; `defaults` are Tiles."""
    return [
        {"name": f"gemm_{name}", "options": ["--kernel", name],
         "space": asdict(_space(defaults, used)), "flags": {each: OPTIONS[each] for each in used}}
        for name, used in USED.items()
    ]


def _multiple(*numbers):
    """Return the smallest number that all of them divide."""
    return reduce(lambda a, b: a * b // gcd(a, b), numbers)


def order(text):
    """Return the order that `text` names: an argparse type."""
    if "x" in text.lower() or text.startswith("@"):
        problem = "is not an order: the matrices are square, give one"
        raise argparse.ArgumentTypeError(f"'{text}' {problem}")
    return parse_size(text).M


class Tiles(NamedTuple):
    """The five numbers."""

    size_m: int
    group_m: int
    size_n: int
    group_n: int
    size_k: int

    def block(self):
        """Return what must divide M, N and K: what a work-group makes, and the step of k."""
        return Size(self.size_m * self.group_m, self.size_n * self.group_n, self.size_k)

    def defines(self, arithmetic, kernel):
        """Return the -D defines of a kernel, in the order in which they are documented."""
        sides = {f"TILE_{name.upper()}": getattr(self, name) for name in USED[kernel]}
        return {"T": arithmetic, **sides, **({"NT": 1} if kernel == "nt" else {})}

    def text(self, *names):
        """Return the named numbers as the options that give them."""
        return " ".join(f"{OPTIONS[name]} {getattr(self, name)}" for name in names)


class Rules:
    """What a device allows for matrices of one order and element type."""

    def __init__(self, device, limits, order, dtype, strict):
        """Take the Limits to keep to; `strict` allows no padding."""
        self.limits, self.order, self.strict = limits, order, strict
        self._itemsize = dtype.itemsize
        # Lines start where a sub-buffer could; OpenCL gives that boundary in bits.
        self._unit = max(device.mem_base_addr_align // 8 // dtype.itemsize, 1)

    def layout(self, tiles):
        """Return M, N and K in whole blocks, and the elements from one line in memory to the next.

        A line is a column of a matrix, or a row. All three matrices have the same stride.
        """
        whole = padded(Size(*[self.order] * 3), tiles.block())
        return whole, -(-max(whole) // self._unit) * self._unit

    def choose(self, wish, auto, kernel_limit=None):
        """Return the tiles to use: with `auto`, legal ones that are no larger than the wish.

        `kernel_limit` is how many work-items a work-group of the kernel may have, once that is
        known. Raises UsageError for the first rule that the tiles break, with what would do.
        """
        space = _space(wish, OPTIONS, self.strict)
        known = {**facts(self.limits, self._itemsize), "order": self.order}
        if kernel_limit:
            known["max_work_group_size"] = min(kernel_limit, known["max_work_group_size"])
        legal = _legal(wish, space, known)
        problems = [] if auto else broken(space, wish._asdict(), known)
        if problems:
            text = problems[0]
            for name, option in OPTIONS.items():
                text = text.replace(f"--{name} ", f"{option} ")
            would_do = legal.text(*(n for n in OPTIONS if getattr(legal, n) != getattr(wish, n)))
            if " must divide " in text:
                unit = _multiple(*wish.block())
                text += " with --strict"
                would_do += f", or --size {-(-self.order // unit) * unit}"
            raise UsageError(f"{text}; try {would_do}")
        tiles = legal if auto else wish
        self._require_memory(tiles)
        return tiles

    def _require_memory(self, tiles):
        whole_blocks, stride = self.layout(tiles)
        each = max(whole_blocks) * stride * self._itemsize
        need = dict.fromkeys(("matrix A", "matrix B", "matrix C"), each)
        # A square of whole blocks and whole strides that is no larger than the limit.
        most = min(self.limits.max_mem_alloc_size, self.limits.global_mem_size // len(need))
        fits = isqrt(most // self._itemsize)
        fits = fits - fits % _multiple(*tiles.block(), self._unit) or 1
        require_room(f"--size {self.order}", need, self.limits, f"try --size {fits}")


def _legal(wish, space, known):
    """Return legal tiles: each number, one after the other, as near to the wish as can be."""
    found = dict.fromkeys(OPTIONS, 1)
    for name in ("group_m", "group_n", "size_k", "size_m", "size_n"):
        # No number above MOST_PRODUCTS is legal for a tile, nor for the work-groups of any device.
        numbers = range(min(getattr(wish, name), MOST_PRODUCTS), 0, -1)
        found[name] = next(n for n in numbers if is_legal(space, {**found, name: n}, known))
    return Tiles(**found)
