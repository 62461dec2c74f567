"""The journal of an exploration: the records of its points, a JSON object a line.

A point is written when it has ended, in one piece, and reaches the disk before the next one starts.
So whatever ends an exploration, at most the point that was running is lost. A record that was cut
off is dropped when the journal is opened again; a file that is no journal is left as it is.
"""

import fcntl
import json
import os

from common import record
from common.errors import UsageError

_START = b'{"argv": ['  # of every line that common/record.py writes: it sorts the keys


class Journal:
    """An open journal, held against any other exploration. `records` are those it has so far."""

    def __init__(self, path):
        self._path = path
        if path.exists() and not path.is_file():
            raise UsageError(f"cannot use the journal {path}: it is no file")
        try:
            new = not path.exists()
            self._file = open(path, "a+b")  # noqa: SIM115, closed with the process
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if new:
                _sync_folder(path.resolve().parent)
            self.records = self._read()
        except BlockingIOError as error:
            raise UsageError(f"another exploration is writing to {path}: give another") from error
        except OSError as error:
            raise UsageError(f"cannot use the journal {path}: {error.strerror}") from error

    def _read(self):
        """Return the records; mends the last line, but only where all else shows a journal."""
        records, errors = record.read_lenient(self._path)
        self._file.seek(0)
        kept = self._file.read()
        whole = kept.rfind(b"\n") + 1
        torn = kept[whole:]
        if len(errors) == 1 and len(records) == kept.count(b"\n") and _cut_off(torn):
            self._file.truncate(whole)
        elif errors:
            raise UsageError(f"{errors[0]}: mend that line, or give another --journal")
        elif torn:  # a whole record, only its line has no end
            self._file.write(b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        return records

    def by_point(self):
        """Return the last record of each point, by the text of its key."""
        return {key_text(r.params["point"]): r for r in self.records if "point" in r.params}

    def add(self, item):
        """Write a record; it is on the disk when this returns."""
        try:
            record.append(self._path, item)
        except OSError as error:
            raise UsageError(f"cannot write to {self._path}: {error.strerror}") from error
        self.records.append(item)


def _cut_off(line):
    """Tell whether the line, which has no end, is the first part of a record."""
    return bool(line) and (line.startswith(_START) or _START.startswith(line))


def _sync_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def key_text(key):
    """Return the key of a point as a text that is equal for equal keys."""
    return json.dumps(key, sort_keys=True)
