"""Connect to a board over SSH by the user's ssh configuration, and check its host key."""

import logging
import os
import shlex
import socket
import time
from functools import partial
from pathlib import Path

import fabric
import paramiko
from fabric import Connection
from fabric.connection import derive_shorthand

from common.errors import UsageError
from common.files import read_text
from deploy import known_hosts
from deploy.errors import BoardError
from deploy.link import ENDLESS, NO_END, PIECE, Link
from deploy.onboard import limits

SSH_PORT = 22
CONNECT_TIMEOUT = 15  # seconds, where the ssh configuration has no ConnectTimeout
MOST_BYTES = 1024**2  # of a board's ssh_config
MOST_TROUBLE = 3  # lines of known_hosts that a refusal names
# The algorithms with which a key of a type signs, where they are called otherwise.
_ALGORITHMS = {"ssh-rsa": ["rsa-sha2-512", "rsa-sha2-256"]}

# The files of host keys, by the option that replaces them.
_KNOWN_HOSTS = {
    "userknownhostsfile": "~/.ssh/known_hosts ~/.ssh/known_hosts2",
    "globalknownhostsfile": "/etc/ssh/ssh_known_hosts",
}

TICK = 0.2  # seconds between two looks at what a server sends, while none of it is read

# What paramiko says of a server that takes a connection and is silent then.
_NO_GREETING = ("Error reading SSH protocol banner", "No existing session")

