"""The drivers that the OpenCL loader finds: the system's, and Intel's CPU runtime from pip.

With OPENCL_SAMPLES_OCLGRIND set, the simulator Oclgrind is the only one: see tools/check.py.

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
from pathlib import Path

from common.errors import OpenCLFailure, Unsupported
from common.files import replace
from common.machine.sysfs import text

PLATFORM = "Intel(R) OpenCL"  # as that runtime calls itself
_SYSTEM = Path("/etc/OpenCL/vendors")
OCLGRIND = "OPENCL_SAMPLES_OCLGRIND"
_RUNTIME = ("lib/oclgrind", "lib64/oclgrind", "lib")  # where its is, from its bin folder up
_CHOICES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")  # where these are set, the user has chosen


def heed_oclgrind():
    """Let the loader see Oclgrind alone if OCLGRIND is set. Raises Unsupported if it is not here.

    The variable travels to boards, which have Oclgrind at a path of their own.
    """
    if OCLGRIND in os.environ:
        os.environ[_CHOICES[0]] = str(_oclgrind())


def _oclgrind():
    program = shutil.which("oclgrind")
    for folder in _RUNTIME if program else ():
        library = Path(program).resolve().parents[1] / folder / "liboclgrind-rt-icd.so"
        if library.exists():
            return library
    raise Unsupported("Oclgrind is not installed: apt install oclgrind")


def intel_library(prefix=sys.prefix):
    """Return the path of Intel's CPU runtime in the environment at `prefix`, or None."""
    # Where packages were unpacked into a folder of PYTHONPATH, lib/ is beside them.
    for folder in (prefix, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))):
        path = Path(folder, "lib", "libintelocl.so")
        if path.exists():
            return path
    return None


def files(system=_SYSTEM):
    """Return the paths of the ICD files that the loader reads, except Intel's from pip.

    Where the user's choice is a library itself, that is the only path.
    """
    chosen = _chosen()
    folder = Path(chosen) if chosen else system
    return sorted(folder.glob("*.icd")) if folder.is_dir() else [folder] if chosen else []


def libraries(prefix=sys.prefix, system=_SYSTEM):
    """Return {path of an ICD file: path of its library}; a name that is not found stays a name."""
    def name(file):
        return str(file) if ".so" in file.name else (text(file) or "").partition("\n")[0]

    found = {str(file): _resolved(name(file)) for file in files(system)}
    library = intel_library(prefix)
    if library and not _chosen():
        found[str(library)] = str(library)
    return found


def _chosen():
    """Return the user's choice, or None."""
    return next(filter(None, map(os.environ.get, _CHOICES)), None)


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


def caches():
    """Return the folder where programs of this user keep what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))


def _folder(texts):
    """Return the path of a folder with files of these texts by their names.

    It stays in the user's cache: a signal or a driver may end this process at any time, and nothing
    would clean up.
    """
    names = json.dumps(sorted(texts.items()))
    key = hashlib.sha256(names.encode(errors="surrogateescape")).hexdigest()[:32]
    folder = caches().absolute() / "opencl-samples" / "vendors" / key
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in texts:
            if not (folder / name).exists():
                replace(folder / name, texts[name] + "\n")
    except OSError as error:
        raise OpenCLFailure(f"cannot make a folder for ICD files: {error}") from error
    return str(folder)


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
    wanted = {file.name: text(file) or "" for file in kept}
    if added:
        wanted["pip-intel-cpu.icd"] = str(library)
    try:
        os.environ["OCL_ICD_VENDORS"] = _folder(wanted)
        yield
    finally:
        os.environ.pop("OCL_ICD_VENDORS", None)
        os.environ.update({name: value for name, value in before.items() if value is not None})
