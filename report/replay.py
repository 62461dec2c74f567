"""The command that repeats the run of a record: made from its argv, and safe to paste."""

import re
import shlex
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from common import manifest
from common.manifest import as_asked

_SCRIPT = "run.py"
_SAMPLE = re.compile(r"[a-z0-9_][a-z0-9_-]*")
_BOARD = re.compile(r"(?P<host>[A-Za-z0-9_][A-Za-z0-9_.@%+-]*)(:(?P<port>[0-9]{1,5}))?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Command(NamedTuple):
    """A line for a shell: `before`, the words with blanks between them, `after`."""

    before: str
    words: tuple
    after: str = ""

    def __str__(self):
        return f"{self.before}{' '.join(self.words)}{self.after}"


def command(point):
    """Return the Command that repeats a Point, or None where none can be made.

    A run on a board of our own is repeated there, over ssh; all others in this checkout.
    """
    run = point.run
    if run is None and "options" in nested(point.params, "point"):
        # The journal has in a record what it takes to run it again, and to compare.
        where = f"{shown(point.source.path)}:{point.line}"
        return (
            Command("python -m tools replay ", (shlex.quote(where),))
            if where.isprintable()
            else None
        )
    argv = point.argv if run and not run.origin else harmless(point.sample, point.argv)
    words = arguments(point.sample, argv)
    if words is None:
        return None
    if run is None or run.origin or run.board == "local":
        return Command("python ", words)
    address = _BOARD.fullmatch(run.board)
    there = _there(run.plan)
    if address is None or there is None:
        return None
    config = run.plan.get("ssh_config")
    way = f"-F {shlex.quote(config)} " if isinstance(config, str) and config.isprintable() else ""
    way += f"-p {address['port']} " if address["port"] else ""
    # All of it is one word for the shell here, and is read again by the shell there.
    inner = tuple(_inside(word) for word in words)
    return Command(f"ssh {way}{address['host']} '{_inside(there)} ", inner, "'")


def nested(values, name):
    """Return the table of that name in a dictionary; an empty one where it has none."""
    found = values.get(name)
    return found if isinstance(found, dict) else {}


def arguments(sample, argv):
    """Return the words after `python`, quoted for a shell; without what the runner added.

    None for what no sample of ours can have had: another program, or characters that a terminal
    would take for keys.
    """
    if not argv or not all(isinstance(word, str) for word in argv):
        return None
    script = argv[0].rpartition("/")[2]
    if not _SAMPLE.fullmatch(sample) or script != _SCRIPT:
        return None
    words = [f"samples/{sample}/{script}", *as_asked(argv[1:])]
    words = tuple([_quoted(word, sample) for word in words])
    return None if None in words else words


@lru_cache(100_000)
def _quoted(word, sample):
    return shlex.quote(inside_checkout(word, sample)) if word.isprintable() else None


def inside_checkout(word, sample):
    """Return a path of a file of the sample as it is in any checkout; other words as they are."""
    _, inside, rest = word.partition(f"/samples/{sample}/")
    return inside[1:] + rest if inside and word.startswith("/") else word


def plain_params(params, sample):
    """Return parameters without the folder that the checkout was in."""
    paths = {name: inside_checkout(value, sample) for name, value in params.items()
             if isinstance(value, str) and value[:1] == "/"}  # fmt: skip
    return params | paths


def plain_argv(argv, sample):
    """Return a command line as it was asked for, without the folder that the checkout was in."""
    return [inside_checkout(str(word), sample) for word in as_asked(argv)]


def harmless(sample, argv):
    """Return a command line of others, or [] where it has more than what only chooses what is run.

    What that is, the sample says itself, in its sample.toml.
    """
    return argv if manifest.only_chooses(sample, as_asked(argv[1:])) else []


def _there(plan):
    """Return the start of the command on the board, up to its python."""
    folder, python = plan.get("folder", ""), plan.get("python", "python3")
    env = plan.get("env") or {}
    if not isinstance(env, dict):
        return None
    texts = [folder, python, *env.values()]
    if not folder or not all(isinstance(t, str) and t.isprintable() for t in texts):
        return None
    if not all(_VARIABLE.fullmatch(name) for name in env):
        return None
    folder = folder.removeprefix("~/")  # ssh begins in the home folder
    settings = "".join(f"{name}={shlex.quote(value)} " for name, value in env.items())
    return f"cd {shlex.quote(folder + '/current')} && {settings}{shlex.quote(python)}"


def _inside(text):
    """Return a text as it stands between the single quotes of a shell."""
    return text.replace("'", "'\"'\"'")


def shown(path):
    """Return a path as a person here would write it."""
    here, path = Path.cwd(), Path(path).absolute()
    return path.relative_to(here) if path.is_relative_to(here) else path
