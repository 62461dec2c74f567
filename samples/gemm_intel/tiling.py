"""Tiles and work-groups of gemm_intel: which are legal, the nearest legal ones, and their padding.

A work-item makes size_m x size_n elements of C, and a work-group has group_m x group_n work-items.
gemm_nn goes through k in steps of size_k; for gemm_nt, size_k is 1.
"""

import argparse
from dataclasses import asdict
from functools import reduce
from math import gcd, isqrt, prod
from typing import NamedTuple

from common.constraints import Space
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


def kernels(defaults):
    """Return what --describe says of both kernels; `defaults` are Tiles."""
    described = []
    for name, used in USED.items():
        products = " * ".join(each for each in used if each.startswith("size"))
        space = Space(
            {each: getattr(defaults, each) for each in used},
            {each: _VALUES[each] for each in used},
            (f"{products} <= {MOST_PRODUCTS}",),
            ("group_m", "group_n"),
        )
        described.append({"name": f"gemm_{name}", "options": ["--kernel", name],
                          "space": asdict(space),
                          "flags": {each: OPTIONS[each] for each in used}})
    return described


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

    def text(self, *names, between=" x "):
        """Return the named numbers as the options that give them."""
        return between.join(f"{OPTIONS[name]} {getattr(self, name)}" for name in names)


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
        legal = self._legal(wish, kernel_limit)
        for names, problem in () if auto else self._broken(wish, kernel_limit):
            fits = legal.text(*names)
            raise UsageError(f"{wish.text(*names)}: {problem}; {fits} would do")
        tiles = legal if auto else wish
        self._require_memory(tiles)
        return tiles

    def _broken(self, tiles, kernel_limit):
        """Yield the numbers that break a rule, by name, and what is wrong with them."""
        for side, name in enumerate(("group_m", "group_n")):
            most = self.limits.max_work_item_sizes[side]
            if getattr(tiles, name) > most:
                yield (name,), f"the device takes at most {most} work-items in dimension {side}"
        count = tiles.group_m * tiles.group_n
        of_device = self.limits.max_work_group_size
        for most, whose in ((of_device, "the device"), (kernel_limit, "this kernel")):
            if most and count > most:
                problem = f"{count} work-items, but a work-group of {whose} has at most {most}"
                yield ("group_m", "group_n"), problem
        if tiles.size_m * tiles.size_n * tiles.size_k > MOST_PRODUCTS:
            problem = f"more than the {MOST_PRODUCTS} products that a compiler can unroll"
            yield ("size_m", "size_n", "size_k"), problem
        for names in _DIVIDE if self.strict else ():
            product = prod(getattr(tiles, name) for name in names)
            if self.order % product:
                unit = _multiple(*tiles.block())
                whole = f"--size {-(-self.order // unit) * unit} would do"
                multiple = f"--size {self.order} is not a multiple of {product}"
                yield names, f"with --strict, {multiple}; {whole}"

    def _require_memory(self, tiles):
        whole_blocks, stride = self.layout(tiles)
        each = max(whole_blocks) * stride * self._itemsize
        need = dict.fromkeys(("matrix A", "matrix B", "matrix C"), each)
        # A square of whole blocks and whole strides that is no larger than the limit.
        most = min(self.limits.max_mem_alloc_size, self.limits.global_mem_size // len(need))
        fits = isqrt(most // self._itemsize)
        fits = fits - fits % _multiple(*tiles.block(), self._unit) or 1
        require_room(f"--size {self.order}", need, self.limits, f"--size {fits} would do")

    def _legal(self, wish, kernel_limit):
        """Return legal tiles: each number, one after the other, as near to the wish as can be."""
        most = min(self.limits.max_work_group_size, kernel_limit or self.limits.max_work_group_size)
        sides = self.limits.max_work_item_sizes
        group_m = self._largest(wish.group_m, min(sides[0], most))
        group_n = self._largest(wish.group_n, min(sides[1], most // group_m))
        size_k = self._largest(wish.size_k, MOST_PRODUCTS)
        size_m = self._largest(wish.size_m, MOST_PRODUCTS // size_k, group_m)
        size_n = self._largest(wish.size_n, MOST_PRODUCTS // (size_k * size_m), group_n)
        return Tiles(size_m, group_m, size_n, group_n, size_k)

    def _largest(self, number, most, unit=1):
        number = min(number, most)
        while self.strict and self.order % (number * unit):
            number -= 1
        return number
