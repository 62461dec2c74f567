"""`fab --list` shows the tasks; they are in deploy/tasks.py."""

import os
import re
import sys

from common import stopping

# Before all that takes long to import.
stopping.end_at_once("fab: error: stopped")

from common import text

text.open_streams()

from common.errors import WRONG_USAGE
from deploy.errors import explained

__all__ = ["namespace"]


def _one_line(kind, error, _):
    """End fab when it breaks before a task begins, such as over a package that is missing."""
    status, why = explained(error)
    if kind is not BrokenPipeError:  # nobody reads on
        text.complain(f"fab: error: {why}")
        sys.stdout.flush()
    os._exit(status)  # an exception hook cannot choose the exit status otherwise


sys.excepthook = _one_line  # also of what is imported next

import fabric
from fabric.main import program
from invoke import Exit, ParseError

from deploy.fleet import TAKES_WORDS
from deploy.tasks import namespace

# Options of fabric and invoke without effect here: OpenSSH's ssh connects.
_UNUSED = {
    "prompt-for-login-password": "ssh asks for nothing here: copy your key with ssh-copy-id",
    "prompt-for-passphrase": "ssh asks for nothing here: give the passphrase to ssh-add before",
    "prompt-for-sudo-password": "sudo on the board must not ask for a password",
    "dry": "only provision can show what it would do: --dry-run",
}


def _unknown(word, words, context):
    """Say what is wrong with a word that invoke does not know; `context` is the task before it."""
    parts = [part for each in words for part in each.split("=", 1)]
    before = parts[parts.index(word) - 1] if word in parts else ""
    if before.startswith("--") and parts.count(before) > 1:
        return f"{before} is given more than once"
    if word.startswith("-") and context and context.name in TAKES_WORDS:
        given = " ".join(arg.value for arg in context.positional_args if arg.value)
        return (f"fab {context.name} has no option {word}; options of the sample follow --: "
                f"fab {context.name} {given} -- {word} ...; its own: fab --help {context.name}")
    tasks = ", ".join(sorted(namespace.task_names))
    return f"no task or option {word!r}; tasks: {tasks}; options: fab --help TASK"


def _parse_tasks(parse=program.parse_tasks):
    words = program.core.unparsed
    for option, instead in _UNUSED.items():
        if program.args[option].value:
            raise Exit(f"fab: error: --{option} has no effect: {instead}", WRONG_USAGE)
    if {"-h", "--help"} & set(words[1:]) and words[0] in namespace.task_names:
        program.args.help.value = words[0]
        words.clear()
    try:
        parse()
    except ParseError as error:  # an unknown task or option, which invoke ends with status 1
        if unknown := re.fullmatch("No idea what (.*) is!", str(error), re.S):
            error = _unknown(unknown[1].strip("'"), words, error.context)
        elif missing := error.context and error.context.missing_positional_args:
            wants = ", ".join(f"{each.name.upper()}: {each.help}" for each in missing)
            error = f"fab {error.context.name} needs {wants}"
        raise Exit(f"fab: error: {error}", WRONG_USAGE) from None


fabric.Config.load_ssh_config = lambda config: None  # OpenSSH does: see deploy/link.py
program.parse_tasks = _parse_tasks
