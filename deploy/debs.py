"""Download Debian packages for a board without internet, with all that it lacks to install them.

This machine's apt does so, in a root of its own for the board's release: nothing of this machine
changes, and no right is needed. The archive is the one that this machine uses for its own release,
with its proxy. apt checks signatures, with this machine's keys, and digests.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from common.text import printable
from deploy import ship
from deploy.apt import own_archive, own_settings
from deploy.errors import BoardError

KEYRINGS = Path("/usr/share/keyrings")
# Those of dpkg-query that apt needs of an installed package, which lacks nothing.
FIELDS = ("db:Status-Abbrev", "Package", "Version", "Architecture", "Multi-Arch", "Provides")
_COMPONENTS = {"ubuntu": "main universe"}
_ARCHIVES = "var/cache/apt/archives"
_WORD = r"[A-Za-z0-9][A-Za-z0-9.+:~_-]{0,200}"
_INSTALLED = re.compile(
    rf".i.\|(?P<package>{_WORD})\|(?P<version>{_WORD})\|(?P<architecture>{_WORD})"
    r"\|(?P<multi>[a-z]{0,20})\|(?P<provides>[\w.+:~(), =-]*)", re.ASCII,
)
# Of a driver that no package brought: pyopencl's package wants one.
_DRIVER = """Package: driver-without-a-package
Status: install ok installed
Version: 1
Architecture: all
Provides: opencl-icd
"""
_CONFIG = """\
Dir "{root}";
Dir::State::status "{root}/status";
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; }};
APT::Install-Recommends "false";
APT::Get::Upgrade "false";
"""


class Release(NamedTuple):
    """The release of a distribution and the architecture that a board's packages are for."""

    distribution: str
    codename: str
    architecture: str

    def __str__(self):
        return f"{self.distribution} {self.codename} for {self.architecture}"


def release(found):
    """Return the Release of a board, or None. Raises ValueError or TypeError for what is none."""
    if found is None:
        return None
    if not all(re.fullmatch("[a-z0-9][a-z0-9.-]{0,40}", part) for part in found):
        raise ValueError("it has no such release")
    return Release(*found)


def sources(wanted, mirror=None, updates=True):
    """Return the sources.list for a Release, of this machine's archive or of the `mirror`.

    Raises BoardError where there is no archive of it, or no keys to check it with.
    """
    distribution, codename, _ = wanted
    keys = KEYRINGS / f"{distribution}-archive-keyring.gpg"
    if not keys.exists():
        raise BoardError(f"this machine lacks the keys of {distribution}'s archive: {keys}")
    if mirror:
        suites = [("", _COMPONENTS.get(distribution, "main"), mirror)]
    else:
        suites = own_archive(distribution)
    if not suites:
        raise BoardError(f"this machine has no archive of {distribution}: name one with --mirror")
    return "".join(f"deb [signed-by={keys}] {address} {codename}{suffix} {component}\n"
                   for suffix, component, address in suites if updates or not suffix)


def download(names, wanted, installed, driver, mirror, packed):
    """Write a tar.gz of packages for a Release, and of all that they need, to an open file.

    `installed` has the FIELDS of what the board has, a package a line, with | between them. With
    `driver` it has an OpenCL driver beside them. Newer versions of what the board has are left out:
    a libc must fit the board's loader. Return lines about what was done otherwise than usually.
    Raises BoardError.
    """
    if not shutil.which("apt-get"):
        raise BoardError(f"no packages of {wanted}: this machine has no apt-get")
    have = [found for found in map(_INSTALLED.fullmatch, installed.splitlines())
            if found and found["architecture"] in (wanted.architecture, "all")]
    with tempfile.TemporaryDirectory(prefix="debs-") as folder:
        root = Path(folder)
        for name in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/lib/apt/lists/partial",
                     f"{_ARCHIVES}/partial"):
            (root / name).mkdir(parents=True)
        status = [_stanza(**found.groupdict()) for found in have] + [_DRIVER] * driver
        config = _CONFIG.format(root=root, architecture=wanted.architecture) + own_settings()
        (root / "status").write_text("\n".join(status), encoding="utf-8")
        (root / "apt.conf").write_text(config, encoding="utf-8")
        notes = []
        # The lists of an old release's updates may name packages that the archive has no more.
        if why := _get(root, names, sources(wanted, mirror), notes):
            notes.append(f"without the updates of {wanted}: {why}")
            if _get(root, names, sources(wanted, mirror, updates=False), notes):
                raise BoardError(f"no packages of {wanted}: {why}")
        kept = {found["package"] for found in have}
        files = sorted((root / _ARCHIVES).glob("*.deb"))
        ship.pack({f.name: f for f in files if f.name.split("_")[0] not in kept}, packed)
    return notes


def _get(root, names, lines, notes):
    """Let apt download packages, from the sources of those lines; return why not, or None."""
    for old in (root / _ARCHIVES).glob("*.deb"):
        old.unlink()
    (root / "etc/apt/sources.list").write_text(lines, encoding="utf-8")
    if "is expired" in _apt(root, "update").stderr:
        notes.append("the archive's lists are expired: used as they are, as of an old release")
        _apt(root, "-o", "Acquire::Check-Valid-Until=false", "update")
    done = _apt(root, "install", "--yes", "--download-only", *names)
    if done.returncode == 0:
        return None
    said = [line for line in done.stderr.splitlines() if line.startswith("E: ")]
    return printable(said[0][3:] if said else "apt-get says nothing")


def _stanza(package, version, architecture, multi, provides):
    """Return what dpkg's status would have of a package, without what it needs."""
    text = f"Package: {package}\nStatus: install ok installed\nVersion: {version}\n"
    text += f"Architecture: {architecture}\n"
    text += f"Multi-Arch: {multi}\n" if multi else ""
    return text + (f"Provides: {provides}\n" if provides else "")


def _apt(root, *command):
    env = {**os.environ, "APT_CONFIG": str(root / "apt.conf"), "LC_ALL": "C"}
    return subprocess.run(["apt-get", "--quiet", *command], env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, errors="replace", check=False)
