"""The machines, drivers and code of the points."""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from common import files
from common.errors import UsageError
from report.values import flat, text

ROOT = Path(__file__).resolve().parents[1]
_LARGEST = 64 * 1024**2  # bytes of a file of the samples
_FACTS = (
    ("platform", "platform"), ("version", "version"), ("driver", "driver"),
    ("OpenCL C", "opencl_c"), ("compute units", "compute_units"),
)  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """A board with one of its devices and its drivers: facts as (name, text)."""

    board: str
    device: str
    facts: list


def machines(points):
    """Return the Machines that the points name."""
    groups, told = {}, {}
    for point in points:
        if point.device:
            device = id(point.device)  # a few, shared by all
            if device not in told:
                facts = json.dumps([point.device.get(key) for _, key in _FACTS])
                told[device] = point.device_name, facts
            groups.setdefault((point.board, *told[device]), []).append(point)
    return [_machine(own) for own in groups.values()]


def _machine(points):
    first = points[0]
    facts = [(name, text(first.device[key])) for name, key in _FACTS if key in first.device]
    about = {}
    for environment in {id(p.environment): p.environment for p in points}.values():
        for name, value in flat(environment):
            about.setdefault(name, {})[value] = None
    facts += [(name, ", ".join(values)) for name, values in about.items()]
    runs = {point.run: None for point in points if point.run}
    facts += [("run", _run(run)) for run in runs]
    return Machine(first.board, first.device_name, facts)


@cache
def _run(run):
    """Return what is known of a run: its name, its environment, and how its code differs."""
    env = run.plan.get("env") or {}
    settings = (
        f", with {' '.join(f'{k}={v}' for k, v in flat(env))}"
        if isinstance(env, dict) and env
        else ""
    )
    files = run.plan.get("deployed")
    if not isinstance(files, dict):
        return f"{text(run.name)}{settings}"
    differ = sum(_hash(path) != digest for path, digest in files.items())
    code = f"{differ} of its {len(files)} files differ from" if differ else "its code is that of"
    return f"{text(run.name)}{settings}; {code} this checkout"


@cache
def _hash(path):
    """Return the SHA-256 of a file of this checkout; None where there is none of that name."""
    plain = PurePosixPath(path)
    if (
        plain.is_absolute()
        or ".." in plain.parts
        or plain.parts[:1] not in (("common",), ("samples",))
    ):
        return None
    try:
        return hashlib.sha256(files.read_bytes(ROOT / plain, _LARGEST)).hexdigest()
    except UsageError:
        return None
