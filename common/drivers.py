"""Find the drivers that work: each must load, and run a small program, in a separate process.

A driver may crash the process, hang, or compute nonsense. None is chosen by default before
common/probe.py has run on it. The verdicts are kept in the user's cache (XDG_CACHE_HOME, else
~/.cache, below opencl-samples/drivers), by the driver's libraries and versions, and the CPU.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import platform
import signal
import stat
import subprocess
import sys
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import pyopencl as cl

from common import icd
from common.errors import OpenCLFailure
from common.files import object_in, replace
from common.machine import identity, state
from common.text import signal_name

_LIMIT = "OPENCL_SAMPLES_PROBE_SECONDS"  # for machines that are slow for a reason: emulated ones
_BAD_FOR = 3600  # seconds that a bad verdict holds: what was wrong may be fixed by then
_VARY = {"memory_bytes", "gpu_firmware"}  # of a board: with each boot, or who reads it
_PROBE = Path(__file__).with_name("probe.py")
_MOST_UNITS, _MOST_ALIGNED = 2**16, 2**20  # far more than devices have; bytes
_LOCAL_MEMORY = (cl.device_local_mem_type.LOCAL, cl.device_local_mem_type.GLOBAL)


def platforms():
    """Return the platforms of all drivers that load, or raise OpenCLFailure where there is none.

    Intel's runtime from pip, which belongs to one environment only, comes last.
    """
    if found := loaded(unloadable()):
        from_pip = str(icd.intel_library()) in icd.libraries()
        return sorted(found, key=lambda item: from_pip and item.name.strip() == icd.PLATFORM)
    vendors = os.environ.get("OCL_ICD_VENDORS")
    where = f"OCL_ICD_VENDORS={vendors}" if vendors else "no ICD file names a driver that loads"
    why = "".join(f"; {file} {reason}" for file, reason in left_out().items())
    todo = "sudo apt install pocl-opencl-icd, or your GPU's driver; see `fab doctor`"
    raise OpenCLFailure(f"no OpenCL platform ({where}{why}): {todo}")


def loaded(without):
    """Return the platforms of all drivers except those of the ICD files `without`; maybe none."""
    try:
        with icd.loader(without), restoring_process():
            return cl.get_platforms()
    except cl.Error as error:
        if error.code != cl.status_code.PLATFORM_NOT_FOUND_KHR:
            raise
        return []


@contextlib.contextmanager
def restoring_process():
    """Undo what drivers change of this process while they are loaded, or build: the current folder,
    to which paths of options are relative, and the floating-point mode, in which numpy makes
    references. A library that is linked with -ffast-math flushes subnormal numbers to zero.
    """
    mode, libm = ctypes.create_string_buffer(256), ctypes.CDLL(None)  # an fenv_t is smaller
    here = os.open(".", getattr(os, "O_PATH", os.O_RDONLY))  # a folder that may not be read, too
    try:
        with contextlib.suppress(AttributeError):  # some C libraries have it elsewhere
            libm.fegetenv(mode)
        yield
    finally:
        with contextlib.suppress(AttributeError):
            libm.fesetenv(mode)
        os.fchdir(here)
        os.close(here)


@lru_cache
def unloadable(anew=False):
    """Return {ICD file: why its driver cannot be loaded}: it crashes or hangs, and takes all else
    with it. A library that is not there is none of these: the loader skips it.

    `anew` asks again where it was asked before.
    """
    files = icd.libraries()
    if not verdict_on({"without": []}, anew):
        return {}
    verdicts = {file: verdict_on({"without": [other for other in files if other != file]}, anew)
                for file in files}
    return {file: reason for file, reason in verdicts.items() if reason}


def left_out():
    """Return {ICD file: why none of its devices is there}: those of unloadable(), and those that
    the loader passes over without a word, because their library does not load or offers nothing.

    To be called when the platforms are known: then no library is loaded that is not loaded already.
    """
    found, files, loads = {**unloadable()}, icd.libraries(), []
    for file, library in files.items():
        if file not in found:
            try:
                ctypes.CDLL(library)
                loads.append(file)
            except (OSError, ValueError) as error:  # ValueError: no name of a file
                found[file] = f"does not load: {error}"
    if len(loaded(unloadable())) < len(loads):
        for file in loads:
            alone = {"without": [other for other in files if other != file], "wanted": True}
            if why := verdict_on(alone):
                found[file] = why
    return found


def every_device(platforms):
    """Yield (name, device) of each device: what tells it from others, and its driver, as a list."""
    devices = []
    for each in platforms:
        with contextlib.suppress(cl.Error):  # common/device.py reports it
            devices += each.get_devices()
    for number, each in enumerate(devices):
        texts = each.platform.name, each.platform.version, each.name, each.driver_version
        yield [*(text.strip() for text in texts), number], each


def problem(device, anew=False):
    """Return what is wrong with the driver of `device`, or None.

    The first call runs a small program on the device. Later calls use the cached result, unless
    `anew`.
    """
    names = (name for name, each in every_device(cl.get_platforms()) if each == device)
    return verdict_on({"device": next(names), "without": [*unloadable()]}, anew) or None


def missing_limit(device):
    """Return which limit that samples divide by, or allocate with, cannot be as reported; or None.

    Local memory may be missing, of a device that says it has none.
    """
    sides, local = device.max_work_item_sizes, device.local_mem_type
    units, align = device.max_compute_units, device.mem_base_addr_align // 8
    numbers = {
        f"{units} compute units": 0 < units <= _MOST_UNITS,
        f"that buffers are aligned to {align} bytes": align <= _MOST_ALIGNED,
        "a work-group size of 0": device.max_work_group_size,
        f"work-item sizes of {' x '.join(map(str, sides)) or 0}": len(sides) == 3 and min(sides),
        "0 bytes of global memory": device.global_mem_size,
        "0 bytes as the largest allocation": device.max_mem_alloc_size,
        "0 bytes of local memory": device.local_mem_size or local not in _LOCAL_MEMORY,
    }
    return next((f"reports {what}" for what, number in numbers.items() if not number), None)


def verdict_on(job, anew=False):
    """Return what common/probe.py says to a job, from the cache if it was asked before."""
    key = {"job": {**job, "seconds": _limit()}, "machine": machine(), "probe": _probe_digest()}
    name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]
    file = icd.caches() / "opencl-samples" / "drivers" / f"{name}.json"
    known = None if anew else _read(file)
    if known is None:
        known = _ask(key["job"])
        with contextlib.suppress(OSError):  # then the next start costs a probe again, no more
            replace(file, json.dumps({**key, "problem": known}, indent=1))
    return known


def ensure_cache():
    """Let caches be in the folder for temporary files where the user's own cannot be written.

    Without one PoCL shows no device, and pyopencl fails. All runs of a user share that folder.
    """
    folder = Path(tempfile.gettempdir(), f"opencl-samples-{os.getuid()}")
    if not _is_writable(icd.caches()) and _is_writable(folder):
        about = folder.lstat()  # anybody may have put something there
        if stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid():
            os.environ["XDG_CACHE_HOME"] = str(folder)


def _is_writable(folder):
    """Tell whether there is a folder to write to; make it where there is none."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def _read(file):
    """Return the verdict in a file, or None if there is none or it is too old."""
    verdict = object_in(file).get("problem")
    if verdict and isinstance(verdict, str):
        age = -1.0  # the file may be gone since
        with contextlib.suppress(OSError):
            age = time.time() - file.stat().st_mtime
        return verdict if 0 <= age <= _BAD_FOR else None  # the clock of a board may go backwards
    return "" if verdict == "" else None


