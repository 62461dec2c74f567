"""Download wheels for a board, which often has no internet and no pip.

Versions and digests are those of requirements.lock, or of a lock for a Python that it is too new
for. pip refuses what has another digest.
"""

import re
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from common.files import read_text
from deploy import ship
from deploy.boards import ROOT
from deploy.errors import BoardError
from deploy.onboard import limits
from deploy.slim import slim

# A kernel may have more bits than the programs of its system.
_MACHINES_OF_32_BITS = {"aarch64": "armv7l", "armv8l": "armv7l", "x86_64": "i686"}
_OLDEST_GLIBC = 17  # 2.17, of manylinux2014
_LOCK = "requirements.lock"
_LOCKS = {"3.10": "requirements-python3.10.lock"}
_OLDEST_PYTHON = 10  # 3.10: of older ones, pyopencl has no wheels for ARM
_PACKAGE = re.compile(r"^([a-z0-9.-]+)==([^\s;]+).*\n((?:    .*\n?)*)", re.M)


class Target(NamedTuple):
    """What a board's wheels are for: `tags` are pip's platforms that fit it, the newest first."""

    python: str
    machine: str
    libc: str
    tags: list

    def __str__(self):
        return f"CPython {self.python}, {self.machine}, {self.libc}"


def target(found):
    """Return the Target of a board, from what onboard/provision.py found.

    Raises ValueError or TypeError where it cannot be one.
    """
    python = re.match(r"3\.\d{1,3}(?!\d)", found["python"]["version"], re.ASCII)[0]
    machine, (libc, major, minor) = found["machine"], found["libc"]
    if not re.fullmatch(r"\w{1,20}", machine, re.ASCII):
        raise ValueError("the machine is not a processor")
    if found["bits"] == 32:
        machine = _MACHINES_OF_32_BITS.get(machine, machine)
    if libc not in ("glibc", "musl") or {type(major), type(minor)} != {int} or not 0 < major < 10:
        raise ValueError("the C library is unknown")
    minor = min(minor, limits.NEWEST_GLIBC)
    if libc == "musl":  # PEP 656
        tags = [f"musllinux_{major}_{n}_{machine}" for n in range(minor, 0, -1)]
    else:  # PEP 600
        tags = [f"manylinux_{major}_{n}_{machine}" for n in range(minor, _OLDEST_GLIBC - 1, -1)]
        tags.append(f"manylinux2014_{machine}")
    return Target(python, machine, f"{libc} {major}.{minor}", [*tags, f"linux_{machine}"])


def none_for(target):
    """Return why no wheels fit a Target, or None."""
    if target.machine.startswith("armv"):
        return "there are no wheels for 32-bit ARM"
    if int(target.python.split(".")[1]) < _OLDEST_PYTHON:
        return f"there are no wheels for Python {target.python}"
    return None


def pinned(names, python):
    """Return a requirements file for pip: packages, and all that they need, with their digests.

    `python` is the board's version, such as 3.11. Raises BoardError where a package is not in its
    lock, and UsageError where that cannot be read.
    """
    lock = _LOCKS.get(python, _LOCK)
    packages = {}
    for name, version, rest in _PACKAGE.findall(read_text(ROOT / lock, limits.MIB)):
        digests = re.findall(r"--hash=sha256:[0-9a-f]{64}", rest)
        # As pip-compile writes it: `# via pyopencl`, or one package a line below `# via`.
        wanted_by = re.findall(r"# (?:via)? *([a-z0-9.-]+)", rest)
        packages[name] = f"{name}=={version} {' '.join(digests)}", set(wanted_by)
    wanted = {name.lower() for name in names}
    if missing := wanted - set(packages):
        raise BoardError(f"{lock} has no {min(missing)}")
    while more := {name for name in packages if packages[name][1] & wanted} - wanted:
        wanted |= more
    return "".join(f"{packages[name][0]}\n" for name in sorted(wanted))


def download(names, target, packed, run):
    """Write a tar.gz of a site-packages folder with the packages, for a Target, to an open file.

    `run` is the board's run_here(). Raises BoardError where pip has no wheels for it.
    """
    with tempfile.TemporaryDirectory(prefix="wheels-") as folder:
        wanted, site = Path(folder, "requirements.txt"), Path(folder, "site")
        wanted.write_text(pinned(names, target.python), encoding="utf-8")
        command = [
            sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--no-input", "--no-compile", "--no-deps", "--require-hashes", "--requirement", wanted,
            "--target", site, "--only-binary", ":all:",
            "--implementation", "cp", "--python-version", target.python,
        ]
        done = run([*command, *(f"--platform={tag}" for tag in target.tags)])
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["pip says nothing"]
            errors = [line for line in lines if line.startswith("ERROR: ")]
            why = (errors or lines)[-1].removeprefix("ERROR: ")
            raise BoardError(f"no wheels for {target}: {why}")
        slim(site / "lib")
        files = sorted(path for path in site.rglob("*") if path.is_file())
        ship.pack({path.relative_to(site).as_posix(): path for path in files}, packed)
