"""A kernel's .json file: it describes the .cl file and determines the launch.

    {"name": "SGEMM_NT_4x1", "file": "SGEMM_NT_4x1.cl", "type": "S",
     "transA": "N", "transB": "T", "dj": 4, "di": 1}

`type` is S, D, H, C or Z, `transA` and `transB` N or T, upper or lower case; `di` rows by `dj`
columns of C are made by one work-item. `opts` (a text) are build options. With `"shape": "n"`, the
default, the entry point is gemm(A, B, C, alpha, beta, n), with `"mnk"` it is
gemm(A, B, C, alpha, beta, M, N, K, lda, ldb, ldc). Sums of type H are of floats; a kernel that sums
halves says so with `"arithmetic": "H"`, and is checked less strictly. The texts `author`, `licence`
and `generator` (the program that wrote the kernel) may stand there; they are shown and recorded.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path

import numpy as np
import pyopencl as cl

from common import files, gemm, program
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
_CHOICES = {
    "type": tuple(TYPES), "transA": ("N", "T"), "transB": ("N", "T"), "shape": ("N", "MNK"),
    "arithmetic": ("S", "H"),
}
_REQUIRED = ("name", "file", "type", "transA", "transB", "dj", "di")
_ORIGIN = ("author", "licence", "generator")
_OPTIONAL = ("opts", "shape", "arithmetic", *_ORIGIN)
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
    author: str | None = None
    licence: str | None = None
    generator: str | None = None

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

    def params(self):
        """Return what a record keeps of the kernel."""
        return {
            "metadata": str(self.path), "kernel": self.name, "kernel_sha256": self.digest(),
            "precision": str(self.dtype), "sums": str(self.sums),
            "layout": f"{self.transA}{self.transB}, row-major", "shape": self.shape,
            "tile": f"{self.di}x{self.dj}", "options": self.opts,
            **{name: getattr(self, name) for name in _ORIGIN},
        }

    def origin(self):
        """Return who and what made the kernel, for a person."""
        return ", ".join(f"{name} {getattr(self, name) or 'unset'}" for name in _ORIGIN)

    def lines(self):
        """Return the kernel's name, what it computes, and who made it, for a person."""
        layout = {"N": "as it is", "T": "given transposed"}
        sums = f", summed in {self.sums}" if self.sums != self.dtype else ""
        shape = "square matrices" if self.shape == "n" else "any M, N, K with lda, ldb, ldc"
        return [
            "", self.name, f"  computes      {self.dtype}{sums}, row-major, A "
            f"{layout[self.transA]}, B {layout[self.transB]}, "
            f"{shape}, {self.di} x {self.dj} of C per work-item",
            f"  origin        {self.origin()}",
        ]

    def require(self, size, limits):
        """Raise Unsupported or UsageError where the device or the kernel cannot do such a GEMM."""
        if self.type in "DZ" and "cl_khr_fp64" not in limits.extensions:
            raise Unsupported(f"{self.name} needs cl_khr_fp64, which this device does not have")
        if self.shape == "n" and len(set(size)) > 1:
            text = f"{self.name} takes square matrices only, not {size}"
            raise UsageError(f'{text}: give one order, or a kernel with "shape": "mnk"')
        gemm.require_fit(size, self.dtype, limits)


