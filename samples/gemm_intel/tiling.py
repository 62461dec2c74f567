"""Tiles and work-groups of gemm_intel: which are legal, the nearest legal ones, and their padding.

A work-item makes size_m x size_n elements of C, and a work-group has group_m x group_n work-items.
gemm_nn goes through k in steps of size_k; for gemm_nt, size_k is 1.
"""

import argparse
from dataclasses import asdict
from math import isqrt, lcm, prod
from typing import NamedTuple

from common.constraints import Space
from common.errors import UsageError
from common.gemm import Size, parse_size
from common.text import size_text

OPTIONS = {
    "size_m": "--tile-size-M",
    "group_m": "--tile-group-M",
    "size_n": "--tile-size-N",
    "group_n": "--tile-group-N",
    "size_k": "--tile-size-K",
}
# The kernels unroll a tile. So many products take some ten seconds to compile.
MOST_PRODUCTS = 16384

# What a tuner tries.
_VALUES = {
    "size_m": (1, 2, 4, 8, 16), "group_m": (1, 2, 4, 8, 16, 32),
    "size_n": (4, 8, 16, 32, 64, 128), "group_n": (1, 2, 4, 8, 16), "size_k": (1, 2, 4, 8, 16),
}  # fmt: skip


def kernels(defaults):
    """Return what --describe says of both kernels; `defaults` are Tiles."""
    described = []
    for name in ("nn", "nt"):
        used = [each for each in OPTIONS if name == "nn" or each != "size_k"]
        products = " * ".join(each for each in used if each.startswith("size"))
        space = Space(
            {each: getattr(defaults, each) for each in used},
            {each: _VALUES[each] for each in used},
            (f"{products} <= {MOST_PRODUCTS}",),
            ("group_m", "group_n"),
        )  # fmt: skip
        options = ["--kernel", name]
        described.append({"name": f"gemm_{name}", "options": options, "space": asdict(space),
                          "flags": {each: OPTIONS[each] for each in used}})  # fmt: skip
    return described


def order(text):
    """Return the order that `text` names: an argparse type."""
    size = parse_size(text)
    if text.lower().count("x"):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not an order: the matrices are square, give one"
        )
    return size.M


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
        names = [name for name in OPTIONS if kernel == "nn" or name != "size_k"]
        sides = {f"TILE_{name.upper()}": getattr(self, name) for name in names}
        return {"T": arithmetic, **sides}

    def text(self, *names, between=" x "):
        """Return the named numbers as the options that give them."""
        return between.join(f"{OPTIONS[name]} {getattr(self, name)}" for name in names)


class Layout(NamedTuple):
    """A matrix in memory: `lines` columns (or rows) of `stride` elements.

    `padded` are M, N and K in whole blocks; all three matrices get the same room.
    """

    padded: Size
    lines: int
    stride: int
    itemsize: int

    def stride_bytes(self):
        """Return the bytes from one line to the next."""
        return self.stride * self.itemsize

    def bytes(self):
        """Return the bytes of one matrix."""
        return self.lines * self.stride_bytes()


class Rules:
    """What a device allows for matrices of one order and element type."""

    def __init__(self, device, limits, order, dtype, strict):
        """Take the Limits to keep to; `strict` allows no padding."""
        self.limits, self.order, self.strict = limits, order, strict
        self._itemsize = dtype.itemsize
        # Lines start where a sub-buffer could; OpenCL gives that boundary in bits.
        self._unit = max(device.mem_base_addr_align // 8 // dtype.itemsize, 1)

    def layout(self, tiles):
        """Return the Layout of each matrix."""
        padded = Size(*(-(-self.order // side) * side for side in tiles.block()))
        stride = -(-max(padded) // self._unit) * self._unit
        return Layout(padded, max(padded), stride, self._itemsize)

    def choose(self, wish, auto, kernel_limit=None):
        """Return the tiles to use: with `auto`, legal ones that are no larger than the wish.

        `kernel_limit` is how many work-items a work-group of the kernel may have, once that is
        known. Raises UsageError for the first rule that the tiles break, with what would do.
        """
        tiles = self._legal(wish, kernel_limit) if auto else wish
        self._require_group(tiles, kernel_limit)
        if prod((tiles.size_m, tiles.size_n, tiles.size_k)) > MOST_PRODUCTS:
            problem = f"more than the {MOST_PRODUCTS} products that a compiler can unroll"
            self._refuse(tiles, ("size_m", "size_n", "size_k"), problem, kernel_limit)
        if self.strict:
            self._require_whole(tiles)
        self._require_memory(tiles)
        return tiles

    def _require_group(self, tiles, kernel_limit):
        for side, name in enumerate(("group_m", "group_n")):
            most = self.limits.max_work_item_sizes[side]
            if getattr(tiles, name) > most:
                problem = f"the device takes at most {most} work-items in dimension {side}"
                self._refuse(tiles, (name,), problem, kernel_limit)
        count = tiles.group_m * tiles.group_n
        of_device = self.limits.max_work_group_size
        for most, whose in ((of_device, "the device"), (kernel_limit or of_device, "this kernel")):
            if count > most:
                problem = f"{count} work-items, but a work-group of {whose} has at most {most}"
                self._refuse(tiles, ("group_m", "group_n"), problem, kernel_limit)

    def _require_whole(self, tiles):
        rules = (
            ("size_m",), ("group_m",), ("size_m", "group_m"),
            ("size_n",), ("group_n",), ("size_n", "group_n"), ("size_k",),
        )  # fmt: skip
        for names in rules:
            product = prod(getattr(tiles, name) for name in names)
            if self.order % product:
                unit = lcm(*tiles.block())
                whole = -(-self.order // unit) * unit
                multiple = f"is not a multiple of {product}; --size {whole} would do"
                problem = f"with --strict, --size {self.order} {multiple}"
                self._refuse(tiles, names, problem, None)

    def _require_memory(self, tiles):
        need = self.layout(tiles).bytes()
        one, whole = self.limits.max_mem_alloc_size, self.limits.global_mem_size
        if need > one:
            problem = (
                f"allocates at most {size_text(one)} at once: a matrix takes {size_text(need)}"
            )
        elif 3 * need > whole:
            problem = f"has {size_text(whole)}: three matrices take {size_text(3 * need)}"
        else:
            return
        # A square of whole blocks and whole strides that is no larger than the limit.
        fits = isqrt(min(one, whole // 3) // self._itemsize)
        unit = lcm(*tiles.block(), self._unit)
        fits = fits - fits % unit or 1
        raise UsageError(f"--size {self.order}: the device {problem}; --size {fits} would do")

    def _refuse(self, tiles, names, problem, kernel_limit):
        fits = self._legal(tiles, kernel_limit).text(*names)
        raise UsageError(f"{tiles.text(*names)}: {problem}; {fits} would do")

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
