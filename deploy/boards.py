"""The settings of each board in boards.toml: all are optional."""

import os
import re
from dataclasses import dataclass, field, fields
from pathlib import Path

from common.errors import UsageError
from common.files import parsed, toml
from common.manifest import ROOT, TIME_LIMIT, is_time_limit

LOCAL = "local"
# What else has a folder in results/, as a board has.
_TAKEN = {"reference": "came with the samples", "experiments": "has the progress of sweeps"}
# What ssh takes for a host: an alias, or user@address:port. Also the name of a results folder: file
# names have up to 255 characters.
_NAME = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9_.@:%+-]{0,199}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MOST_BYTES = 256 * 1024  # of boards.toml
DEVICE_TYPES = ("all", "cpu", "gpu", "acc", "default")


@dataclass(frozen=True)
class Settings:
    """One table of boards.toml.

    folder: on the board, relative to the home folder. python: its command there; None is python3,
    on `local` the Python that runs fab. env: added to the environment of every sample. time_limit:
    seconds for any case, in place of the case's own. platform, device, type, limits, build_only:
    the sample's options of these names. ssh_config: the file that says how to reach it, in place of
    the user's own. skip: names of cases that `run-all` and `parity` leave out there.
    """

    folder: str = "opencl-samples"
    python: str | None = None
    env: dict = field(default_factory=dict)
    time_limit: int | None = None
    platform: str | None = None
    device: str | None = None
    type: str | None = None
    limits: str | None = None
    build_only: bool = False
    ssh_config: str | None = None
    skip: tuple = ()

    def device_options(self):
        """Return the options that say to a sample which device this board has, and what it can."""
        names = ("platform", "device", "type", "limits")
        named = {name: getattr(self, name) for name in names}
        options = [f"--{name}={value}" for name, value in named.items() if value]
        return [*options, *(["--build-only"] if self.build_only else [])]


def check_name(name, where=""):
    """Return `name` if it can be a board's, else raise UsageError, which begins with `where`."""
    if name in _TAKEN:
        raise UsageError(f"{where}no board can be called {name}: results/{name} {_TAKEN[name]}")
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{where}{name!r} is not a host: give a Host of your ssh configuration, or "
            "user@address:port; several after -H, with commas between them"
        )
    return name


def shown(path):
    """Return a path as a user reads it: relative to the checkout, if it is inside."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def load(file=None):
    """Return the Settings of every board that boards.toml names, and of `local`.

    BOARDS_TOML in the environment names another file. A table may be of several boards, with commas
    between their names.
    """
    file = file or os.environ.get("BOARDS_TOML") or ROOT / "boards.toml"
    found = {}
    for names, table in parsed(file, MOST_BYTES, toml).items():
        for name in map(str.strip, names.split(",")):
            if name in found:
                raise UsageError(f"{Path(file).name}: board {name} is named twice: give it one "
                                 "table")
            found[check_name(name, f"{Path(file).name}: ")] = _settings(file, name, table)
    if LOCAL not in found:
        found[LOCAL] = _settings(file, LOCAL, {})
    return found


def _settings(file, name, table):
    where = f"{Path(file).name}: board {name}"
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table: write [{name}] and its settings below")
    table = {key: value.replace("{board}", name) if isinstance(value, str) else value
             for key, value in table.items()}
    known = {f.name for f in fields(Settings)}
    if unknown := set(table) - known:
        have = ", ".join(sorted(known))
        raise UsageError(f"{where} has the unknown setting {min(unknown)}: choose from {have}")
    for key, value in table.items():
        is_good, wanted = _CHECKS.get(key, (_is_text, "a string that is not empty"))
        if not is_good(value):
            raise UsageError(f"{where}: {key} must be {wanted}")
    own_folder = {"folder": str(ROOT / ".board")} if name == LOCAL else {}
    if own := table.get("ssh_config"):
        table["ssh_config"] = str(Path(file).resolve().parent / Path(own).expanduser())
    return Settings(**{**own_folder, **table, "skip": tuple(table.get("skip", ()))})


def _is_text(value):
    return isinstance(value, str) and value != "" and "\0" not in value


def _is_environment(value):
    return isinstance(value, dict) and all(
        _VARIABLE.fullmatch(name) and (text == "" or _is_text(text)) for name, text in value.items()
    )


_CHECKS = {
    "env": (_is_environment, "a table of NAME = string"),
    "time_limit": (is_time_limit, TIME_LIMIT),
    "skip": (lambda value: isinstance(value, list) and all(map(_is_text, value)),
             "a list of names of cases"),
    "build_only": (lambda value: isinstance(value, bool), "true or false"),
    "type": (DEVICE_TYPES.__contains__, f"one of {', '.join(DEVICE_TYPES)}"),
}
