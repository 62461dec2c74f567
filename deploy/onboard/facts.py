"""Collect the facts about a board that the doctor needs. Changes nothing.

What may crash or hang, a driver above all, is asked in a process of its own.
"""

import contextlib
import ctypes
import getpass
import glob
import grp
import json
import os
import platform
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import time

from deploy.onboard.environment import VENDORS, provisioned, variables
from deploy.onboard.folder import MARKER, place, waiting

PROBE_LIMIT = 15  # seconds for one probe
MARK = "@@"  # before an answer: drivers print, too

IMPORT = "import %s as m; print('@@' + (getattr(m, 'VERSION_TEXT', None) or m.__version__))"

SURVEY = "import survey"
SURVEY_LIMIT = 400  # seconds: a driver that hangs takes 20 of them, or what its env allows

UNKNOWN = {"all": "unknown"}  # governors, where they cannot be looked for
NODES = ("/dev/mali*", "/dev/dri/renderD*", "/dev/nvidia[0-9]*")
MACHINE = ("import json; from common.machine import identity, sysfs; "
           "print('@@' + json.dumps([sysfs.governors(), identity.gpu_drivers()]))")


def ask(code, env, limit=None):
    """Run a line of Python in a process of its own; return {"ok": bool, "text": what it said}.

    It has `limit` seconds; without one, PROBE_LIMIT, or what its environment says.
    """
    with contextlib.suppress(KeyError, ValueError):
        limit = limit or float(env["OPENCL_SAMPLES_PROBE_SECONDS"])
    limit = limit or PROBE_LIMIT
    process = subprocess.Popen(
        [sys.executable, "-c", code], env=env, cwd="/", universal_newlines=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        process.kill()  # and no wait: a driver that hangs in the kernel cannot be killed
        return {"ok": False, "text": "no answer in %d s" % limit}
    except KeyboardInterrupt:  # the user has stopped fab
        process.kill()
        raise
    if process.returncode < 0:
        return {"ok": False, "text": "crashed with signal %d" % -process.returncode}
    for line in out.splitlines():
        if line.startswith(MARK):
            return {"ok": True, "text": line[len(MARK) :]}
    return {"ok": False, "text": (err.strip().splitlines() or ["no answer"])[-1]}


def icd_files(env):
    """Return each ICD file that the loader may read, its library, and why that does not load."""
    vendors = env.get("OCL_ICD_VENDORS", VENDORS)
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
            loads = ask("import ctypes; ctypes.CDLL(%r); print('@@')" % library, env)
            problem = None if loads["ok"] else loads["text"]
        except OSError as error:
            problem = error.strerror
        found.append({"file": path, "library": library, "problem": problem})
    return {"vendors": vendors, "files": found}


def device_nodes(drivers):
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
                "driver": drivers.get(os.path.basename(path)),
            })
    return found


def name_of(look_up, number):
    try:
        return look_up(number)[0]
    except KeyError:
        return str(number)


def folder_facts(folder):
    path = place(folder)
    there = path
    while not os.path.exists(there):
        there = os.path.dirname(there)
    ours = os.path.exists(os.path.join(path, MARKER))
    free = not os.path.lexists(path) or (os.path.isdir(path) and not os.listdir(path))
    return {
        "path": path,
        "taken": not (ours or free) or not os.path.isdir(there),
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


def survey(modules, scratch, env):
    """Look at the drivers and the machine as the samples do: with their modules, in a folder.

    Return what ask() does of the drivers, the governors, and the kernel's drivers of device files.
    """
    try:
        for path, text in modules.items():
            target = os.path.join(scratch, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
    except OSError:
        return {"ok": False, "text": "the folder for temporary files is full"}, UNKNOWN, {}
    path = os.pathsep.join(filter(None, [scratch, env.get("PYTHONPATH")]))
    env = dict(env, PYTHONPATH=path)
    devices, machine = ask(SURVEY, env, SURVEY_LIMIT), ask(MACHINE, env)
    governors, drivers = json.loads(machine["text"]) if machine["ok"] else (UNKNOWN, {})
    return devices, governors, drivers


def collect(request):
    """Return the facts; request["modules"] are files that look at drivers: see doctor.py."""
    folder = request["folder"]
    env = variables(folder, request["env"])
    try:
        scratch = tempfile.mkdtemp()  # for caches that drivers and Python would leave behind
    except OSError:
        scratch = "/proc/nowhere"  # the disk is full or read-only: that is a finding, not an end
    env.update(PYTHONDONTWRITEBYTECODE="1", POCL_CACHE_DIR=scratch, XDG_CACHE_HOME=scratch)
    try:
        devices, governors, drivers = survey(request["modules"], scratch, env)
        return {
            "user": user(),
            "python": {"path": sys.executable, "version": platform.python_version()},
            "provisioned": provisioned(folder).get("PYTHONPATH"),
            "kernel": "%s %s %s" % (platform.system(), platform.release(), platform.machine()),
            "bits": 8 * ctypes.sizeof(ctypes.c_void_p),
            "clock": time.time(),
            "packages": {name: ask(IMPORT % name, env) for name in ("numpy", "pyopencl", "PIL")},
            "devices": devices,
            "icd": icd_files(env),
            "nodes": device_nodes(drivers),
            "governors": governors,
            "folder": folder_facts(folder),
        }
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def answer(wire, request):
    wire.emit("facts", **collect(request))
