"""Libraries of others that are loaded here: which file a function is in, and of what version it is.

A BLAS with the C interface CBLAS is loaded by the name that a command line gives.
"""

import ctypes
import os
import re
from pathlib import Path
from typing import NamedTuple

from common.errors import UsageError


class Cblas(NamedTuple):
    """A library with the interface CBLAS: its name in tables, its name in full, itself."""

    name: str
    version: str
    handle: ctypes.CDLL


def cblas(file):
    """Return the Cblas of a path, or of a name that the linker finds. Raises UsageError."""
    # MKL looks beside itself for its other parts, and a link has none beside it.
    path = os.path.realpath(file) if os.sep in file else file
    try:
        path.encode()  # ctypes stumbles later over a name that is no UTF-8
        handle = ctypes.CDLL(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"--blas: {' '.join(str(error).split())}") from error
    for name in ("cblas_sgemm", "cblas_dgemm"):
        try:
            function = getattr(handle, name)
        except AttributeError as error:
            raise UsageError(f"--blas {_plain(file)}: it has no {name}") from error
    own = _plain(Path(file_of(function) or file).name)
    name = re.split(r"-r\d|\.so", own)[0]
    # With lib before it, it is the name of no kernel and of no other peer.
    name = name if name.startswith("lib") else f"lib{name}"
    said = _own_words(handle) or ("" if version_in(own) else "of unknown version")
    return Cblas(name, ", ".join(filter(None, (own, said))), handle)


def _plain(text):
    """Return `text` in letters that every terminal has."""
    return "".join(letter if letter.isascii() and letter.isprintable() else "?" for letter in text)


def _own_words(handle):
    """Return what a BLAS says of its version; nothing where it is none of those that do."""
    for name in ("openblas_get_config", "bli_info_get_version_str"):
        if function := getattr(handle, name, None):
            function.restype = ctypes.c_char_p
            return function().decode(errors="replace").strip()
    if function := getattr(handle, "MKL_Get_Version_String", None):
        text = ctypes.create_string_buffer(200)
        function(text, len(text))
        return text.value.decode(errors="replace").strip()
    return ""


class _Symbol(ctypes.Structure):
    """What dladdr() finds: Dl_info of dlfcn.h."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


def file_of(function):
    """Return the path of the library that has a function, which another one may have loaded.

    It is empty where the system does not tell.
    """
    symbol, address = _Symbol(), ctypes.cast(function, ctypes.c_void_p)
    try:
        found = ctypes.CDLL(None).dladdr(address, ctypes.byref(symbol))
    except (OSError, AttributeError):
        return ""
    return os.path.realpath(os.fsdecode(symbol.file)) if found and symbol.file else ""


def version_in(file):
    """Return the version in the name of a shared library, such as libclblast.so.1.5.3, or ''."""
    numbers = re.findall(r"\d+(?:\.\d+)+", Path(file).name)
    return numbers[-1] if numbers else ""
