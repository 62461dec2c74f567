"""Start and stop an emulated board of this checkout. What it is made of lies in root.py.

.emulated/<arch or GPU>/
    ssh_config    how to reach it; boards.toml leads fab here. There while the board runs
    known_hosts   its host key, so that nothing need be accepted by hand
    client_key    the key that it takes
    home/         the board's home folder: what was deployed outlives a stop
    leader        the process whose end is the end of the board
    log           what its sshd says
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from deploy.boards import ROOT
from deploy.errors import BoardError
from dev import loopback
from dev.emulate.root import ARCHES, BOARDS, GPUS, HOME, alone, build, made

STATE = ROOT / ".emulated"
_INSIDE = Path(__file__).with_name("inside.sh")
PATIENCE = 60  # seconds for its sshd to answer: emulated, on a machine that may be busy
# The first process that opens the device compiles OpenCL C's built-in functions and Python's
# modules, which takes a minute under emulation.
_OPEN = "import PIL.Image, pyopencl; pyopencl.get_platforms()[0].get_devices()"
# With its end all ends that it has started.
_UNSHARE = ("unshare", "--user", "--map-root-user", "--mount", "--uts", "--pid", "--fork",
            "--kill-child")


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
        with alone(self.folder / "lock", say):
            if self.leader() and self.ssh_config.exists():
                say(f"{self.alias} is running already")
                return
            self._end()  # of a start that broke off
            root, cache = self.build(say)
            began, port = time.monotonic(), self._prepare()
            with open(self.folder / "log", "w") as log:
                process = subprocess.Popen(
                    self._inside(root, self.folder / "home", cache), stdin=subprocess.DEVNULL,
                    stdout=log, stderr=log, start_new_session=True,
                )
            (self.folder / "leader").write_text(f"{process.pid}\n", encoding="utf-8")
            self._wait(port, process)
            block = loopback.host_block(self.alias, port, "board", self.folder)
            self.ssh_config.write_text(block, encoding="utf-8")
        say(f"{self.alias} is up after {time.monotonic() - began:.1f} s, on port {port}")

    def run(self, command, say):
        """Run a command on a board of its own, in this folder; return its exit status.

        `say`: see start(). A signal that ends this process ends the command.
        """
        with alone(self.folder / "lock", say):
            root, cache = self.build(say)
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        inside = self._inside(root, home, cache, command)
        return subprocess.run(["setpriv", "--pdeathsig", "KILL", *inside], check=False).returncode

    def build(self, say):
        """Return its file system and the folder with its caches, empty without Mesa."""
        root = build(self.arch, say)
        if self.arch not in GPUS.values():
            return root, ""

        def fill(home, _lock):
            say(f"compiling OpenCL C's built-in functions for {self.alias}: a minute")
            home.mkdir()
            caches = (f"MESA_SHADER_CACHE_DIR=/{HOME}", f"PYTHONPYCACHEPREFIX=/{HOME}/python")
            command = self._inside(root, home, "", [*caches, "python3", "-c", _OPEN])
            done = subprocess.run(command, capture_output=True, check=False)
            if done.returncode != 0:
                raise BoardError(f"{self.alias} has no OpenCL device: {_last(done.stderr)}")

        return root, made(root.with_name(f"{root.name}.{self.folder.name}"), fill, say)

    def stop(self):
        """End the board and all that runs on it; tell whether it was running."""
        if not self.folder.is_dir():
            return False
        with alone(self.folder / "lock", print):
            return self._end()

    def _end(self):
        self.ssh_config.unlink(missing_ok=True)
        leader = self.leader()
        if leader:
            os.kill(leader, signal.SIGKILL)
            while self.leader():
                time.sleep(0.02)
        (self.folder / "leader").unlink(missing_ok=True)
        return leader is not None

    def leader(self):
        """Return the id of the process that is the board, or None where it is not running."""
        try:
            number = int((self.folder / "leader").read_text(encoding="utf-8"))
            words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        # The number alone could be another process by now.
        return number if os.fsencode(self.folder / "home") in words else None

    def _prepare(self):
        """Write keys and sshd_config; return the port, one that is free."""
        ssh, port = self.folder / "home" / ".ssh", loopback.free_port()
        ssh.mkdir(parents=True, exist_ok=True)
        for key in (ssh / "host_key", self.folder / "client_key"):
            loopback.make_key(key)
        shutil.copy(self.folder / "client_key.pub", ssh / "authorized_keys")
        config = loopback.sshd_config(port, f"/{HOME}/.ssh/host_key",
                                      f"/{HOME}/.ssh/authorized_keys", _settings(self.arch.env))
        (ssh / "sshd_config").write_text(config, encoding="utf-8")
        loopback.trust(self.folder / "known_hosts", port, ssh / "host_key.pub")
        return port

    def _inside(self, root, home, cache, command=()):
        """Return the command line of inside.sh, which says what the arguments are."""
        qemu = shutil.which(self.arch.qemu)
        if qemu is None:
            raise BoardError(f"{self.arch.qemu} is gone: sudo apt install qemu-user-static")
        if command:
            env = {"HOME": f"/{HOME}", "PATH": "/usr/bin", **self.arch.env}
            command = ["/usr/bin/env", "-i", *_settings(env), *command]
        where = (root, home, cache, qemu, *self.arch.elf)
        return [*_UNSHARE, "sh", str(_INSIDE), *map(str, where), *command]

    def _wait(self, port, process):
        """Wait until the board's sshd greets; `process` is the board."""
        end = time.monotonic() + PATIENCE
        while not loopback.answers(port):
            last = _last((self.folder / "log").read_bytes())
            if process.poll() is not None:
                raise BoardError(f"the emulated board cannot start: {last}. It needs Linux 6.7 or "
                                 "newer, and user namespaces: see docs/boards.md")
            if time.monotonic() > end:
                self._end()
                raise BoardError(f"its sshd does not answer within {PATIENCE} s: {last}")
            time.sleep(0.05)


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