@lru_cache(maxsize=1)
def machine():
    """Return what a cached verdict depends on: libraries, board, Linux kernel, variables."""
    libraries = {file: icd.resolved(name) for file, name in icd.libraries().items()}
    times = [os.path.exists(path) and os.stat(path).st_mtime_ns for path in libraries.values()]
    board = {name: value for name, value in identity.board().items() if name not in _VARY}
    return {"libraries": libraries, "times": times, "board": board,
            "kernel": platform.release(), "settings": state.settings(os.environ)}


@lru_cache(maxsize=1)
def _probe_digest():
    """Return the digest of the small program: another one may find more."""
    texts = (path.read_bytes() for path in (_PROBE, _PROBE.with_suffix(".cl")))
    return hashlib.sha256(b"".join(texts)).hexdigest()


def _ask(job):
    """Run common/probe.py; return what is wrong, or an empty text. Raises OpenCLFailure."""
    try:
        # What a killed process leaves in the folder for temporary files goes with it.
        with tempfile.TemporaryDirectory(prefix="opencl-probe-") as folder:
            process = subprocess.Popen(
                [sys.executable, str(_PROBE), json.dumps(job)],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                text=True, errors="replace", start_new_session=True,
                env={**os.environ, "TMPDIR": folder},
            )
            said, late = _said(process, job["seconds"])
    except OSError as error:
        raise OpenCLFailure(f"cannot test the drivers: {error}") from error
    lines = [line for line in said.splitlines() if line.strip()]
    doing = next((line for line in reversed(lines) if not line.startswith("@")), "starting")
    if answers := [line[1:] for line in lines if line.startswith("@")]:
        # What crashes or hangs after that, at the end of the process, did its work; and a process
        # that a driver starts may hold stdout for longer.
        return answers[-1]
    if late:
        return f"hangs: no answer in {job['seconds']:g} s while {doing}"
    if process.returncode < 0:
        return f"crashes while {doing} ({signal_name(-process.returncode)})"
    return f"ends the process with status {process.returncode} while {doing}"


def _said(process, seconds):
    """Return what a process printed, and whether it was killed after so many seconds."""
    try:
        return process.communicate(timeout=seconds)[0], False
    except subprocess.TimeoutExpired as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # A driver that hangs in the kernel cannot be killed.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)
        return (error.stdout or b"").decode(errors="replace"), True


def _limit():
    try:
        return max(0.1, float(os.environ[_LIMIT]))
    except (KeyError, ValueError):
        return 20
