"""The drivers that the OpenCL loader finds: the system's, and Intel's CPU runtime from pip.

The wheel intel-opencl-rt installs lib/libintelocl.so into the environment, and an ICD file that
names another, nonexistent path. The loader is given a folder of our own, with the right one.
"""

import contextlib
import hashlib
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path

from common.errors import OpenCLFailure

PLATFORM = "Intel(R) OpenCL"  # as that runtime calls itself
_SYSTEM = Path("/etc/OpenCL/vendors")
_CHOICES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")  # where these are set, the user has chosen


def intel_library(prefix=sys.prefix):
    """Return the path of Intel's CPU runtime in the environment at `prefix`, or None."""
    # Where packages were unpacked into a folder of PYTHONPATH, lib/ is beside them.
    for folder in (prefix, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))):
        path = Path(folder, "lib", "libintelocl.so")
        if path.exists():
            return path
    return None


def files(system=_SYSTEM):
    """Return the paths of the ICD files that the loader reads, but for Intel's from pip.

    Where the user's choice is a library itself, that is the only path.
    """
    chosen = next(filter(None, map(os.environ.get, _CHOICES)), None)
    folder = Path(chosen) if chosen else system
    return sorted(folder.glob("*.icd")) if folder.is_dir() else [folder] if chosen else []


def libraries(prefix=sys.prefix, system=_SYSTEM):
    """Return {path of an ICD file: path of its library}; a name that is not found stays a name."""
    found = {}
    for file in files(system):
        try:
            name = str(file)
            if ".so" not in file.name:
                name = file.read_text(encoding="utf-8", errors="replace").split("\n")[0].strip()
        except OSError:
            name = ""
        found[str(file)] = _resolved(name)
    library = intel_library(prefix)
    if library and not _chosen():
        found[str(library)] = str(library)
    return found


def _chosen():
    return any(os.environ.get(name) for name in _CHOICES)


def _resolved(name):
    """Return where the dynamic linker finds a library, as far as its usual folders tell."""
    machine = sysconfig.get_config_var("MULTIARCH") or ""
    usual = [
        f"/{top}/{sub}" for top in ("usr/local/lib", "usr/lib", "lib") for sub in (machine, "")
    ]
    usual += ["/usr/lib64", "/lib64"]
    for folder in [*os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep), *usual]:
        if name and folder and "/" not in name and os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    return name


@contextlib.contextmanager
def _folder(files):
    """Give a folder with these files: each is a link to a Path, or holds a text.

    It is kept in the user's cache, since a signal or a driver may end this process at any time, and
    nothing would clean up. Only where there is no cache, it is a temporary one.
    """
    if kept := _kept(files):
        yield kept
        return
    try:
        made = tempfile.TemporaryDirectory(prefix="opencl-vendors-")
    except OSError as error:
        raise OpenCLFailure(f"cannot make a folder for ICD files: {error}") from error
    with made as folder:
        _fill(folder, files)
        yield folder


def _kept(files):
    """Return the path of the folder in the cache, which is made once; None where it cannot be."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    names = json.dumps(sorted((name, str(what)) for name, what in files.items()))
    key = hashlib.sha256(names.encode(errors="surrogateescape")).hexdigest()[:32]
    folder = os.path.join(home, "opencl-samples", "vendors", key)
    if not os.path.isabs(folder):
        return None
    try:
        if not os.path.isdir(folder):
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            new = tempfile.mkdtemp(dir=os.path.dirname(folder))
            _fill(new, files)
            with contextlib.suppress(OSError):  # another process was quicker
                os.rename(new, folder)
            shutil.rmtree(new, ignore_errors=True)
        return folder if set(os.listdir(folder)) == set(files) else None
    except OSError:
        return None


def _fill(folder, files):
    for name, what in files.items():
        if isinstance(what, Path):
            Path(folder, name).symlink_to(what)
        else:
            Path(folder, name).write_text(what, encoding="utf-8")


@contextlib.contextmanager
def loader(without=(), prefix=sys.prefix, system=_SYSTEM):
    """Let a loader that starts in this block see Intel's runtime of this environment as well.

    `without` names ICD files that it is not to read. The loader reads its ICD files once, at the
    first question for platforms.
    """
    library = intel_library(prefix)
    added = library is not None and not _chosen() and str(library) not in without
    kept = [file for file in files(system) if str(file) not in without]
    if not added and len(kept) == len(files(system)):
        yield
        return
    before = {name: os.environ.pop(name, None) for name in _CHOICES}
    wanted = {file.name: file.resolve() for file in kept}
    if added:
        wanted["pip-intel-cpu.icd"] = f"{library}\n"
    with _folder(wanted) as folder:
        os.environ["OCL_ICD_VENDORS"] = folder
        try:
            yield
        finally:
            del os.environ["OCL_ICD_VENDORS"]
            os.environ.update({name: value for name, value in before.items() if value is not None})
