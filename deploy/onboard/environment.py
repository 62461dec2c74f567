"""The environment that `fab provision` made on this board, described in environment.json.

envs/N/              packages: a folder for PYTHONPATH
vendors/             ICD files, where the system has none for the vendor's library
environment.json     which of it later runs use; switched in one step when it is whole
"""

import json
import os
import shutil
import sys

from deploy.onboard.folder import new_in, place, unpack, write_json

RECORD = "environment.json"


def provisioned(folder):
    """Return the variables that lead the samples to what was provisioned.

    They hold only for the Python that it was made with: boards.toml may name another one by now.
    """
    try:
        with open(place(folder, RECORD)) as file:
            made = json.load(file)
    except (OSError, ValueError):
        made = {}
    if not isinstance(made, dict) or made.get("base") != sys.executable:
        return {}
    return made.get("env", {})


def added(folder, extra):
    """Return the variables of a sample beside this process's: what was provisioned, and `extra`."""
    ours = provisioned(folder)
    paths = [env["PYTHONPATH"] for env in (extra, ours) if "PYTHONPATH" in env]
    joined = {"PYTHONPATH": os.pathsep.join(paths)} if paths else {}
    return dict(ours, **dict(extra, **joined))


def variables(folder, extra):
    """Return the whole environment of a sample."""
    return dict(os.environ, **added(folder, extra))


def switch(folder, env):
    """Let later runs use these variables, and delete the packages that no run uses then."""
    write_json(place(folder, RECORD + ".new"), {"base": sys.executable, "env": env})
    os.replace(place(folder, RECORD + ".new"), place(folder, RECORD))
    envs = place(folder, "envs")
    for name in os.listdir(envs) if os.path.isdir(envs) else []:
        if os.path.join(envs, name) != env.get("PYTHONPATH"):
            shutil.rmtree(os.path.join(envs, name), ignore_errors=True)


def make(folder, payload):
    """Unpack packages, a tar.gz of a site-packages folder, into a new folder; return its path."""
    target = place(folder, "envs", new_in(place(folder, "envs")))
    try:
        unpack(payload, target)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)  # a full disk needs the room
        raise
    return target


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
