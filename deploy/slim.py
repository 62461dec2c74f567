"""Make an environment with Intel's OpenCL runtime smaller; the Makefile runs this after pip.

A wheel cannot hold a link, so Intel's hold the larger libraries under two or three names, each a
whole copy, and a plug-in of a linker that nothing here uses.
"""

import contextlib
import filecmp
import os
import sys
from pathlib import Path

_NOT_NEEDED = ("icx-lto.so",)
_LEAST = 64 * 1024  # bytes; smaller copies are not worth a look


def slim(folder):
    """Make copies of a library in `folder` hard links to one file; return the bytes this freed."""
    freed = 0
    for path in [Path(folder, name) for name in _NOT_NEEDED]:
        if path.is_file():
            freed += path.stat().st_size
            path.unlink()
    first = {}  # (name without its version, size): a library
    for path in sorted(Path(folder).glob("*.so*")):
        about = path.stat()
        if path.is_symlink() or not path.is_file() or about.st_size < _LEAST:
            continue
        other = first.setdefault((path.name.split(".so")[0], about.st_size), path)
        if os.path.samefile(other, path) or not filecmp.cmp(other, path, shallow=False):
            continue
        link = path.with_name(path.name + ".link")
        with contextlib.suppress(OSError):  # a file system without links keeps its copies
            os.link(other, link)
            link.replace(path)  # in one step: a program that loads it now finds one or the other
            freed += about.st_size
    return freed


if __name__ == "__main__":
    slim(Path(sys.prefix, "lib"))
