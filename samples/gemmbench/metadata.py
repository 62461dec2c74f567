"""What a kernel's .json file says of the .cl file beside it.

    {"name": "SGEMM_NT_4x1", "file": "SGEMM_NT_4x1.cl", "type": "S",
     "transA": "N", "transB": "T", "dj": 4, "di": 1}

`type` is S, D, H, C or Z, `transA` and `transB` N or T, upper or lower case; `di` rows by `dj`
columns of C are made by one work-item. `opts` (a text) are build options. With `"shape": "n"`, the
default, the entry point is gemm(A, B, C, alpha, beta, n), with `"mnk"` it is
gemm(A, B, C, alpha, beta, M, N, K, lda, ldb, ldc). Sums of type H are of floats; a kernel that sums
halves says so with `"arithmetic": "H"`, and is checked less strictly.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.errors import UsageError

TYPES = {
    "S": np.dtype(np.float32),
    "D": np.dtype(np.float64),
    "H": np.dtype(np.float16),
    "C": np.dtype(np.complex64),
    "Z": np.dtype(np.complex128),
}
LARGEST_SIDE = 64  # of a work-item's tile
_LAYOUTS = ("N", "T")
_REQUIRED = ("name", "file", "type", "transA", "transB", "dj", "di")
_OPTIONAL = ("opts", "shape", "arithmetic")


@dataclass(frozen=True)
class Metadata:
    """One kernel. `path` is its .json file, `source` its .cl file, the rest as in the file."""

    path: Path
    source: Path
    name: str
    type: str
    transA: str  # noqa: N815, the file's keys
    transB: str  # noqa: N815
    dj: int
    di: int
    opts: str = ""
    shape: str = "n"
    arithmetic: str | None = None

    @property
    def dtype(self):
        """The numpy type of the matrices."""
        return TYPES[self.type]

    @property
    def scalar(self):
        """The numpy type of alpha and beta: that of the matrices, float32 for half matrices."""
        return TYPES["S"] if self.type == "H" else self.dtype

    @property
    def sums(self):
        """The numpy type in which the kernel adds up."""
        return TYPES[self.arithmetic] if self.arithmetic else self.scalar

    def double(self):
        """Tell whether the kernel needs cl_khr_fp64."""
        return self.type in "DZ"

    def digest(self):
        """Return the SHA-256 of the kernel's two files."""
        sha = hashlib.sha256(self.path.read_bytes())
        sha.update(_read(self.source, self.path.name, "file"))
        return sha.hexdigest()

    def line(self):
        """Return what the kernel computes, for a person: precision, layout, shape, tile."""
        layout = {"N": "as it is", "T": "given transposed"}
        sums = f", summed in {self.sums}" if self.sums != self.dtype else ""
        shape = "square matrices" if self.shape == "n" else "any M, N, K with lda, ldb, ldc"
        return (
            f"{self.dtype}{sums}, row-major, A {layout[self.transA]}, B {layout[self.transB]}, "
            f"{shape}, {self.di} x {self.dj} of C per work-item"
        )


def load(path):
    """Return the Metadata of a .json file. Raises UsageError that names the file and the key."""
    path = Path(path).resolve()
    try:
        keys = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_unique)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except _TwiceError as error:
        raise UsageError(f"{path.name}: {error} stands there twice") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name} is no JSON: {error}") from error
    if not isinstance(keys, dict):
        raise UsageError(f"{path.name} is not a JSON object with the keys {', '.join(_REQUIRED)}")
    values = _Checker(path, keys)
    file = values.text("file")
    if Path(file).name != file:
        values.refuse("file", "must be the name of a file in the same folder")
    source = path.with_name(file)
    if not source.is_file():
        values.refuse("file", f"there is no {source.name} beside it")
    return Metadata(
        path, source, values.text("name"), values.choice("type", TYPES),
        values.choice("transA", _LAYOUTS), values.choice("transB", _LAYOUTS),
        values.side("dj"), values.side("di"), values.text("opts", ""),
        values.choice("shape", ("N", "MNK"), "n").lower(), values.arithmetic(),
    )  # fmt: skip


class _TwiceError(ValueError):
    """A key that an object has twice: JSON, but which of the two is meant?"""


def _unique(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(n for n in names if names.count(n) > 1))
    return found


class _Checker:
    """The keys of one file, each checked as it is asked for."""

    def __init__(self, path, keys):
        self._path, self._keys = path, keys
        if unknown := [key for key in keys if key not in _REQUIRED + _OPTIONAL]:
            known = ", ".join(_REQUIRED + _OPTIONAL)
            self.refuse(unknown[0], f"is unknown, there is {known}")
        if missing := [key for key in _REQUIRED if key not in keys]:
            self.refuse(missing[0], "is missing")

    def refuse(self, key, problem):
        raise UsageError(f"{self._path.name}: {key} {problem}")

    def text(self, key, default=None):
        value = self._keys.get(key, default)
        if not isinstance(value, str) or (not value and value is not default):
            self.refuse(key, f"must be a text, not {json.dumps(value)}")
        return value

    def choice(self, key, choices, default=None):
        value = self.text(key, default)
        if value.upper() not in choices:
            self.refuse(key, f"must be {' or '.join(choices)}, not {json.dumps(value)}")
        return value.upper()

    def side(self, key):
        value = self._keys[key]
        if type(value) is not int or not 1 <= value <= LARGEST_SIDE:
            problem = f"must be a whole number from 1 to {LARGEST_SIDE}, not {json.dumps(value)}"
            self.refuse(key, problem)
        return value

    def arithmetic(self):
        if "arithmetic" not in self._keys:
            return None
        if self.choice("type", TYPES) != "H":
            self.refuse("arithmetic", "is for kernels of type H only")
        return self.choice("arithmetic", ("S", "H"))


def _read(path, name, key):
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{name}: {key} {path.name} cannot be read: {error.strerror}") from error


def find(folder, patterns):
    """Return the Metadata of the kernels in `folder` that the patterns name, in their order.

    A pattern is a file's name with or without .json, may have `*` and `?`, or is `all`; one with a
    `/` is a path. Raises UsageError for one that names nothing, and one for all files with a fault.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UsageError(f"--kernels {folder} is not a folder")
    found, faults = {}, []
    for pattern in patterns:
        name = "*" if pattern == "all" else pattern.removesuffix(".json")
        if "/" in pattern:
            paths = [Path(f"{name}.json")]
        else:
            paths = sorted(path for path in folder.glob(f"{name}.json") if path.is_file())
        if not paths:
            have = sorted(path.stem for path in folder.glob("*.json"))
            if not have and "/" not in pattern:
                raise UsageError(f"--kernels {folder} has no .json file: a kernel is two files, "
                                 "NAME.cl and NAME.json")  # fmt: skip
            shown = ", ".join(have[:4]) + (f", and {len(have) - 4} more" if len(have) > 4 else "")
            raise UsageError(f"no kernel '{pattern}' in {folder}, there is: {shown or 'none'}")
        for path in paths:
            try:
                found[path] = load(path)
            except UsageError as error:
                faults.append(str(error))
    if faults:
        raise UsageError("; ".join(dict.fromkeys(faults)))
    return list(found.values())
