"""The best parameters found by tuning, for each device. Standard library only.

<folder>/<device>-<platform>.json holds {"device": {...}, "entries": [...]}. An entry says which
kernel and parameters won at which size and precision, how fast they were (`spread` has the 10th and
the 90th percentile), and with which driver; `slower_than` names another kernel that was faster in
the same rounds, or is null. `gflops` is null where nothing was measured: a compiler's static model
chose. An entry for the products of a batch has their number, `batch`. An entry with `compute_units`
is exact: it is for its size and batch only, on a device with as many compute units.
"""

import fcntl
import json
import os
import platform
import re
from contextlib import contextmanager, suppress
from math import inf, log2
from pathlib import Path
from typing import NamedTuple

from common.errors import UsageError
from common.files import json_object, replace, writing
from common.sizes import parsed
from common.text import figures

_DEVICE_KEYS = {"name", "platform", "vendor", "type", "family"}
_ENTRY_KEYS = {
    "kernel", "precision", "size", "batch", "params", "gflops", "spread", "driver", "when",
    "slower_than", "compute_units",
}
_OPTIONAL = {"spread", "batch", "compute_units"}
# Arm's names of the generations, by the numbers of their GPUs.
_MALI = {
    "Midgard": r"T\d{3}",
    "Bifrost": r"G(31|51|52|71|72|76)",
    "Valhall": r"G(57|68|77|78|310|510|610|615|710|715)",
    "5th Gen": r"G(620|625|720|725|925)",
}


class Found(NamedTuple):
    """The name of a kernel with its parameters, and a text that says where they come from.

    `exact` ones were the fastest at the size that was asked for.
    """

    kernel: str
    params: dict
    why: str
    exact: bool = False


def identity(about):
    """Return what a file says of its device: `about` is a record's device, of this machine."""
    keys = ("name", "platform", "vendor", "type")
    return {**{key: about[key] for key in keys}, "family": family(about)}


def family(about):
    """Return a name for devices that are built alike, or None."""
    if about["type"] == "cpu":
        width = about["preferred_vector_widths"]["float"]
        return f"{about['platform']}, {platform.machine()}, float{width}"
    if mali := _mali(about["name"]):
        return mali
    if capability := about.get("compute_capability"):
        return f"NVIDIA, compute capability {capability.partition('.')[0]}"
    return None


def _mali(text):
    """Return the family of a Mali that a text names, or None."""
    number = re.search(r"\bMali-([TG]\d+)", text, re.IGNORECASE)
    return next((f"Mali {name}" for name, numbers in _MALI.items()
                 if number and re.fullmatch(numbers, number[1].upper())), None)


def find(folder, about, precision, size, batch=1, usual=True):
    """Return what was stored for this device, else its family, else its vendor: a list of Found.

    `size` is a text such as 512x512x512. Exact entries come first, but only if rows have the
    `usual` leading dimensions and the device its own limits. Others for a `batch` are for batches
    of any number. Of those, measured ones come first, then the nearest size, then the fastest. What
    was slower than another kernel is left out. With the limits of a Mali its family counts. Raises
    UsageError for a file that is not one of ours.
    """
    mine, files = identity(about), [_read(path) for path in sorted(Path(folder).glob("*.json"))]
    profile = about["limits"]["profile"]
    mine["family"] = _mali(profile) or mine["family"]
    stored = [
        (its, entry) for its, entries in files for entry in entries
        if entry["precision"] == precision and not entry["slower_than"]
        and (entry.get("batch", 1) > 1) == (batch > 1)
    ]
    here = "name", "platform"
    wanted = size, batch, about.get("compute_units")
    found = [
        _found(its, entry, "the fastest that was measured at this size", exact=True)
        for its, entry in stored if usual and profile == "device" and _alike(its, mine, here)
        and wanted == (entry["size"], entry.get("batch", 1), entry.get("compute_units", 0))
    ]
    for what, keys in (("this device", here), ("its family", ("family",)),
                       ("its vendor", ("vendor", "type"))):
        candidates = [
            (entry["gflops"] is None, abs(log2(_flop(entry["size"]) / _flop(size))),
             -(entry["gflops"] or 0), its, entry)
            for its, entry in stored if not _is_exact(entry) and _alike(its, mine, keys)
        ]
        for *_, its, entry in sorted(candidates, key=lambda c: c[:3]):
            by_model = entry["gflops"] is None
            how = "not measured, but chosen by a static model" if by_model else "tuned"
            found.append(_found(its, entry, f"{how} for {what}"))
    return found


