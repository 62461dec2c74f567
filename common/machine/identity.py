"""Which board this is: its model and chip, its system, and the specimen, by what Linux tells.

What is not there is left out.
"""

import hashlib
import os
import re
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from common.machine.sysfs import text

_ROOT = Path("/")
_SALT = b"opencl-samples: "
# Kernel drivers of GPUs are those of these nodes; a display without a GPU has a card, and no more.
_GPUS = ("sys/class/misc/mali[0-9]*", "sys/class/drm/renderD*")
# What the drivers panthor and mali_kbase say of a GPU's firmware; nothing under /sys tells it.
_FIRMWARE = (r"CSF FW using interface (v[\d.]+\d)", r"Loading Mali firmware (0x[0-9a-f]+)",
             r"(?i:firmware git[_ ]sha): ([0-9a-f]{7,40})")
_LONGEST_LOG = 2**22  # bytes of the kernel's


@lru_cache(None)
def board(root=_ROOT):
    """Return what a record keeps of the board: plain data. `root` stands for /."""
    tree = root / "proc/device-tree"
    maker = root / "sys/class/dmi/id/sys_vendor", root / "sys/class/dmi/id/product_name"
    facts = {
        "model": text(tree / "model") or " ".join(filter(None, map(text, maker))),
        "soc": text(tree / "compatible"),
        "cpu": _found(root / "proc/cpuinfo", r"model name\s*: (.*)"),
        "os": _found(root / "etc/os-release", r'PRETTY_NAME="?([^"\n]*)'),
        "gpu_driver": ", ".join(gpu_drivers(root).values()),
        "gpu_firmware": " ".join(_gpu_firmware(root)),
        "specimen": _specimen(root, tree),
    }
    found = {name: " ".join(value.replace("\0", " ").split())[:200]
             for name, value in facts.items() if value}
    if kilobytes := _found(root / "proc/meminfo", r"MemTotal:\s*(\d{1,15}) kB"):
        found["memory_bytes"] = int(kilobytes) * 1024
    return found


def _found(path, pattern):
    match = re.search(pattern, text(path) or "")
    return match and match[1]


def gpu_drivers(root=_ROOT):
    """Return each GPU's kernel driver by its node, such as mali0, with its version if it has one of
    its own."""
    found = {}
    for pattern in _GPUS:
        for driver in sorted(root.glob(f"{pattern}/device/driver")):
            name = (driver / "module" if (driver / "module").exists() else driver).resolve().name
            version = text(root / "sys/module" / name / "version")
            found[driver.parents[1].name] = " ".join(filter(None, [name, version]))
    return found


def _gpu_firmware(root):
    """Return the version and the digest of a Mali's firmware, if this user may read the kernel's
    log, and if that still has them."""
    if not re.search("panthor|mali", " ".join(gpu_drivers(root).values())):
        return []
    said = b""
    with suppress(OSError), open(root / "dev/kmsg", "rb", 0) as log:
        os.set_blocking(log.fileno(), False)  # else its end is waited for
        while len(said) < _LONGEST_LOG and (line := log.read(8192)):
            said += line
    found = (re.findall(pattern, said.decode(errors="replace")) for pattern in _FIRMWARE)
    return [values[-1] for values in found if values]


def _specimen(root, tree):
    """Return what tells this board from others of its model, and reveals nothing: a digest."""
    for path in (tree / "serial-number", root / "etc/machine-id"):
        if serial := text(path):
            return hashlib.sha256(_SALT + serial.encode()).hexdigest()[:16]
    return None
