"""Report the facts that `fab provision` needs for its plan, and execute the plan."""

import contextlib
import glob
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import time

from deploy.onboard import environment, facts, limits
from deploy.onboard.cases import end_group, follow
from deploy.onboard.folder import claimed
from deploy.onboard.wire import Refused

SIMULATION_LIMIT = 40

# Where vendors put their OpenCL, by public reports: Mali, PowerVR, Vivante, Adreno.
LIBRARIES = ("libmali*.so*", "libGLES_mali.so", "libPVROCL.so*", "libVivanteOpenCL.so*",
             "libOpenCL_adreno.so*")
FOLDERS = ("/usr/lib", "/usr/lib/*-linux-gnu*", "/usr/lib/*-linux-gnu*/mali*", "/usr/lib/mali*",
           "/usr/local/lib", "/usr/local/lib/*-linux-gnu*", "/opt/*/lib", "/vendor/lib*",
           "/vendor/lib*/egl")
# What the ICD loader looks for in a library; a libmali without OpenCL does not have it.
IS_DRIVER = """
import ctypes; library = ctypes.CDLL(%r)
print('@@yes' if hasattr(library, 'clGetExtensionFunctionAddress') else '@@no')
"""


def look(wire, request):
    """Emit the doctor's facts, and beside them what the ways to mend them depend on.

    request["debian"] names Debian's package for each of Python's, and for "driver".
    """
    found = facts.collect(request)
    chosen = "OCL_ICD_VENDORS" in request["env"]
    drivers = [] if chosen else unnamed(request, found["icd"]["files"])
    lacking = sorted(name for name, probe in found["packages"].items() if not probe["ok"])
    # A loader from pip may know a driver without an ICD file.
    platforms = json.loads(found["devices"]["text"]) if found["devices"]["ok"] else []
    loads = [icd for icd in found["icd"]["files"] if icd["problem"] is None]
    if not (drivers or loads or any(about["devices"] for about in platforms)):
        lacking.append("driver")
    found.update(
        implementation=sys.implementation.name, machine=platform.machine(), libc=libc(),
        lacking=lacking, drivers=drivers, apt=apt([request["debian"][name] for name in lacking]),
        release=release(),
    )
    wire.emit("found", **found)


def libc():
    """Return the C library, in the terms of wheels: ["glibc", major, minor] or ["musl", 1, 2]."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except ValueError:
        name = ""
    if name != "glibc":
        return ["musl", 1, 2]
    return [name] + [int(part) for part in version.split(".")[:2]]


def release():
    """Return what tells which Debian packages fit this system, or None where it has no dpkg.

    The id and the codename are those of os-release(5).
    """
    if not shutil.which("dpkg-query"):
        return None
    about = dict.fromkeys(("ID", "VERSION_CODENAME"), "")
    with contextlib.suppress(OSError), open("/etc/os-release") as file:
        for line in file:
            name, _, value = line.strip().partition("=")
            about[name] = value.strip("'\"")
    architecture = subprocess.check_output(["dpkg", "--print-architecture"]).decode().strip()
    return [about["ID"], about["VERSION_CODENAME"], architecture]


def installed(wire, request):
    """Send what dpkg says of its packages, each in request["format"]."""
    lines = subprocess.check_output(["dpkg-query", "--show", "--showformat", request["format"]])
    wire.emit("installed", payload=lines, bytes=len(lines))


def other_python():
    """Return why what apt and dpkg install is not for this Python, or None."""
    of_system = os.path.realpath(sys.executable) == os.path.realpath("/usr/bin/python3")
    if sys.prefix == sys.base_prefix and of_system:
        return None
    return "%s is not the Python that apt installs for" % sys.executable


def may_be_root():
    """Tell whether this user is root, or may be with sudo and without a password."""
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    with_sudo = shutil.which("sudo") and subprocess.call(["sudo", "-n", "true"], **quiet) == 0
    return os.getuid() == 0 or bool(with_sudo)


def apt(wanted):
    """Return what apt would do for those packages, and why it cannot; None where none is wanted."""
    if not wanted:
        return None
    other = other_python()
    about = {"packages": wanted, "new": [], "may": may_be_root(), "other_python": other}
    if not shutil.which("apt-get"):
        return dict(about, problem="the board has none")
    if other:
        return dict(about, problem=other)
    command = ["apt-get", "install", "--simulate", "--no-install-recommends"] + wanted
    try:
        done = subprocess.run(
            command, env=dict(os.environ, LC_ALL="C"), timeout=SIMULATION_LIMIT,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            universal_newlines=True, errors="replace",
        )
        said, lines = done.stderr.strip().splitlines(), done.stdout.splitlines()
    except subprocess.TimeoutExpired:
        said, lines = ["apt-get does not answer"], []
    new = [line.split()[1] for line in lines if line.startswith("Inst ")]
    if not new:
        return dict(about, problem=(said or ["nothing to install"])[-1])
    return dict(about, new=new, problem=None)


def unnamed(request, icd_files):
    """Return the paths of the OpenCL drivers that none of those ICD files names."""
    env = environment.variables(request["folder"], request["env"])
    named = [icd["library"] for icd in icd_files if icd["problem"] is None]
    known = {os.path.basename(library) for library in named}
    known |= {os.path.realpath(library) for library in named}
    own = [part for part in env.get("LD_LIBRARY_PATH", "").split(":") if part]
    found = {}
    for folder in own + list(FOLDERS):
        for pattern in LIBRARIES:
            for path in sorted(glob.glob(os.path.join(folder, pattern))):
                found.setdefault(os.path.realpath(path), []).append(path)
    return [
        paths[0]
        for real, paths in sorted(found.items())
        if not known & {real, os.path.basename(real)}.union(map(os.path.basename, paths))
        and facts.ask(IS_DRIVER % paths[0], env)["text"] == "yes"
    ]


def install(wire, request):
    """Let apt install packages. What it prints is passed on.

    Once it installs it is not stopped: packages that are half installed are in the way of others.
    """
    command = ["apt-get", "install", "--yes", "--no-install-recommends"] + request["packages"]
    as_root(wire, ["apt-get", "update"])  # old lists may do, where the archive cannot be reached
    wire.emit("done", reason=as_root(wire, command, stops=False))


def as_root(wire, command, stops=True):
    """Run a command as root, and pass on what it prints; return why it failed, or None.

    Raises Refused where the host stops it, if it `stops`.
    """
    root = [] if os.getuid() == 0 else ["sudo", "-n"]
    process = subprocess.Popen(
        root + ["env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"] + command, cwd="/",
        start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    reason = follow(wire, process, io.BytesIO(), time.monotonic() + limits.APT, stops)
    end_group(process)
    if reason == "stopped":
        raise Refused(reason)
    if not (reason or process.returncode):
        return None
    return "%s %s" % (command[0], reason or "ended with status %d" % process.returncode)


def make(wire, request):
    """Make an environment of the packages that come, and write ICD files."""
    folder = request["folder"]
    with claimed(folder, request["holder"]):
        payload = io.BytesIO(wire.payload())
        if hashlib.sha256(payload.getbuffer()).hexdigest() != request["sha256"]:
            raise Refused("the packages arrived incomplete: provision again")
        environment.make(folder, payload, request["packages"], request["drivers"])
    wire.emit("done")
