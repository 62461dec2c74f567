"""The samples of this checkout: what each ships, and its named cases. From their sample.toml."""

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from deploy.boards import ROOT
from deploy.errors import UsageError

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_SAMPLE_KEYS = {"description", "files", "needs", "cases"}
_CASE_KEYS = {"args", "timeout", "golden"}


@dataclass(frozen=True)
class Case:
    """One named way to run a sample. `timeout` in seconds.

    The output of a `golden` case is exact: the same bits on every device, kept in expected.json.
    """

    sample: str
    name: str
    args: tuple
    timeout: int
    golden: bool = False


@dataclass(frozen=True)
class Sample:
    """One folder of samples/. `needs` are the OpenCL extensions without which nothing runs."""

    name: str
    folder: Path
    description: str
    files: tuple
    needs: tuple
    cases: tuple

    def expected(self):
        """Return expected.json: for each case what its records must hold; empty without it."""
        path = self.folder / "expected.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def check_name(name):
    """Return `name` if a sample or a case can be called so, else raise UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no name: small letters, digits, - and _ only")
    return name


def load(root=ROOT):
    """Return every sample by name. Raises UsageError for a sample.toml that cannot be used."""
    tomls = sorted(Path(root, "samples").glob("*/sample.toml"))
    return {toml.parent.name: _load(toml) for toml in tomls}


def pick(samples, name, case=None):
    """Return the cases of one sample, or its one named case. Raises UsageError."""
    if name not in samples:
        raise UsageError(f"no sample '{name}', there is: {', '.join(samples)}")
    cases = [c for c in samples[name].cases if case in (None, c.name)]
    if not cases:
        have = ", ".join(c.name for c in samples[name].cases)
        raise UsageError(f"sample {name} has no case '{case}', there is: {have}")
    return cases


def _load(toml):
    folder = toml.parent
    check_name(folder.name)
    where = toml.relative_to(folder.parents[1])
    try:
        table = tomllib.loads(toml.read_text(encoding="utf-8"))
        _only(table, _SAMPLE_KEYS, where)
        files = tuple(p for pattern in table["files"] for p in sorted(folder.glob(pattern)))
        cases = []
        for name, case in table["cases"].items():
            check_name(name)
            _only(case, _CASE_KEYS, f"{where}: case {name}")
            golden = case.get("golden", False)
            if not isinstance(golden, bool):
                raise UsageError(f"{where}: case {name}: golden is true or false")
            args, timeout = tuple(case["args"]), int(case["timeout"])
            cases.append(Case(folder.name, name, args, timeout, golden))
        needs = tuple(table.get("needs", ()))
        return Sample(folder.name, folder, table["description"], files, needs, tuple(cases))
    except (tomllib.TOMLDecodeError, TypeError, ValueError) as error:
        raise UsageError(f"{where}: {error}") from error
    except KeyError as error:
        raise UsageError(f"{where} lacks {error.args[0]}") from error


def _only(table, known, where):
    if unknown := set(table) - known:
        raise UsageError(f"{where} has the unknown key {min(unknown)}")


def shipped(samples, root=ROOT):
    """Return the files that a board gets, by their path there: common/ and the samples' files."""
    files = [*Path(root, "common").glob("*.py")]
    for sample in samples.values():
        files += [sample.folder / "sample.toml", *sample.files]
    return {file.relative_to(root).as_posix(): file for file in sorted(files)}


def manifest(files):
    """Return the SHA-256 of each file of `shipped`."""
    return {path: hashlib.sha256(file.read_bytes()).hexdigest() for path, file in files.items()}
