"""Tiles and work-groups of gemm_intel: which are legal, the nearest legal ones, and their kernel.

A work-item computes size_m x size_n elements of C, and a work-group has group_m x group_n
work-items. gemm_nn goes through k in steps of size_k; for gemm_nt, size_k is 1.
"""

from dataclasses import asdict, replace
from pathlib import Path
from typing import NamedTuple

import pyopencl as cl

from common import program
from common.arguments import count
from common.constraints import Space, broken, facts, is_legal
from common.errors import UsageError
from common.gemm import Size

SOURCE = Path(__file__).with_name("gemm.cl")
OPTIONS = {
    "size_m": "--tile-size-M",
    "group_m": "--tile-group-M",
    "size_n": "--tile-size-N",
    "group_n": "--tile-group-N",
    "size_k": "--tile-size-K",
}
USED = {"nn": tuple(OPTIONS), "nt": tuple(OPTIONS)[:-1]}  # by each kernel
# The kernels unroll a tile. So many products take some ten seconds to compile.
MOST_PRODUCTS = 16384

_MEANINGS = {
    "size_m": "rows of C per work-item", "group_m": "work-items per work-group, along the rows",
    "size_n": "columns of C per work-item", "group_n": "the same, along the columns",
    "size_k": "step of k, for nn only",
}
# With --strict, these divide the order.
_DIVIDE = ("size_m", "group_m", "size_m * group_m",
           "size_n", "group_n", "size_n * group_n", "size_k")
# What a tuner tries.
_VALUES = {
    "size_m": (1, 2, 4, 8, 16), "group_m": (1, 2, 4, 8, 16, 32),
    "size_n": (4, 8, 16, 32, 64, 128), "group_n": (1, 2, 4, 8, 16), "size_k": (1, 2, 4, 8, 16),
}


class Tiles(NamedTuple):
    """The five numbers; the defaults are those of the original."""

    size_m: int = 1
    group_m: int = 16
    size_n: int = 128
    group_n: int = 1
    size_k: int = 8

    def block(self):
        """Return what must divide M, N and K: the block of a work-group, and the step of k."""
        return Size(self.size_m * self.group_m, self.size_n * self.group_n, self.size_k)


def add_options(parser):
    """Add the options that say which tiles are used."""
    add = parser.add_argument
    for name, usual in Tiles()._asdict().items():
        add(OPTIONS[name], dest=name, type=count(1), metavar="N", default=usual,
            help=f"{_MEANINGS[name]} (default %(default)s)")
    add("--strict", action="store_true", help="refuse an order that needs padding")
    add("--auto", action="store_true", help="reduce the tile options to legal values")


def kernels():
    """Return what --describe says of both kernels."""
    return [
        {"name": f"gemm_{name}", "options": ["--kernel", name],
         "space": asdict(_space(Tiles(), used)), "flags": {each: OPTIONS[each] for each in used}}
        for name, used in USED.items()
    ]


def _space(tiles, used, strict=False):
    """Return the Space of the parameters `used`, of which the Tiles are the defaults."""
    products = " * ".join(name for name in used if name.startswith("size"))
    divide = (f"order % ({sides}) == 0" for sides in _DIVIDE if strict)
    return Space(
        {name: getattr(tiles, name) for name in used},
        {name: _VALUES[name] for name in used},
        (f"{products} <= {MOST_PRODUCTS}", *divide),
        ("group_m", "group_n"),
    )


def options(numbers):
    """Return numbers of a tile, by their names, as the options that give them."""
    return " ".join(f"{OPTIONS[name]} {number}" for name, number in numbers.items())


def choose(args, limits):
    """Return the Tiles of the options, or with --auto legal ones that are no larger.

    With --strict there is no padding. Raises UsageError for the first rule that the options break,
    with what is legal.
    """
    wish = Tiles(*(getattr(args, name) for name in OPTIONS))
    wish = wish if args.kernel == "nn" else wish._replace(size_k=1)
    known = {**facts(limits, 0), "order": args.size}  # no rule asks for the bytes of an element
    space, legal = _space(wish, OPTIONS, args.strict), dict.fromkeys(OPTIONS, 1)
    # One number after the other, as near to the wish as the numbers before it allow.
    for name in ("group_m", "group_n", "size_k", "size_m", "size_n"):
        numbers = range(min(getattr(wish, name), MOST_PRODUCTS), 0, -1)
        legal[name] = next(n for n in numbers if is_legal(space, {**legal, name: n}, known))
    if not args.auto and (problems := broken(space, wish._asdict(), known)):
        text = problems[0]
        for name, option in OPTIONS.items():
            text = text.replace(f"--{name} ", f"{option} ")
        would_do = {name: n for name, n in legal.items() if n != getattr(wish, name)}
        raise UsageError(f"{text}; try {options(would_do)}")
    return Tiles(**legal)


def build(queue, args, limits, tiles):
    """Return the kernel for the tiles, and its Tiles: others, if its own limit needs them."""
    defines = {f"TILE_{name.upper()}": getattr(tiles, name) for name in USED[args.kernel]}
    defines = {"T": args.arithmetic, **defines, **({"NT": 1} if args.kernel == "nt" else {})}
    if args.auto:
        print(f"Using {options(tiles._asdict())}")
    print(f'Build program options: "{" ".join(program.flags(defines))}"', flush=True)
    kernel = cl.Kernel(program.build(queue.context, SOURCE, defines), "gemm")
    most = min(program.group_limit(kernel), limits.max_work_group_size)
    limits = replace(limits, max_work_group_size=most)
    fits = choose(args, limits)
    return (kernel, tiles) if fits == tiles else build(queue, args, limits, fits)
