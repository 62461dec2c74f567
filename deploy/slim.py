"""Make an environment with Intel's OpenCL runtime smaller; the Makefile runs this after pip.

A wheel cannot hold a link, so Intel's hold the larger libraries under two or three names, each a
whole copy, and a plug-in of a linker that nothing here uses.
"""

import contextlib
import filecmp
import os
import sys
from pathlib import Path

_NOT_NEEDED = "icx-lto.so"


def slim(folder):
    """Make copies of a library in `folder` hard links to one file, and delete the plug-in."""
    Path(folder, _NOT_NEEDED).unlink(missing_ok=True)
    first = {}  # (name without its version, size): a library
    for path in sorted(Path(folder).glob("*.so*")):
        if path.is_symlink():
            continue
        other = first.setdefault((path.name.split(".so")[0], path.stat().st_size), path)
        if not other.samefile(path) and filecmp.cmp(other, path, shallow=False):
            link = path.with_name(path.name + ".link")
            with contextlib.suppress(OSError):  # a file system without links keeps its copies
                os.link(other, link)
                link.replace(path)  # in one step: who loads it now finds one or the other


if __name__ == "__main__":
    slim(Path(sys.prefix, "lib"))
