"""Wheels for a board, downloaded here: boards often have no internet, and no pip."""

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from deploy.errors import BoardError
from deploy.slim import slim

# A kernel may have more bits than the programs of its system.
_MACHINES_OF_32_BITS = {"aarch64": "armv7l", "armv8l": "armv7l", "x86_64": "i686"}
_OLDEST_GLIBC = 17  # 2.17, of manylinux2014


def machine(found):
    """Return the processor that a board's wheels are for, from what onboard/provision.py found."""
    name = found["machine"]
    return _MACHINES_OF_32_BITS.get(name, name) if found["bits"] == 32 else name


def target(found):
    """Return what a board's wheels are for, in words."""
    version = ".".join(found["python"]["version"].split(".")[:2])
    libc, *numbers = found["libc"]
    return f"CPython {version}, {machine(found)}, {libc} {'.'.join(map(str, numbers))}"


def tags(found):
    """Return the platform tags that fit a board, the newest first. PEP 600 and PEP 656."""
    libc, major, minor = found["libc"]
    mine = machine(found)
    if libc == "musl":
        known = [f"musllinux_{major}_{n}_{mine}" for n in range(minor, 0, -1)]
    else:
        known = [f"manylinux_{major}_{n}_{mine}" for n in range(minor, _OLDEST_GLIBC - 1, -1)]
        known.append(f"manylinux2014_{mine}")
    return [*known, f"linux_{mine}"]


def download(requirements, found):
    """Return a tar.gz of a site-packages folder with the requirements, for a board.

    Raises BoardError where pip has no wheels for it.
    """
    version = ".".join(found["python"]["version"].split(".")[:2])
    with tempfile.TemporaryDirectory(prefix="wheels-") as folder:
        command = [
            sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
            "--no-input", "--no-compile", "--target", folder, "--only-binary", ":all:",
            "--implementation", "cp", "--python-version", version,
        ]  # fmt: skip
        platforms = [f"--platform={tag}" for tag in tags(found)]
        done = subprocess.run(
            [*command, *platforms, *requirements],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise BoardError(f"no wheels for {target(found)}: {_reason(done.stderr)}")
        slim(Path(folder, "lib"))
        return _packed(Path(folder))


def _reason(text):
    """Return the line of pip's output that says it best."""
    lines = text.strip().splitlines()
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors[-1:] or lines[-1:] or ["pip says nothing"])[0]


def _packed(folder):
    data = io.BytesIO()
    # Level 3: half the time of the usual 9, a twentieth more to send.
    with tarfile.open(fileobj=data, mode="w:gz", compresslevel=3) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.add(path, arcname=path.relative_to(folder).as_posix(), recursive=False)
    return data.getvalue()
