"""Evaluate the facts of onboard/facts.py: findings about a board, each with its fix."""

import json
import re
import time
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from common import manifest
from common.text import size_text
from deploy.boards import ROOT
from deploy.link import sense
from deploy.onboard import limits
from deploy.screen import shortened

OLDEST_PYTHON = (3, 8)
LEAST_DISK = 50 * 1024**2
LARGEST_CLOCK_ERROR = 300  # seconds
DEBIAN = {"numpy": "python3-numpy", "pyopencl": "python3-pyopencl", "PIL": "python3-pil"}

_SURVEY = """
import json, sys
from common import device, errors
try:
    print("\\n@@" + json.dumps(device.survey(tried=%r)))
except errors.SampleError as error:
    sys.exit(str(error))
"""


# What is known to go wrong, by what platform and device are called.
_KNOWN = {
    "Mali|Panfrost": ("local memory is main memory", "tiles in local memory gain nothing there"),
    "rusticl.*(Mali|Panfrost)": (
        "Mesa has no 64-bit atomics, double precision or sub-groups there",
        "kernels that need them are unsupported; vload4 becomes four loads: read through float4 *",
    ),
    "rusticl.*Mali-G52": (
        "-cl-fast-relaxed-math undoes fused multiply-add", "build without that option",
    ),
    "rusticl.*Mali-T860": ("fma() is emulated", "use mad(), or a * b + c"),
}


class Finding(NamedTuple):
    """One line of the doctor: `level` is ok, note or FAIL; `todo` is None where all is well."""

    level: str
    what: str
    text: str
    todo: str | None = None


def examine(board):
    """Print the findings about a board; return whether samples can run there."""
    board.say(f"doctor of {board.name}")
    build_only = board.settings.build_only
    facts = board.start("facts", limits.PROBES, modules=modules(not build_only)).event()
    reached = Finding("ok", "reachable", board.link.address)
    with sense(facts):
        return show(board, [reached, *judge(facts, time.time(), build_only)])


def modules(tried=True):
    """Return what looks at drivers as the samples do: texts of files by their path.

    The board runs survey.py among them, which tries each device with a small program, if `tried`.
    """
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
             for path in manifest.common_files()}
    return {**texts, "survey.py": _SURVEY % tried}


def show(board, findings):
    """Print the findings; return whether none of them must be mended."""
    for finding in findings:
        board.say(f"{finding.level:<5} {finding.what:<10} {shortened(finding.text)}")
        if finding.todo:
            board.say(f"{'':<16} -> {shortened(finding.todo)}")
    return all(finding.level != "FAIL" for finding in findings)


def judge(facts, now, build_only=False):
    """Return the Findings about those facts; `now` is the host's time in seconds.

    `build_only` is the board's setting: nothing opens a device file there.
    """
    compiles = Finding("note", "device", "this board only compiles: its kernels are not run")
    nodes = [compiles] if build_only else _nodes(facts)
    return [*_python(facts), *_icd(facts), *nodes, *_devices(facts), *_machine(facts, now),
            *_folder(facts)]


def _checked(good, what, text, todo, level="FAIL", why=""):
    """Return a Finding: ok if it is `good`, else of that level with why, and what to do."""
    return Finding("ok", what, text) if good else Finding(level, what, text + why, todo)


def is_recent(facts):
    """Tell whether the board's Python can run the samples."""
    return tuple(map(int, facts["python"]["version"].split(".")[:2])) >= OLDEST_PYTHON


def _python(facts):
    text = f"{facts['python']['version']}, {facts['python']['path']}"
    todo = "install Python 3.8 or newer, and set python in boards.toml to it"
    yield _checked(is_recent(facts), "python3", text, todo)
    if facts["provisioned"]:
        yield Finding("ok", "packages", f"{facts['provisioned']}: from `fab provision`")
    for name, probe in facts["packages"].items():
        todo = f"run `fab provision`, or sudo apt install {DEBIAN[name]}"
        # Only samples that read images need Pillow.
        level = "note" if name == "PIL" else "FAIL"
        yield _checked(probe["ok"], name, probe["text"], todo, level)


def _icd(facts):
    files = facts["icd"]["files"]
    if not files:
        works = bool(_platforms(facts))
        text = f"no ICD file in {facts['icd']['vendors']}"
        text += ": a driver comes with Python's packages" if works else ""
        todo = ("install the vendor's OpenCL driver, or write the path of its library (libmali.so) "
                "into a file there whose name ends in .icd")
        yield _checked(works, "ICD", text, todo)
    for icd in files:
        text, problem = f"{icd['file']}: {icd['library']}", icd["problem"]
        todo = "install that library, or set LD_LIBRARY_PATH in the board's env in boards.toml"
        yield _checked(problem is None, "ICD", text, todo, why=f" does not load: {problem}")


