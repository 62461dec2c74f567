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
OCLGRIND = "OPENCL_SAMPLES_OCLGRIND"
PREFIX = sys.prefix  # of the environment that may have Intel's runtime
SYSTEM = Path("/etc/OpenCL/vendors")
_RUNTIME = ("lib/oclgrind", "lib64/oclgrind", "lib")  # Oclgrind's, from its bin folder up
_CHOICES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")  # where these are set, the user has chosen


def heed_oclgrind():
    """Let the loader see Oclgrind alone if OCLGRIND is set. Raises Unsupported if it is not here.

    The variable travels to boards, which have Oclgrind at a path of their own.
    """
    if OCLGRIND not in os.environ:
        return
    program = shutil.which("oclgrind")
    for folder in _RUNTIME if program else ():
        library = Path(program).resolve().parents[1] / folder / "liboclgrind-rt-icd.so"
        if library.exists():
            os.environ[_CHOICES[0]] = str(library)
            return
    raise Unsupported("Oclgrind is not installed: apt install oclgrind")


def intel_library():
    """Return the path of Intel's CPU runtime in this environment, or None."""
    # Where packages were unpacked into a folder of PYTHONPATH, lib/ is beside them.
    for folder in (PREFIX, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))):
        path = Path(folder, "lib", "libintelocl.so")
        if path.exists():
            return path
    return None


def libraries():
    """Return {path of an ICD file: the library that it names}, of all that are to be loaded.

    Intel's runtime from pip has no ICD file: its own path stands for one. So does a library that is
    itself the user's choice.
    """
    chosen = next(filter(None, map(os.environ.get, _CHOICES)), None)
    folder = Path(chosen or SYSTEM)
    files = sorted(folder.glob("*.icd")) if folder.is_dir() else [folder] if chosen else []
    found = {str(file): str(file) if ".so" in file.name else (text(file) or "").partition("\n")[0]
             for file in files}
    if not chosen and (library := intel_library()):
        found[str(library)] = str(library)
    return found


def resolved(name):
    """Return the path at which the dynamic linker finds a library, if it is in a usual folder."""
    machine = sysconfig.get_config_var("MULTIARCH") or ""
    usual = [f"/{top}/{sub}" for top in ("usr/local/lib", "usr/lib", "lib")
             for sub in (machine, "")]
    folders = [os.environ.get("LD_LIBRARY_PATH", ""), *usual, "/usr/lib64", "/lib64"]
    return shutil.which(name, os.F_OK, os.pathsep.join(folders)) or name


def caches():
    """Return the folder for caches of this user's programs."""
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
def loader(without=()):
    """Let a loader that starts in this block see Intel's runtime of this environment as well.

    `without` names those of libraries() that it is not to see. The loader reads its ICD files once,
    at the first question for platforms.
    """
    kept = {file: name for file, name in libraries().items() if file not in without}
    if not without and str(intel_library()) not in kept:
        yield
        return
    before = {name: os.environ.pop(name) for name in _CHOICES if name in os.environ}
    texts = {f"{Path(file).stem}.icd": name for file, name in kept.items()}
    try:
        os.environ[_CHOICES[0]] = _folder(texts)
        yield
    finally:
        os.environ.pop(_CHOICES[0], None)
        os.environ.update(before)
