"""The best parameters found by tuning, for each device. Standard library only.

<folder>/<device>-<platform>.json holds {"device": {...}, "entries": [...]}. An entry says which
kernel and parameters won at which size and precision, how fast they were (`spread` has the 10th and
the 90th percentile), and with which driver; `slower_than` names another kernel that was faster in
the same rounds, or is null. `gflops` is null where nothing was measured: a compiler's static model
chose. An entry for the products of a batch has their number, `batch`.
"""

import json
import platform
import re
from math import log2
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
    """The name of a kernel with its parameters, and a text that says where they come from."""

    kernel: str
    params: dict
    why: str


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


def find(folder, about, precision, size, batch=1):
    """Return what was stored for this device, else its family, else its vendor: a list of Found.

    For a `batch` of several products it is what was stored for such, else not. What is for this
    size only comes first, then what was measured, then the nearest size, then the fastest. What was
    slower than another kernel is left out. `size` is a text such as 512x512x512. With the limits of
    a Mali its family counts. Raises UsageError for a file that is not one of ours.
    """
    mine, files = identity(about), [_read(path) for path in sorted(Path(folder).glob("*.json"))]
    mine["family"] = _mali(about["limits"]["profile"]) or mine["family"]
    stored = [
        (its, entry) for its, entries in files for entry in entries
        if entry["precision"] == precision and not entry["slower_than"]
        and (entry.get("batch", 1) > 1) == (batch > 1)
    ]
    here = "name", "platform"
    exact = size, batch, about.get("compute_units")
    found = [
        _found(its, entry, "the fastest that was measured at this size")
        for its, entry in stored if _alike(its, mine, here)
        and exact == (entry["size"], entry.get("batch", 1), entry.get("compute_units", 0))
    ]
    for what, keys in (("this device", here), ("its family", ("family",)),
                       ("its vendor", ("vendor", "type"))):
        candidates = [
            (entry["gflops"] is None, abs(log2(_flop(entry["size"]) / _flop(size))),
             -(entry["gflops"] or 0), its["name"], its, entry)
            for its, entry in stored if "compute_units" not in entry and _alike(its, mine, keys)
        ]
        for *_, its, entry in sorted(candidates, key=lambda c: c[:4]):
            by_model = entry["gflops"] is None
            how = "not measured, but chosen by a static model" if by_model else "tuned"
            found.append(_found(its, entry, f"{how} for {what}"))
    return found


def _found(its, entry, why):
    """Return the Found of an entry of the device `its`."""
    unit, rate = "GOPS" if entry["precision"] == "int8" else "GFLOPS", entry["gflops"]
    told = "" if rate is None else f"{figures(rate)} {unit} at {entry['size']}, driver "
    return Found(entry["kernel"], entry["params"],
                 f"{why} ({its['name']}: {told}{entry['driver']})")


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
    """Put an entry into its device's file, in place of one of the same kernel, size and precision.

    One that is for its size only takes the place of any other such entry of that size. Returns the
    path. Raises UsageError where it cannot be written.
    """
    # A device may show on several platforms, each with a compiler of its own.
    full = f"{identity['name']} {identity['platform']}"
    slug = re.sub(r"[^a-z0-9]+", "-", full.lower()).strip("-")
    path = Path(folder, f"{slug}.json")
    same = {"precision", "size", "batch", "compute_units" if "compute_units" in entry else "kernel"}
    with writing(f"cannot write {path}"):
        entries = _read(path)[1] if path.exists() else []
        entries = [e for e in entries if any(e.get(key) != entry.get(key) for key in same)]
        entries = sorted([*entries, entry], key=lambda e: (e["precision"], _flop(e["size"])))
        lines = ",\n".join(f"    {json.dumps(each)}" for each in entries)
        about = json.dumps(identity)
        replace(path, f'{{\n  "device": {about},\n  "entries": [\n{lines}\n  ]\n}}\n')
    return path


def _read(path):
    """Return (device, entries) of a file. Raises UsageError where it cannot be understood."""
    try:
        data = json_object(path)
        device, entries = data["device"], data["entries"]
        # Older entries have no spread, nor has one that a compiler's model chose.
        if set(device) != _DEVICE_KEYS or any(
            set(entry) | _OPTIONAL != _ENTRY_KEYS for entry in entries
        ):
            raise ValueError("unknown or missing keys")
        for entry in entries:
            _flop(entry["size"])
            for name in ("batch", "compute_units"):
                if type(entry.get(name, 1)) is not int:
                    raise ValueError(f"{name} is {entry[name]!r}")
        return device, entries
    except (UsageError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} cannot be used: {error}; delete it, or tune again") from error
