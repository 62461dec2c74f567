"""Write files completely or not at all."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

from common import files
from common.text import printable


@contextmanager
def whole(path):
    """Give a path to write to: what is written takes the place of `path`, or there is nothing.

    Raises UsageError where it cannot be written, or something else than a file is there.
    """
    with files.writing(f"cannot write {printable(str(path))}"):
        # A file would take the place of a folder, or of what stands for a device.
        if path.exists() and not path.is_file():
            raise OSError(None, "something else than a file is there")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".report-") as folder:
            unfinished = Path(folder, "whole")
            yield unfinished
            unfinished.replace(path)
