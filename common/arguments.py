"""Command lines: a parser that raises UsageError, and types of values. Standard library only."""

import argparse
import math
import re
import sys
from pathlib import Path

from common.errors import UsageError

_LARGEST = (2 - 2**-23) * 2.0**127  # of float32


class Parser(argparse.ArgumentParser):
    """A parser that takes no abbreviations, and whose help shows the description as it stands."""

    def __init__(self, prog, description, epilog):
        super().__init__(
            prog=prog, description=description, epilog=epilog, allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        # What is a value and no option. argparse before Python 3.14 takes -1e3 for an option.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def parse_known_args(self, args=None, namespace=None):
        args = sys.argv[1:] if args is None else list(args)
        for word in args[: args.index("--")] if "--" in args else args:
            # argparse before Python 3.12 takes "--" out of the value, and has none then.
            if word.startswith("-") and word.endswith("=--"):
                self.error(f"{word}: no option takes -- as its value")
        return super().parse_known_args(args, namespace)

    def print_help(self, file=None):
        # argparse would say nothing where it cannot be written.
        print(self.format_help(), end="", file=file, flush=True)

    def error(self, message):
        raise UsageError(f"{message}; see --help")


def count(least, most=None):
    """Return the argparse type of the whole numbers from `least` up, or up to `most`."""
    upto = "up" if most is None else f"to {most}"

    def parse(text):
        # More digits make no sense; Python refuses thousands of them.
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {least} {upto}")
        return value

    return parse


def _real(is_good, what):
    """Return the argparse type of the numbers that are good; `what` names them in a message."""

    def parse(text):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not is_good(value):
            raise argparse.ArgumentTypeError(f"'{text}' is not {what}")
        return value

    return parse


def a_path(text):
    """Return the Path of a file or folder: an argparse type. An empty text would be this folder."""
    if not text:
        raise argparse.ArgumentTypeError("give a path: it is empty")
    return Path(text)


number = _real(lambda value: abs(value) <= _LARGEST, "a number that float32 can hold")
positive = _real(lambda value: 0 < value <= _LARGEST, "a number above 0, or too large")