# Errors reach the user through exceptions; paramiko would print their tracebacks beside them.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class SshLink(Link):
    """A host of the user's ssh configuration. Its key must be known: none is trusted blindly.

    `ssh_file` is where that configuration comes from, if it is not ssh's own: fab's -S, or the
    board's `ssh_config`, which is `own_file`.
    """

    def __init__(self, name, config, python, ssh_file=None, own_file=None):
        config = config.clone()  # a Connection writes into it: each needs its own
        if own_file is not None:
            config, ssh_file = _config_of(name, own_file), own_file
        config.timeouts.connect = CONNECT_TIMEOUT
        self._python, self.ssh_file = python, ssh_file
        try:
            ssh = config.base_ssh_config.lookup(derive_shorthand(name)["host"])
            jump, command = (ssh.get(key) or "none" for key in ("proxyjump", "proxycommand"))
            gateway = None  # fabric takes it from the configuration, also where that says none
            if jump.lower() == "none":
                gateway = False if command.lower() == "none" else command
            self._connection = Connection(name, config=config, gateway=gateway)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"the ssh configuration of {name} cannot be used: {error}") from error
        for hop in self._hops():
            self._prepare(hop)
        self.address = _address(self._connection)

    def _hops(self):
        """Return the board's connection and those that it jumps through, the board's first."""
        hops = [self._connection]
        while isinstance(hops[-1].gateway, Connection):
            hops.append(hops[-1].gateway)
        return hops

    def _prepare(self, hop):
        """Give a connection, the board's or a jump's, what fabric leaves out of ssh's options."""
        ssh, options = hop.ssh_config, hop.connect_kwargs
        # ssh's ConnectTimeout holds for the server's greeting, too.
        options["banner_timeout"] = hop.connect_timeout
        options["look_for_keys"] = ssh.get("identitiesonly", "no").lower() != "yes"
        # As ssh does: a key file that is not there is not tried.
        keys = options.get("key_filename", [])
        options["key_filename"] = [key for key in keys if _is_file(key)]

        files = [os.path.expanduser(p) for option, default in _KNOWN_HOSTS.items()
                 for p in _paths(ssh.get(option, default)) if _is_file(p)]
        known = known_hosts.look_up(files, ssh.get("hostkeyalias", _known_as(hop)))
        types = [key.get_name() for key in known.trusted.values()]
        options["transport_factory"] = partial(transport, types)
        # Every key comes to this policy: paramiko is given none to compare with.
        hop.client.set_missing_host_key_policy(_HostKeys(self, hop, known))

    def accept_command(self, hop, key):
        """Return the command that lets a user accept the key of a connection."""
        command = ["ssh", *(["-F", self.ssh_file] if self.ssh_file else [])]
        command += ["-o", "StrictHostKeyChecking=ask"]
        # ssh would not ask where it prefers another key, or a certificate.
        kinds = ",".join(_ALGORITHMS.get(key.get_name(), [key.get_name()]))
        command += ["-o", f"HostKeyAlgorithms={kinds}"]
        if "port" not in hop.ssh_config and hop.port != SSH_PORT:
            command += ["-p", str(hop.port)]
        if "user" not in hop.ssh_config and hop.user != hop.config.user:
            command += ["-l", hop.user]
        return shlex.join([*command, hop.original_host, "exit"])

    def _open(self, code):
        try:
            self._connection.open()
            channel = self._connection.transport.open_session(timeout=CONNECT_TIMEOUT)
            self._connection.transport.set_keepalive(10)
            channel.settimeout(CONNECT_TIMEOUT)
            channel.exec_command(f"{_shell_word(self._python)} -c {shlex.quote(code)}")
        except Exception as error:
            raise BoardError(self._explain(error)) from error
        return _Way(channel)

    def close(self):
        self._connection.close()

    def _explain(self, error):
        """Return the line that tells a user what to do about a connection that failed."""
        # A jump that failed was never connected; what it leads to was not even tried.
        hop = [hop for hop in self._hops() if not hop.is_connected][-1:] or [self._connection]
        at = _address(hop[0])
        match error:
            case BoardError():
                return str(error)
            case paramiko.PasswordRequiredException():
                return f"cannot log in to {at}: the key has a passphrase, add it with ssh-add"
            case paramiko.AuthenticationException():
                return (
                    f"cannot log in to {at}: no key was accepted. Copy yours with ssh-copy-id "
                    "(servers older than OpenSSH 7.2 take ed25519 keys only)"
                )
            case socket.gaierror():
                return (
                    f"cannot find a host named {hop[0].host}: give a Host of your ssh "
                    "configuration, or an address"
                )
            case TimeoutError():
                return f"{at} does not answer: is the board on, and on this network?"
            case paramiko.SSHException() if str(error) in _NO_GREETING:
                return f"{at} does not answer as an SSH server: is it one, on this port?"
            case paramiko.ssh_exception.NoValidConnectionsError() | ConnectionRefusedError():
                causes = getattr(error, "errors", {None: error}).values()
                if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
                    return f"{at} refuses the connection: is sshd running there, on this port?"
                return f"{at} cannot be reached: is the board on, and on this network?"
        return f"cannot connect to {at}: {' '.join(str(error).split()) or type(error).__name__}"


class _Way:
    """The way to a program over a channel of SSH: see link.Session."""

    def __init__(self, channel):
        self._channel = channel

    def receive(self, seconds):
        end = time.monotonic() + seconds
        while True:
            self._check_unread()
            self._channel.settimeout(TICK)
            try:
                return self._channel.recv(PIECE)
            except TimeoutError:
                if time.monotonic() > end:
                    raise

    def send(self, data, seconds):
        self._channel.settimeout(min(seconds, limits.SILENCE))
        if sent := self._channel.send(data):
            return sent
        raise OSError("the channel is closed")

    def finish(self):
        self._channel.shutdown_write()
        # The board may close its output, and live on.
        end = time.monotonic() + limits.SILENCE
        while not self._channel.status_event.wait(TICK):
            self._check_unread()
            if time.monotonic() > end:
                return None, NO_END
        try:
            errors = self._channel.recv_stderr(limits.LONGEST_ERRORS).decode(errors="replace")
            return self._channel.recv_exit_status(), errors
        except OSError as error:
            return None, str(error)

    def _check_unread(self):
        """Give a server up that sends more than SSH lets it: paramiko keeps all of it."""
        channel = self._channel
        if len(channel.in_buffer) + len(channel.in_stderr_buffer) > limits.UNREAD:
            raise BoardError(f"{ENDLESS}: its SSH server ignores the flow control")


