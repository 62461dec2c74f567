"""Start and stop an emulated board of this checkout. What it is made of lies in root.py.

.emulated/<arch or GPU>/
    ssh_config    how to reach it; boards.toml leads fab here. There while the board runs
    known_hosts   its host key, so that nothing need be accepted by hand
    client_key    the key that it takes
    home/         the board's home folder: what was deployed outlives a stop
    leader        the process whose end is the end of the board
    log           what its sshd says
"""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from deploy.boards import ROOT
from deploy.errors import BoardError
from dev.emulate.inside import birth
from dev.emulate.root import ARCHES, BOARDS, GPUS, build, locked

STATE = ROOT / ".emulated"
PATIENCE = 60  # seconds for its sshd to answer: emulated, on a machine that may be busy
# The first process that opens the device compiles OpenCL C's built-in functions and Python's
# modules, which takes a minute under emulation.
_OPEN = "import PIL.Image, pyopencl; pyopencl.get_platforms()[0].get_devices()"
_ENV = {**os.environ, "PYTHONPATH": str(ROOT)}  # of inside.py, which starts in any folder
_SSHD = """\
ListenAddress 127.0.0.1:{port}
HostKey /home/board/.ssh/host_key
AuthorizedKeysFile /home/board/.ssh/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
MaxStartups 100
SetEnv {env}
Subsystem sftp internal-sftp
"""


