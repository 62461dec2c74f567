"""What the user says of each board in boards.toml: all of it optional."""

import os
import re
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path

from deploy.errors import UsageError

ROOT = Path(__file__).resolve().parents[1]
LOCAL = "local"
# What ssh takes for a host: an alias, or user@address:port. Also the name of a results folder.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@:%+-]*")


@dataclass(frozen=True)
class Settings:
    """One table of boards.toml.

    folder: on the board, relative to the home folder. python: its command there; None is python3,
    on `local` the Python that runs fab. env: added to the environment of every sample. time_limit:
    seconds for any case, in place of the case's own. platform, device, type: the sample's options
    of these names.
    """

    folder: str = "opencl-samples"
    python: str | None = None
    env: dict = field(default_factory=dict)
    time_limit: int | None = None
    platform: str | None = None
    device: str | None = None
    type: str | None = None

    def device_options(self):
        """Return the options that make a sample choose this board's device."""
        named = {"--platform": self.platform, "--device": self.device, "--type": self.type}
        return [part for option, value in named.items() if value for part in (option, value)]


def check_name(name):
    """Return `name` if it can be a board's, else raise UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} is no host: give a Host of your ssh configuration, or user@address:port"
        )
    return name


def path():
    """Return the path of boards.toml, which the environment variable BOARDS_TOML can replace."""
    return Path(os.environ.get("BOARDS_TOML") or ROOT / "boards.toml")


def load(file):
    """Return the Settings of every board that the file names, and of `local`."""
    try:
        tables = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}") from error
    tables.setdefault(LOCAL, {})
    return {check_name(name): _settings(file, name, table) for name, table in tables.items()}


def _settings(file, name, table):
    where = f"{Path(file).name}: board {name}"
    if not isinstance(table, dict):
        raise UsageError(f"{where} is no table: write [{name}] and its settings below")
    known = {f.name for f in fields(Settings)}
    if unknown := set(table) - known:
        have = ", ".join(sorted(known))
        raise UsageError(f"{where} has the unknown setting {min(unknown)}: there is {have}")
    for key, value in table.items():
        if key == "env":
            good = isinstance(value, dict) and all(isinstance(v, str) for v in value.values())
            wanted = "a table of texts"
        elif key == "time_limit":
            good = isinstance(value, int) and not isinstance(value, bool) and value > 0
            wanted = "a whole number of seconds"
        else:
            good, wanted = isinstance(value, str) and value != "", "a text"
        if not good:
            raise UsageError(f"{where}: {key} must be {wanted}")
    own_folder = {"folder": str(ROOT / ".board")} if name == LOCAL else {}
    return Settings(**{**own_folder, **table})
