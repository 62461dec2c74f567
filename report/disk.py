"""Read untrusted files, regular and of a limited size. Write files completely or not at all."""

import io
import tempfile
from contextlib import contextmanager
from pathlib import Path

from common import files, record
from common.text import printable

LONGEST_LINE = 16 * 1024**2  # characters of a record: a hundred thousand launches


def scan(path):
    """Yield what record.scan() yields. Raises UsageError for what is no file."""
    with io.TextIOWrapper(files.opened(path), "utf-8", errors="replace") as file:
        yield from record.parse(files.lines(file, LONGEST_LINE), path)


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
