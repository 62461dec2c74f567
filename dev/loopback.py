"""SSH servers on loopback: boards for tests and measurements."""

import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")


def free_port():
    """Return a port of 127.0.0.1 on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    """Tell whether an SSH server greets on a port of 127.0.0.1."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as probe:
        return probe.recv(4) == b"SSH-"
    return False


def make_key(path):
    """Make a pair of keys, in place of an older one."""
    for old in (path, path.with_suffix(".pub")):
        old.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", path]
    subprocess.run(command, check=True)


def trust(known_hosts, port, key):
    """Let a file known_hosts have the public key of the server on that port, and no other."""
    words = key.read_text(encoding="utf-8").split()[:2]
    known_hosts.write_text(f"[127.0.0.1]:{port} {' '.join(words)}\n", encoding="utf-8")


def sshd_config(port, host_key, authorized_keys, env, **more):
    """Return an sshd_config; `env` are the variables of its sessions, each NAME=VALUE."""
    options = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": host_key,
        "PidFile": "none",
        "AuthorizedKeysFile": authorized_keys,
        "StrictModes": "no",  # pytest's folders may be open to a group
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "MaxStartups": 100,
        "Subsystem": "sftp internal-sftp",
        "SetEnv": " ".join(env),
        **more,
    }
    return "".join(f"{key} {value}\n" for key, value in options.items())


def host_block(alias, port, user, folder, **more):
    """Return a Host of an ssh configuration; the client's keys are in a folder."""
    lines = {
        "HostName": "127.0.0.1",
        "Port": port,
        "User": user,
        "IdentityFile": f'"{folder / "client_key"}"',
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": f'"{folder / "known_hosts"}"',
        **more,
    }
    return f"Host {alias}\n" + "".join(f"    {key} {value}\n" for key, value in lines.items())


class SshServer:
    """A throw-away OpenSSH server on 127.0.0.1 with its own keys, home folder and ssh_config."""

    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.port, self.known_hosts = free_port(), folder / "known_hosts"
        make_key(folder / "host_key")
        make_key(folder / "client_key")
        self.trust()
        self.process = None
        # What it starts with: a command before sshd's own, and variables of its sessions.
        self.prefix = []
        self.variables = {
            "HOME": self.home,
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        }
        if cache := os.environ.get("POCL_CACHE_DIR"):
            self.variables["POCL_CACHE_DIR"] = cache
        self.start()

    def trust(self):
        """Write the server's present key into known_hosts."""
        trust(self.known_hosts, self.port, self.folder / "host_key.pub")

    def start(self):
        config = self.folder / "sshd_config"
        config.write_text(sshd_config(
            self.port, self.folder / "host_key", self.folder / "client_key.pub",
            [f"{name}={value}" for name, value in self.variables.items()],
            PermitRootLogin="prohibit-password", MaxSessions=50, LogLevel="VERBOSE",
        ))
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        command = [*self.prefix, SSHD, "-D", "-f", config, "-E", self.folder / "log"]
        self.process = subprocess.Popen(command)
        deadline = time.monotonic() + 10
        while not answers(self.port):
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < deadline, "sshd does not answer"
            time.sleep(0.02)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(10)

    def power_off(self):
        """End the server, and all that it runs, at once."""
        self.process.kill()
        self.process.wait()
        mine = f"HOME={self.home}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mine in (folder / "environ").read_bytes().split(b"\0"):
                    os.kill(int(folder.name), signal.SIGKILL)

    def log(self):
        return (self.folder / "log").read_text()

    def host_block(self, alias, **more):
        """Return a Host of an ssh configuration that leads here."""
        return host_block(alias, self.port, getpass.getuser(), self.folder, **more)
