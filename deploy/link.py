"""Start a program on a board and talk with it: here on this machine, in ssh.py over SSH.

The programs are those of deploy/onboard. They travel through the stdin of the command that runs
them, so a board needs nothing but python3, and all that its shell reads is the path of python and a
fixed line, both quoted.
"""

import json
import os
import secrets
import subprocess
from pathlib import Path

from deploy.errors import BoardError

HERE = Path(__file__).parent
MOST_NOISE = 10_000  # lines
PYTHON_HINT = "Install python3, or set python in boards.toml"
LONGEST_LINE = 32 * 1024**2  # bytes; what a board sends is bounded, whoever controls the board
LARGEST_TRANSFER = 256 * 1024**2
NO_END = "the program there closed its output, and does not end"
SILENCE = 60  # seconds without a word, after which a board is lost: its programs beat more often

# The programs of deploy/onboard, by the modules that travel, in the order of their imports.
PROGRAMS = {
    "remote": ("wire", "folder", "environment", "tree", "cases", "runs", "remote"),
    "facts": ("wire", "folder", "environment", "facts"),
    "provision": ("wire", "folder", "environment", "facts", "tree", "cases", "provision"),
}
_PACKAGE = "deploy.onboard"

# Reads the loader below, which reads the modules. sys.path[0] is the home folder: a user's own
# random.py there must not stand in for Python's.
_BOOTSTRAP = (
    'import sys; sys.path[:1] = filter(None, sys.path[:1]); '
    'i = sys.stdin.buffer; exec(i.read(int(i.readline())))'
)  # fmt: skip
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


def _sources(program):
    """Return what the loader reads: the modules of a program by name, packages first."""
    modules = [["deploy", ""], [_PACKAGE, ""]]
    for name in PROGRAMS[program]:
        text = (HERE / "onboard" / f"{name}.py").read_text(encoding="utf-8")
        modules.append([f"{_PACKAGE}.{name}", text])
    return json.dumps(modules)


class Session:
    """A running program: lines of JSON both ways. `stdin` and `stdout` are binary files.

    `finish()` waits for the program's end and gives (exit status, text on stderr).
    """

    def __init__(self, stdin, stdout, finish):
        self._stdin, self._stdout, self._finish = stdin, stdout, finish
        self._token = secrets.token_hex(8)

    def begin(self, program, request):
        """Send the program and its request, and wait until it greets.

        What a login script prints before that, whatever it looks like, is passed over.
        """
        self.send(_chunk(_LOADER) + _chunk(_sources(program)))
        self.send(json.dumps({**request, "token": self._token}).encode() + b"\n")
        for _ in range(MOST_NOISE):
            if self.event().get("token") == self._token:
                return
        raise BoardError("its login script, or its python, prints without end")

    def send(self, data):
        """Send bytes; a board that is gone shows when its answer is read."""
        try:
            self._stdin.write(data)
            self._stdin.flush()
        except OSError:
            pass

    def event(self, beats=False):
        """Return the next event, with `beats` also a mere sign of life.

        Raises BoardError when the board is lost, or refuses.
        """
        while line := self._line():
            try:
                event = json.loads(line)
            except ValueError:
                event = None
            if not isinstance(event, dict) or "event" not in event:
                event = {"event": "noise"}
            if event["event"] == "refused":
                raise BoardError(str(event.get("reason")))
            if beats or event["event"] != "beat":
                return event
        status, errors = self._finish()
        if status in (126, 127):
            raise BoardError(f"its python cannot be started: {_last(errors)}. {PYTHON_HINT}")
        if status in (None, -1):
            raise BoardError(NO_END if errors == NO_END else "the connection was lost")
        raise BoardError(f"the program there ended with status {status}: {_last(errors)}")

    def _line(self):
        try:
            line = self._stdout.readline(LONGEST_LINE)
        except TimeoutError as error:
            raise BoardError(f"lost: not a word for {SILENCE} s") from error
        except OSError:
            return b""
        if len(line) == LONGEST_LINE:
            raise BoardError("it sends lines without end")
        return line

    def read(self, count):
        """Return the next `count` bytes."""
        if type(count) is not int or not 0 <= count <= LARGEST_TRANSFER:
            raise BoardError("it announces a size that no run can have")
        try:
            data = self._stdout.read(count)
        except OSError as error:
            raise BoardError("the connection broke off in a transfer") from error
        if len(data) < count:
            raise BoardError("the connection broke off in a transfer")
        return data


def _last(text):
    return (text.strip().splitlines() or ["it says nothing"])[-1]


class Link:
    """A way to a board."""

    def start(self, program, request):
        """Start one of PROGRAMS there with a request (plain data); return its Session."""
        session = self._open(_BOOTSTRAP)
        session.begin(program, request)
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
            process = subprocess.Popen(
                [self._python, "-c", code],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for fab, which then tells the program to stop
            )  # fmt: skip
        except OSError as error:
            raise BoardError(f"cannot start {self._python}: {error.strerror}") from error

        def finish():
            try:
                status = process.wait(SILENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                return None, NO_END
            os.set_blocking(process.stderr.fileno(), False)  # another process may hold it open
            return status, (process.stderr.read(LONGEST_LINE) or b"").decode(errors="replace")

        return Session(process.stdin, process.stdout, finish)
