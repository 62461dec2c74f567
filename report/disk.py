"""Read untrusted files, regular and of a limited size. Write files completely or not at all."""

import io
import json
import tempfile
from contextlib import contextmanager
from pathlib import Path

from common import files, record
from common.errors import UsageError
from common.text import printable

LONGEST_LINE = 16 * 1024**2  # characters of a record: a hundred thousand launches
LARGEST_OBJECT = 16 * 1024**2  # bytes of a JSON file


def scan(path):
    """Yield what record.scan() yields. Raises UsageError for what is no file."""
    with io.TextIOWrapper(files.opened(path), "utf-8", errors="replace") as file:
        yield from record.parse(_lines(file), path)


def _lines(file):
    """Yield the lines; of one that is too long only its beginning, which is no record."""
    while line := file.readline(LONGEST_LINE):
        yield line
        while len(line) == LONGEST_LINE and line[-1] != "\n":
            line = file.readline(LONGEST_LINE)


def object_in(path):
    """Return the JSON object of a file; an empty one where there is none that can be read."""
    try:
        return require_object(path)
    except UsageError:
        return {}


def require_object(path):
    """Return the JSON object of a file. Raises UsageError where there is none that can be read."""
    value = files.parsed(path, LARGEST_OBJECT, json.loads)
    if not isinstance(value, dict) or record.is_deep(value):
        raise UsageError(f"{printable(str(path))}: not an object, or nested too deeply")
    return value


@contextmanager
def whole(path):
    """Give a path to write to: what is written takes the place of `path`, or there is nothing.

    Raises UsageError where it cannot be written, or something else than a file is there.
    """
    try:
        # A file would take the place of a folder, or of what stands for a device.
        if path.exists() and not path.is_file():
            raise OSError(None, "something else than a file is there")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".report-") as folder:
            unfinished = Path(folder, "whole")
            yield unfinished
            unfinished.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {printable(str(path))}: {error.strerror}") from error