def find(folder, patterns):
    """Return the Metadata of the kernels in `folder` that the patterns name, in their order.

    A pattern is a file's name with or without .json, may have `*` and `?`, or is `all`; one with a
    `/` is a path. Raises UsageError for one that names nothing, and one for all files with a fault.
    """
    try:
        have = sorted(name for name in os.listdir(folder) if name.endswith(".json"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--kernels {printable(str(folder))} is not a folder") from error
    if not have:
        about = "has no .json file: a kernel has two files, NAME.cl and NAME.json"
        raise UsageError(f"--kernels {printable(str(folder))} {about}")
    found, faults = {}, {}
    for pattern in patterns:
        name = pattern[:-5] if pattern.endswith(".json") else pattern
        paths = [Path(folder, file) for file in have
                 if pattern == "all" or fnmatchcase(file, f"{name}.json")]
        if "/" in pattern:
            paths = [Path(f"{name}.json")]
        elif not paths:
            shown = ", ".join(Path(file).stem for file in have[:4])
            shown += f", and {len(have) - 4} more" if len(have) > 4 else ""
            raise UsageError(printable(f"no kernel '{pattern}' in {folder}: choose from {shown}"))
        for path in paths:
            try:
                found[path] = load(path)
            except UsageError as error:
                faults[str(error)] = path
    if faults:
        raise UsageError("; ".join(faults))
    return list(found.values())


def load(path):
    """Return the Metadata of a .json file. Raises UsageError that names the file and the key."""
    path = Path(os.path.abspath(path))
    keys = files.parsed(path, _LARGEST, _json)

    def refuse(key, problem):
        raise UsageError(f"{printable(path.name)}: {printable(key)} {problem}")

    for key in keys:
        if key not in _REQUIRED + _OPTIONAL:
            refuse(key, f"is unknown: choose from {', '.join(_REQUIRED + _OPTIONAL)}")
    for key in _REQUIRED:
        if key not in keys:
            refuse(key, "is missing")
    for key, value in keys.items():
        shown = json.dumps(value)
        if key in ("dj", "di"):
            if type(value) is not int or not 1 <= value <= LARGEST_SIDE:
                refuse(key, f"must be a whole number from 1 to {LARGEST_SIDE}, not {shown}")
        elif not isinstance(value, str) or not (value or key == "opts"):
            refuse(key, f"must be a text, not {shown}")
        elif not value.isprintable():
            refuse(key, f"must be a text without control characters, not {shown}")
        elif key in _CHOICES:
            keys[key] = value.upper()
            if value.upper() not in _CHOICES[key]:
                refuse(key, f"must be {' or '.join(_CHOICES[key])}, not {shown}")
    if "arithmetic" in keys and keys["type"] != "H":
        refuse("arithmetic", "is for kernels of type H only")
    keys["shape"] = keys.get("shape", "n").lower()
    file = keys.pop("file")
    if Path(file).name != file:
        refuse("file", "must be the name of a file in the same folder")
    if not os.path.isfile(path.with_name(file)):
        refuse("file", f"names {file}, which is not in the same folder")
    return Metadata(path, path.with_name(file), **keys)


def _json(text):
    def unique(pairs):
        names = [name for name, _ in pairs]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"{twice[0]} is given twice")
        return dict(pairs)

    keys = json.loads(text, object_pairs_hook=unique)
    if not isinstance(keys, dict):
        raise ValueError(f"not a JSON object with the keys {', '.join(_REQUIRED)}")
    return keys


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
        raise OpenCLFailure(f"{meta.source.name} has no kernel named gemm") from error
    wanted = _ARGUMENTS[meta.shape]
    if kernel.num_args != wanted.count(",") + 1:
        text = f"gemm has {kernel.num_args} arguments, but with shape {meta.shape}"
        raise OpenCLFailure(f"{meta.source.name}: {text} it is called as gemm({wanted})")
    return kernel


def set_arguments(kernel, meta, *arguments):
    """Set the arguments of `gemm`. Raises UsageError where alpha and beta are of another type."""
    try:
        kernel.set_args(*arguments)
    except cl.Error as error:
        if error.code != cl.status_code.INVALID_ARG_SIZE:
            raise
        text = f"{meta.path.name}: type {meta.type}, but gemm in {meta.source.name}"
        raise UsageError(f"{text} takes alpha and beta of another type") from error


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


def local_size(meta, total, lws, kernel, limits):
    """Return the local size of a launch, columns first; None lets the driver choose.

    `total` is the global size, `lws` the local size that is asked for, or None. Raises UsageError
    where it does not divide the global size or is too large, Unsupported where the kernel needs
    more local memory than there is.
    """

    def ask(name):
        (device,) = kernel.context.devices
        return kernel.get_work_group_info(getattr(cl.kernel_work_group_info, name), device)

    need, have = ask("LOCAL_MEM_SIZE"), limits.local_mem_size
    if need > have:
        raise Unsupported(f"{meta.name} needs {need} bytes of local memory, the device has {have}")
    required = tuple(ask("COMPILE_WORK_GROUP_SIZE"))[:2]
    required = required if all(required) else None
    lws = lws or required
    if lws is None:
        return None

    def refuse(problem):
        raise UsageError(f"-lws {lws[0]},{lws[1]}: {problem}")

    for side, (local, whole, most) in enumerate(zip(lws, total, limits.max_work_item_sizes)):
        if whole % local:
            fits = max(n for n in range(1, min(local, whole) + 1) if whole % n == 0)
            problem = f"{local} does not divide the {whole} work-items of dimension {side}"
            refuse(f"{problem} ({meta.name}); {fits} does")
        if local > most:
            refuse(f"the device takes at most {most} in dimension {side}")
    count, most = prod(lws), min(limits.max_work_group_size, ask("WORK_GROUP_SIZE"))
    if count > most:
        refuse(f"{count} work-items, but a work-group of {meta.name} has at most {most} here")
    if required and lws != required:
        refuse(f"{meta.name} is compiled for work-groups of {required[0]}x{required[1]} only")
    return lws
