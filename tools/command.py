"""The command lines of tools: their own options, axes with values, the sample's after --."""

import argparse
import re
from types import SimpleNamespace
from typing import NamedTuple

from common import constraints, manifest
from common.arguments import Parser, positive
from common.errors import UsageError
from tools import points

# A tool, or a sweep, gives or reads these.
REFUSED = {"--json", "--output", "--keep", "--describe", "--list"}


class Line(NamedTuple):
    """A command line in parts: parsed options, ((option, values), ...), the words after --."""

    args: argparse.Namespace
    axes: tuple
    options: tuple


def parser(name, description):
    """Return a parser without options of its own."""
    epilog = "Options after -- are passed to the sample."
    result = Parser(f"python -m tools {name}", description, epilog)
    result.add_argument("--debug", action="store_true", help="show where an error came from")
    return result


def add_sample(result):
    """Add the argument that names the sample."""
    names = manifest.names()
    result.add_argument("sample", choices=names, metavar="SAMPLE", help=", ".join(names))


def add_axis(result, usual="the axes in the sample's sample.toml"):
    """Add --axis to the help; parse() reads it, for its values may begin with a hyphen."""
    text = f"an option of the sample and its values; repeatable. Default: {usual}"
    result.add_argument("--axis", action="append", metavar=("NAME", "VALUE"), nargs=2, help=text)


def add_limit(result, seconds):
    """Add the time limit of a point."""
    result.add_argument("--limit", type=positive, default=seconds, metavar="S",
                        help="time limit of a point in seconds (default %(default)s)")


def parse(result, argv):
    """Return the Line of the arguments. Raises UsageError."""
    at = argv.index("--") if "--" in argv else len(argv)
    own, options = list(argv[:at]), tuple(argv[at + 1 :])
    for word in options:
        if word.partition("=")[0] in REFUSED:
            raise UsageError(f"{word} cannot be used after --: the tool sets it")
    words, axes = [], {}
    while own:
        if (word := own.pop(0)) != "--axis":
            words.append(word)
            continue
        name = own.pop(0) if own else ""
        name = name if name.startswith("-") else f"--{name}" if name[1:] else f"-{name}"
        values = []
        while own and (not own[0].startswith("-") or own[0][1:2].isdigit()):
            values.append(own.pop(0))
        if not name.strip("-") or not values:
            raise UsageError("--axis needs an option of the sample and its values: "
                             "--axis NAME VALUE...")
        axes[name] = tuple(dict.fromkeys(values))
    return Line(result.parse_args(words), tuple(axes.items()), options)


def all_axes(found, line):
    """Return the axes of a Line: those of the sample's Manifest that it leaves open, then its own.

    Raises UsageError where an option is given twice.
    """
    own = dict(line.axes)
    given = points.named(line.options)
    if twice := [name for name in own if name in given]:
        raise UsageError(f"{twice[0]} is given twice: as an axis and after --")
    return {**{n: v for n, v in found.tools.axes if n not in given}, **own}


def plan(found, line):
    """Return (options of every point, the words of each combination of the axes) of a Line.

    Sizes are small ones of the sample's Manifest unless the Line has others.
    """
    axes = all_axes(found, line)
    given = points.named(line.options) | set(axes)
    small = () if given & set(found.tools.small) else found.tools.small
    return (*small, *line.options), list(points.combinations(axes))


def file_name(label):
    """Return the name of a folder for a point."""
    return re.sub(r"[^A-Za-z0-9.,]+", "-", label).strip("-")[:100] or "point"


def described_space(kernel, described):
    """Return (Space, {parameter: its option}, facts()) of a kernel in a record of --describe."""
    space, flags = constraints.Space(**kernel["space"]), kernel.get("flags", {})
    limits = SimpleNamespace(**described.device["limits"])
    known = constraints.facts(limits, kernel.get("itemsize", 4))
    return space, {name: flags.get(name, f"--{name}") for name in space.defaults}, known
