"""The board's end of the connection: lines of JSON both ways."""

import json
import os
import select
import threading
import time

BEAT = 5.0  # seconds between signs of life, so that the host can tell a slow board from a dead one
PATIENCE = 30.0  # seconds for the host to take or say something, before it counts as gone


class Refused(Exception):
    """Why the request cannot be done: a line that a person can act on."""


class Wire:
    """The way to the host, by file descriptors.

    A host that is gone, or that takes or says nothing for PATIENCE, is given up: what is sent to it
    is dropped, and the work goes on.
    """

    def __init__(self, source, sink):
        self.source, self.sink = source, sink
        self.lost = False
        self.rest = bytearray()  # what came, and was not read yet
        self.emitting = threading.Lock()
        os.set_blocking(sink, False)

    def emit(self, event, payload=b"", before=b"", **fields):
        line = json.dumps(dict(fields, event=event)).encode() + b"\n"
        data = memoryview(before + line + payload)
        with self.emitting:
            try:
                while data and not self.lost:
                    self.lost = not select.select([], [self.sink], [], PATIENCE)[1]
                    data = data if self.lost else data[os.write(self.sink, data) :]
            except OSError:
                self.lost = True

    def beat(self):
        """Give signs of life until the host is gone, in a thread: the work may wait for a disk."""
        while not self.lost:
            time.sleep(BEAT)
            self.emit("beat")

    def line(self, patience):
        """Return the host's next line; None where none came in time or the host is gone."""
        end = time.monotonic() + patience
        while b"\n" not in self.rest and not self.lost:
            if not select.select([self.source], [], [], max(0.0, end - time.monotonic()))[0]:
                return None
            self._read()
        line, newline, self.rest = self.rest.partition(b"\n")
        return bytes(line) if newline else None

    def payload(self):
        """Return the bytes of the host behind a line with their number; fewer where it is gone.

        Raises Refused where the host stops this instead.
        """
        line = self.line(PATIENCE)
        if line == b"stop":
            raise Refused("stopped")
        return self.take(int(line or 0))

    def take(self, count):
        """Return the next `count` bytes from the host; fewer where the host is gone."""
        while len(self.rest) < count and not self.lost:
            if select.select([self.source], [], [], PATIENCE)[0]:
                self._read()
            else:
                self.lost = True
        data, self.rest = self.rest[:count], self.rest[count:]
        return data

    def _read(self):
        said = os.read(self.source, 65536)
        self.lost = not said
        self.rest += said
