"""A kernel's .json file: it describes the .cl file and determines the launch.

    {"name": "SGEMM_NT_4x1", "file": "SGEMM_NT_4x1.cl", "type": "S",
     "transA": "N", "transB": "T", "dj": 4, "di": 1}

`type` is S, D, H, C or Z, `transA` and `transB` N or T, upper or lower case; `di` rows by `dj`
columns of C are made by one work-item. `opts` (a text) are build options. With `"shape": "n"`, the
default, the entry point is gemm(A, B, C, alpha, beta, n), with `"mnk"` it is
gemm(A, B, C, alpha, beta, M, N, K, lda, ldb, ldc). Sums of type H are of floats; a kernel that sums
halves says so with `"arithmetic": "H"`, and is checked less strictly.
"""

import argparse
import hashlib
import json
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np
import pyopencl as cl

from common import files, program
from common.errors import OpenCLFailure, Unsupported, UsageError
from common.text import printable

TYPES = {
    "S": np.dtype(np.float32),
    "D": np.dtype(np.float64),
    "H": np.dtype(np.float16),
    "C": np.dtype(np.complex64),
    "Z": np.dtype(np.complex128),
}
KERNELS = Path(__file__).with_name("kernels")
LARGEST_SIDE = 64  # of a work-item's tile
_ARGUMENTS = {"n": "A, B, C, alpha, beta, n", "mnk": "A, B, C, alpha, beta, M, N, K, lda, ldb, ldc"}
_LAYOUTS = ("N", "T")
_REQUIRED = ("name", "file", "type", "transA", "transB", "dj", "di")
_OPTIONAL = ("opts", "shape", "arithmetic")
_LARGEST = 1 << 20  # bytes of a file


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

    def digest(self):
        """Return the SHA-256 of the kernel's two files."""
        sha = hashlib.sha256(files.read_bytes(self.path, _LARGEST))
        sha.update(files.read_bytes(self.source, _LARGEST))
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

    def require_support(self, limits):
        """Raise Unsupported where the device lacks what the kernel's type needs."""
        if self.type in "DZ" and "cl_khr_fp64" not in limits.extensions:
            raise Unsupported(f"{self.name} needs cl_khr_fp64, which this device does not have")

    def require_shape(self, size):
        """Raise UsageError where a kernel for square matrices is to multiply others."""
        if self.shape == "n" and not size.M == size.N == size.K:
            text = f"{self.name} takes square matrices only, not {size}"
            raise UsageError(f'{text}: give one order, or a kernel with "shape": "mnk"')


def find(folder, patterns):
    """Return the Metadata of the kernels in `folder` that the patterns name, in their order.

    A pattern is a file's name with or without .json, may have `*` and `?`, or is `all`; one with a
    `/` is a path. Raises UsageError for one that names nothing, and one for all files with a fault.
    """
    try:
        have = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--kernels {printable(str(folder))} is not a folder") from error
    found, faults = {}, []
    for pattern in patterns:
        name = "*" if pattern == "all" else pattern.removesuffix(".json")
        paths = [Path(folder, file) for file in have if fnmatchcase(file, f"{name}.json")]
        if "/" in pattern:
            paths = [Path(f"{name}.json")]
        elif not paths:
            raise UsageError(_nothing(folder, pattern, have))
        for path in paths:
            try:
                found[path] = load(path)
            except UsageError as error:
                faults.append(str(error))
    if faults:
        raise UsageError("; ".join(dict.fromkeys(faults)))
    return list(found.values())


def _nothing(folder, pattern, have):
    folder = printable(str(folder))
    if not have:
        return f"--kernels {folder} has no .json file: a kernel is two files, NAME.cl and NAME.json"
    shown = ", ".join(Path(name).stem for name in have[:4])
    shown += f", and {len(have) - 4} more" if len(have) > 4 else ""
    return printable(f"no kernel '{pattern}' in {folder}, there is: {shown}")


def load(path):
    """Return the Metadata of a .json file. Raises UsageError that names the file and the key."""
    path = Path(os.path.abspath(path))
    text = files.read_text(path, _LARGEST)
    try:
        keys = json.loads(text, object_pairs_hook=_unique)
    except _TwiceError as error:
        raise UsageError(f"{path.name}: {error} stands there twice") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name} is no JSON: {str(error).split(';')[0]}") from error
    if not isinstance(keys, dict):
        raise UsageError(f"{path.name} is not a JSON object with the keys {', '.join(_REQUIRED)}")
    values = _Checker(path, keys)
    file = values.text("file")
    if Path(file).name != file:
        values.refuse("file", "must be the name of a file in the same folder")
    source = path.with_name(file)
    if not os.path.isfile(source):
        values.refuse("file", f"there is no file {file} beside it")
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
        raise _TwiceError(next(printable(n) for n in names if names.count(n) > 1))
    return found


