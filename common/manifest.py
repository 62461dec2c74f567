"""sample.toml: the description of a sample for deploy, report and tools. Standard library only.

No tool knows a sample's options: which of them only choose what is run, which metric counts, and
what to run where nobody names it, stand in its sample.toml. The digest of its code is made here,
too, on the host and on boards alike.
"""

import hashlib
import re
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

from common.errors import UsageError
from common.files import parsed, toml

ROOT = Path(__file__).resolve().parents[1]
MOST_BYTES = 256 * 1024  # of a sample.toml
MOST_SECONDS = 10**6  # of a time limit: eleven days
TIME_LIMIT = f"a whole number of seconds from 1 up to {MOST_SECONDS}"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")  # file names have up to 255 characters
_KEYS = {"description", "files", "needs", "options", "tools", "cases"}
_OPTIONS = ("values", "words", "seconds", "own")
_CASE_KEYS = {"args", "timeout", "golden"}
_SHIPPED = ("*.py", "*.cl")  # of common/ and its folders
_CODE = (".py", ".cl", ".json")  # of a sample: kernels may be described in JSON
# The value of an option: a number, or a name; never a path, never another option.
_VALUE = re.compile(r"-?[0-9][0-9.eE+-]*|[A-Za-z0-9_*?@][A-Za-z0-9_.,:*?+-]*")
_RUNNERS = ("--json", "--output")  # options of what starts samples, which takes what they name


@dataclass(frozen=True)
class Case:
    """One named way to run a sample. `timeout` in seconds, `longer` those beside any time limit.

    The output of a `golden` case is exact: the same bits on every device, kept in expected.json.
    """

    sample: str
    name: str
    args: tuple
    timeout: int
    golden: bool = False
    longer: int = 0


@dataclass(frozen=True)
class Tools:
    """What tools need to know of a sample.

    `metric` is the key of a record's metrics that tools compare; more is better. `small` are the
    options of a run that a simulator can finish. `point` are those of every run of a tool: the
    result is checked, and nothing runs beside the kernel. `axes` has for options the values that
    are run where nobody names others; `all` are the options that run every kernel in one process.
    `best` are the options that let the sample choose its kernel and parameters, and `tuned` is the
    folder that it reads tuned parameters from; both are empty for a sample that reads none.
    `ignored` are kinds of what Oclgrind finds that are mistakes here.
    """

    metric: str = "gflops"
    small: tuple = ()
    point: tuple = ()
    axes: tuple = ()
    best: tuple = ()
    all: tuple = ()
    tuned: str = ""
    ignored: tuple = ()


@dataclass(frozen=True)
class Manifest:
    """What a sample.toml says.

    `files` are the paths that a board gets, `needs` the OpenCL extensions without which nothing
    runs. `options` has sets of options: `values` are those with a value, and `words` those without
    one, that only choose what is run: none of them writes, or names a file. The value of each of
    `seconds`, which are such options, makes the run so many seconds longer. Those of `own`, whose
    value may be left out, change the machine meanwhile: they are only taken from the user.
    """

    name: str
    folder: Path
    description: str
    files: tuple
    needs: tuple
    options: dict
    tools: Tools
    cases: tuple


def names(root=None):
    """Return the names of all samples."""
    return sorted(path.parent.name for path in Path(root or ROOT, "samples").glob("*/sample.toml"))


def read(name, root=None):
    """Return the Manifest of a sample. Raises UsageError where it cannot be used."""
    folder = Path(root or ROOT, "samples", name)
    where = f"samples/{name}/sample.toml"
    _check_name(name, f"{where}: ")  # before it is part of a path
    table = parsed(folder / "sample.toml", MOST_BYTES, toml)
    try:
        return _manifest(folder, table)
    except KeyError as error:
        raise UsageError(f"{where} lacks {error.args[0]}") from error
    except (OSError, ValueError, AttributeError, TypeError, UsageError) as error:
        raise UsageError(f"{where}: {error}") from error


def _manifest(folder, table):
    only(table, _KEYS)
    cases = tuple(_case(folder.name, name, case) for name, case in table["cases"].items())
    options = table.get("options", {})
    only(options, set(_OPTIONS))
    return Manifest(
        folder.name, folder, str(table["description"]),
        matching(folder, strings(table["files"], "files")),
        strings(table.get("needs", []), "needs"),
        {key: frozenset(strings(options.get(key, []), key)) for key in _OPTIONS},
        _tools(folder, table.get("tools", {})),
        cases,
    )


def _tools(folder, table):
    only(table, {field.name for field in fields(Tools)})
    axes = tuple((option, _axis(folder, option, value))
                 for option, value in table.get("axes", {}).items())
    for name in ("metric", "tuned"):
        if not isinstance(table.get(name, ""), str):
            raise UsageError(f"{name} must be a string")
    lists = {name: strings(words, name) for name, words in table.items()
             if name not in ("metric", "tuned", "axes")}
    return Tools(**{**table, **lists, "axes": axes})


def _axis(folder, option, value):
    """Return the values of an axis: a list as it is, or the stems of the files of a pattern."""
    if isinstance(value, str):
        value = sorted(path.stem for path in matching(folder, [value]))
    if not strings(value, f"axes of {option}"):
        raise UsageError(f"axes of {option}: no value")
    return tuple(value)


