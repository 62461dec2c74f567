"""What the doctor asks a board. Sent over the connection, never installed; changes nothing there.

Needs only the standard library of Python 3.6. Reads one request, a line of JSON, from stdin and
prints one line of JSON. What may crash or hang, a driver above all, is asked in a process of its
own.
"""

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

PROBE_LIMIT = 20  # seconds for one probe

IMPORT = "import %s as m; print(getattr(m, 'VERSION_TEXT', None) or m.__version__)"

DEVICES = """
import json, pyopencl as cl
def kind(d):
    names = ("CPU", "GPU", "ACCELERATOR")
    return [n.lower() for n in names if d.type & getattr(cl.device_type, n)][:1] or ["other"]
def devices(p):
    try:
        return p.get_devices()
    except cl.Error:
        return []
print(json.dumps([
    {"name": p.name.strip(), "version": p.version.strip(),
     "devices": [{"name": d.name.strip(), "type": kind(d)[0]} for d in devices(p)]}
    for p in cl.get_platforms()]))
"""

NODES = ("/dev/mali*", "/dev/dri/renderD*", "/dev/nvidia[0-9]*")
GPU_CLOCKS = ("/sys/class/devfreq/*.gpu*", "/sys/class/devfreq/*mali*")


def probe(code, env):
    """Run a line of Python; return {"ok": bool, "text": what it said}."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=env, timeout=PROBE_LIMIT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"ok": False, "text": "no answer in %d s" % PROBE_LIMIT}
    if done.returncode < 0:
        return {"ok": False, "text": "crashed with signal %d" % -done.returncode}
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    return {"ok": done.returncode == 0, "text": lines[-1] if lines else ""}


def icd_files(env):
    """Return each ICD file that the loader may read, its library, and why that does not load."""
    vendors = env.get("OCL_ICD_VENDORS", "/etc/OpenCL/vendors")
    if os.path.isdir(vendors):
        paths = sorted(glob.glob(os.path.join(vendors, "*.icd")))
    else:
        paths = [vendors] if os.path.exists(vendors) else []
    found = []
    for path in paths:
        try:
            with open(path, errors="replace") as file:
                library = path if ".so" in os.path.basename(path) else file.readline().strip()
            loads = probe("import ctypes; ctypes.CDLL(%r)" % library, env)
        except OSError as error:
            library, loads = None, {"ok": False, "text": error.strerror}
        found.append(
            {"file": path, "library": library, "problem": None if loads["ok"] else loads["text"]}
        )
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
    path = os.path.join(os.path.expanduser("~"), os.path.expanduser(folder))
    there = path
    while not os.path.exists(there):
        there = os.path.dirname(there)
    runs = os.path.join(path, "results")
    return {
        "path": path,
        "deployed": os.path.exists(os.path.join(path, "current")),
        "writable": os.access(there, os.W_OK) and not os.statvfs(there).f_flag & os.ST_RDONLY,
        "free": shutil.disk_usage(there).free,
        "uncollected": len(os.listdir(runs)) if os.path.isdir(runs) else 0,
    }


def main():
    request = json.loads(sys.stdin.buffer.readline().decode())
    env = dict(os.environ, **request["env"])
    with tempfile.TemporaryDirectory() as scratch:
        # Caches that drivers and Python would leave behind go away with this folder.
        env.update(PYTHONDONTWRITEBYTECODE="1", POCL_CACHE_DIR=scratch, XDG_CACHE_HOME=scratch)
        facts = {
            "user": getpass.getuser(),
            "python": {"path": sys.executable, "version": platform.python_version()},
            "kernel": "%s %s %s" % (platform.system(), platform.release(), platform.machine()),
            "bits": 8 * ctypes.sizeof(ctypes.c_void_p),
            "clock": time.time(),
            "packages": {n: probe(IMPORT % n, env) for n in ("numpy", "pyopencl", "PIL")},
            "icd": icd_files(env),
            "devices": probe(DEVICES, env),
            "nodes": device_nodes(),
            "governors": governors(),
            "memory": memory(),
            "folder": folder_facts(request["folder"]),
        }
    print(json.dumps(dict(facts, event="facts")))


if __name__ == "__main__":
    main()
