"""What the doctor asks a board. Changes nothing there.

What may crash or hang, a driver above all, is asked in a process of its own.
"""

import ctypes
import getpass
import glob
import grp
import os
import platform
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import time

from deploy.onboard.environment import recorded, variables
from deploy.onboard.folder import MARKER, place, waiting
from deploy.onboard.wire import serve

PROBE_LIMIT = 15  # seconds for one probe
ALL_PROBES = 45  # seconds for all of them, so that the host still waits
MARK = "@@"  # before an answer: drivers print, too

IMPORT = "import %s as m; print('@@' + (getattr(m, 'VERSION_TEXT', None) or m.__version__))"

DEVICES = """
import json, pyopencl as cl
def kind(d):
    names = ("CPU", "GPU", "ACCELERATOR")
    return [n.lower() for n in names if d.type & getattr(cl.device_type, n)][:1] or ["other"]
def describe(p):
    version = p.version.strip().split("  ")[0]
    about = {"name": p.name.strip(), "version": version, "devices": [], "problem": None}
    try:
        about["devices"] = [{"name": d.name.strip(), "type": kind(d)[0]} for d in p.get_devices()]
    except cl.Error as error:
        about["problem"] = str(error)
    return about
with pip_drivers():
    print("@@" + json.dumps([describe(p) for p in cl.get_platforms()]))
"""

VENDORS = "/etc/OpenCL/vendors"

NODES = ("/dev/mali*", "/dev/dri/renderD*", "/dev/nvidia[0-9]*")
GPU_CLOCKS = ("/sys/class/devfreq/*.gpu*", "/sys/class/devfreq/*mali*")


class Probes:
    """Lines of Python, each in a process of its own."""

    def __init__(self, env, python):
        self.env, self.python = env, python
        self.end = time.monotonic() + ALL_PROBES

    def ask(self, code):
        """Run a line of Python; return {"ok": bool, "text": what it said}."""
        try:
            process = subprocess.Popen(
                [self.python, "-c", code], env=self.env, cwd="/", universal_newlines=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        except OSError as error:
            return {"ok": False, "text": "%s: %s" % (self.python, error.strerror)}
        limit = max(1, min(PROBE_LIMIT, self.end - time.monotonic()))
        try:
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()  # and no wait: a driver that hangs in the kernel cannot be killed
            return {"ok": False, "text": "no answer in %d s" % limit}
        if process.returncode < 0:
            return {"ok": False, "text": "crashed with signal %d" % -process.returncode}
        for line in out.splitlines():
            if line.startswith(MARK):
                return {"ok": True, "text": line[len(MARK) :]}
        return {"ok": False, "text": (err.strip().splitlines() or ["no answer"])[-1]}


def icd_files(probes):
    """Return each ICD file that the loader may read, its library, and why that does not load."""
    vendors = probes.env.get("OCL_ICD_VENDORS", VENDORS)
    if os.path.isdir(vendors):
        paths = sorted(glob.glob(os.path.join(vendors, "*.icd")))
    else:
        paths = [vendors] if os.path.exists(vendors) else []
    found = []
    for path in paths:
        library, problem = None, None
        try:
            with open(path, errors="replace") as file:
                library = path if ".so" in os.path.basename(path) else file.readline().strip()
            loads = probes.ask("import ctypes; ctypes.CDLL(%r); print('@@')" % library)
            problem = None if loads["ok"] else loads["text"]
        except OSError as error:
            problem = error.strerror
        found.append({"file": path, "library": library, "problem": problem})
    return {"vendors": vendors, "files": found}


def device_nodes():
    found = []
    for pattern in NODES:
        for path in sorted(glob.glob(pattern)):
            about = os.stat(path)
            found.append({
                "path": path,
                "mode": stat.filemode(about.st_mode),
                "owner": name_of(pwd.getpwuid, about.st_uid),
                "group": name_of(grp.getgrgid, about.st_gid),
                "usable": os.access(path, os.R_OK | os.W_OK),
            })  # fmt: skip
    return found


def name_of(look_up, number):
    try:
        return look_up(number)[0]
    except KeyError:
        return str(number)


def read(path):
    try:
        with open(path) as file:
            return file.read().strip()
    except OSError:
        return None


def governors():
    found = {}
    for path in sorted(glob.glob("/sys/devices/system/cpu/cpufreq/policy*")):
        found["cpu " + os.path.basename(path)] = read(os.path.join(path, "scaling_governor"))
    for pattern in GPU_CLOCKS:
        for path in sorted(glob.glob(pattern)):
            found["gpu " + os.path.basename(path)] = read(os.path.join(path, "governor"))
    return {name: governor for name, governor in found.items() if governor}


def memory():
    for line in (read("/proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None


def folder_facts(folder):
    path = place(folder)
    there = path
    while not os.path.exists(there):
        there = os.path.dirname(there)
    ours = os.path.exists(os.path.join(path, MARKER))
    free = not os.path.lexists(path) or (os.path.isdir(path) and not os.listdir(path))
    return {
        "path": path,
        "taken": not (ours or free),
        "deployed": os.path.exists(os.path.join(path, "current")),
        "writable": os.access(there, os.W_OK) and not os.statvfs(there).f_flag & os.ST_RDONLY,
        "free": shutil.disk_usage(there).free,
        "uncollected": len(waiting(folder)) if ours else 0,
    }


def user():
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def scratch_folder():
    """Return a folder for caches that drivers and Python would leave behind, or None."""
    try:
        return tempfile.mkdtemp()
    except OSError:
        return None  # the disk is full or read-only: that is a finding, not an end


def collect(request):
    """Return the facts; request["icd"] is the text of common/icd.py, as samples find drivers."""
    folder = request["folder"]
    env = variables(folder, request["env"])
    scratch = scratch_folder()
    cache = scratch or "/proc/nowhere"
    env.update(PYTHONDONTWRITEBYTECODE="1", POCL_CACHE_DIR=cache, XDG_CACHE_HOME=cache)
    probes = Probes(env, recorded(folder)["python"] or sys.executable)
    try:
        return {
            "user": user(),
            "python": {"path": sys.executable, "version": platform.python_version()},
            "provisioned": recorded(folder),
            "kernel": "%s %s %s" % (platform.system(), platform.release(), platform.machine()),
            "bits": 8 * ctypes.sizeof(ctypes.c_void_p),
            "clock": time.time(),
            "packages": {name: probes.ask(IMPORT % name) for name in ("numpy", "pyopencl", "PIL")},
            "devices": probes.ask(request["icd"] + DEVICES),
            "icd": icd_files(probes),
            "nodes": device_nodes(),
            "governors": governors(),
            "memory": memory(),
            "folder": folder_facts(folder),
        }
    finally:
        if scratch:
            shutil.rmtree(scratch, ignore_errors=True)


def main():
    serve({"facts": lambda wire, request: wire.emit("facts", **collect(request))})
