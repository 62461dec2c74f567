"""The environment that `fab provision` made on this board, described in environment.json.

envs/N/              packages, in a virtual environment where this Python can make one
vendors/             ICD files, where the system has none for the vendor's library
environment.json     which of it later runs use; switched in one step when it is whole
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zlib

from deploy.onboard.folder import place, write_json
from deploy.onboard.wire import Refused

RECORD = "environment.json"


def recorded(folder):
    """Return {"python": its path or None, "env": variables} for the samples to run with.

    None is the Python that runs this. It holds only for the Python that it was made with:
    boards.toml may name another one by now.
    """
    try:
        with open(place(folder, RECORD)) as file:
            made = json.load(file)
    except (OSError, ValueError):
        made = {}
    if not isinstance(made, dict) or made.get("base") != sys.executable:
        made = {}
    return {"python": made.get("python"), "env": made.get("env", {})}


def variables(folder, extra):
    """Return the environment of a sample: this process's, what was provisioned, boards.toml's."""
    return dict(os.environ, **dict(recorded(folder)["env"], **extra))


def switch(folder, python, env):
    """Let later runs use this Python and these variables, and delete what no run uses then."""
    made = {"base": sys.executable, "python": python, "env": env}
    write_json(place(folder, RECORD + ".new"), made)
    os.replace(place(folder, RECORD + ".new"), place(folder, RECORD))
    used = [path for path in (python, env.get("PYTHONPATH")) if path]
    kept = [os.path.relpath(path, envs(folder)).split(os.sep)[0] for path in used]
    for name in set(os.listdir(envs(folder))) - set(kept):
        shutil.rmtree(os.path.join(envs(folder), name), ignore_errors=True)


def envs(folder):
    path = place(folder, "envs")
    os.makedirs(path, exist_ok=True)
    return path


def make(folder, payload, with_system, beat):
    """Unpack packages, a tar.gz of a site-packages folder, into an environment of their own.

    Returns its {"python", "env"}. With `with_system` it sees this Python's own packages, too. Calls
    `beat()` now and then.
    """
    numbers = [int(name) for name in os.listdir(envs(folder)) if name.isdigit()]
    target = os.path.join(envs(folder), str(1 + max(numbers or [0])))
    try:
        site = make_venv(target, with_system)
        made = {"python": os.path.join(target, "bin", "python"), "env": {}}
        if site is None:
            site, made = target, {"python": None, "env": {"PYTHONPATH": target}}
        unpack(payload, site, beat)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)  # a full disk needs the room
        raise
    return made


def make_venv(target, with_system):
    """Make a virtual environment without pip; return its site-packages, or None if it cannot be.

    Some distributions package venv, or what it needs, apart from Python.
    """
    command = [sys.executable, "-m", "venv", "--without-pip"]
    command += ["--system-site-packages"] if with_system else []
    made = subprocess.call(
        command + [target], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    python = os.path.join(target, "bin", "python")
    if made == 0:
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            site = subprocess.check_output([python, "-I", "-c", code], universal_newlines=True)
            return site.strip()
    shutil.rmtree(target, ignore_errors=True)
    return None


def unpack(payload, target, beat):
    os.makedirs(target, exist_ok=True)
    try:
        with tarfile.open(fileobj=payload, mode="r:gz") as archive:
            for member in archive:
                path = os.path.normpath(os.path.join(target, member.name))
                if not path.startswith(target + os.sep):
                    continue
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if member.islnk():  # a second name of a file that came before
                    other = os.path.normpath(os.path.join(target, member.linkname))
                    if other.startswith(target + os.sep) and os.path.isfile(other):
                        os.link(other, path)
                    continue
                if not member.isfile():
                    continue
                with open(path, "wb") as file:
                    shutil.copyfileobj(archive.extractfile(member), file)
                beat()
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise Refused("the packages broke off: %s" % error)


def write_vendors(folder, system, libraries):
    """Write ICD files for the libraries, beside those of the system's folder; return the folder."""
    target = place(folder, "vendors")
    os.makedirs(target, exist_ok=True)
    for name in os.listdir(system) if os.path.isdir(system) else []:
        if not os.path.lexists(os.path.join(target, name)):
            os.symlink(os.path.join(system, name), os.path.join(target, name))
    for library in libraries:
        name = "provisioned-%s.icd" % os.path.basename(library).split(".so")[0]
        with open(os.path.join(target, name), "w") as file:
            file.write(library + "\n")
    return target
