"""The command that repeats the run of a record: made from its argv, and safe to paste."""

import re
import shlex
from pathlib import Path

from common import manifest
from common.manifest import as_asked

_SCRIPT = "run.py"
_BOARD = re.compile(r"(?P<host>[A-Za-z0-9_][A-Za-z0-9_.@%+-]*)(:(?P<port>[0-9]{1,5}))?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def command(point):
    """Return a line for a shell that repeats a Point, or None where none can be made.

    A run on a board of our own is repeated there, over ssh; all others in this checkout.
    """
    run, own = point.source.run, point.params.get("point")
    if run is None and isinstance(own, dict) and "options" in own:
        # A record of a journal has all that is needed to run it again, and to compare.
        where = f"{shown(point.source.path)}:{point.line}"
        return f"python -m tools replay {shlex.quote(where)}" if where.isprintable() else None
    argv = point.argv
    more = manifest.more_than_choice(point.sample, as_asked(argv[1:]))
    if (run is None or run.origin) and more is not None:
        return None  # of others: it may write, or name a file
    words = arguments(point.sample, argv)
    if words is None or run is None or run.origin or run.board == "local":
        return words and f"python {words}"
    return _over_ssh(run, words)


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


def _over_ssh(run, words):
    """Return the line that runs python with these words on the board of a run, or None."""
    address, env = _BOARD.fullmatch(run.board), run.plan.get("env") or {}
    folder, python = run.plan.get("folder"), run.plan.get("python", "python3")
    if not address or not isinstance(env, dict) or not all(map(_VARIABLE.fullmatch, env)):
        return None
    texts = [folder, python, *env.values()]
    if not folder or not all(isinstance(text, str) and text.isprintable() for text in texts):
        return None
    config = run.plan.get("ssh_config")
    way = ["-F", config] if isinstance(config, str) and config.isprintable() else []
    way += ["-p", address["port"]] if address["port"] else []
    # ssh begins in the home folder.
    inner = [f"cd {shlex.quote(folder.removeprefix('~/') + '/current')} &&"]
    inner += [f"{name}={shlex.quote(value)}" for name, value in env.items()]
    inner += [shlex.quote(python), words]
    # All of it is one word for the shell here, and is read again by the shell there.
    return shlex.join(["ssh", *way, address["host"], " ".join(inner)])


def shown(path):
    """Return a path as a person here would write it."""
    here, path = Path.cwd(), Path(path).absolute()
    return path.relative_to(here) if path.is_relative_to(here) else path
