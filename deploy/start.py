"""What fab does before a task begins: Fabric's program, whose every error is one line here."""

import os
import sys

from common import stopping

# Before all that takes long to import.
stopping.end_at_once("fab: error: stopped")

from common import text

text.open_streams()

from common.errors import WRONG_USAGE, UsageError
from deploy.errors import explained


def _one_line(kind, error, _):
    """End fab when it breaks before a task begins, such as over a package that is missing."""
    status, why = explained(error)
    if kind is not BrokenPipeError:  # nobody reads on
        text.complain(f"fab: error: {why}")
        sys.stdout.flush()
    os._exit(status)  # an exception hook cannot choose the exit status otherwise


sys.excepthook = _one_line  # also of what is imported next

import re

import fabric
from fabric.main import program
from invoke import Argument, CollectionNotFound, Exit, ParseError
from invoke.exceptions import UnknownFileType

from common.manifest import ROOT
from deploy.fleet import TAKES_WORDS

# Options of fabric and invoke without effect here: OpenSSH's ssh connects.
_UNUSED = {
    "prompt-for-login-password": "ssh asks for nothing here: copy your key with ssh-copy-id",
    "prompt-for-passphrase": "ssh asks for nothing here: give the passphrase to ssh-add before",
    "prompt-for-sudo-password": "sudo on the board must not ask for a password",
    "command-timeout": "each case has a time limit: see time_limit in boards.toml",
    "warn-only": "a case that fails does not stop the others, and is status 1",
    "dry": "only provision can show what it would do: --dry-run",
}
_FORMATS = ("flat", "nested", "json")  # of --list


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
    tasks = ", ".join(sorted(program.collection.task_names))
    return f"no task or option {word!r}; tasks: {tasks}; options: fab --help TASK"


def _wrong(why):
    """Return what ends fab in one line."""
    return Exit(f"fab: error: {text.one_line(why)}", WRONG_USAGE)


def _parse_tasks(parse=program.parse_tasks):
    words = program.core.unparsed
    for option, instead in _UNUSED.items():
        if program.args[option].value:
            raise _wrong(f"--{option} has no effect: {instead}")
    if {"-h", "--help"} & set(words[1:]) and words[0] in program.collection.task_names:
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
        raise _wrong(error) from None
    if (form := program.args["list-format"].value) not in _FORMATS:
        raise _wrong(f"--list-format {form}: choose from {', '.join(_FORMATS)}")


def _load_collection(load=program.load_collection):
    if program._remainder_only:  # fabric would run it in a shell, by an ssh client of its own
        raise _wrong("name a task before --")
    load()


def _set_value(argument, value, cast=True, set_value=Argument.set_value):
    try:
        set_value(argument, value, cast)
    except ValueError:
        name = max(argument.names, key=len)
        raise ParseError(f"--{name} {value}: give a whole number") from None


def _checked(stage):
    """Let a stage of Fabric's program end in one line, with this suite's exit status."""

    def go():
        try:
            stage()
        except Exit as ended:
            if not ended.message or ended.code == WRONG_USAGE:
                raise
            why = ended.message
            if isinstance(ended.__context__, CollectionNotFound):
                why = f"there is no {ended.__context__.name}.py: run fab in the checkout, {ROOT}"
            raise _wrong(why) from None
        except (ParseError, UnknownFileType) as error:
            raise _wrong(error) from None

    return go


def _table_of(load):
    """Check what a loader of Fabric's configuration finds in a file."""

    def go(config, path):
        try:
            found = load(config, path)
        except OSError:  # most such files are not there
            raise
        except Exception as error:
            raise _wrong(f"{path}: {error}") from None
        if not (found is None or isinstance(found, dict)):
            raise _wrong(f"{path}: it must be a table")
        return found

    return go


def _merge_file(config, name, what, merge=fabric.Config._merge_file):
    try:
        merge(config, name, what)
    except Exception as error:
        raise _wrong(f"{getattr(config, f'_{name}_path')}: {error}") from None


def _load_shell_env(config, load=fabric.Config.load_shell_env):
    try:
        load(config)
    except Exception as error:
        names = ", ".join(name for name in os.environ if name.startswith("FABRIC_"))
        raise UsageError(f"environment, {names}: {error}") from None


def main():
    """Run the program fab, to its end."""
    status = 0
    try:
        program.run()
    except SystemExit as ended:
        status = ended.code
    sys.stdout.flush()
    sys.exit(status)


for each in ("yaml", "yml", "json", "py"):
    setattr(fabric.Config, f"_load_{each}", _table_of(getattr(fabric.Config, f"_load_{each}")))
fabric.Config._merge_file = _merge_file
fabric.Config.load_shell_env = _load_shell_env
fabric.Config.load_ssh_config = lambda config: None  # OpenSSH does: see deploy/link.py
Argument.set_value = _set_value
program.parse_tasks, program.load_collection = _parse_tasks, _load_collection
for each in ("parse_core_args", "load_collection", "parse_cleanup", "update_config"):
    setattr(program, each, _checked(getattr(program, each)))
