"""Start a program on a board and talk with it: over SSH, or in a folder of this machine.

The program is a Python file of this package. It travels through the stdin of the command that runs
it, so a board needs nothing but python3, and no text of ours is ever read by a remote shell but the
quoted path of python.
"""

import json
import logging
import shlex
import socket
import subprocess
from pathlib import Path

import paramiko
from fabric import Connection
from fabric.connection import derive_shorthand

from deploy.errors import BoardError

HERE = Path(__file__).parent
CONNECT_TIMEOUT = 15  # seconds, where the ssh configuration has no ConnectTimeout
SILENCE = 60  # seconds without a word after which a board counts as lost; remote.py beats oftener

_BOOTSTRAP = (
    'import sys; i = sys.stdin.buffer; '
    'exec(compile(i.read(int(i.readline())), "{name}", "exec"))'
)  # fmt: skip

# Errors reach the user through exceptions; paramiko would print their tracebacks beside them.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class Session:
    """A running program: lines of JSON both ways. `stdin` and `stdout` are binary files."""

    def __init__(self, stdin, stdout, finish):
        self._stdin, self._stdout, self._finish = stdin, stdout, finish

    def send(self, data):
        """Send bytes; a board that is gone shows when its answer is read."""
        try:
            self._stdin.write(data)
            self._stdin.flush()
        except OSError:
            pass

    def event(self):
        """Return the next event. Raises BoardError when the board is lost, or refuses."""
        while line := self._line():
            try:
                event = json.loads(line)
            except ValueError:
                continue  # a login script that prints, e.g. a greeting
            if isinstance(event, dict) and "event" in event:
                if event["event"] == "refused":
                    raise BoardError(event["reason"])
                if event["event"] != "beat":
                    return event
        status, errors = self._finish()
        if status == 127:
            raise BoardError("python3 is not there: install it, or set python in boards.toml")
        last = errors.strip().splitlines()[-1:] or [f"the program ended with status {status}"]
        raise BoardError(f"the connection ended early: {last[0]}")

    def _line(self):
        try:
            return self._stdout.readline()
        except TimeoutError as error:
            raise BoardError(f"lost: not a word for {SILENCE} s") from error
        except OSError:
            return b""

    def read(self, count):
        """Return the next `count` bytes."""
        data = self._stdout.read(count)
        if len(data) < count:
            raise BoardError("the connection broke off in a transfer")
        return data


class Link:
    """A way to a board."""

    def start(self, program, request):
        """Start deploy/`program` there with a request (plain data); return its Session."""
        session = self._open(_BOOTSTRAP.format(name=program))
        source = (HERE / program).read_bytes()
        session.send(b"%d\n%s" % (len(source), source))
        session.send(json.dumps(request).encode() + b"\n")
        return session

    def close(self):
        """End the connection, if there is one."""


class LocalLink(Link):
    """This machine: a process of its own, as on a board."""

    address = "this machine"

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
            errors = process.stderr.read().decode(errors="replace")
            return process.wait(), errors

        return Session(process.stdin, process.stdout, finish)


class SshLink(Link):
    """A host of the user's ssh configuration. Its key must be known: none is trusted blindly."""

    def __init__(self, name, config, python, ssh_file=None):
        config = config.clone()  # a Connection writes into it: each needs its own
        ssh = config.base_ssh_config.lookup(_alias(name))
        self._python, self._ssh_file = python, ssh_file
        self._connection = Connection(
            name,
            config=config,
            connect_timeout=int(ssh.get("connecttimeout", CONNECT_TIMEOUT)),
            connect_kwargs={"look_for_keys": ssh.get("identitiesonly", "no") != "yes"},
        )
        hop = self._connection
        while isinstance(hop, Connection):
            self._check_host_keys(hop)
            hop = hop.gateway
        self.address = f"{self._connection.user}@{self._connection.host}:{self._connection.port}"

    def _check_host_keys(self, connection):
        client = connection.client
        own = connection.ssh_config.get("userknownhostsfile", "~/.ssh/known_hosts")
        for path in (*own.split(), "/etc/ssh/ssh_known_hosts"):
            path = Path(path).expanduser()
            if path.is_file():
                client.load_system_host_keys(path)
        ssh = ["ssh", *(["-F", self._ssh_file] if self._ssh_file else [])]
        accept = [*ssh, "-o", "StrictHostKeyChecking=ask", connection.original_host, "exit"]
        client.set_missing_host_key_policy(_RefuseUnknown(shlex.join(accept)))

    def _open(self, code):
        try:
            self._connection.open()
            channel = self._connection.transport.open_session(timeout=CONNECT_TIMEOUT)
            self._connection.transport.set_keepalive(10)
            channel.settimeout(SILENCE)
            channel.exec_command(f"{_shell_word(self._python)} -c {shlex.quote(code)}")
        except Exception as error:
            raise BoardError(self._explain(error)) from error
        stderr = channel.makefile_stderr("rb")

        def finish():
            channel.shutdown_write()
            try:
                return channel.recv_exit_status(), stderr.read().decode(errors="replace")
            except OSError as error:
                return None, str(error)

        stdin = channel.makefile_stdin("wb")
        return Session(stdin, channel.makefile("rb"), finish)

    def close(self):
        self._connection.close()

    def _explain(self, error):
        """Return the line that tells a user what to do about a connection that failed."""
        at = self.address
        match error:
            case BoardError():
                return str(error)
            case paramiko.BadHostKeyException():
                forget = shlex.join(["ssh-keygen", "-R", error.hostname])
                return (
                    f"refused: the host key of {error.hostname} has CHANGED, now "
                    f"{fingerprint(error.key)}: someone may be listening. Only if you know why it "
                    f"changed, remove the old key: {forget}"
                )
            case paramiko.PasswordRequiredException():
                return f"cannot log in to {at}: the key has a passphrase, add it with ssh-add"
            case paramiko.AuthenticationException():
                return (
                    f"cannot log in to {at}: no key was accepted. Copy yours with ssh-copy-id "
                    "(servers older than OpenSSH 7.2 take ed25519 keys only)"
                )
            case socket.gaierror():
                return f"{at} is not known: give a Host of your ssh configuration, or an address"
            case TimeoutError():
                return f"{at} does not answer: is the board on, and on this network?"
            case paramiko.ssh_exception.NoValidConnectionsError() | ConnectionRefusedError():
                return f"{at} refuses the connection: is sshd running there, on this port?"
        return f"cannot connect to {at}: {' '.join(str(error).split()) or type(error).__name__}"


class _RefuseUnknown(paramiko.MissingHostKeyPolicy):
    def __init__(self, accept):
        self._accept = accept

    def missing_host_key(self, client, hostname, key):
        raise BoardError(
            f"refused: the host key of {hostname} is unknown, {fingerprint(key)}. If the board's "
            f"own `ssh-keygen -lf` shows the same, accept it with: {self._accept}"
        )


def fingerprint(key):
    """Return a host key's type and SHA-256 as OpenSSH writes them."""
    return f"{key.get_name()} {key.fingerprint}"


def _alias(name):
    return derive_shorthand(name)["host"]


def _shell_word(command):
    """Quote a command for the board's shell, but let it expand a leading ~/."""
    return f'"$HOME"/{shlex.quote(command[2:])}' if command[:2] == "~/" else shlex.quote(command)