class _Checker:
    """The keys of one file, each checked as it is asked for."""

    def __init__(self, path, keys):
        self._path, self._keys = path, keys
        if unknown := [key for key in keys if key not in _REQUIRED + _OPTIONAL]:
            known = ", ".join(_REQUIRED + _OPTIONAL)
            self.refuse(printable(unknown[0]), f"is unknown, there is {known}")
        if missing := [key for key in _REQUIRED if key not in keys]:
            self.refuse(missing[0], "is missing")

    def refuse(self, key, problem):
        raise UsageError(f"{printable(self._path.name)}: {key} {problem}")

    def text(self, key, default=None):
        value = self._keys.get(key, default)
        if not isinstance(value, str) or (not value and value is not default):
            self.refuse(key, f"must be a text, not {json.dumps(value)}")
        if not value.isprintable():
            self.refuse(key, f"must be a text without control characters, not {json.dumps(value)}")
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


def build(context, meta):
    """Return the entry point `gemm` of the kernel's file, built with its options.

    Raises OpenCLFailure where the file does not build, or its entry point is another, UsageError
    where the driver does not take the options.
    """
    try:
        built = program.build(context, meta.source, options=[meta.opts] if meta.opts else [])
    except cl.Error as error:
        if error.code != cl.status_code.INVALID_BUILD_OPTIONS:
            raise
        text = f"{meta.path.name}: opts: this driver does not take '{meta.opts}'"
        raise UsageError(text) from error
    try:
        kernel = cl.Kernel(built, "gemm")
    except cl.Error as error:
        raise OpenCLFailure(f"{meta.source.name} has no kernel that is called gemm") from error
    wanted = _ARGUMENTS[meta.shape]
    if kernel.num_args != wanted.count(",") + 1:
        raise OpenCLFailure(
            f"{meta.source.name}: gemm has {kernel.num_args} arguments, but with shape "
            f"{meta.shape} it is called as gemm({wanted})"
        )
    return kernel


def set_arguments(kernel, meta, *arguments):
    """Set the arguments of `gemm`. Raises UsageError where alpha and beta are of another type."""
    try:
        kernel.set_args(*arguments)
    except cl.Error as error:
        if error.code != cl.status_code.INVALID_ARG_SIZE:
            raise
        text = f"{meta.path.name}: type {meta.type}, but gemm in {meta.source.name}"
        raise UsageError(f"{text} takes other scalars") from error


def global_size(meta, size):
    """Return the global size of a launch, columns first: N / dj by M / di, at least 1.

    It is rounded down, as in the original; the last work-item of a dimension makes what is left
    over.
    """
    return max(1, size.N // meta.dj), max(1, size.M // meta.di)


def parse_local_size(text):
    """Return the local size that `text` names, (columns, rows), None for 0,0: an argparse type."""
    parts = text.lower().replace("x", ",").split(",")
    if len(parts) == 2 and all(part.isascii() and part.isdigit() for part in parts):
        sides = tuple(map(int, parts))
        if all(sides) or not any(sides):
            return sides if all(sides) else None
    message = f"'{text}' is not a local size: give columns,rows such as 8,8, or 0,0 for any"
    raise argparse.ArgumentTypeError(message)


def local_size(meta, total, lws, kernel, device, limits):
    """Return the local size of a launch, columns first; None lets the driver choose.

    `total` is the global size, `lws` the local size that is asked for, or None. Raises UsageError
    where it does not divide the global size or is too large, Unsupported where the kernel needs
    more local memory than there is.
    """
    info = cl.kernel_work_group_info
    need = kernel.get_work_group_info(info.LOCAL_MEM_SIZE, device)
    if need > (have := limits.local_mem_size):
        raise Unsupported(f"{meta.name} needs {need} bytes of local memory, the device has {have}")
    required = tuple(kernel.get_work_group_info(info.COMPILE_WORK_GROUP_SIZE, device))[:2]
    lws = lws or (required if all(required) else None)
    if lws is None:
        return None
    named = f"-lws {lws[0]},{lws[1]}"
    for side, (local, whole, most) in enumerate(zip(lws, total, limits.max_work_item_sizes)):
        if whole % local:
            fits = max(n for n in range(1, min(local, whole) + 1) if whole % n == 0)
            raise UsageError(
                f"{named}: {local} does not divide the {whole} work-items of dimension {side} "
                f"({meta.name}); {fits} does"
            )
        if local > most:
            raise UsageError(f"{named}: the device takes at most {most} in dimension {side}")
    of_kernel = kernel.get_work_group_info(info.WORK_GROUP_SIZE, device)
    most = min(limits.max_work_group_size, of_kernel)
    if lws[0] * lws[1] > most:
        raise UsageError(
            f"{named}: {lws[0] * lws[1]} work-items, but a work-group of {meta.name} has at most "
            f"{most} on this device"
        )
    if all(required) and lws != required:
        only = "x".join(map(str, required))
        raise UsageError(f"{named}: {meta.name} is compiled for work-groups of {only} only")
    return lws