class _Packetizer(paramiko.packet.Packetizer):
    """Refuses packets larger than any server sends: paramiko would read up to 4 GiB of one."""

    def read_all(self, n, check_rekey=False):
        if n > limits.LARGEST_PACKET:
            raise paramiko.SSHException(f"{ENDLESS}: an SSH packet of {n} bytes")
        return super().read_all(n, check_rekey)


def _paths(value):
    """Return the files of an option; paramiko has removed the quotes of one with a space."""
    return [value] if _is_file(value) else value.split()


def _is_file(path):
    return os.path.isfile(os.path.expanduser(path))


def _config_of(name, file):
    folder = Path(file).parent
    if folder.parent.name == ".emulated" and not Path(file).exists():
        arch, _, release = folder.name.partition("-")
        which = {"arm64": "", "armhf": " ARCH=armhf"}.get(arch, f" GPU={folder.name}")
        which += f" RELEASE={release}" if arch.startswith("arm") and release else ""
        raise UsageError(f"{name} is not running: `make board{which}` starts it")
    try:
        text = read_text(file, MOST_BYTES)
        return fabric.Config(ssh_config=paramiko.SSHConfig.from_text(text))
    except UsageError as error:
        raise UsageError(f"the ssh_config of {name}: {error}") from error
    except paramiko.ConfigParseError as error:
        raise UsageError(f"the ssh_config of {name}, {file}: {error}") from error


def _address(hop):
    host = f"[{hop.host}]" if ":" in hop.host else hop.host
    return f"{hop.user}@{host}:{hop.port}"


def _known_as(hop):
    """Return the name under which known_hosts keeps the key of a connection."""
    return hop.host if hop.port == SSH_PORT else f"[{hop.host}]:{hop.port}"


def _forget_command(hop):
    own = _paths(hop.ssh_config.get("userknownhostsfile", "~/.ssh/known_hosts"))[0]
    name = hop.ssh_config.get("hostkeyalias", _known_as(hop))
    return shlex.join(["ssh-keygen", "-f", os.path.expanduser(own), "-R", name])


def transport(types, sock, **options):
    """Return a Transport that asks for the host keys of these types first, as ssh does."""
    result = paramiko.Transport(sock, packetizer_class=_Packetizer, **options)
    preferred = result.get_security_options()
    known = [name for each in types for name in _ALGORITHMS.get(each, [each])]
    preferred.key_types = sorted(preferred.key_types, key=lambda name: name not in known)
    return result


class _HostKeys(paramiko.MissingHostKeyPolicy):
    """Decides whether a host key is trusted: only one that known_hosts holds, and never revoked."""

    def __init__(self, link, hop, known):
        self._link, self._hop, self._known = link, hop, known

    def missing_host_key(self, client, hostname, key):
        revoked, trusted = self._known.where(key)
        if revoked or self._known.fatal or not trusted:
            why = self._why(f"{key.get_name()} {key.fingerprint}", key, revoked)
            raise BoardError(f"refused: the host key of {hostname}{why}")

    def _why(self, its, key, revoked):
        if revoked:
            return f", {its}, is REVOKED by {revoked}"
        if self._known.fatal:
            return f" cannot be checked: {self._known.fatal}"
        if self._known.trusted:
            return (
                f" has CHANGED, now {its}: someone may be listening. Only if you know why it "
                f"changed, remove the old key: {_forget_command(self._hop)}"
            )
        trouble = "".join(f"; {line}" for line in self._known.trouble[:MOST_TROUBLE])
        return (
            f" is unknown, {its}{trouble}. If on the board `ssh-keygen -lf` shows the same for its "
            f"key in /etc/ssh, accept it with: {self._link.accept_command(self._hop, key)}"
        )


def _shell_word(command):
    """Quote a command for the board's shell, but let it expand a leading ~/."""
    return f'"$HOME"/{shlex.quote(command[2:])}' if command[:2] == "~/" else shlex.quote(command)
