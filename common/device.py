"""Choose, describe and open an OpenCL device; know its limits, real or of a named profile."""

import os
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyopencl as cl

from common import drivers, program
from common.drivers import platforms
from common.errors import OpenCLFailure, UsageError
from common.machine.sysfs import text
from common.profiles import PROFILES
from common.text import one_line, printable, size_text

TYPES = {
    "all": cl.device_type.ALL,
    "cpu": cl.device_type.CPU,
    "gpu": cl.device_type.GPU,
    "acc": cl.device_type.ACCELERATOR,
    "default": cl.device_type.DEFAULT,
}

_SCALARS = ("char", "short", "int", "long", "half", "float", "double")
_LOCAL_MEM_TYPES = {
    cl.device_local_mem_type.LOCAL: "local", cl.device_local_mem_type.GLOBAL: "global",
}

# What a kernel's author asks first of a new board.
NOTABLE_EXTENSIONS = (
    "cl_khr_fp16", "cl_khr_fp64", "cl_khr_int64_base_atomics", "cl_khr_subgroups",
    "cl_arm_import_memory", "cl_arm_core_id", "cl_arm_integer_dot_product_int8",
)

# Intel's runtime calls a context invalid once its creator lets go of it, although a queue holds it.
_contexts = []
passed_over = []  # by choose(): platforms, and why


@dataclass(frozen=True)
class Limits:
    """What a sample may ask of the device. Sizes in bytes.

    local_mem_type: `local`, `global` (local memory is main memory, as on a Mali) or `none`.
    """

    profile: str
    max_work_group_size: int
    max_work_item_sizes: tuple
    local_mem_size: int
    local_mem_type: str
    max_mem_alloc_size: int
    global_mem_size: int
    extensions: frozenset

    def fit(self, local, kernel_work_group_size):
        """Return the work-group shape `local`, its largest side halved until it is legal."""
        local = [min(n, most) for n, most in zip(local, self.max_work_item_sizes)]
        while np.prod(local) > min(self.max_work_group_size, kernel_work_group_size):
            local[local.index(max(local))] //= 2
        return tuple(local)


def limits(device, profile=None):
    """Return the Limits of `device`, lowered to those of the named profile if one is given.

    With --build-only they are the profile's: nothing runs on the device.
    """
    real = Limits(
        profile="device",
        max_work_group_size=device.max_work_group_size,
        max_work_item_sizes=tuple(device.max_work_item_sizes),
        local_mem_size=device.local_mem_size,
        local_mem_type=_LOCAL_MEM_TYPES.get(device.local_mem_type, "none"),
        max_mem_alloc_size=device.max_mem_alloc_size,
        global_mem_size=device.global_mem_size,
        extensions=frozenset(_told(device, "extensions").split()),
    )
    if profile is None:
        return real
    own = {**PROFILES[profile]}
    own["extensions"] = real.extensions & own["extensions"]
    if not program.builds_only():
        for name in own.keys() & {"max_work_group_size", "local_mem_size"}:
            own[name] = min(own[name], getattr(real, name))
        if sides := own.get("max_work_item_sizes"):
            own["max_work_item_sizes"] = tuple(map(min, sides, real.max_work_item_sizes))
    return replace(real, profile=profile, **own)


def choose(platform=None, device=None, type_name=None):
    """Return the device that the options name; each is None, a number or part of a name.

    Without a platform and a device, PYOPENCL_CTX (`platform[:device]`) is asked; without that, the
    first GPU of any platform is taken, else the first accelerator, else the first device, of those
    whose driver works: skipped() tells of the others. Raises UsageError where there is no such
    device, OpenCLFailure where the platform fails that was asked for, or none works.
    """
    if platform is None and device is None:
        wanted = os.environ.get("PYOPENCL_CTX", "")
        platform, _, device = (part or None for part in wanted.partition(":"))
        if device and (":" in device or "," in device):
            raise UsageError(f"PYOPENCL_CTX={wanted}: give platform, or platform:device")

    # Mesa's dummy device says what it was asked that it does not know.
    with program.quiet_driver() if program.builds_only() else nullcontext():
        found = platforms()
    if platform is not None:
        found = [_pick(found, platform, "platform")]
    elif len(found) > 1 and _is_number(device):
        raise UsageError(f"-d {device} needs -p: see --list")
    candidates = []
    for each in found:
        try:
            candidates += devices(each, type_name)
        except OpenCLFailure as error:
            if len(found) == 1:
                raise
            passed_over.append(str(error))
    if not candidates:
        names = ", ".join(p.name.strip() for p in found)
        why = "".join(f"; {text}" for text in skipped())
        if type_name in (None, "all"):
            raise OpenCLFailure(f"no device on {names}{why}: see --list")
        raise UsageError(f"no device of type {type_name} on {names}{why}: see --list")
    if device is not None:
        return _pick(candidates, device, "device")
    order = {"gpu": 0, "acc": 1}
    candidates.sort(key=lambda candidate: order.get(type_of(candidate), 2))
    untried = platform is not None or program.builds_only()  # a trial runs a kernel
    return candidates[0] if untried else _first_that_works(candidates)


