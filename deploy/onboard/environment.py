"""The environment that `fab provision` made on this board, described in environment.json.

envs/N/              packages: a folder for PYTHONPATH
vendors/             ICD files: of packages, and where the system has none for a vendor's library
environment.json     which of it later runs use; switched in one step when it is whole
"""

import glob
import json
import os
import shutil
import subprocess
import sys

from deploy.onboard.folder import new_in, place, unpack, write_json
from deploy.onboard.wire import Refused

RECORD = "environment.json"
VENDORS = "/etc/OpenCL/vendors"
# Those of boards.toml come before ours. The last two are for PoCL, which links its kernels.
SEARCHED = ("PYTHONPATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "PATH")
# Where Debian's packages have libraries. /etc/alternatives leads to the last two from the first.
LIBRARIES = ("usr/lib/*-linux-gnu*", "lib/*-linux-gnu*", "usr/lib/*-linux-gnu*/blas",
             "usr/lib/*-linux-gnu*/lapack")


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
    joined = {
        name: os.pathsep.join(env[name] for env in (extra, ours) if name in env)
        for name in SEARCHED if name in extra or name in ours
    }
    return dict(ours, **dict(extra, **joined))


def variables(folder, extra):
    """Return the whole environment of a probe."""
    return dict(os.environ, **added(folder, extra))


def of_case(folder, extra):
    """Return the whole environment of a sample: its compiled Python lies beside the samples."""
    compiled = os.environ.get("PYTHONPYCACHEPREFIX") or place(folder, "cache", "python")
    own = {"PYTHONUNBUFFERED": "1", "PYTHONPYCACHEPREFIX": compiled}
    return variables(folder, dict(own, **extra))


def make(folder, payload, kind, drivers):
    """Let later runs use the packages in a tar.gz, and the libraries `drivers`.

    The `kind` of the packages is "wheels", unpacked, or "debs", or None: there are none.
    """
    old = provisioned(folder)
    if not kind:
        switch(folder, old, drivers)
        return
    with new_in(place(folder, "envs")) as made:
        unpack(payload, made)
        env = {name: old[name] for name in old if name not in SEARCHED}
        env.update({"PYTHONPATH": made} if kind == "wheels" else unpack_debs(folder, made))
        switch(folder, env, drivers)


def switch(folder, env, drivers):
    """Let later runs use these variables, and the libraries `drivers`."""
    if drivers or os.path.isdir(place(folder, "vendors")):
        env = dict(env, OCL_ICD_VENDORS=write_vendors(folder, drivers))
    os.sync()
    write_json(place(folder, RECORD + ".new"), {"base": sys.executable, "env": env})
    os.replace(place(folder, RECORD + ".new"), place(folder, RECORD))


def unpack_debs(folder, made):
    """Unpack the Debian packages in a folder there; return the variables that lead to them."""
    for deb in glob.glob(os.path.join(made, "*.deb")):
        command = ["dpkg-deb", "--extract", deb, made]
        done = subprocess.run(command, stderr=subprocess.PIPE, universal_newlines=True,
                              errors="replace")
        if done.returncode != 0:
            raise Refused("dpkg-deb: %s" % (done.stderr.strip().splitlines() or ["it failed"])[-1])
        os.remove(deb)
    for old in glob.glob(place(folder, "vendors", "packaged-*.icd")):
        os.remove(old)
    for icd in glob.glob(os.path.join(made, "etc/OpenCL/vendors/*.icd")):
        os.makedirs(place(folder, "vendors"), exist_ok=True)
        shutil.copy(icd, place(folder, "vendors", "packaged-" + os.path.basename(icd)))
    for script in glob.glob(os.path.join(made, "usr/lib/*/libc.so")):
        with open(script) as file:
            text = file.read()
        with open(script, "w") as file:  # ld finds libc_nonshared.a here, not in the system
            file.write(text.replace(" /usr/lib/", " %s/usr/lib/" % made))

    def folders(*patterns):
        return [path for name in patterns for path in glob.glob(os.path.join(made, name))]

    paths = {
        "PYTHONPATH": folders("usr/lib/python3/dist-packages"),
        "LD_LIBRARY_PATH": [os.environ.get("LD_LIBRARY_PATH"), *folders(*LIBRARIES)],
        "LIBRARY_PATH": folders("usr/lib/*-linux-gnu*", "usr/lib/gcc/*/*"),
        "PATH": [os.environ.get("PATH", os.defpath), *folders("usr/bin")],
    }
    return {name: os.pathsep.join(filter(None, paths[name])) for name in paths}


def write_vendors(folder, libraries):
    """Write ICD files for the libraries, beside those of the system; return their folder.

    If there is but one file in it, return that: many 32-bit programs, such as the loader of Debian
    11, cannot read the folders of some file systems.
    """
    target, system = place(folder, "vendors"), os.environ.get("OCL_ICD_VENDORS", VENDORS)
    os.makedirs(target, exist_ok=True)
    for name in os.listdir(system) if os.path.isdir(system) else []:
        if not os.path.lexists(os.path.join(target, name)):
            os.symlink(os.path.join(system, name), os.path.join(target, name))
    for library in libraries:
        name = "provisioned-%s.icd" % os.path.basename(library).split(".so")[0]
        with open(os.path.join(target, name), "w") as file:
            file.write(library + "\n")
    names = os.listdir(target)
    return os.path.join(target, *names) if len(names) == 1 else target
