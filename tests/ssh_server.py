"""A throw-away OpenSSH server on loopback: a board for tests."""

import getpass
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from dev import loopback

SSHD = shutil.which("sshd", path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")


class SshServer:
    """A throw-away OpenSSH server on 127.0.0.1 with its own keys, home folder and ssh_config."""

    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.port, self.known_hosts = loopback.free_port(), folder / "known_hosts"
        loopback.make_key(folder / "host_key")
        loopback.make_key(folder / "client_key")
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
        loopback.trust(self.known_hosts, self.port, self.folder / "host_key.pub")

    def start(self):
        config = self.folder / "sshd_config"
        config.write_text(loopback.sshd_config(
            self.port, self.folder / "host_key", self.folder / "client_key.pub",
            [f"{name}={value}" for name, value in self.variables.items()],
            PermitRootLogin="prohibit-password", MaxSessions=50, LogLevel="VERBOSE",
        ))
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        command = [*self.prefix, SSHD, "-D", "-f", config, "-E", self.folder / "log"]
        self.process = subprocess.Popen(command)
        deadline = time.monotonic() + 10
        while not loopback.answers(self.port):
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
        return loopback.host_block(alias, self.port, getpass.getuser(), self.folder, **more)