def _case(sample, name, table):
    _check_name(name)
    only(table, _CASE_KEYS)
    timeout = table["timeout"]
    if not is_time_limit(timeout):
        raise UsageError(f"case {name}: timeout must be {TIME_LIMIT}")
    golden = table.get("golden", False)
    if not isinstance(golden, bool):
        raise UsageError(f"case {name}: golden must be true or false")
    return Case(sample, name, strings(table["args"], f"args of case {name}"), timeout, golden)


def _check_name(name, where=""):
    if not NAME.fullmatch(name):
        raise UsageError(f"{where}{name!r} is not a name: up to 100 small letters, digits, - and _")


def is_time_limit(value):
    """Tell whether a value of a file can be a time limit: TIME_LIMIT says so in words."""
    return type(value) is int and 0 < value <= MOST_SECONDS


def strings(value, what):
    """Return a list of strings as a tuple. Raises UsageError for anything else."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise UsageError(f"{what} must be a list of strings")
    return tuple(value)


def only(table, known):
    """Raise UsageError for what is no table, or has other keys than those known."""
    if not isinstance(table, dict):
        raise UsageError(f"must be a table with the keys {', '.join(sorted(known))}")
    if unknown := set(table) - known:
        raise UsageError(f"unknown key {min(unknown)}: choose from {', '.join(sorted(known))}")


# The files, and the digest of those that run.


def matching(folder, patterns):
    """Return the files of a folder that match the patterns, in their order, as a tuple of Paths.

    expected.json may be missing: it is made later. Raises UsageError for another pattern without a
    file, and for one that leads out of the folder.
    """
    found = []
    for pattern in patterns:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            raise UsageError(f"files: {pattern!r} is outside the sample's folder")
        matches = [path for path in sorted(folder.glob(pattern)) if path.is_file()]
        if not matches and pattern != "expected.json":
            raise UsageError(f"files: there is no {pattern!r}")
        found += matches
    return tuple(found)


def common_files(root=None):
    """Return the files of common/ that every sample may use, and every board gets."""
    return sorted(
        path for pattern in _SHIPPED for path in Path(root or ROOT, "common").rglob(pattern)
    )


@lru_cache(100)
def code_digest(name, also=(), root=None):
    """Return the SHA-256 of the code of a sample, or None where its files cannot be read.

    It is that of the code in its folder, in kernels/ and in common/, each file with its path. A
    folder of common/ such as planning/ counts only if the sample or other modules of common/ import
    it: what is made for one sample must not make the sweeps of another start anew. `also` are files
    from elsewhere, such as kernels that the command line names. Boards give the same digest.
    """
    root = root or ROOT
    folder = Path(root, "samples", name)
    # What users leave in the folder, or a search stores, must not make a sweep start anew.
    own = [path for pattern in ("*.py", "*.cl", "kernels/*") for path in folder.glob(pattern)
           if path.suffix in _CODE]
    files = {path.relative_to(root).as_posix(): path
             for path in (*common_files(root), *own, folder / "run.py")}
    files.update((Path(path).name, Path(path)) for path in also)
    try:
        code = {shown: path.read_bytes() for shown, path in files.items()}
    except (OSError, ValueError):
        return None
    sha = hashlib.sha256()
    for shown in sorted(code):
        inner = re.match("common/([a-z]+)/", shown)
        if inner is None or _is_imported(inner[1], code):
            sha.update(f"{shown} {hashlib.sha256(code[shown]).hexdigest()}\n".encode())
    return sha.hexdigest()


def _is_imported(folder, code):
    """Tell whether any file of {path: bytes} outside of a folder of common/ imports from it."""
    line = re.compile(rf"^\s*(from|import) common\.{folder}\b".encode(), re.M)
    return any(line.search(text) for shown, text in code.items()
               if shown.endswith(".py") and not shown.startswith(f"common/{folder}/"))


# Command lines of others.


def as_asked(argv):
    """Return a command line without the options that a runner added, and their files."""
    words, left = [], iter(argv)
    for word in left:
        if word in _RUNNERS:
            next(left, None)
        elif str(word).partition("=")[0] not in _RUNNERS:
            words.append(word)
    return words


def more_than_choice(name, words, own=False):
    """Return the first word that does more than choose what a sample runs, or None.

    The table `options` of the sample's sample.toml says which options only choose: a file of others
    could be anything, a library as well. With `own` its options of that name are taken, too.
    """
    found = choosing(name)
    values, alone = {*found["values"], *found["seconds"]}, found["words"]
    left = list(map(str, reversed(list(words))))
    while left:
        word = left.pop()
        option, is_joined, value = word.partition("=")
        if own and option in found["own"]:
            if not is_joined and left and _VALUE.fullmatch(left[-1]) and left[-1][0] != "-":
                left.pop()
        elif option not in values and word not in alone:
            return word
        elif option in values:
            value = value if is_joined else left.pop() if left else ""
            if not _VALUE.fullmatch(value):
                return word if is_joined or value.startswith("-") else value or word
    return None


def longer(name, words):
    """Return how many seconds a run takes longer by these words of its command line."""
    words, options = " ".join(map(str, words)).replace("=", " ").split(), choosing(name)["seconds"]
    given = [value for option, value in zip(words, words[1:]) if option in options]
    return max([int(value) for value in given if re.fullmatch("[0-9]{1,6}", value)], default=0)


@lru_cache(100)
def choosing(name):
    """Return the `options` of a sample, without any where its sample.toml cannot be read."""
    try:
        return read(name).options
    except UsageError:
        return dict.fromkeys(_OPTIONS, frozenset())
