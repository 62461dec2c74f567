"""Build the file system of an emulated board: Debian's packages for ARM, unpacked side by side.

No ARM program runs for it (mmdebstrap's variant `extract`), which is why it takes half a minute and
not a quarter of an hour. What the packages' own scripts would have done is done here, as far as
sshd, Python and the OpenCL driver need it.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from common.errors import UsageError
from deploy.apt import own_archive, own_settings

SUITES = {  # the last one is preferred
    "11": ("bullseye",), "12": ("bookworm",), "13": ("trixie", "trixie-backports"),
}
MERGED_USR = "/usr/share/mmdebstrap/hooks/merged-usr"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
ARCHIVE = "http://deb.debian.org/debian"
HOME = "home/board"
CACHE = "/run/cache"  # on a board: compiled Python, and Mesa's shader cache
_SYSTEM = (
    "base-files", "base-passwd", "bash", "coreutils", "dash", "findutils", "grep", "gzip",
    "hostname", "libc-bin", "login", "openssh-server", "procps", "sed", "tar",
)
_OPENCL = ("ocl-icd-libopencl1", "python3")
_PYTHON = ("python3-numpy", "python3-pil", "python3-pyopencl")
# What dpkg would say of the packages: `fab provision` asks which ones a board has.
_STATUS = """for deb in "$1"/var/cache/apt/archives/*.deb; do
dpkg-deb --field "$deb" && printf 'Status: install ok installed\\n\\n'
done > "$1"/var/lib/dpkg/status"""
_USERS = "board:*:1000:1000::/home/board:/bin/bash\n"
_GROUPS = "board:*:1000:\n"


class Arch(NamedTuple):
    """An architecture as Debian, qemu and ELF name it, and what the board has beside the basics.

    `elf` is the class (01: 32 bits, 02: 64 bits) and the machine of its programs, in hexadecimal.
    `debian` names the architecture, `release` is a key of SUITES. `env` are variables of everything
    that runs there.
    """

    debian: str
    qemu: str
    triplet: str
    elf: tuple
    packages: tuple
    release: str
    env: dict


_ARM64 = Arch("arm64", "qemu-aarch64-static", "aarch64-linux-gnu", ("02", "b7"), (), "12", {})
_ARMHF = Arch("armhf", "qemu-arm-static", "arm-linux-gnueabihf", ("01", "28"), (), "12", {})
_POCL = ("pocl-opencl-icd",)
# As a board comes from its vendor: python3 and a driver. `fab provision` brings the rest.
ARCHES = {
    "arm64": _ARM64._replace(packages=_POCL),
    "armhf": _ARMHF._replace(packages=_POCL),
    "arm64-bullseye": _ARM64._replace(release="11"),  # it has no driver either
    "armhf-bullseye": _ARMHF._replace(packages=_POCL, release="11"),
}


def _mesa(driver, **env):
    """Return the Arch of a board whose OpenCL is Mesa's for a GPU that does nothing."""
    return _ARM64._replace(
        packages=("mesa-drm-shim", "mesa-opencl-icd", *_PYTHON), release="13", env={
            "RUSTICL_ENABLE": driver,
            "LD_PRELOAD": f"/usr/lib/{_ARM64.triplet}/lib{driver}_noop_drm_shim.so",
            # By default qemu computes the codes of signed pointers, and takes five times as long.
            "QEMU_CPU": "cortex-a76",
            "MESA_SHADER_CACHE_DIR": CACHE, "PYTHONPYCACHEPREFIX": f"{CACHE}/python", **env,
        })


# All have the same file system. The numbers are those by which Mesa knows the GPUs.
GPUS = {
    "mali-t760": _mesa("panfrost", PAN_GPU_ID="750"),
    "mali-t860": _mesa("panfrost", PAN_GPU_ID="860"),
    "mali-g31": _mesa("panfrost", PAN_GPU_ID="7093"),
    "mali-g52": _mesa("panfrost", PAN_GPU_ID="7402"),
    "mali-g72": _mesa("panfrost", PAN_GPU_ID="6221"),
    "mali-g57": _mesa("panfrost", PAN_GPU_ID="9093"),
    "mali-g310": _mesa("panfrost", PAN_GPU_ID="ac74"),
    "mali-g610": _mesa("panfrost", PAN_GPU_ID="a867"),
    "videocore-vi": _mesa("v3d"),
    "adreno-630": _mesa("freedreno"),
}
BOARDS = {**ARCHES, **GPUS}


def cache():
    """Return the folder where boards are kept once they are built, outside of any checkout."""
    if own := os.environ.get("OPENCL_SAMPLES_CACHE"):
        return Path(own).resolve()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "opencl-samples")


def _require_tools(arch):
    """Raise UsageError with all that this machine lacks, and how to get it."""
    needed = {
        "mmdebstrap": "mmdebstrap", arch.qemu: "qemu-user-static", "ssh-keygen": "openssh-client",
    }
    if os.getuid() != 0:
        needed |= {"fakechroot": "fakechroot", "fakeroot": "fakeroot"}
    lacking = {package for tool, package in needed.items() if not shutil.which(tool)}
    if not Path(KEYRING).exists():
        lacking.add("debian-archive-keyring")
    if lacking:
        packages = " ".join(sorted(lacking))
        raise UsageError(f"this machine lacks {packages}: sudo apt install {packages} (on Debian, "
                         "Ubuntu and their kin)")


def build(arch, say):
    """Return the folder with the file system of a board, built now or earlier.

    `say` takes the lines for the user. Raises UsageError.
    """
    packages = ",".join(sorted({*_SYSTEM, *_OPENCL, *arch.packages}))
    recipe = f"{SUITES[arch.release]} {packages} {Path(__file__).read_text(encoding='utf-8')}"
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:8]

    def make(root, lock):
        _require_tools(arch)
        what = f"a Debian {arch.release} board for {arch.debian}"
        say(f"building {what} in {cache()}: some 120 MB to download")
        _unpack(arch, packages, root, lock)
        _finish(arch, root)

    return made(cache() / f"{arch.debian}-{digest}", make, say)


@contextlib.contextmanager
def alone(path, say):
    """Keep other processes that want this lock waiting; give the open file that is the lock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is at it: waiting for that")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def made(path, make, say):
    """Return a folder that make(path, an open file with a lock) fills, where it never was.

    It gets its name when it is whole: what was killed starts anew. `say` tells the user that
    another process is making it.
    """
    with alone(Path(f"{path}.lock"), say) as lock:
        if not path.exists():
            unfinished = path.with_name(f"{path.name}.partial")
            shutil.rmtree(unfinished, ignore_errors=True)
            try:
                make(unfinished, lock)
            except BaseException:
                shutil.rmtree(unfinished, ignore_errors=True)
                raise
            unfinished.rename(path)
    return path


def _unpack(arch, packages, root, lock):
    suites = SUITES[arch.release]
    # The archive that this machine's own Debian is from; another distribution gets Debian's.
    archives = {address for suffix, component, address in own_archive("debian")
                if not suffix and component == "main"}
    sources = [f"deb [signed-by={KEYRING}] {archive} {suite} main"
               for archive in sorted(archives) or [ARCHIVE] for suite in suites]
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as conf:
        conf.write(own_settings())
        conf.flush()
        command = [
            "mmdebstrap", "--quiet", "--variant=extract", f"--arch={arch.debian}",
            f"--mode={'root' if os.getuid() == 0 else 'fakechroot'}",
            f"--include={packages}", f"--hook-dir={MERGED_USR}", f"--extract-hook={_STATUS}",
            '--aptopt=APT::Install-Recommends "false"', f"--aptopt={conf.name}",
            f'--aptopt=APT::Default-Release "{suites[-1]}"', suites[0], str(root), *sources,
        ]
        # It holds the lock, too: should we be killed, nobody else builds before it has ended.
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            pass_fds=[lock.fileno()],
        )
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        worst = [line for line in said if line.startswith("E: ")] or said or ["it says nothing"]
        raise UsageError(f"mmdebstrap cannot build the board: {'; '.join(worst[:3])}")


def _finish(arch, root):
    """Do in the unpacked folder what the packages' scripts would have done on a board."""
    for name, ours in (("passwd", _USERS), ("group", _GROUPS)):
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