def _first_that_works(candidates):
    for candidate in candidates:
        problem = drivers.problem(candidate)
        if problem is None:
            return candidate
        name = candidate.platform.name.strip()
        passed_over.append(f"{name}: its driver {problem}")
    raise OpenCLFailure(f"no driver works: {'; '.join(skipped())}; select one with -p")


def skipped():
    """Return what choose() passed over in this process, and why: a text for each driver."""
    left_out = [f"{file}: its driver {why}" for file, why in drivers.left_out().items()]
    return [*left_out, *dict.fromkeys(passed_over)]


def devices(platform, type_name=None):
    """Return the platform's devices of the named type; an empty list where it has none.

    Raises OpenCLFailure where the platform fails: a driver that does not fit the kernel shows
    itself so.
    """
    try:
        return platform.get_devices(TYPES[type_name or "all"])
    except cl.Error as error:
        if error.code == cl.status_code.DEVICE_NOT_FOUND:
            return []
        raise OpenCLFailure(f"platform {platform.name.strip()} fails: {error}") from error


def _is_number(text):
    return text is not None and text.isascii() and text.isdigit() and len(text) < 10


def _pick(items, wanted, what):
    if _is_number(wanted):
        if int(wanted) < len(items):
            return items[int(wanted)]
    elif wanted:
        for item in items:
            if wanted.lower() in item.name.lower():
                return item
    names = [item.name.strip() for item in items]
    if len({*names}) < len(names):
        names = [f"{name} ({item.version.strip()})" for name, item in zip(names, items)]
    have = ", ".join(f"[{n}] {name}" for n, name in enumerate(names))
    raise UsageError(f"no {what} '{wanted}': choose from {have}")


def open_queue(device):
    """Return a queue on `device`, in a context of its own, that takes the times of its commands.

    With --build-only there are none, and a device that runs nothing cannot take them.
    """
    profiling = 0 if program.builds_only() else cl.command_queue_properties.PROFILING_ENABLE
    context = cl.Context([device])
    _contexts.append(context)
    return cl.CommandQueue(context, properties=profiling)


def of_amd(device):
    """Tell whether a CPU is AMD's. Intel's runtime gives its own vendor, but AMD in the name."""
    return type_of(device) == "cpu" and "AMD" in device.vendor + device.name


def amd_family(device):
    """Return the family of a CPU of AMD's, such as 25 (Zen 3 and 4) or 26 (Zen 5); else 0."""
    family = host_cpu().get("cpu family", "") if of_amd(device) else ""
    return int(family) if family.isascii() and family.isdigit() else 0


def host_cpu(file=Path("/proc/cpuinfo")):
    """Return what Linux says of the first processor, as a dict of texts: on x86 with its `flags`.

    A driver's compiler may be older than the CPU, and take it for another. {} if there is no such
    file.
    """
    first = (text(file) or "").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def type_of(device):
    """Return `gpu`, `cpu`, `acc` or `other`."""
    return next((name for name in ("gpu", "cpu", "acc") if device.type & TYPES[name]), "other")


def rounds_to_nearest(device, dtype):
    """Tell whether arithmetic of that type rounds to nearest: a device may truncate, even float32
    in the embedded profile."""
    name = {2: "half", 4: "single", 8: "double"}.get(np.empty(0, dtype).real.itemsize, "")
    about = getattr(device, f"{name}_fp_config", 0)
    return bool(about & cl.device_fp_config.ROUND_TO_NEAREST)


def _told(device, what):
    """Return a text of a device. Raises OpenCLFailure, which names it, where there is none."""
    try:
        return getattr(device, what).strip()
    except (cl.Error, UnicodeDecodeError) as error:
        raise OpenCLFailure(f"the driver does not report its {what}: {one_line(error)}") from error


