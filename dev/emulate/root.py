"""Build the file system of an emulated board: Debian's packages for ARM, unpacked side by side.

No ARM program runs for it (mmdebstrap's variant `extract`), which is why it takes half a minute and
not a quarter of an hour. What the packages' own scripts would have done is done here, as far as
sshd, Python and PoCL need it.
"""

import contextlib
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from common.errors import UsageError

SUITE = "bookworm"  # Debian 12
MERGED_USR = "/usr/share/mmdebstrap/hooks/merged-usr"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
HOME = "home/board"
_SYSTEM = (
    "base-files", "base-passwd", "bash", "coreutils", "dash", "findutils", "grep", "gzip",
    "hostname", "libc-bin", "login", "openssh-server", "procps", "sed", "tar",
)  # fmt: skip
_OPENCL = ("ocl-icd-libopencl1", "pocl-opencl-icd", "python3")
_USERS = "board:*:1000:1000::/home/board:/bin/bash\n"
_GROUPS = "board:*:1000:\n"


class Arch(NamedTuple):
    """An architecture as Debian, qemu and ELF name it, and what the board has beside the basics.

    `elf` is the class (1: 32 bits, 2: 64 bits) and the machine of its programs.
    """

    debian: str
    qemu: str
    triplet: str
    elf: tuple
    packages: tuple


ARCHES = {
    # As a board comes from its vendor: python3 and a driver. `fab provision` brings the rest.
    "arm64": Arch("arm64", "qemu-aarch64-static", "aarch64-linux-gnu", (2, 183), ()),
    # There are no wheels for 32-bit ARM: a board has what its distribution packages.
    "armhf": Arch("armhf", "qemu-arm-static", "arm-linux-gnueabihf", (1, 40),
                  ("python3-numpy", "python3-pil", "python3-pyopencl")),
}  # fmt: skip


def cache():
    """Return the folder where boards are kept once they are built, outside of any checkout."""
    if own := os.environ.get("OPENCL_SAMPLES_CACHE"):
        return Path(own).resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "opencl-samples")


def require_tools(arch):
    """Raise UsageError with all that this machine lacks, and how to get it."""
    needed = {
        "mmdebstrap": "mmdebstrap", arch.qemu: "qemu-user-static", "ssh-keygen": "openssh-client",
        "apt-get": "apt", "dpkg-deb": "dpkg",
    }  # fmt: skip
    if os.getuid() != 0:
        needed |= {"fakechroot": "fakechroot", "fakeroot": "fakeroot"}
    lacking = {package for tool, package in needed.items() if not shutil.which(tool)}
    if not Path(KEYRING).exists():
        lacking.add("debian-archive-keyring")
    if lacking:
        packages = " ".join(sorted(lacking))
        raise UsageError(
            f"this machine lacks {packages}: sudo apt install {packages} (Debian, Ubuntu and "
            "their kin)"
        )


def packages(arch):
    """Return the names of the packages that a board of that Arch has."""
    return sorted({*_SYSTEM, *_OPENCL, *arch.packages})


def build(arch, say):
    """Return the folder with the file system of a board, built now or earlier.

    It gets its name when it is whole: a build that was killed starts anew. `say` takes the lines
    for the user. Raises UsageError.
    """
    recipe = f"{SUITE} {packages(arch)} {Path(__file__).read_text(encoding='utf-8')}"
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:8]
    root = cache() / f"{arch.debian}-{digest}"
    root.parent.mkdir(parents=True, exist_ok=True)
    with open(root.with_suffix(".lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build of it is under way: waiting for that")
            fcntl.flock(lock, fcntl.LOCK_EX)
        if not root.exists():
            require_tools(arch)
            say(f"building a Debian 12 board for {arch.debian} in {root}: some 120 MB to download")
            _build(arch, root, lock)
    return root


def _build(arch, root, lock):
    partial, settings = root.with_suffix(".partial"), root.with_suffix(".settings")
    for old in (partial, settings):
        shutil.rmtree(old, ignore_errors=True)
    settings.mkdir()
    command = [
        "mmdebstrap", "--quiet", "--variant=extract", f"--arch={arch.debian}",
        f"--mode={'root' if os.getuid() == 0 else 'fakechroot'}",
        f"--include={','.join(packages(arch))}", f"--hook-dir={MERGED_USR}",
        '--aptopt=APT::Install-Recommends "false"', *_options_of_apt(settings / "apt.conf"),
        SUITE, str(partial), *_sources(settings / "sources.list"),
    ]  # fmt: skip
    try:
        # It holds the lock, too: should we be killed, nobody else builds before it has ended.
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            pass_fds=[lock.fileno()],
        )  # fmt: skip
        if done.returncode != 0:
            said = [line for line in done.stderr.splitlines() if line.strip()]
            worst = [line for line in said if line.startswith("E: ")] or said or ["it says nothing"]
            raise UsageError(f"mmdebstrap cannot build the board: {'; '.join(worst[:3])}")
        finish(arch, partial)
        partial.rename(root)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    finally:
        shutil.rmtree(settings, ignore_errors=True)


def _options_of_apt(file):
    """Return the option that hands this machine's own way to the archive on: a proxy above all."""
    text = _output("apt-config", "dump", "Acquire")
    lines = [line for line in text.splitlines() if '""' not in line and "IndexTargets" not in line]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [f"--aptopt={file}"]


def _sources(file):
    """Return the file with this machine's own archive of Debian 12, if it has one.

    mmdebstrap knows where Debian's is for those that have none.
    """
    with contextlib.suppress(OSError, KeyError):
        if platform.freedesktop_os_release()["ID"] != "debian":
            return []
    fields = "$(RELEASE) $(COMPONENT) deb $(REPO_URI) $(RELEASE) $(COMPONENT)"
    targets = _output(
        "apt-get", "indextargets", "--no-release-info", "--format", fields, "Created-By: Packages"
    )
    wanted = f"{SUITE} main "
    found = {line.removeprefix(wanted) for line in targets.splitlines() if line.startswith(wanted)}
    file.write_text("".join(f"{line}\n" for line in sorted(found)), encoding="utf-8")
    return [str(file)] if found else []


def _output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def finish(arch, root):
    """Do in the unpacked folder what the packages' scripts would have done on a board."""
    own = {"passwd": _USERS, "group": _GROUPS}
    for name, ours in own.items():
        master = (root / f"usr/share/base-passwd/{name}.master").read_text(encoding="utf-8")
        # sshd gives a terminal to the group tty where there is one; here it could not.
        kept = [line for line in master.splitlines(True) if not line.startswith("tty:")]
        (root / "etc" / name).write_text("".join(kept) + ours, encoding="utf-8")
    shutil.copy(root / "usr/share/libc-bin/nsswitch.conf", root / "etc/nsswitch.conf")
    (root / "etc/hosts").write_text("127.0.0.1 localhost emulated\n", encoding="utf-8")
    (root / "etc/resolv.conf").write_text("", encoding="utf-8")  # a board without internet
    # An apt option may hold a proxy's password: not for a board.
    (root / "etc/apt/apt.conf.d/99mmdebstrap").unlink(missing_ok=True)
    libraries = root / "usr/lib" / arch.triplet
    for name in ("blas", "lapack"):  # update-alternatives
        if (libraries / name).is_dir():
            (libraries / f"lib{name}.so.3").symlink_to(f"{name}/lib{name}.so.3")
    (root / HOME).mkdir(parents=True)
