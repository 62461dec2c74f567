"""Start a program on a board and communicate with it, locally here or over ssh.

The program is that of deploy/onboard. It travels through the stdin of the command that runs it, so
a board needs nothing but python3, and all that its shell reads is the path of python and a fixed
line, both quoted. The ssh is OpenSSH's, with the user's own configuration.
"""

import json
import os
import re
import secrets
import select
import shlex
import subprocess
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from common.errors import UsageError
from common.files import read_bytes
from deploy.errors import BoardError, Refusal
from deploy.onboard import limits
from deploy.screen import shortened

HERE = Path(__file__).parent
ENDLESS = "it sends without end"
LOST = "the connection was lost"
PIECE = 64 * limits.KIB  # bytes that are read or sent at once
SSH_FAILED = 255  # the exit status of ssh where the connection failed, or was lost
MOST_BYTES = 1024**2  # of an ssh configuration

# Stands before the user's configuration: ssh takes the first value of an option. The ssh of a
# ProxyJump gets the same file. Only keys that are known are trusted, and nothing is asked; what
# serves a person at a terminal, or would lend a board the user's agent, is off. A connection that
# is dead is noticed in half a minute.
_BEFORE = """
StrictHostKeyChecking yes
NoHostAuthenticationForLocalhost no
VerifyHostKeyDNS no
UpdateHostKeys no
BatchMode yes
LogLevel INFO
RequestTTY no
RemoteCommand none
PermitLocalCommand no
ForwardAgent no
ForwardX11 no
ClearAllForwardings yes
ServerAliveInterval 10
ServerAliveCountMax 3
"""
_USUAL = b"Include ~/.ssh/config\nInclude /etc/ssh/ssh_config\n"
_BEHIND = """
Host *
ConnectTimeout 15
"""
# A connection that another ssh shares may be to a host whose key was not checked.
_SSH = ("ssh", "-o", "ControlPath=none")
_NO_QUESTIONS = {"SSH_ASKPASS_REQUIRE": "never"}

# What to do, by what ssh says; what comes first matters most.
_HINTS = {
    "^No .* host key is known": "to see its key, and to accept it, run {ssh}",
    "^Host key for .* has changed": "someone may be listening. Only if you know why it changed, "
                                    "remove the old key from the file that this names: {ssh}",
    "revoked": "it may have been stolen: make a new one on the board",
    "Host key verification failed": "to see why, run {ssh}",
    "Permission denied": "copy your key to it with ssh-copy-id; one with a passphrase needs "
                         "ssh-add, too",
    "Could not resolve": "give a Host of your ssh configuration, or an address",
    "timed out|No route|unreachable": "is the board on, and on this network?",
    "Connection refused": "is sshd running there, on this port?",
    "no matching host key type": "an old server: allow its type in your ssh configuration, such as "
                                 "HostKeyAlgorithms +ssh-rsa",
}

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


def _program():
    """Return what the board's Python reads: the loader, and the modules by name, packages first."""
    modules = [["deploy", ""], ["deploy.onboard", ""]]
    modules += [[f"deploy.onboard.{name}", (HERE / "onboard" / f"{name}.py").read_text("utf-8")]
                for name in MODULES]
    parts = [part.encode() for part in (_LOADER, json.dumps(modules))]
    return b"".join(b"%d\n%s" % (len(part), part) for part in parts)


class LocalLink:
    """The way to this machine as a board: a process of its own."""

    address, ssh_file = "this machine", None

    def __init__(self, python):
        self._python = python

    def command(self):
        """Return the command that starts the program."""
        return [self._python, "-c", _BOOTSTRAP]

    def lost(self, said):
        """Return why there is no connection, by what its command said on stderr."""
        return _last(said)

    def leave(self, process):
        """End what would outlast a program that is given up: here it ends by itself."""


class SshLink(LocalLink):
    """The way to a host of the user's ssh configuration.

    `ssh_file` is where that configuration comes from, if it is not ssh's own: fab's -S, or the
    board's `ssh_config`. `options` are further ones of ssh.
    """

    def __init__(self, name, python, ssh_file=None, options=()):
        super().__init__(python)
        self.ssh_file = ssh_file and os.path.abspath(ssh_file)
        text = _read(name, ssh_file) if ssh_file else _USUAL
        host, port = name.split(":") if name.count(":") == 1 else (name, None)  # else IPv6
        self._host = [*options, *(["-p", port] if port else []), host]
        self._own = ["-F", ssh_file] if ssh_file else []
        its = self._configured(name)
        self.address = f"{its['user']}@{its['hostname']}, port {its['port']}"
        self._config = os.memfd_create("ssh_config")  # however fab ends, it is gone
        os.write(self._config, _BEFORE.encode() + text + _BEHIND.encode())

    def _configured(self, name):
        """Return the options that the user's configuration has for the board. Raises UsageError."""
        try:
            done = subprocess.run(
                ["ssh", "-G", *self._own, *self._host], stdin=subprocess.DEVNULL,
                capture_output=True, text=True, errors="replace",
            )
        except OSError as error:
            raise UsageError(f"cannot start ssh: {error.strerror}. Install OpenSSH's client "
                             "(Debian: openssh-client)") from error
        if done.returncode != 0:
            said = " ".join(done.stderr.split())
            raise UsageError(f"the ssh configuration of {name}: {shortened(said)}")
        return dict(line.partition(" ")[::2] for line in done.stdout.splitlines())

    def command(self):
        config = f"/proc/{os.getpid()}/fd/{self._config}"
        program = f"{_shell_word(self._python)} -c {shlex.quote(_BOOTSTRAP)}"
        return [*_SSH, "-F", config, *self._host, program]

    def lost(self, said):
        # Lines of @ surround ssh's warnings.
        lines = [shortened(line.strip()) for line in said.splitlines() if line.strip(" \r@")]
        ask = ["ssh", *self._own, "-o", "StrictHostKeyChecking=ask", *self._host, "exit"]
        for what, hint in _HINTS.items():
            # The first line says most; behind it ssh sums up, or that of a jump does.
            if line := next((line for line in lines if re.search(what, line)), None):
                return f"{line} -> {hint.format(ssh=shlex.join(ask))}"
        return lines[-1] if lines else LOST

    def leave(self, process):
        process.terminate()  # else ssh waits for as long as the board keeps its end open