def describe(device, limit):
    """Return what a record keeps of the device and the Limits that were kept to: plain data."""
    about = {
        "platform": device.platform.name.strip(),
        "platform_version": device.platform.version.strip(),
        "name": _told(device, "name"),
        "vendor": _told(device, "vendor"),
        "version": _told(device, "version"),
        "driver": _told(device, "driver_version"),
        "opencl_c": _told(device, "opencl_c_version"),
        "profile": _told(device, "profile"),
        "type": type_of(device),
        "compute_units": device.max_compute_units,
        "preferred_vector_widths": {kind: getattr(device, f"preferred_vector_width_{kind}")
                                    for kind in _SCALARS},
        "extensions": sorted(limit.extensions),
        "skipped": skipped(),
        "limits": {name: value for name, value in vars(limit).items() if name != "extensions"},
    }
    if "cl_nv_device_attribute_query" in limit.extensions:
        with suppress(Exception):  # some versions of pyopencl do not know these
            numbers = device.compute_capability_major_nv, device.compute_capability_minor_nv
            about["compute_capability"] = ".".join(map(str, numbers))
    return about


def summary(about):
    """Return the lines that show a person what describe() returned."""
    limit = about["limits"]
    widths = "  ".join(f"{k} {v}" for k, v in about["preferred_vector_widths"].items())
    items = " x ".join(map(str, limit["max_work_item_sizes"]))
    have = [e for e in NOTABLE_EXTENSIONS if e in about["extensions"]]
    lack = [e for e in NOTABLE_EXTENSIONS if e not in about["extensions"]]
    version = about["platform_version"].split("  ")[0]  # PoCL adds how it was built
    kind = f"{about['type']}, {about['compute_units']} compute units"
    profile = "" if limit["profile"] == "device" else f", limits of {limit['profile']}"
    # Before a sample teaches tiles.
    no_gain = "  local memory     is global memory on this device, and no faster"
    lines = [
        f"Device: {about['name']} ({kind}{profile})",
        f"  platform         {about['platform']}, {version}",
        f"  driver           {about['driver']}, {about['opencl_c']}, {about['profile']}",
        f"  vector widths    {widths}",
        f"  work-group       at most {limit['max_work_group_size']} work-items, {items}",
        f"  memory           local {size_text(limit['local_mem_size'])},"
        f" global {size_text(limit['global_mem_size'])},"
        f" one allocation {size_text(limit['max_mem_alloc_size'])}",
        *([no_gain] if limit["local_mem_type"] == "global" else []),
        f"  extensions       {' '.join(have) or 'none of note'}",
        f"  missing          {' '.join(lack) or 'nothing of note'}",
        *(f"  skipped          {text}" for text in about["skipped"]),
    ]
    return list(map(printable, lines))


def survey(tried=True):
    """Return all drivers with what is wrong with each, checked again: plain data.

    A list of {"name", "version", "problem", "devices"}, of platforms in the order of -p, then of
    ICD files whose driver cannot be loaded. A device is {"name", "type", "driver", "problem"}. A
    problem is None where there is none, and where the devices are not to be `tried`.
    """
    found = []
    drivers.unloadable.cache_clear()
    drivers.unloadable(anew=True)
    for platform in platforms():
        about = {"name": platform.name.strip(), "version": platform.version.strip(),
                 "problem": None, "devices": []}
        found.append(about)
        try:
            for item in devices(platform):
                about["devices"].append({
                    "name": item.name.strip(), "type": type_of(item),
                    "driver": item.driver_version.strip(),
                    "problem": drivers.problem(item, anew=True) if tried else None,
                })
        except OpenCLFailure as error:
            about["problem"] = str(error)
    for file, why in drivers.left_out().items():
        found.append({"name": file, "version": "", "problem": why, "devices": []})
    return found


def listing():
    """Return the lines of --list: platforms, and each one's devices, as -p and -d count them."""
    found = survey()
    lines = [f"Platforms ({len([platform for platform in found if platform['version']])}):"]
    for number, platform in enumerate(found):
        if not platform["version"]:
            lines.append(f"    excluded: {platform['name']}: its driver {platform['problem']}")
            continue
        lines.append(f"    [{number}] {platform['name']}, {platform['version']}")
        if platform["problem"]:
            lines.append(f"        {platform['problem']}")
            continue
        lines.append(f"        Devices ({len(platform['devices'])}):")
        for index, item in enumerate(platform["devices"]):
            lines.append(f"            [{index}] {item['name']} ({item['type']})")
            if item["problem"]:
                lines.append(f"                not the default: its driver {item['problem']}")
    return list(map(printable, lines))
