"""The command that repeats the run of a record: made from its argv, and safe to paste."""

import re
import shlex
from pathlib import Path

from common import manifest
from common.manifest import as_asked

_SCRIPT = "run.py"
_BOARD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@%+-]*(:[0-9]{1,5})?")
_ASKED = "asked"  # the case that fab makes of options


def command(point):
    """Return a line for a shell that repeats a Point, or None where none can be made.

    A run on a board of our own is repeated there, by fab; all others in this checkout.
    """
    run, own = point.source.run, point.params.get("point")
    ours = run is not None and run.origin is None
    host = f"--host {run.board}" if ours and run.board != "local" else ""
    if host and not _BOARD.fullmatch(run.board):
        return None
    if (ours or run is None) and isinstance(own, dict) and "options" in own:
        # A record of a sweep has all that is needed to run it again, and to compare.
        where = f"{shown(point.source.path)}:{point.line}"
        tool = ["fab", *_ssh_file(run), "replay", *host.split()] if host else [
            "python", "-m", "tools", "replay"]
        line = shlex.join([*tool, where])
        return line if line.isprintable() else None
    more = manifest.more_than_choice(point.sample, as_asked(point.argv[1:]))
    words = arguments(point.sample, point.argv)
    if words is None or (not ours and more is not None):
        return None  # of others: it may write, or name a file
    if not host:
        return f"python {words}"
    if point.case == _ASKED:
        return f"fab run {point.sample} {host} -- {words.partition(' ')[2]}"
    return f"fab run {point.sample} --case {shlex.quote(point.case)} {host}"


def _ssh_file(run):
    """Return the option of fab with which a sweep reached its board; none for ssh's own files."""
    file = run.plan.get("ssh_file")
    return ["-S", str(shown(file))] if isinstance(file, str) and file else []


def arguments(sample, argv):
    """Return the words after `python` as a text for a shell, without what the runner added.

    None for what no sample of ours can have had: another program, or characters that a terminal
    would take for keys.
    """
    if not argv or not all(isinstance(word, str) and word.isprintable() for word in argv):
        return None
    if not manifest.NAME.fullmatch(sample) or argv[0].rpartition("/")[2] != _SCRIPT:
        return None
    return shlex.join([f"samples/{sample}/{_SCRIPT}", *plain_argv(argv[1:], sample)])


def plain_argv(argv, sample):
    """Return a command line as it was asked for, without the folder that the checkout was in."""
    return [_inside_checkout(str(word), sample) for word in as_asked(argv)]


def plain_params(params, sample):
    """Return parameters without the folder that the checkout was in."""
    return {name: _inside_checkout(value, sample) if isinstance(value, str) else value
            for name, value in params.items()}


def _inside_checkout(word, sample):
    """Return a path of a file of the sample as it is in any checkout; other words as they are."""
    _, inside, rest = word.partition(f"/samples/{sample}/")
    return inside[1:] + rest if inside and word.startswith("/") else word


def shown(path):
    """Return a path as a person here would write it."""
    here, path = Path.cwd(), Path(path).absolute()
    return path.relative_to(here) if path.is_relative_to(here) else path
