"""Values of records as safe texts: none of them is trusted."""

import json
import sys
from functools import lru_cache

from common.record import LIBRARY
from common.stats import number
from common.text import printable

LONGEST = 300  # characters of a text
ORIGIN = ("author", "licence", "generator")  # of a kernel
_DIGEST = 8  # characters of a SHA-256: enough to tell two from each other


@lru_cache(100_000)
def _clean(value, most):
    return printable(value if len(value) <= most else value[: most - 1] + "…")


def text(value, most=LONGEST):
    """Return any value as a line."""
    if isinstance(value, list) and value and all(type(each) is int for each in value):
        value = "x".join(map(str, value))  # an NDRange
    if not isinstance(value, str):
        value = repr(value) if type(value) in (int, float) else json.dumps(value, sort_keys=True)
    return _clean(value, most)


def device_name(device):
    """Return the device of a record: a run on the CPU must not pass for one on the GPU."""
    if not device:
        return "no device"
    return f"{text(device.get('name', 'unnamed'))} ({text(device.get('type', 'unknown'))})"


def flat(values):
    """Return [(name, text)] for each value of nested dictionaries."""
    return [(name, text(value, 120)) for name, value in _leaves(values)]


def parameters(params):
    """Return parameters as words such as size=512, the size first.

    Left out are those that are null, and nested ones: these are how a sample names the point to
    itself. A digest is truncated.
    """
    if "size" in params:
        params = {"size": None} | params
    return [
        _word(name, value if isinstance(value, (str, int, float)) else text(value), type(value))
        for name, value in params.items()
        if value is not None and not isinstance(value, dict)
    ]


@lru_cache(100_000)
def _word(name, value, _type):  # its type, because True == 1 == 1.0
    shown = text(value, 120)
    return f"{text(name, 80)}={shown[:_DIGEST] if name.endswith('sha256') else shown}"


def case_of(params):
    """Return a text that is equal for the same case in another version.

    Left out are nested parameters, and what is of a version or an outcome: see _is_found(). The
    caches of older records were warm.
    """
    return json.dumps({
        name: value for name, value in {"caches": "warm", **params}.items()
        if not _is_found(name) and not isinstance(value, dict)
    }, sort_keys=True)


def _is_found(name):
    """Whether it is of the code (digest, author), a library's version, or how a process ended."""
    return name in (*LIBRARY, *ORIGIN, "exit_status") or name.endswith("sha256")


def measured(values):
    """Return [(name, number)] for each number in nested dictionaries."""
    found = ((name, number(value)) for name, value in _leaves(values))
    return [(name, value) for name, value in found if value is not None]


def _leaves(values, prefix=""):
    found = []
    for name, value in values.items():
        name = _joined(prefix, name)
        found += _leaves(value, f"{name}.") if isinstance(value, dict) else [(name, value)]
    return found


@lru_cache(10_000)
def _joined(prefix, name):
    return f"{prefix}{text(name, 80)}"


def interned(value):
    """Return the value; a text as the one object of all that are equal: records repeat theirs."""
    return sys.intern(value) if type(value) is str else value


def unmeasured(values):
    """Return nested dictionaries without their numbers."""
    return {
        name: unmeasured(value) if isinstance(value, dict) else value
        for name, value in values.items()
        if number(value) is None
    }
