"""What makes two points the same: plain data, kept in each record, and back to a command line."""

import os

# Of the options of a point: those whose value goes into the key as it is.
_AS_THEY_ARE = ("seed", "repeat", "warmup", "data", "eps", "energy", "no_fence", "pin", "limits",
                "platform", "device", "type")  # fmt: skip

# Of what device.describe() says: who ran a point, whatever number it had.
RAN_ON = ("platform", "platform_version", "name", "driver")


def of(args, meta, about):
    """Return the key of the point that `args`, the options of a point, name for one kernel.

    `about` is what device.describe() says of the device. A new driver makes other points.
    """
    return {
        "kernel": meta.name,
        "kernel_sha256": meta.digest(),
        "size": str(args.size),
        "lws": lws_text(args.lws),
        **{name: getattr(args, name) for name in _AS_THEY_ARE},
        "ran_on": {name: about[name] for name in RAN_ON},
        "PYOPENCL_CTX": os.environ.get("PYOPENCL_CTX"),
    }


_WHOLE, _TEXT, _MAYBE_TEXT = (int,), (str,), (str, type(None))
_FORM = {
    "kernel": _TEXT, "kernel_sha256": _TEXT, "size": _TEXT, "lws": _TEXT, "data": _TEXT,
    "seed": _WHOLE, "repeat": _WHOLE, "warmup": _WHOLE, "eps": (int, float, type(None)),
    "energy": (bool,), "no_fence": (bool,), "pin": _MAYBE_TEXT, "limits": _MAYBE_TEXT,
    "platform": _MAYBE_TEXT, "device": _MAYBE_TEXT, "type": _MAYBE_TEXT,
}  # fmt: skip


def flaw(key):
    """Return what is wrong with what a file gives for a key, as a text, or None."""
    if not isinstance(key, dict):
        return "point is not an object"
    for name, types in _FORM.items():
        value = key.get(name, ())  # of none of the types
        if type(value) not in types or (isinstance(value, str) and not value.isprintable()):
            return f"point.{name} is missing or has the wrong type"
    return None


def lws_text(lws):
    """Return a local size as its option takes it."""
    return f"{lws[0]},{lws[1]}" if lws else "0,0"


def command(key, path, sysfs):
    """Return the arguments of run.py that run the point of that key, its metadata at `path`."""
    named = {"-f": path, "-n": key["size"], "-lws": key["lws"], "--seed": key["seed"],
             "--repeat": key["repeat"], "--warmup": key["warmup"], "--data": key["data"],
             "-eps": key["eps"], "--pin": key["pin"], "--limits": key["limits"],
             "-p": key["platform"], "-d": key["device"], "-t": key["type"],
             "--sysfs": sysfs}  # fmt: skip
    args = [text for name, value in named.items() if value is not None
            for text in (name, str(value))]  # fmt: skip
    args += ["--energy"] if key["energy"] else []
    return args + (["--no-fence"] if key["no_fence"] else [])


def label(key):
    """Return what tells a person one point of an exploration from the others."""
    lws = key["lws"].replace(",", "x") if key["lws"] != "0,0" else "any group"
    clock = f" at {key['pin']}" + ("" if key["pin"] == "max" else " MHz") if key["pin"] else ""
    return f"{key['kernel']} {key['size']} {lws}{clock}"
