"""The machines, drivers and code of the points."""

import hashlib
import json
import re

from common import files
from common.errors import UsageError
from common.manifest import ROOT
from common.stats import grouped
from report.values import device_name, flat, text

_OURS = re.compile(r"(common|samples)(/(?!\.\.?/)[^/\0]+)+")
_LARGEST = 64 * 1024**2  # bytes of a file of the samples
_FACTS = {"platform": "platform", "version": "version", "driver": "driver", "OpenCL C": "opencl_c",
          "compute units": "compute_units"}


def machines(points):
    """Return (board, device, [(name, text)]) for each device with its drivers."""
    devices = {id(p.device): p.device for p in points if p.device}  # a few, shared by all
    told = {key: json.dumps([device_name(device), *map(device.get, _FACTS.values())])
            for key, device in devices.items()}
    groups = grouped((p for p in points if p.device), lambda p: (p.board, told[id(p.device)]))
    return [_machine(own) for own in groups.values()]


def _machine(points):
    first, about = points[0], {}
    facts = [(name, text(first.device[key])) for name, key in _FACTS.items() if key in first.device]
    for environment in {id(p.environment): p.environment for p in points}.values():
        for name, value in flat(environment):
            about.setdefault(name, {})[value] = None
    facts += [(name, ", ".join(values)) for name, values in about.items()]
    facts += [("run", _run(run)) for run in dict.fromkeys(p.run for p in points) if run]
    return first.board, first.device_name, facts


def _run(run):
    """Return what is known of a run: its name, its environment, and how its code differs."""
    env, deployed, said = run.plan.get("env"), run.plan.get("deployed"), text(run.name)
    if env and isinstance(env, dict):
        said += f", with {' '.join(f'{name}={value}' for name, value in flat(env))}"
    if isinstance(deployed, dict):
        differ = sum(_hash(path) != digest for path, digest in deployed.items())
        said += "; " + (f"{differ} of its {len(deployed)} files differ from" if differ
                        else "its code is that of") + " this checkout"
    return said


def _hash(path):
    """Return the SHA-256 of a file of this checkout; None where there is none of that name."""
    try:
        data = files.read_bytes(ROOT / path, _LARGEST) if _OURS.fullmatch(path) else None
    except UsageError:
        return None
    return data and hashlib.sha256(data).hexdigest()
