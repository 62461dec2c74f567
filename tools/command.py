"""The command lines of tools: their own options, then after -- those of the sample."""

import fcntl
import itertools
import re
import shutil
import sys

from rich.progress import track

from common import manifest
from common.arguments import Parser, positive
from common.errors import UsageError
from common.files import writing
from tools import points

# A tool, or a sweep, gives or reads these.
REFUSED = {"--json", "--output", "--keep", "--describe", "--list"}
_MARK = ".inspect"  # is in each folder that folders() makes, and in their parent


def parser(name, description, seconds, of_sample=True):
    """Return the parser of a tool; `seconds` is its usual time limit of a point."""
    epilog = "Options after -- are passed to the sample. One with several values is an axis."
    result, names = Parser(f"python -m tools {name}", description, epilog), manifest.names()
    if of_sample:
        result.add_argument("sample", choices=names, metavar="SAMPLE", help=", ".join(names))
    result.add_argument("--limit", type=positive, default=seconds, metavar="S",
                        help="time limit of a point in seconds (default %(default)s)")
    result.add_argument("--debug", action="store_true", help="show where an error came from")
    return result


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


def shown(items, total=None):
    """Yield the items, above a bar that counts them where stdout is a terminal."""
    return track(items, "points", total, disable=not sys.stdout.isatty())


def folders(parent, labels):
    """Yield a new folder in `parent` for the point of each label; no other run has it meanwhile.

    One of that name that an earlier run made is deleted first. Raises UsageError where `parent` has
    what no run made, or another run uses it, and deletes nothing then.
    """
    found = {}  # by the folder: the label; several labels may make the same name
    for label in labels:
        name = re.sub(r"[^A-Za-z0-9.,]+", "-", label).strip("-")[:100] or "point"
        numbered = (parent / f"{name}-{number}" for number in itertools.count(2))
        folder = next(each for each in itertools.chain([parent / name], numbered)
                      if each not in found)
        found[folder] = label
    with writing(f"cannot write to {parent}"):
        parent.mkdir(parents=True, exist_ok=True)
        for path in parent.iterdir():
            if path.name != _MARK and not (path / _MARK).is_file():
                raise UsageError(f"{parent} has files of others, as {path.name}: "
                                 "give another --folder")
        with open(parent / _MARK, "wb") as mark:
            try:
                fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(f"another run uses {parent}: give another --folder") from None
            for folder in found:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                (folder / _MARK).touch()
            yield from found


def copy(source, folder):
    """Copy the files of a folder into another one. Raises UsageError where they have no room."""
    try:
        shutil.copytree(source, folder, dirs_exist_ok=True)
    except shutil.Error as error:
        _, _, why = error.args[0][0]  # of several the first
        raise UsageError(f"cannot write to {folder}: {why}") from error
