"""A kernel's .json file: it describes the .cl file and determines the launch.

    {"name": "SGEMM_NT_4x1", "file": "vectors.cl", "type": "S",
     "transA": "N", "transB": "T", "dj": 4, "di": 1, "opts": "-DTRANS_B"}

README.md explains the keys.
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import json
import os
import re
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyopencl as cl

from common import files, gemm, program
from common.errors import OpenCLFailure, Unsupported, UsageError
from common.text import printable

_NAMES = ("float32", "float64", "float16", "complex64", "complex128")
TYPES = dict(zip("SDHCZ", map(np.dtype, _NAMES)))
KERNELS = Path(os.path.abspath(__file__)).with_name("kernels")
LARGEST_SIDE = 64  # of a work-item's tile
_ARGUMENTS = {"n": "A, B, C, alpha, beta, n", "mnk": "A, B, C, alpha, beta, M, N, K, lda, ldb, ldc"}
_CHOICES = {
    "type": tuple(TYPES), "transA": ("N", "T"), "transB": ("N", "T"), "shape": ("N", "MNK"),
    "arithmetic": ("S", "H"),
}
_LARGEST = 1 << 20  # bytes of a file


class Metadata(NamedTuple):
    """One kernel: the path of its .json file, and the keys there."""

    path: Path
    name: str
    file: str
    type: str
    transA: str  # noqa: N815, the file's keys
    transB: str  # noqa: N815
    dj: int
    di: int
    opts: str = ""
    shape: str = "n"
    arithmetic: str | None = None  # of type H: H if the kernel sums halves, not floats
    author: str | None = None
    licence: str | None = None
    generator: str | None = None

    @property
    def source(self):
        """The path of its .cl file."""
        return self.path.with_name(self.file)

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

    @property
    def origin(self):
        """Who and what made the kernel; None where the file does not say."""
        return {"author": self.author, "licence": self.licence, "generator": self.generator}

    def params(self):
        """Return what a record keeps of the kernel, with the SHA-256 of its two files."""
        both = b"".join(files.read_bytes(path, _LARGEST) for path in (self.path, self.source))
        # A record of one of the sample's own kernels is the same wherever the sample is.
        own = KERNELS.parent
        path = self.path.relative_to(own) if own in self.path.parents else self.path
        return {
            "metadata": str(path), "kernel": self.name,
            "kernel_sha256": hashlib.sha256(both).hexdigest(),
            "precision": str(self.dtype), "sums": str(self.sums),
            "layout": f"{self.transA}{self.transB}, row-major", "shape": self.shape,
            "tile": f"{self.di}x{self.dj}", "options": self.opts, **self.origin,
        }

    def computes(self):
        """Return what the kernel computes, for a person."""
        layout = {"N": "as it is", "T": "given transposed"}
        sums = f", summed in {self.sums}" if self.sums != self.dtype else ""
        shape = "square matrices" if self.shape == "n" else "any M, N, K with lda, ldb, ldc"
        return (f"{self.dtype}{sums}, row-major, A {layout[self.transA]}, B {layout[self.transB]}, "
                f"{shape}, {self.di} x {self.dj} of C per work-item")

    def require(self, size, limits):
        """Raise Unsupported or UsageError where the device or the kernel cannot do such a GEMM."""
        if self.type in "DZ" and "cl_khr_fp64" not in limits.extensions:
            raise Unsupported(f"{self.name} needs cl_khr_fp64, which this device does not have")
        if self.shape == "n" and len(set(size)) > 1:
            text = f"{self.name} takes square matrices only, not {size}"
            raise UsageError(f'{text}: give one order, or a kernel with "shape": "mnk"')
        gemm.require_fit(size, self.dtype, limits)


_KEYS = Metadata._fields[1:]  # of a file
_REQUIRED = [key for key in _KEYS if key not in Metadata._field_defaults]


def find(folder, patterns):
    """Return the Metadata of the kernels in `folder` that the patterns name, in their order.

    A pattern is a file's name with or without .json, may have `*` and `?`, or is `all`; one with a
    `/` is a path. Raises UsageError for one that names nothing, for a file with a fault, and for
    two kernels of the same name, by which records tell them apart.
    """
    try:
        have = sorted(fnmatch.filter(os.listdir(folder), "*.json"))
    except (OSError, ValueError):
        have = []
    if not have:
        what = "is not a folder of kernels: each has two files, NAME.cl and NAME.json"
        raise UsageError(printable(f"--kernels {folder} {what}"))
    found = {}
    for pattern in patterns:
        file = pattern if pattern.endswith(".json") else f"{pattern}.json"
        names = have if pattern == "all" else fnmatch.filter(have, file)
        if "/" in pattern:
            names = [os.path.abspath(file)]
        elif not names:
            shown = ", ".join(Path(name).stem for name in have[:4])
            more = f", and {len(have) - 4} more" if len(have) > 4 else ""
            raise UsageError(
                printable(f"no kernel '{pattern}' in {folder}: choose from {shown}{more}"))
        found.update((path, load(path)) for path in (Path(folder, name) for name in names))
    of_name = {}
    for meta in found.values():
        other = of_name.setdefault(meta.name, meta).path
        if other != meta.path:
            raise UsageError(printable(f"{other} and {meta.path} have the same name, {meta.name}"))
    return list(found.values())


def load(path):
    """Return the Metadata of a .json file. Raises UsageError that names the file and the key."""
    path = Path(os.path.abspath(path))
    pairs = files.parsed(path, _LARGEST, partial(json.loads, object_pairs_hook=tuple))

    def require(right, problem):
        if not right:
            raise UsageError(printable(f"{path.name}: {problem}"))

    require(isinstance(pairs, tuple), f"not a JSON object with the keys {', '.join(_REQUIRED)}")
    keys = {}
    for key, value in pairs:
        shown = json.dumps(value)
        require(key in _KEYS, f"{key} is unknown: choose from {', '.join(_KEYS)}")
        require(key not in keys, f"{key} stands there twice")
        if key in ("dj", "di"):
            require(type(value) is int and 1 <= value <= LARGEST_SIDE,
                    f"{key} must be a whole number from 1 to {LARGEST_SIDE}, not {shown}")
        else:
            require(isinstance(value, str) and value.isprintable() and (value or key == "opts"),
                    f"{key} must be a text without control characters, not {shown}")
        if key in _CHOICES:
            value = value.upper()
            choices = _CHOICES[key]
            require(value in choices, f"{key} must be {' or '.join(choices)}, not {shown}")
        keys[key] = value
    for key in _REQUIRED:
        require(key in keys, f"{key} is missing")
    require("arithmetic" not in keys or keys["type"] == "H",
            "arithmetic is for kernels of type H only")
    keys["shape"] = keys.get("shape", "n").lower()
    require(Path(keys["file"]).name == keys["file"],
            "file must be the name of a file in the same folder")
    require(os.path.isfile(path.with_name(keys["file"])),
            f"file names {keys['file']}, which is not in the same folder")
    return Metadata(path, **keys)


def build(context, meta):
    """Return the kernel `gemm` of the .cl file, built with its options.

    Raises OpenCLFailure where the file does not build, or its `gemm` is another.
    """
    built = program.build(context, meta.source, options=[meta.opts] if meta.opts else [])
    try:
        kernel = cl.Kernel(built, "gemm")
    except cl.Error as error:
        if error.code != cl.status_code.INVALID_KERNEL_NAME:
            raise
        raise OpenCLFailure(f"{meta.source.name} has no kernel named gemm") from error
    wanted = _ARGUMENTS[meta.shape]
    if kernel.num_args != wanted.count(",") + 1:
        text = f"gemm has {kernel.num_args} arguments, but with shape {meta.shape}"
        raise OpenCLFailure(f"{meta.source.name}: {text} it is called as gemm({wanted})")
    return kernel


def global_size(meta, size):
    """Return the global size of a launch, columns first: N / dj by M / di, at least 1.

    It is rounded down, as in the original; the last work-item of a dimension computes what is left
    over.
    """
    return max(1, size.N // meta.dj), max(1, size.M // meta.di)


def parse_local_size(text):
    """Return the local size that `text` names, (columns, rows), None for 0,0: an argparse type."""
    match = re.fullmatch(r"(\d{1,9})[,xX](\d{1,9})", text, re.ASCII)
    sides = tuple(map(int, match.groups())) if match else (0, 1)
    if all(sides) != any(sides):
        message = f"'{text}' is not a local size: give columns,rows such as 8,8, or 0,0 for any"
        raise argparse.ArgumentTypeError(message)
    return sides if all(sides) else None


def local_size(meta, total, asked, kernel, limits):
    """Return the local size of a launch, columns first; None lets the driver choose.

    `total` is the global size, `asked` the local size that is asked for, or None. Raises UsageError
    where it does not divide the global size or is too large, Unsupported where the kernel needs
    more local memory than there is.
    """

    def info(name):
        (device,) = kernel.context.devices
        return kernel.get_work_group_info(getattr(cl.kernel_work_group_info, name), device)

    need, have = info("LOCAL_MEM_SIZE"), limits.local_mem_size
    if need > have:
        raise Unsupported(f"{meta.name} needs {need} bytes of local memory, the device has {have}")
    compiled = tuple(info("COMPILE_WORK_GROUP_SIZE"))[:2]  # zeros: for any
    local = asked or (compiled if all(compiled) else None)
    if local is None:
        return None

    def require(right, problem):
        if not right:
            raise UsageError(f"-lws {local[0]},{local[1]}: {problem}")

    for side, (n, whole) in enumerate(zip(local, total)):
        divisor = max(d for d in range(1, min(n, whole) + 1) if whole % d == 0)
        require(n == divisor, f"{n} does not divide the {whole} work-items of dimension {side} "
                f"({meta.name}); {divisor} does")
    fits = limits.fit(local, program.group_limit(kernel))
    require(local == fits, f"too large for {meta.name} on this device; {fits[0]},{fits[1]} fits")
    require(local == compiled or not all(compiled),
            f"{meta.name} is compiled for work-groups of {compiled[0]}x{compiled[1]} only")
    return local
