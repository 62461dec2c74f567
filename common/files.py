"""Read files that a user names: only regular ones of a limited size, without blocking.

A FIFO would wait for a writer, a device may never end or do something when it is opened, and a
file of gigabytes takes the memory: each of them is refused with one line that names it.
"""

import errno
import io
import json
import os
import stat
from contextlib import contextmanager

from common import record
from common.errors import UsageError
from common.text import printable

_PART = 2**20
LARGEST_OBJECT = 16 * 1024**2  # bytes, of a JSON file
LONGEST_LINE = 4096  # characters, of a TOML file
LONGEST_RECORD = 16 * 1024**2  # characters: a hundred thousand launches
# By the letter of stat.filemode().
_KINDS = {"d": "a folder", "p": "a FIFO", "s": "a socket", "c": "a device", "b": "a device"}


def regular(path):
    """Return `path` if it leads to a regular file that is there. Raises UsageError.

    For libraries that open a file themselves; other callers use `opened` or `read_text`.
    """
    try:
        _check(path, os.stat(path).st_mode)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    return path


def opened(path, most=None):
    """Return a regular file of at most `most` bytes, opened to read bytes. Raises UsageError.

    The file may grow while it is read: a caller that needs the limit limits its reads as well.
    """
    regular(path)  # not even opened: that alone starts some devices
    try:
        # What stands there may be another file since: it is not waited for, and looked at again.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        found = os.fstat(descriptor)
        _check(path, found.st_mode)
        if most is not None and found.st_size > most:
            raise _too_large(path, most)
        return open(descriptor, "rb")
    except UsageError:
        os.close(descriptor)
        raise


def read_bytes(path, most):
    """Return what is in a regular file of at most `most` bytes. Raises UsageError."""
    parts, left = [], most + 1
    with opened(path, most) as file:
        try:
            # Part by part: asked for `most`, it would first take as much memory.
            while left and (part := file.read(min(left, _PART))):
                parts.append(part)
                left -= len(part)
        except OSError as error:
            raise _unreadable(path, error) from error
    if not left:
        raise _too_large(path, most)
    return b"".join(parts)


def read_text(path, most):
    """Return the text of a regular file of at most `most` bytes of UTF-8. Raises UsageError."""
    try:
        return read_bytes(path, most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{_name(path)} is not text in UTF-8: byte {error.start}") from error


def lines(file, most):
    """Yield the lines of an open text file; of one that has more characters only so many."""
    while line := file.readline(most):
        yield line
        while line and line[-1] != "\n":
            line = file.readline(most)


def records(path):
    """Yield what record.scan() yields. Raises UsageError for what is no regular file."""
    with io.TextIOWrapper(opened(path), "utf-8", errors="replace") as file:
        yield from record.parse(lines(file, LONGEST_RECORD), path)


def parsed(path, most, parse):
    """Return what `parse` makes of the text of such a file: json.loads, toml.

    Raises UsageError, also where `parse` raises ValueError or cannot follow how deep it goes.
    """
    text = read_text(path, most)
    try:
        return parse(text)
    except RecursionError as error:
        raise UsageError(f"{_name(path)}: its values are nested too deeply") from error
    except ValueError as error:
        # Python's own, of a number with thousands of digits, goes on to say what a program can do.
        reason = str(error).split(";")[0] if type(error) is ValueError else str(error)
        raise UsageError(f"{_name(path)}: {printable(' '.join(reason.split()))}") from error


def json_object(path):
    """Return the JSON object of a file. Raises UsageError."""
    value = parsed(path, LARGEST_OBJECT, json.loads)
    if not isinstance(value, dict) or record.is_deep(value):
        raise UsageError(f"{_name(path)}: not an object, or nested too deeply")
    return value


def object_in(path):
    """Return the JSON object of a file; an empty one where there is none that can be read."""
    try:
        return json_object(path)
    except UsageError:
        return {}


def toml(text):
    """Return the table of a TOML text, as tomllib.loads; needs Python 3.11.

    Raises ValueError, also for a very long line: a key of many parts would take tomllib hours.
    """
    import tomllib  # not in the Python of all boards

    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > LONGEST_LINE:
            raise ValueError(f"line {number} has more than {LONGEST_LINE} characters")
    return tomllib.loads(text)


def replace(path, text):
    """Write a text file in one step, and its folder before it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        new.write_text(text, encoding="utf-8")
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def writing(what):
    """Raise UsageError, `what` with the reason, where a file cannot be written in the block."""
    try:
        yield
    except OSError as error:
        nobody = error.errno == errno.ENXIO  # of a FIFO
        reason = "nobody reads from it" if nobody else error.strerror
        raise UsageError(f"{what}: {reason}") from error


def _check(path, mode):
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.filemode(mode)[0], "something else")
        raise UsageError(f"cannot read {_name(path)}: it is {kind}, not a file")


def _too_large(path, most):
    return UsageError(f"cannot read {_name(path)}: it is larger than {most:,} bytes")


def _unreadable(path, error):
    reason = getattr(error, "strerror", None) or error
    return UsageError(f"cannot read {_name(path)}: {reason}")


def _name(path):
    return printable(str(path))
