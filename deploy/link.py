"""Start a program on a board and communicate with it: locally here, in ssh.py over SSH.

The program is that of deploy/onboard. It travels through the stdin of the command that runs it, so
a board needs nothing but python3, and all that its shell reads is the path of python and a fixed
line, both quoted.
"""

import json
import os
import secrets
import select
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from deploy.errors import BoardError
from deploy.onboard import limits
from deploy.screen import shortened

HERE = Path(__file__).parent
PYTHON_HINT = "Install python3, or set python in boards.toml"
NO_END = "the program there closed its output but does not end"
ENDLESS = "it sends without end"
PIECE = 64 * limits.KIB  # bytes that are read or sent at once

# What travels, of deploy/onboard, in the order of their imports.
MODULES = (
    "limits", "wire", "folder", "environment", "facts", "tree", "cases", "runs", "points",
    "provision", "helper", "remote",
)

# Reads the loader below, which reads the modules. sys.path[0] is the home folder: a user's own
# random.py there must not stand in for Python's.
_BOOTSTRAP = (
    'import sys; sys.path[:1] = filter(None, sys.path[:1]); '
    'i = sys.stdin.buffer; exec(i.read(int(i.readline())))'
)
_LOADER = """
import json, types
for name, text in json.loads(i.read(int(i.readline())).decode()):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = []
    exec(compile(text, name, "exec"), module.__dict__)
module.main()
"""


def _chunk(text):
    data = text.encode()
    return b"%d\n%s" % (len(data), data)


def _sources():
    """Return what the loader reads: the modules by name, packages first."""
    modules = [["deploy", ""], ["deploy.onboard", ""]]
    for name in MODULES:
        text = (HERE / "onboard" / f"{name}.py").read_text(encoding="utf-8")
        modules.append([f"deploy.onboard.{name}", text])
    return json.dumps(modules)


class Session:
    """A running program: lines of JSON both ways, and files. It has `seconds` for all of it.

    `way` carries bytes: `receive(seconds)` returns what is there, nothing at the end, and raises
    TimeoutError where nothing comes; `send(data, seconds)` returns how many of the bytes were
    taken; `finish()` waits for the program's end and gives (exit status, text on stderr).
    """

    def __init__(self, way, seconds):
        self._way, self._seconds = way, seconds
        self._end = time.monotonic() + seconds
        self._token = secrets.token_hex(8)
        self._rest = bytearray()  # what came, and was not read yet
        self._room, self._noise = limits.LARGEST_CONVERSATION, limits.MOST_NOISE
        self._sending = threading.Lock()  # a stop comes from another thread

    def begin(self, request):
        """Send the program and the request, and wait until it greets.

        What a login script prints before that, whatever it looks like, is passed over.
        """
        self.send(_chunk(_LOADER) + _chunk(_sources()))
        self.send(json.dumps({**request, "token": self._token}).encode() + b"\n")
        for _ in range(limits.MOST_NOISE):
            if self.event().get("token") == self._token:
                return
        raise BoardError("its login script, or its python, does not stop printing")

    def send(self, data):
        """Send bytes; a board that is gone shows when its answer is read."""
        data = memoryview(data)
        with self._sending:
            try:
                while data:
                    data = data[self._way.send(data[:PIECE], self.left()) :]
            except OSError:
                pass

    def event(self, beats=False):
        """Return the next event, with `beats` also a mere sign of life.

        Raises BoardError when the board is lost, refuses, or exceeds a limit.
        """
        while line := self._line():
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            if not isinstance(event, dict) or not isinstance(event.get("event"), str):
                event = {"event": "noise"}
                self._noise -= 1
                if self._noise < 0:
                    raise BoardError(f"{ENDLESS}: {limits.MOST_NOISE} lines that are not messages")
            if event["event"] == "refused":
                raise BoardError(_text(event.get("reason")))
            if beats or event["event"] != "beat":
                return event
        status, errors = self._way.finish()
        if status in (126, 127):
            raise BoardError(f"its python cannot be started: {_last(errors)}. {PYTHON_HINT}")
        if status in (None, -1):
            raise BoardError(NO_END if errors == NO_END else "the connection was lost")
        raise BoardError(f"the program there ended with status {status}: {_last(errors)}")

    def pieces(self, count):
        """Yield the next `count` bytes, as they come."""
        while count:
            if not self._rest and not self._receive():
                raise BoardError("the connection was lost during a transfer")
            piece = bytes(self._rest[:count])
            del self._rest[:count]
            count -= len(piece)
            yield piece

    def _line(self):
        while (end := self._rest.find(b"\n") + 1) == 0:
            if len(self._rest) > limits.LONGEST_LINE:
                raise BoardError(f"it sends a line of more than {limits.LONGEST_LINE} bytes")
            if not self._receive():
                end = len(self._rest)
                break
        line = bytes(self._rest[:end])
        del self._rest[:end]
        return line

    def _receive(self):
        """Add what comes next to the rest; return whether anything came before the end."""
        left = self.left()
        try:
            data = self._way.receive(min(left, limits.SILENCE))
        except TimeoutError as error:
            self.left()
            raise BoardError(f"lost: no data for {limits.SILENCE} s") from error
        except OSError:
            return False
        self._room -= len(data)
        if self._room < 0:
            raise BoardError(f"{ENDLESS}: more than {limits.LARGEST_CONVERSATION} bytes")
        self._rest += data
        return bool(data)

    def left(self):
        """Return how many of its seconds are left. Raises BoardError where none are."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise BoardError(f"it did not finish within {self._seconds:.0f} s")
        return left


@contextmanager
def sense(what):
    """Raise BoardError where what a board sent, such as an event, is not what it should be."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
            RecursionError) as error:
        why = f"{_text(what)} ({_text(error)})"
        raise BoardError(f"it sends invalid data: {why}") from error


def _text(what):
    try:
        return shortened(str(what))
    except (ValueError, RecursionError):  # numbers and lists may be too long, or too deep, to print
        return "..."


def _last(text):
    return shortened((text.strip().splitlines() or ["it says nothing"])[-1])


class Link:
    """A way to a board."""

    def start(self, request, seconds):
        """Start the program there with a request (plain data); return its Session.

        It is to be done within `seconds`.
        """
        session = Session(self._open(_BOOTSTRAP), seconds)
        session.begin(request)
        return session

    def close(self):
        """End the connection, if there is one."""


class LocalLink(Link):
    """This machine: a process of its own, as on a board."""

    address = "this machine"
    ssh_file = None

    def __init__(self, python):
        self._python = python

    def _open(self, code):
        try:
            return _Process([self._python, "-c", code])
        except OSError as error:
            raise BoardError(f"cannot start {self._python}: {error.strerror}") from error


class _Process:
    """The way to a process here: see Session."""

    def __init__(self, command):
        self._process = subprocess.Popen(
            command, bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for fab, which then tells the program to stop
        )
        os.set_blocking(self._process.stdin.fileno(), False)

    def receive(self, seconds):
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            raise TimeoutError
        return self._process.stdout.read(PIECE)

    def send(self, data, seconds):
        if not select.select([], [self._process.stdin], [], min(seconds, limits.SILENCE))[1]:
            raise TimeoutError
        return self._process.stdin.write(data) or 0

    def finish(self):
        try:
            status = self._process.wait(limits.SILENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return None, NO_END
        errors = self._process.stderr
        os.set_blocking(errors.fileno(), False)  # another process may hold it open
        return status, (errors.read(limits.LONGEST_ERRORS) or b"").decode(errors="replace")
