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


class SshServer:
    """A throw-away OpenSSH server on 127.0.0.1 with its own keys, home folder and ssh_config."""

    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.make_key("host_key")
        self.make_key("client_key")
        self.known_hosts = folder / "known_hosts"
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

    def make_key(self, name):
        for old in (self.folder / name, self.folder / f"{name}.pub"):
            old.unlink(missing_ok=True)
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name]
        subprocess.run([*command, "-f", self.folder / name], check=True)

    def trust(self):
        """Write the server's present key into known_hosts."""
        key = (self.folder / "host_key.pub").read_text().split()[:2]
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {' '.join(key)}\n")

    def start(self):
        options = {
            "ListenAddress": f"127.0.0.1:{self.port}",
            "HostKey": self.folder / "host_key",
            "PidFile": "none",
            "AuthorizedKeysFile": self.folder / "client_key.pub",
            "StrictModes": "no",  # pytest's folders may be open to a group
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "KbdInteractiveAuthentication": "no",
            "PermitRootLogin": "prohibit-password",
            "MaxStartups": 100,
            "MaxSessions": 50,
            "LogLevel": "VERBOSE",
            "Subsystem": "sftp internal-sftp",
            "SetEnv": " ".join(f"{name}={value}" for name, value in self.variables.items()),
        }
        config = self.folder / "sshd_config"
        config.write_text("".join(f"{key} {value}\n" for key, value in options.items()))
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        command = [*self.prefix, SSHD, "-D", "-f", config, "-E", self.folder / "log"]
        self.process = subprocess.Popen(command)
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
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
        lines = {
            "HostName": "127.0.0.1",
            "Port": self.port,
            "User": getpass.getuser(),
            "IdentityFile": self.folder / "client_key",
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": self.known_hosts,
            **more,
        }
        return f"Host {alias}\n" + "".join(f"    {k} {v}\n" for k, v in lines.items())
