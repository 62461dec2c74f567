"""Outputs of kernels, to compare machines bit by bit: their digests in records, and in a file."""

import errno
import hashlib
import math
import os
import re
import struct
import zipfile
from pathlib import Path

import numpy as np

_LARGEST_DIRECTORY = 2**20  # bytes of a zip file's: more names than any run has
_END = struct.Struct("<20s4s8xL4xH")  # of a zip file, and the room for another one before it


def digest(*arrays):
    """Return the SHA-256 of the arrays' shapes, types and values, equal on all machines.

    A zero counts as +0: which zero a sum gives is the device's choice.
    """
    sha = hashlib.sha256()
    for array in arrays:
        sha.update(f"{array.dtype.name} {'x'.join(map(str, array.shape))}\n".encode())
        sha.update(_canonical(array + 0).tobytes())
    return sha.hexdigest()


def _canonical(array):
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def start(path):
    """Make an .npz file without arrays, in place of an existing file. Raises OSError."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "it exists and is not a file", path)
    zipfile.ZipFile(path, "w").close()


def append(path, name, array):
    """Add an array to an .npz file, in a canonical byte order.

    Where the file has that name already, as when a kernel runs at several sizes, a number follows.
    """
    with zipfile.ZipFile(path) as file:
        again = sum(re.fullmatch(rf"{re.escape(name)}(\.\d+)?\.npy", n) is not None
                    for n in file.namelist())
    name += f".{again + 1}" if again else ""
    member = zipfile.ZipInfo(f"{name}.npy")  # dated 1980: a board's clock may be before that
    with zipfile.ZipFile(path, "a") as file, file.open(member, "w") as stream:
        np.lib.format.write_array(stream, _canonical(array), allow_pickle=False)


def read(path):
    """Return the arrays of a file by their names. Raises ValueError where it is not such a file.

    It takes what append() writes, and nothing else: numbers that are not packed, so that in memory
    they are no larger than the file.
    """
    try:
        with open(path, "rb") as stream:
            _check_directory(stream)
            with zipfile.ZipFile(stream) as file:
                if sum(member.file_size for member in file.infolist()) > Path(path).stat().st_size:
                    raise ValueError("its arrays are larger than the file")
                return {Path(m.filename).stem: _array(file, m) for m in file.infolist()}
    except Exception as error:  # zipfile and numpy have many: it may come from a hostile board
        raise ValueError(f"{path}: {error}") from error


def _check_directory(stream):
    """Check that a zip file's directory is small: zipfile reads all of it at once."""
    stream.seek(max(0, stream.seek(0, 2) - _END.size))
    other, mark, size, comment = _END.unpack(stream.read().rjust(_END.size))
    plain = mark == b"PK\5\6" and not comment and not other.startswith(b"PK\6\7")
    if not plain or size > _LARGEST_DIRECTORY:
        raise ValueError("it has no directory, or one that is too large")


def _array(file, member):
    """Return an array of a zip file, whose header must say as much as there is."""
    if member.compress_type != zipfile.ZIP_STORED:
        raise ValueError(f"{member.filename} is packed")
    with file.open(member) as stream:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise ValueError(f"{member.filename} has an unknown version")
        shape, by_columns, kind = np.lib.format.read_array_header_1_0(stream)
        known = kind.kind in "iufc" and kind.itemsize <= 8 * (1 + (kind.kind == "c"))
        if not known or math.prod(shape) * kind.itemsize != member.file_size - stream.tell():
            raise ValueError(f"{member.filename} is not an array of numbers, or has another size")
        return np.frombuffer(stream.read(), kind).reshape(shape, order="F" if by_columns else "C")


def ulp_distance(a, b):
    """Return the largest distance of two arrays, element by element: how many numbers lie between.

    Both are of the same shape and type. Floating-point numbers of a type are put in a row by their
    bits, with -0 and +0 at one place; two NaN are 0 apart, a NaN and a number infinitely far.
    Whole numbers are as far apart as their difference. Complex numbers count by their parts.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        raise ValueError(f"{a.dtype} {a.shape} and {b.dtype} {b.shape} cannot be compared")
    if a.dtype.kind == "c":
        parts = a.real.dtype
        return ulp_distance(a.reshape(-1).view(parts), b.reshape(-1).view(parts))
    if a.dtype.kind == "f":
        numbers = ~np.isnan(a)
        if (numbers == np.isnan(b)).any():
            return float("inf")
        a, b = _place(a[numbers]), _place(b[numbers])
    low, high = np.minimum(a, b), np.maximum(a, b)
    # Too large for a signed integer where the signs differ, but never for an unsigned one.
    kind = np.dtype(f"u{a.dtype.itemsize}")
    return int((high.view(kind) - low.view(kind)).max(initial=0))


def _place(values):
    """Return the positions, as integers, of floating-point numbers in the order of their type."""
    kind = np.dtype(f"i{values.dtype.itemsize}")
    bits = np.ascontiguousarray(values).view(kind)
    # Below zero, larger bits mean smaller numbers.
    return np.where(bits < 0, np.iinfo(kind).min - bits, bits)
