"""What kernels put out, kept in a file to compare machines by: as near as their last bits."""

import errno
import os
import re
import zipfile

import numpy as np


def start(path):
    """Make an .npz file without arrays; what was there is gone. Raises OSError."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "it is there, and no file", path)
    zipfile.ZipFile(path, "w").close()


def append(path, name, array):
    """Add an array to an .npz file, in a canonical byte order.

    Where the file has that name already, as when a kernel runs at several sizes, a number follows.
    """
    with zipfile.ZipFile(path) as file:
        again = sum(re.fullmatch(rf"{re.escape(name)}(\.\d+)?\.npy", n) is not None
                    for n in file.namelist())  # fmt: skip
    name += f".{again + 1}" if again else ""
    member = zipfile.ZipInfo(f"{name}.npy")  # dated 1980: a board's clock may be before that
    canonical = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
    with zipfile.ZipFile(path, "a") as file, file.open(member, "w") as stream:
        np.lib.format.write_array(stream, canonical, allow_pickle=False)


def read(path):
    """Return the arrays of a file by their names. Raises ValueError where it is not such a file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path}: {error}") from error


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
    if not a.size:
        return 0
    if a.dtype.kind != "f":
        return max(abs(x - y) for x, y in zip(a.ravel().tolist(), b.ravel().tolist()))
    alone = np.isnan(a) != np.isnan(b)
    if alone.any():
        return float("inf")
    numbers = ~np.isnan(a)
    return _largest_difference(_place(a[numbers]), _place(b[numbers]))


def _place(values):
    """Return where floating-point numbers stand in the row of all of their type: integers."""
    kind = np.dtype(f"i{values.dtype.itemsize}")
    bits = np.ascontiguousarray(values).view(kind)
    # Below zero, larger bits mean smaller numbers.
    return np.where(bits < 0, np.iinfo(kind).min - bits, bits)


def _largest_difference(a, b):
    if not a.size:
        return 0
    low, high = np.minimum(a, b), np.maximum(a, b)
    # Too large for a signed integer where the signs differ, but never for an unsigned one.
    kind = np.dtype(f"u{a.dtype.itemsize}")
    return int((high.view(kind) - low.view(kind)).max())
