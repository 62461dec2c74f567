"""The parameters that `tune` found best, device by device, and which of them suit a device here.

tuned/<device>-<platform>.json holds {"device": {...}, "entries": [...]}; an entry says which kernel
and parameters won at which size and precision, how fast they were, and with which driver; and which
other kernel, the best until then, was faster in the same rounds (`slower_than`, else null).
"""

import json
import os
import platform
import re
from math import log2
from pathlib import Path
from typing import NamedTuple

from launch import choose

from common.errors import SampleError, UsageError
from common.gemm import Size

FOLDER = Path(__file__).with_name("tuned")
# Where nothing is tuned: the first that is legal.
_DEFAULTS = {"CPUs": ("packed",), "NVIDIA's GPUs": ("matrix_units", "warps")}
_ANYWHERE = "registers_only"  # with any work-group, and without local memory
_DEVICE_KEYS = {"name", "platform", "vendor", "type", "family"}
_ENTRY_KEYS = {
    "kernel", "precision", "size", "params", "gflops", "driver", "when", "slower_than",
}  # fmt: skip
# Arm's names of the generations, by the numbers of their GPUs.
_MALI = {
    "Midgard": r"T\d{3}",
    "Bifrost": r"G(31|51|52|71|72|76)",
    "Valhall": r"G(57|68|77|78|310|510|610|615|710|715)",
    "5th Gen": r"G(620|625|720|725|925)",
}


class Best(NamedTuple):
    """A rung with parameters, and a text that says where they come from."""

    rung: object
    params: dict
    why: str


def identity(device, about):
    """Return what a file says of its device; `about` is what common.device.describe() says."""
    keys = ("name", "platform", "vendor", "type")
    return {key: about[key] for key in keys} | {"family": _family(device, about)}


def _family(device, about):
    """Return a name for devices that are built alike, or None."""
    if about["type"] == "cpu":
        width = about["preferred_vector_widths"]["float"]
        return f"{about['platform']}, {platform.machine()}, float{width}"
    if mali := re.search(r"\bMali-([TG]\d+)", about["name"]):
        for family, numbers in _MALI.items():
            if re.fullmatch(numbers, mali[1]):
                return f"Mali {family}"
    if "nvidia" in about["vendor"].lower():
        try:
            return f"NVIDIA, compute capability {device.compute_capability_major_nv}"
        except Exception:  # an extension of some drivers, and of some versions of pyopencl
            return None
    return None


def find(rungs, problem, precision, device, about, limits, folder=FOLDER):
    """Return the Best for a problem: of this device, else its family, else its vendor.

    Of several entries the one of the nearest size counts, then the fastest. Parameters that are not
    legal here, and those of a kernel that was slower than another one, are passed over. Without
    any, the safe default is made to fit.
    """
    mine = identity(device, about)
    by_name = {rung.name: rung for rung in rungs}
    for what, keys in (("this device", ("name", "platform")), ("its family", ("family",)),
                       ("its vendor", ("vendor", "type"))):  # fmt: skip
        candidates = []
        for file, its, entries in _load(folder):
            if any(its[key] is None or its[key] != mine[key] for key in keys):
                continue
            for entry in entries:
                if entry["slower_than"] or entry["kernel"] not in by_name:
                    continue
                if entry["precision"] == precision:
                    far = abs(log2(_flop(entry["size"]) / problem.size.flop()))
                    candidates.append((far, -entry["gflops"], file.name, its["name"], entry))
        for *_, name, entry in sorted(candidates, key=lambda c: c[:3]):
            rung = by_name[entry["kernel"]]
            if _legal(rung, entry["params"], problem, device, limits):
                told = f"{entry['gflops']:.4g} GFLOPS at {entry['size']}, driver {entry['driver']}"
                why = f"tuned for {what} ({name}: {told})"
                return Best(rung, entry["params"], why)
    return _default(by_name, problem, device, about, limits)


def _default(by_name, problem, device, about, limits):
    here = {
        "CPUs": about["type"] == "cpu",
        "NVIDIA's GPUs": about["type"] == "gpu" and "nvidia" in about["vendor"].lower(),
    }
    for what, names in _DEFAULTS.items():
        for rung in (by_name[name] for name in names if here[what] and name in by_name):
            params = choose(rung, {}, limits, problem.dtype).params
            if _legal(rung, params, problem, device, limits):
                return Best(rung, params, f"nothing is tuned for it, the default for {what}")
    rung = by_name[_ANYWHERE]
    params = choose(rung, {}, limits, problem.dtype).params
    return Best(rung, params, "nothing is tuned for it, the default for every device")


def _legal(rung, params, problem, device, limits):
    try:
        return set(params) == set(rung.defaults) and bool(
            rung.plan(problem, params, limits, device)
        )
    except SampleError:
        return False


def _flop(size):
    parts = [int(n) for n in size.split("x")]
    return Size(*(parts * 3 if len(parts) == 1 else parts)).flop()


def store(identity, entry, folder=FOLDER):
    """Put an entry into its device's file, in place of one of the same kernel, size and precision.

    Returns the path. Raises UsageError where it cannot be written.
    """
    # A device may show on several platforms, each with a compiler of its own.
    full = f"{identity['name']} {identity['platform']}"
    slug = re.sub(r"[^a-z0-9]+", "-", full.lower()).strip("-")
    path = Path(folder, f"{slug}.json")
    same = ("kernel", "precision", "size")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        entries = _read(path)[1] if path.exists() else []
        entries = [e for e in entries if any(e[key] != entry[key] for key in same)]
        entries = sorted([*entries, entry], key=lambda e: (e["precision"], _flop(e["size"])))
        text = json.dumps({"device": identity, "entries": entries}, indent=2) + "\n"
        new = path.with_suffix(".new")
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return path


def _load(folder):
    return [(path, *_read(path)) for path in sorted(Path(folder).glob("*.json"))]


def _read(path):
    """Return (device, entries) of a file. Raises UsageError where it cannot be understood."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        device, entries = data["device"], data["entries"]
        if set(device) != _DEVICE_KEYS or any(set(entry) != _ENTRY_KEYS for entry in entries):
            raise ValueError("unknown or missing keys")
        for entry in entries:
            _flop(entry["size"])
        return device, entries
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} cannot be used: {error}; delete it, or tune again") from error
