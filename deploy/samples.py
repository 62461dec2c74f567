"""The samples of this checkout: what each ships, and its named cases. From their sample.toml."""

import hashlib
import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from deploy.boards import ROOT
from deploy.errors import UsageError

NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_SAMPLE_KEYS = {"description", "files", "needs", "options", "cases"}
_OPTIONS_KEYS = {"values", "words"}
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
    """One folder of samples/.

    `needs` are the OpenCL extensions without which nothing runs. `expected` is expected.json: for
    each case what its records must hold; empty where it is not made yet. `texts` are the files of
    expected/: what a case of that name must print, see deploy/printed.py. No board gets them.
    """

    name: str
    folder: Path
    description: str
    files: tuple
    needs: tuple
    cases: tuple
    expected: dict
    texts: dict


def check_name(name):
    """Return `name` if a sample or a case can be called so, else raise UsageError."""
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name: small letters, digits, - and _ only")
    return name


def load(root=ROOT):
    """Return every sample by name. Raises UsageError for a sample.toml that cannot be used."""
    tomls = sorted(Path(root, "samples").glob("*/sample.toml"))
    return {toml.parent.name: _load(toml) for toml in tomls}


def every(samples, skip=()):
    """Return the cases of all samples, without those of the names in `skip`. Raises UsageError."""
    cases = [case for sample in samples.values() for case in sample.cases]
    if unknown := set(skip) - {case.name for case in cases}:
        raise UsageError(f"boards.toml: skip names {min(unknown)!r}: no sample has such a case")
    return [case for case in cases if case.name not in skip]


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
    where = toml.relative_to(folder.parents[1])
    try:
        check_name(folder.name)
        table = tomllib.loads(toml.read_text(encoding="utf-8"))
        _only(table, _SAMPLE_KEYS)
        cases = [_case(folder.name, name, case) for name, case in table["cases"].items()]
        needs = _strings(table.get("needs", []), "needs")
        options = table.get("options", {})
        _only(options, _OPTIONS_KEYS)
        for key, value in options.items():
            _strings(value, key)
        files = _files(folder, _strings(table["files"], "files"))
        expected = _expected(folder / "expected.json")
        texts = _texts(folder / "expected", {case.name for case in cases})
        return Sample(
            folder.name, folder, str(table["description"]), files, needs, tuple(cases), expected,
            texts,
        )  # fmt: skip
    except KeyError as error:
        raise UsageError(f"{where} lacks {error.args[0]}") from error
    except (OSError, ValueError, AttributeError, UsageError) as error:
        raise UsageError(f"{where}: {error}") from error


def _case(sample, name, table):
    check_name(name)
    _only(table, _CASE_KEYS)
    timeout = table["timeout"]
    if type(timeout) is not int or timeout < 1:
        raise UsageError(f"case {name}: timeout must be a whole number of seconds from 1 up")
    golden = table.get("golden", False)
    if not isinstance(golden, bool):
        raise UsageError(f"case {name}: golden must be true or false")
    return Case(sample, name, _strings(table["args"], f"args of case {name}"), timeout, golden)


def _files(folder, patterns):
    found = []
    for pattern in patterns:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise UsageError(f"files: {pattern!r} leads out of the sample's folder")
        matches = [path for path in sorted(folder.glob(pattern)) if path.is_file()]
        if not matches and pattern != "expected.json":
            raise UsageError(f"files: there is no {pattern!r}")
        found += matches
    return tuple(found)


def _strings(value, what):
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{what} must be a list of strings")
    return tuple(value)


def _expected(path):
    if not path.exists():
        return {}
    value = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(value, dict) or not all(isinstance(case, dict) for case in value.values()):
        raise UsageError("expected.json must hold an object for each case")
    return value


def _texts(folder, cases):
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.txt"))}
    for name, text in texts.items():
        if name not in cases:
            raise UsageError(f"expected/{name}.txt: there is no case '{name}'")
        if not text.strip():
            raise UsageError(f"expected/{name}.txt is empty: it would hold whatever is printed")
    return texts


def _only(table, known):
    if unknown := set(table) - known:
        raise UsageError(f"unknown key {min(unknown)}, there is {', '.join(sorted(known))}")


def shipped(samples, root=ROOT):
    """Return the files that a board gets, by their path there: common/ and the samples' files."""
    files = [*Path(root, "common").rglob("*.py"), *Path(root, "common").rglob("*.cl")]
    for sample in samples.values():
        files += [sample.folder / "sample.toml", *sample.files]
    return {file.relative_to(root).as_posix(): file for file in sorted(files)}


def manifest(files):
    """Return the SHA-256 of each file of `shipped`."""
    return {path: hashlib.sha256(file.read_bytes()).hexdigest() for path, file in files.items()}
