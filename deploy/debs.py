"""Download Debian packages for a board without internet, with all that it lacks to install them.

This machine's apt does so, in a root of its own for the board's release: nothing of this machine
changes, and no right is needed. The archive is the one that this machine uses for its own release,
with its proxy. apt checks signatures, with this machine's keys, and digests.
"""

import os
import re
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

from common.text import printable
from deploy import ship
from deploy.apt import own_archive, own_settings
from deploy.errors import BoardError

KEYRINGS = Path("/usr/share/keyrings")
# What dpkg-query says of a package, but not what it needs: what is installed lacks nothing.
FORMAT = """Package: ${Package}
Status: ${Status}
Architecture: ${Architecture}
Version: ${Version}
Multi-Arch: ${Multi-Arch}
Provides: ${Provides}

"""
_INSTALLED = r"Package: (\S+)\nStatus: \w+ ok installed\nArchitecture: (all|%s)\n"
_COMPONENTS = {"ubuntu": "main universe"}
_ARCHIVES = "var/cache/apt/archives"
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


def download(names, wanted, installed, driver, mirror, packed, run):
    """Write a tar.gz of packages for a Release, and of all that they need, to an open file.

    `installed` is what dpkg says of the board's packages in that FORMAT. With `driver` the board
    has an OpenCL driver beside them. Newer versions of what it has are left out: a libc must fit
    the board's loader. `run` is the board's run_here(). Return lines about what was done otherwise
    than usually. Raises BoardError.
    """
    if not shutil.which("apt-get"):
        raise BoardError(f"no packages of {wanted}: this machine has no apt-get")
    ours = re.compile(_INSTALLED % re.escape(wanted.architecture))
    stanzas = installed.replace("Provides: \n", "").split("\n\n")  # apt takes no empty one
    have = {found[1]: each for each in stanzas if (found := ours.match(each))}
    with tempfile.TemporaryDirectory(prefix="debs-") as folder:
        root = Path(folder)
        for name in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "var/lib/apt/lists/partial",
                     f"{_ARCHIVES}/partial"):
            (root / name).mkdir(parents=True)
        status = [*have.values(), *[_DRIVER] * driver]
        config = _CONFIG.format(root=root, architecture=wanted.architecture) + own_settings()
        (root / "status").write_text("\n\n".join(status), encoding="utf-8")
        (root / "apt.conf").write_text(config, encoding="utf-8")
        notes, apt = [], partial(_apt, run, root)
        # The lists of an old release's updates may name packages that the archive has no more.
        if why := _get(apt, root, names, sources(wanted, mirror), notes):
            notes.append(f"without the updates of {wanted}: {why}")
            if _get(apt, root, names, sources(wanted, mirror, updates=False), notes):
                raise BoardError(f"no packages of {wanted}: {why}")
        files = sorted((root / _ARCHIVES).glob("*.deb"))
        ship.pack({f.name: f for f in files if f.name.split("_")[0] not in have}, packed)
    return notes


def _get(apt, root, names, lines, notes):
    """Let apt download packages, from the sources of those lines; return why not, or None."""
    for old in (root / _ARCHIVES).glob("*.deb"):
        old.unlink()
    (root / "etc/apt/sources.list").write_text(lines, encoding="utf-8")
    if "is expired" in apt("update").stderr:
        notes.append("the archive's lists are expired: used as they are, as of an old release")
        apt("-o", "Acquire::Check-Valid-Until=false", "update")
    done = apt("install", "--yes", "--download-only", *names)
    if done.returncode == 0:
        return None
    said = [line for line in done.stderr.splitlines() if line.startswith("E: ")]
    return printable(said[0][3:] if said else "apt-get says nothing")


def _apt(run, root, *command):
    env = {**os.environ, "APT_CONFIG": str(root / "apt.conf"), "LC_ALL": "C"}
    return run(["apt-get", "--quiet", *command], env=env)
