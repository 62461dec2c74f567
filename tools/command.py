"""The command lines of tools: their own options, then after -- those of the sample."""

import re

from common import manifest
from common.arguments import Parser, positive
from common.errors import UsageError
from tools import points

# A tool, or a sweep, gives or reads these.
REFUSED = {"--json", "--output", "--keep", "--describe", "--list"}


def parser(name, description):
    """Return a parser without options of its own."""
    epilog = "Options after -- are passed to the sample. One with several values is an axis."
    result = Parser(f"python -m tools {name}", description, epilog)
    result.add_argument("--debug", action="store_true", help="show where an error came from")
    return result


def add_sample(result):
    """Add the argument that names the sample."""
    names = manifest.names()
    result.add_argument("sample", choices=names, metavar="SAMPLE", help=", ".join(names))


def add_limit(result, seconds):
    """Add the time limit of a point."""
    result.add_argument("--limit", type=positive, default=seconds, metavar="S",
                        help="time limit of a point in seconds (default %(default)s)")


def parse(result, argv):
    """Return (the parsed options, the words after --). Raises UsageError."""
    at = argv.index("--") if "--" in argv else len(argv)
    words = argv[at + 1 :]
    if refused := points.named(words) & REFUSED:
        raise UsageError(f"{min(refused)} cannot be used after --: the tool sets it")
    return result.parse_args(argv[:at]), words


def plan(found, words, whole=False):
    """Return (options of every point, the words of each combination of the axes).

    `words` stand in place of options and axes of the sample's Manifest: small sizes and its axes,
    or with `whole` its usual size and every kernel in one process, where the sample can do that.
    """
    usual = found.tools.all if whole else found.tools.small
    given = points.named(words)
    options, axes = points.apart(words, dict(found.tools.axes))
    if not (whole and usual):
        axes = {**{name: v for name, v in found.tools.axes if name not in given}, **axes}
    usual = () if given & set(usual) else usual
    return (*usual, *options), list(points.combinations(axes))


def file_name(label):
    """Return the name of a folder for a point."""
    return re.sub(r"[^A-Za-z0-9.,]+", "-", label).strip("-")[:100] or "point"