class Emulated:
    """The emulated board of that name in BOARDS; what is kept of it is in the folder `state`."""

    def __init__(self, name, state=STATE):
        self.arch, self.folder = BOARDS[name], Path(state).resolve() / name
        self.alias = name if name not in ARCHES else f"emulated-{name}".replace("-arm64", "")
        self.ssh_config = self.folder / "ssh_config"

    def start(self, say):
        """Start the board, if it is not running; build it before, if it never was.

        `say` takes lines for the user. Raises UsageError and BoardError.
        """
        with self._alone():
            if self.leader() and self.ssh_config.exists():
                say(f"{self.alias} is running already")
                return
            self._end()  # of a start that broke off
            root, cache = self.build(say)
            began = time.monotonic()
            port = self._prepare()
            self.begin(root, cache)
            self._wait(port)
            self._write_ssh_config(port)
        say(f"{self.alias} is up after {time.monotonic() - began:.1f} s, on port {port}")

    def run(self, command, say):
        """Become a command that runs on a board of its own, in this folder; `say`: see start()."""
        with self._alone():
            root, cache = self.build(say)
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        become = self._inside("/dev/null", root, home, cache, command)
        os.execve(become[0], become, _ENV)  # a signal that ends this process ends the command

    def build(self, say):
        """Return its file system and the folder with its caches, empty without Mesa."""
        root = build(self.arch, say)
        if self.arch not in GPUS.values():
            return root, ""
        cache = root.with_name(f"{root.name}.{self.folder.name}")
        with locked(cache, say):
            if not cache.exists():
                say(f"compiling OpenCL C's built-in functions for {self.alias}: a minute")
                self.fill(root, cache)
        return root, cache

    def fill(self, root, cache):
        new = cache.with_name(f"{cache.name}.partial")  # of a start that was killed
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        caches = ("MESA_SHADER_CACHE_DIR=/home/board", "PYTHONPYCACHEPREFIX=/home/board/python")
        command = [*caches, "python3", "-c", _OPEN]
        command = self._inside("/dev/null", root, new, "", command)
        done = subprocess.run(command, env=_ENV, capture_output=True, check=False)
        if done.returncode != 0:
            raise BoardError(f"{self.alias} has no OpenCL device: {_last(done.stderr)}")
        new.rename(cache)

    def stop(self):
        """End the board and all that runs on it; tell whether it was running."""
        if not self.folder.is_dir():
            return False
        with self._alone():
            return self._end()

    def _end(self):
        self.ssh_config.unlink(missing_ok=True)
        leader = self.leader()
        if leader:
            os.kill(leader, signal.SIGKILL)
            end = time.monotonic() + PATIENCE
            while self.leader():
                if time.monotonic() > end:
                    raise BoardError(f"process {leader} does not end")
                time.sleep(0.02)
        (self.folder / "leader").unlink(missing_ok=True)
        return leader is not None

    def leader(self):
        """Return the id of the process that is the board, or None where it is not running."""
        try:
            number, born = (self.folder / "leader").read_text(encoding="utf-8").split("\n")
        except (OSError, ValueError):
            return None
        # The number alone could be another process by now.
        return int(number) if born == birth(number) else None

    @contextlib.contextmanager
    def _alone(self):
        """Keep a second start or stop of this board waiting."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _prepare(self):
        """Write keys and sshd_config; return the port, one that is free."""
        ssh = self.folder / "home" / ".ssh"
        ssh.mkdir(parents=True, exist_ok=True)
        for key in (ssh / "host_key", self.folder / "client_key"):
            if not key.with_suffix(".pub").exists():
                key.unlink(missing_ok=True)
                command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "emulated board"]
                made = subprocess.run(
                    [*command, "-f", key], check=False, capture_output=True, text=True
                )
                if made.returncode != 0:
                    raise BoardError(f"ssh-keygen cannot make a key: {made.stderr.strip()}")
        shutil.copy(self.folder / "client_key.pub", ssh / "authorized_keys")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        env = " ".join(_settings(self.arch.env))
        (ssh / "sshd_config").write_text(_SSHD.format(port=port, env=env), encoding="utf-8")
        key = " ".join((ssh / "host_key.pub").read_text(encoding="utf-8").split()[:2])
        (self.folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key}\n", encoding="utf-8")
        return port

    def begin(self, root, cache):
        with open(self.folder / "log", "w") as log:
            begun = subprocess.run(
                self._inside(self.folder / "leader", root, self.folder / "home", cache),
                env=_ENV, check=False, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True,
            )
        if begun.returncode != 0:
            raise BoardError(self._why())

    def _inside(self, leader, root, home, cache, command=()):
        """Return the command line of inside.py, which says what the arguments are."""
        qemu = shutil.which(self.arch.qemu)
        if qemu is None:
            raise BoardError(f"{self.arch.qemu} is gone: sudo apt install qemu-user-static")
        if command:
            env = {"HOME": "/home/board", "PATH": "/usr/bin", **self.arch.env}
            command = ["/usr/bin/env", "-i", *_settings(env), *command]
        where = (leader, root, home, cache, qemu, *self.arch.elf)
        return [sys.executable, "-m", "dev.emulate.inside", *map(str, where), *command]

    def _wait(self, port):
        """Wait until the board's sshd greets."""
        end = time.monotonic() + PATIENCE
        while True:
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), 5) as probe,
            ):
                if probe.recv(4) == b"SSH-":
                    return
            if not self.leader():
                raise BoardError(self._why())
            if time.monotonic() > end:
                self._end()
                last = _last((self.folder / "log").read_bytes())
                raise BoardError(f"its sshd does not answer within {PATIENCE} s: {last}")
            time.sleep(0.05)

    def _write_ssh_config(self, port):
        block = (
            f"Host {self.alias}\n    HostName 127.0.0.1\n    Port {port}\n    User board\n"
            f'    IdentityFile "{self.folder / "client_key"}"\n    IdentitiesOnly yes\n'
            f'    UserKnownHostsFile "{self.folder / "known_hosts"}"\n'
        )
        self.ssh_config.write_text(block, encoding="utf-8")

    def _why(self):
        """Return why the board did not come up, with what can be done about it."""
        last = _last((self.folder / "log").read_bytes())
        text = f"the emulated board cannot start: {last}"
        if "binfmt_misc" in last:
            text += ". It needs Linux 6.7 or newer, or qemu's entries in the system's binfmt_misc"
        elif last.startswith(("user namespaces", "/proc/self/", "mount ")):
            text += (
                ". It needs user namespaces. Ubuntu: sudo sysctl "
                "kernel.apparmor_restrict_unprivileged_userns=0. In a container: --privileged"
            )
        return text


def _settings(env):
    own = {
        "LANG": "C.UTF-8",
        "OPENCL_SAMPLES_PROBE_SECONDS": "300",  # compilers are emulated, too
        "PYTHONWARNINGS": "ignore:::pytools.persistent_dict",  # Debian has no siphash24 for it
    }
    return [f"{name}={value}" for name, value in {**own, **env}.items()]


def _last(said):
    lines = said.decode(errors="replace").strip().splitlines()
    return (lines or ["it says nothing"])[-1]
