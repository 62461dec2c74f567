"""Evaluate the facts of onboard/facts.py: findings about a board, each with its fix."""

import json
import re
import time
from typing import NamedTuple

from common.text import size_text
from deploy.boards import ROOT
from deploy.link import sense
from deploy.onboard import limits
from deploy.screen import shortened

OLDEST_PYTHON = (3, 10)
LEAST_DISK = 50 * 1024**2
LEAST_MEMORY = 256 * 1024**2
LARGEST_CLOCK_ERROR = 300  # seconds
DEBIAN = {"numpy": "python3-numpy", "pyopencl": "python3-pyopencl", "PIL": "python3-pil"}


_SURVEY = """
import json, sys
from common import device, errors
try:
    print("@@" + json.dumps(device.survey(tried=%r)))
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


_BUILD_ONLY = Finding("note", "device", "this board only compiles: its kernels are not run")


def examine(board):
    """Print the findings about a board; return whether samples can run there."""
    board.say(f"doctor of {board.name}")
    build_only = board.settings.build_only
    texts = modules(tried=not build_only)
    facts = board.start("facts", limits.PROBES, modules=texts).event()
    reached = Finding("ok", "reachable", board.link.address)
    with sense(facts):
        return show(board, [reached, *judge(facts, time.time(), build_only)])


def modules(tried=True):
    """Return what looks at drivers as the samples do: the texts of files by their path.

    The board puts them into a folder of its own, and runs survey.py there, which runs a small
    program on each device if they are to be `tried`.
    """
    names = ("__init__.py", "device.py", "drivers.py", "errors.py", "files.py", "icd.py",
             "mesa.py", "probe.py", "probe.cl", "profiles.py", "program.py", "text.py")
    texts = {f"common/{name}": (ROOT / "common" / name).read_text("utf-8") for name in names}
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

    `build_only` is the board's setting: its device file is then none that anything opens.
    """
    return [
        *_python(facts),
        *_packages(facts),
        *_icd(facts),
        *([_BUILD_ONLY] if build_only else _nodes(facts)),
        *_devices(facts),
        *_governors(facts),
        *_machine(facts, now),
        *_folder(facts),
    ]


def _python(facts):
    version = facts["python"]["version"]
    text = f"{version}, {facts['python']['path']}"
    if tuple(map(int, version.split(".")[:2])) < OLDEST_PYTHON:
        wanted = ".".join(map(str, OLDEST_PYTHON))
        todo = f"install Python {wanted} or newer, and set python in boards.toml to it"
        yield Finding("FAIL", "python3", text, todo)
    else:
        yield Finding("ok", "python3", text)
    if python := facts["provisioned"]["python"]:
        yield Finding("ok", "python3", f"{python}, provisioned: the samples run with it")


def _packages(facts):
    for name, probe in facts["packages"].items():
        if probe["ok"]:
            yield Finding("ok", name, probe["text"])
            continue
        # Only samples that read images need Pillow.
        level = "note" if name == "PIL" else "FAIL"
        todo = f"run `fab provision`, or sudo apt install {DEBIAN[name]}"
        yield Finding(level, name, probe["text"], todo)


def _icd(facts):
    vendors, files = facts["icd"]["vendors"], facts["icd"]["files"]
    if not files:
        text = f"no ICD file in {vendors}"
        if _platforms(facts):
            yield Finding("ok", "ICD", f"{text}: a driver comes with Python's packages")
        else:
            todo = (
                "install the vendor's OpenCL driver, or write the path of its library (libmali.so) "
                "into a file there whose name ends in .icd"
            )
            yield Finding("FAIL", "ICD", text, todo)
    for icd in files:
        text = f"{icd['file']}: {icd['library']}"
        if icd["problem"] is None:
            yield Finding("ok", "ICD", text)
        else:
            todo = "install that library, or set LD_LIBRARY_PATH in the board's env in boards.toml"
            yield Finding("FAIL", "ICD", f"{text} does not load: {icd['problem']}", todo)


def _nodes(facts):
    for node in facts["nodes"]:
        text = f"{node['path']} {node['mode']} {node['owner']}:{node['group']}"
        text += f", {node['driver']}" if node["driver"] else ""
        if node["usable"]:
            yield Finding("ok", "device", text)
        else:
            todo = f"sudo usermod -aG {node['group']} {facts['user']}, then log in again"
            if node["group"] == "root" or node["mode"][4:6] != "rw":
                todo = f"give it to a group of its own with a udev rule (GROUP, MODE=0660), {todo}"
                todo = todo.replace(f"-aG {node['group']}", "-aG GROUP")
            yield Finding(
                "note", "device", f"{text}: {facts['user']} has no permission to use it", todo
            )
    if not facts["nodes"]:
        todo = "a GPU needs its kernel driver loaded (Mali: mali_kbase or panfrost): see dmesg"
        yield Finding("note", "device", "no /dev/mali*, no /dev/dri/renderD*: no GPU", todo)