def _read(name, file):
    """Return what an ssh configuration says. Raises UsageError where it is no file."""
    try:
        return read_bytes(file, MOST_BYTES)
    except UsageError as error:
        hint = "; `make board` starts an emulated board" if ".emulated" in str(file) else ""
        raise UsageError(f"the ssh_config of {name}: {error}{hint}") from error


def _shell_word(command):
    """Quote a command for the board's shell, but let it expand a leading ~/."""
    return f'"$HOME"/{shlex.quote(command[2:])}' if command[:2] == "~/" else shlex.quote(command)


class Session:
    """A running program: lines of JSON both ways, and files.

    It has `seconds` for all of it. Nothing begins there before `greet`.
    """

    def __init__(self, link, seconds):
        self._link, self._seconds = link, seconds
        self._end = time.monotonic() + seconds
        self._greeted = False
        self._rest = bytearray()  # what came, and was not read yet
        self._room, self._noise = limits.LARGEST_CONVERSATION, limits.MOST_NOISE
        self._sending = threading.Lock()  # a stop comes from another thread
        command = link.command()
        try:
            self.process = subprocess.Popen(
                command, bufsize=0, env={**os.environ, **_NO_QUESTIONS},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True,  # Ctrl-C is for fab, which then tells the program to stop
            )
        except OSError as error:
            raise BoardError(f"cannot start {command[0]}: {error.strerror}") from error
        os.set_blocking(self.process.stdin.fileno(), False)

    def greet(self, request):
        """Send the program and its request, plain data, and wait until it greets.

        Raises BoardError, as `event` does.
        """
        token = secrets.token_hex(8)
        self.send(_program() + json.dumps({**request, "token": token}).encode() + b"\n")
        while self.event().get("token") != token:
            pass
        self._greeted = True

    def stop(self):
        """Ask the program to stop. One that has not greeted has begun nothing: it is given up."""
        if self._greeted:
            self.send(b"stop\n")
        else:
            self._link.leave(self.process)

    def send(self, data):
        """Send bytes; a board that is gone, or late, shows when its answer is read."""
        data, pipe = memoryview(data), self.process.stdin
        # ValueError: it was closed.
        with self._sending, suppress(BoardError, OSError, ValueError):
            while data:
                if not select.select([], [pipe], [], min(self.left(), limits.SILENCE))[1]:
                    return
                data = data[pipe.write(data[:PIECE]) or 0 :]

    def close(self):
        """Give the program up: to it, the connection is lost."""
        with self._sending:
            self.process.stdin.close()
        self.process.stdout.close()
        self._link.leave(self.process)

    def event(self, beats=False):
        """Return the next event, with `beats` also a mere sign of life.

        What else the board prints, such as its login script's lines, is left out. Raises BoardError
        when the board is lost, refuses, or exceeds a limit.
        """
        while line := self._line():
            try:
                event = json.loads(line)
            except (ValueError, RecursionError):
                event = None
            if not isinstance(event, dict) or not isinstance(event.get("event"), str):
                self._noise -= 1
                if self._noise < 0:
                    raise BoardError(f"{ENDLESS}: {limits.MOST_NOISE} lines that are not messages")
            elif event["event"] == "refused":
                raise Refusal(_text(event.get("reason")))
            elif beats or event["event"] != "beat":
                return event
        raise BoardError(self._ended())

    def _ended(self):
        """Wait for the program's end; return why there is no more to read."""
        try:
            status = self.process.wait(limits.SILENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return "the program there closed its output but does not end"
        errors = self.process.stderr
        os.set_blocking(errors.fileno(), False)  # another process may hold it open
        said = (errors.read(limits.LONGEST_ERRORS) or b"").decode(errors="replace")
        if status == SSH_FAILED:
            return LOST if self._greeted else self._link.lost(said)
        if status in (126, 127):
            why = f"its python cannot be started: {_last(said)}"
            return f"{why}. Install python3, or set python in boards.toml"
        return f"the program there ended with status {status}: {_last(said)}"

    def pieces(self, count):
        """Yield the next `count` bytes, as they come."""
        while count:
            if not self._rest and not self._receive():
                raise BoardError(f"{LOST} during a transfer")
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
        pipe = self.process.stdout
        if not select.select([pipe], [], [], min(self.left(), limits.SILENCE))[0]:
            self.left()
            raise BoardError(f"lost: no data for {limits.SILENCE} s")
        data = pipe.read(PIECE)
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