def _nodes(facts):
    for node in facts["nodes"]:
        text = f"{node['path']} {node['mode']} {node['owner']}:{node['group']}"
        text += f", {node['driver']}" if node["driver"] else ""
        why = f": {facts['user']} has no permission to use it"
        of_group = node["group"] != "root" and node["mode"][4:6] == "rw"
        rule = "give it to a group of its own with a udev rule (GROUP, MODE=0660), "
        group = node["group"] if of_group else "GROUP"
        todo = f"sudo usermod -aG {group} {facts['user']}, then log in again"
        todo = todo if of_group else rule + todo
        yield _checked(node["usable"], "device", text, todo, "note", why)
    if not facts["nodes"]:
        text = "no GPU has a device file (/dev/mali*, /dev/dri/renderD*)"
        todo = "if there is a GPU, load its kernel driver (Mali: mali_kbase, panfrost or panthor)"
        yield Finding("note", "device", text, todo)


def _platforms(facts):
    probe = facts["devices"]
    return json.loads(probe["text"]) if probe["ok"] else []


def _devices(facts):
    platforms = _platforms(facts)
    devices = [device for platform in platforms for device in platform["devices"]]
    if not devices:
        todo = ("fix the ICD files, libraries and permissions above; the loader returns -1001 "
                "if no driver loads. Mesa: set RUSTICL_ENABLE=panfrost in env of boards.toml")
        text = "no device" if facts["devices"]["ok"] else facts["devices"]["text"]
        if not facts["packages"]["pyopencl"]["ok"]:
            text, todo = "its devices cannot be listed", "install pyopencl first"
        yield Finding("FAIL", "OpenCL", text, todo)
    level = "FAIL" if all(device.get("problem") for device in devices) else "note"
    for platform in platforms:
        yield _platform(platform)
        for device in platform["devices"]:
            problem = device.get("problem")
            text = f"    {device['name']} ({device['type']}), driver {device['driver']}"
            todo = "not chosen by default (-p selects it): update or remove its driver"
            yield _checked(not problem, "OpenCL", text, todo, level, f": its driver {problem}")
            for pattern, (text, todo) in _KNOWN.items():
                if re.search(pattern, f"{platform['name']} {device['name']}"):
                    yield Finding("note", "known", text, todo)
    sound = platforms and all(platform["devices"] for platform in platforms)
    if sound and facts["nodes"] and "gpu" not in {device["type"] for device in devices}:
        todo = "install the GPU's OpenCL driver: the samples would run on the CPU"
        yield Finding("note", "OpenCL", "the GPU has a device file, but no OpenCL device", todo)


def _platform(platform):
    name, version = platform["name"], platform["version"]
    good = platform["devices"] and not platform["problem"]
    todo = "its driver does not match the kernel driver, or may not access the devices above"
    if "rusticl" in name.lower():
        todo = "set RUSTICL_ENABLE=panfrost in the board's env in boards.toml"
    if not version:  # an ICD file, whose driver cannot be loaded
        todo = "the samples do not use this driver: update or remove it"
    text = f"{name}, {version}" if version else name
    return _checked(good, "OpenCL", text, todo, why=f": {platform['problem'] or 'no device'}")


def _machine(facts, now):
    for name, governor in facts["governors"].items():
        todo = "times vary with the clock: set it to performance before you measure"
        good = governor == "performance"
        yield _checked(good, "governor", f"{name}: {governor}", todo, "note")
    if not facts["governors"]:
        yield Finding("ok", "governor", "none: this system does not control the clock")
    yield Finding("ok", "kernel", facts["kernel"])
    if abs(facts["clock"] - now) > LARGEST_CLOCK_ERROR:
        there = datetime.fromtimestamp(0, UTC) + timedelta(seconds=facts["clock"])
        todo = "set it (sudo date -s), or start an NTP service; runs are named by the host's clock"
        yield Finding("note", "clock", f"the board's clock shows {there:%Y-%m-%d %H:%M} UTC", todo)


def _folder(facts):
    folder = facts["folder"]
    text = f"{folder['path']}, {size_text(folder['free'])} free"
    if folder["taken"]:
        todo = "name another folder in boards.toml: this one is not empty, or not a folder"
        yield Finding("FAIL", "folder", f"{folder['path']}: not created by fab", todo)
    elif not folder["writable"]:
        todo = "name a writable folder in boards.toml, or remount it read-write"
        yield Finding("FAIL", "folder", f"{text}: not writable", todo)
    else:
        text += ": deployed" if folder["deployed"] else ": nothing deployed yet"
        todo = f"free at least {size_text(LEAST_DISK)}"
        yield _checked(folder["free"] >= LEAST_DISK, "folder", text, todo)
    if folder["uncollected"]:
        count = folder["uncollected"]
        text = f"{count} {'run' if count == 1 else 'runs'} to collect"
        yield Finding("note", "results", text, "`fab collect` fetches them")