def _platforms(facts):
    probe = facts["devices"]
    return json.loads(probe["text"]) if probe["ok"] else []


def _devices(facts):
    platforms = _platforms(facts)
    works = any(not _problem(d) for platform in platforms for d in platform["devices"])
    if not any(platform["devices"] for platform in platforms):
        todo = (
            "fix the ICD files, libraries and permissions above; -1001 is what the loader says "
            "when no driver loads. Mesa: set RUSTICL_ENABLE=panfrost in env of boards.toml"
        )
        text = "no device" if facts["devices"]["ok"] else facts["devices"]["text"]
        if not facts["packages"]["pyopencl"]["ok"]:
            text, todo = "it cannot be asked for its devices", "pyopencl must be there first"
        yield Finding("FAIL", "OpenCL", text, todo)
    for platform in platforms:
        text = f"{platform['name']}, {platform['version']}"
        if platform["problem"] or not platform["devices"]:
            todo = "its driver does not match the kernel's, or has no access to the devices above"
            if "rusticl" in platform["name"].lower():
                todo = "set RUSTICL_ENABLE=panfrost in the board's env in boards.toml"
            if not platform["version"]:  # an ICD file, whose driver cannot be loaded
                text, todo = platform["name"], "the samples exclude it: update or remove it"
            yield Finding("FAIL", "OpenCL", f"{text}: {platform['problem'] or 'no device'}", todo)
        else:
            yield Finding("ok", "OpenCL", text)
        for device in platform["devices"]:
            text = f"    {device['name']} ({device['type']}), driver {device['driver']}"
            if problem := _problem(device):
                level = "note" if works else "FAIL"
                todo = "not chosen by default (-p forces it): update or remove its driver"
                yield Finding(level, "OpenCL", f"{text}: its driver {problem}", todo)
            else:
                yield Finding("ok", "OpenCL", text)
            yield from _known(f"{platform['name']} {device['name']}")
    kinds = {device["type"] for platform in platforms for device in platform["devices"]}
    sound = platforms and all(platform["devices"] for platform in platforms)
    if sound and facts["nodes"] and "gpu" not in kinds:
        todo = "install the GPU's OpenCL driver: the samples would run on the CPU"
        yield Finding("note", "OpenCL", "there is a GPU's device file, but no GPU", todo)


def _known(name):
    for pattern, (text, todo) in _KNOWN.items():
        if re.search(pattern, name):
            yield Finding("note", "known", text, todo)


def _problem(device):
    """Return what is wrong with the driver of a device, or None."""
    return device.get("problem")


def _governors(facts):
    for name, governor in facts["governors"].items():
        if governor == "performance":
            yield Finding("ok", "governor", f"{name}: {governor}")
        else:
            todo = "times vary with the clock: set it to performance before you measure"
            yield Finding("note", "governor", f"{name}: {governor}", todo)
    if not facts["governors"]:
        yield Finding("ok", "governor", "none: this system does not control the clock")


def _machine(facts, now):
    yield Finding("ok", "kernel", facts["kernel"])
    ahead = facts["clock"] - now
    if abs(ahead) > LARGEST_CLOCK_ERROR:
        there = time.strftime("%Y-%m-%d %H:%M", time.gmtime(facts["clock"]))
        todo = "set it (sudo date -s), or start an NTP service; runs are named by the host's clock"
        yield Finding("note", "clock", f"the board believes it is {there} UTC", todo)
    if facts["memory"] is not None:
        text = f"{size_text(facts['memory'])} free"
        if facts["memory"] < LEAST_MEMORY:
            yield Finding("note", "memory", text, "end other programs, or add swap space")
        else:
            yield Finding("ok", "memory", text)


def _folder(facts):
    folder = facts["folder"]
    text = f"{folder['path']}, {size_text(folder['free'])} free"
    if folder["taken"]:
        todo = "name another folder in boards.toml: this one is not empty, or not a folder"
        yield Finding("FAIL", "folder", f"{folder['path']}: not ours", todo)
    elif not folder["writable"]:
        todo = "name a writable folder in boards.toml, or remount it read-write"
        yield Finding("FAIL", "folder", f"{text}: not writable", todo)
    elif folder["free"] < LEAST_DISK:
        yield Finding("FAIL", "folder", text, f"free at least {size_text(LEAST_DISK)}")
    else:
        state = "deployed" if folder["deployed"] else "nothing deployed yet"
        yield Finding("ok", "folder", f"{text}: {state}")
    if folder["uncollected"]:
        text = f"{folder['uncollected']} runs to collect"
        yield Finding("note", "results", text, "`fab collect` fetches them")
