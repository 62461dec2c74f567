"""The sizes and kernels that a command line names."""

import argparse

from common.gemm import parse_size

MOST_SIZES = 1000


def parse(text):
    """Return the Sizes that `text` names: an argparse type.

    It is a list between commas of orders (`1024`), M x N x K (`640x48x1000`), and ranges of orders
    from:to:step, both ends included (`1024:4096:1024`).
    """
    sizes = [size for part in text.split(",") for size in _part(part)]
    return list(dict.fromkeys(sizes))


def _part(text):
    if ":" not in text:
        return [parse_size(text)]
    ends = text.split(":")
    if len(ends) != 3 or any("x" in end.lower() for end in ends):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a range of sizes: give from:to:step such as 1024:4096:1024"
        )
    first, last, step = (parse_size(end).M for end in ends)
    if first > last:
        raise argparse.ArgumentTypeError(f"'{text}' is an empty range: {first} is above {last}")
    if (last - first) // step >= MOST_SIZES:
        raise argparse.ArgumentTypeError(f"'{text}' has more than {MOST_SIZES} sizes")
    return [parse_size(str(n)) for n in range(first, last + 1, step)]


def some_of(names):
    """Return the argparse type of a list of names between commas, `all` or `none`: a tuple."""

    def parse_names(text):
        chosen = {"all": names, "none": ()}.get(text, tuple(text.split(",")))
        if wrong := set(chosen) - set(names):
            have = ", ".join(names)
            raise argparse.ArgumentTypeError(f"'{min(wrong)}' is none of {have}, all, none")
        return tuple(dict.fromkeys(chosen))

    return parse_names


def kernels(rungs):
    """Return the argparse type of a choice of kernels: numbers or names between commas, or `all`.

    It gives a list of rungs, or the text `best`.
    """
    known = {key: rung for rung in rungs for key in (rung.number, rung.name, rung.label)}

    def parse_kernels(text):
        if text == "best":
            return text
        if text == "all":
            return list(rungs)
        chosen = []
        for name in text.split(","):
            key = int(name) if name.isascii() and name.isdigit() else name
            if name in ("all", "best"):
                raise argparse.ArgumentTypeError(f"'{name}' stands alone, or not at all")
            if key not in known:
                have = ", ".join(f"{r.number} {r.name}" for r in rungs)
                raise argparse.ArgumentTypeError(
                    f"'{name}' is no kernel; give all, best, or some of: {have}"
                )
            chosen.append(known[key])
        return list(dict.fromkeys(chosen))

    return parse_kernels