def _is_exact(entry):
    return "compute_units" in entry


def _found(its, entry, why, exact=False):
    """Return the Found of an entry of the device `its`."""
    unit, rate = "GOPS" if entry["precision"] == "int8" else "GFLOPS", entry["gflops"]
    told = "" if rate is None else f"{figures(rate)} {unit} at {entry['size']}, driver "
    why = f"{why} ({its['name']}: {told}{entry['driver']})"
    return Found(entry["kernel"], entry["params"], why, exact)


def _alike(its, mine, keys):
    return all(_same(its[key], mine[key]) for key in keys)


def _same(name, other):
    # Its own driver says ARM, and Mesa's Arm.
    return name is not None and str(name).lower() == str(other).lower()


def _flop(text):
    if not (size := parsed(text)) or min(size) < 1:
        raise ValueError(f"size is {text!r}")
    return size.flop()


def store(folder, identity, entry):
    """Put an entry into the file of its device. Return the path.

    An exact entry replaces the exact one for its size, precision and batch. Another replaces the
    one of the same kernel for these; and, if it was not slower than another kernel, the exact one
    as well, since it is newer. Raises UsageError where it cannot be written.
    """
    # A device may show on several platforms, each with a compiler of its own.
    full = f"{identity['name']} {identity['platform']}"
    slug = re.sub(r"[^a-z0-9]+", "-", full.lower()).strip("-")
    path = Path(folder, f"{slug}.json")

    def replaced(old):
        if any(old.get(key) != entry.get(key) for key in ("precision", "size", "batch")):
            return False
        if _is_exact(entry):
            return old.get("compute_units") == entry["compute_units"]
        if _is_exact(old):
            return not entry["slower_than"]
        return old["kernel"] == entry["kernel"]

    with writing(f"cannot write {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent):
            entries = _read(path)[1] if path.exists() else []
            entries = [*(old for old in entries if not replaced(old)), entry]
            entries = sorted(entries, key=lambda e: (e["precision"], _flop(e["size"])))
            lines = ",\n".join(f"    {json.dumps(each)}" for each in entries)
            about = json.dumps(identity)
            replace(path, f'{{\n  "device": {about},\n  "entries": [\n{lines}\n  ]\n}}\n')
    return path


@contextmanager
def _locked(folder):
    """Let no other process store anything in the folder during the block."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # NFS has no locks of folders
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _read(path):
    """Return (device, entries) of a file. Raises UsageError where it cannot be understood."""
    try:
        data = json_object(path)
        device, entries = (_required(data, key) for key in ("device", "entries"))
        if set(device) != _DEVICE_KEYS:
            raise ValueError("unknown or missing keys of the device")
        for entry in entries:
            _check(entry)
        return device, entries
    except (UsageError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} cannot be used: {error}; delete it, or tune again") from error


def _required(data, key):
    if key not in data:
        raise ValueError(f"{key} is missing")
    return data[key]


def _check(entry):
    """Raise ValueError, TypeError or KeyError for an entry that is not one of ours."""
    # Older entries have no spread, nor has one that a compiler's model chose.
    if set(entry) | _OPTIONAL != _ENTRY_KEYS:
        raise ValueError("unknown or missing keys")
    _flop(entry["size"])
    if not isinstance(entry["params"], dict):
        raise ValueError(f"params is {entry['params']!r}")
    texts = [entry[key] for key in ("kernel", "precision", "driver")]
    numbers = [entry.get("batch", 1), entry.get("compute_units", 1), *entry["params"].values()]
    for value, kind in (*((v, str) for v in texts), *((v, int) for v in numbers)):
        if type(value) is not kind:
            raise ValueError(f"{value!r} is not {'a text' if kind is str else 'a whole number'}")
    rate = entry["gflops"]
    if rate is not None and not (type(rate) in (int, float) and 0 <= rate < inf):
        raise ValueError(f"gflops is {rate!r}")
