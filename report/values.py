"""Values of records as safe texts: none of them is trusted."""

import json
from functools import lru_cache

from common.stats import number
from common.text import printable

LONGEST = 300  # characters of a text
_DIGEST = 8  # characters of a SHA-256: enough to tell two from each other
_STATES = ("before", "during", "after")  # of the machine, around what was timed


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


def parameters(params):
    """Return parameters as words such as size=512, the size first.

    Left out are those that are null, and nested ones: these are how a sample names the point to
    itself. A digest is truncated.
    """
    if "size" in params:
        params = {"size": None} | params
    return [_word(name, value if isinstance(value, str) else text(value, 120))
            for name, value in params.items() if value is not None and not isinstance(value, dict)]


@lru_cache(100_000)
def _word(name, value):
    shown = text(value, 120)
    return f"{text(name, 80)}={shown[:_DIGEST] if name.endswith('sha256') else shown}"


def leaves(values, prefix=""):
    """Yield (name, value) for each value of nested dictionaries; names such as clocks_hz.gpu."""
    for name, value in values.items():
        name = prefix + text(name, 80)
        if isinstance(value, dict):
            yield from leaves(value, f"{name}.")
        else:
            yield name, value


def measured(values):
    """Yield (name, number) for each number in nested dictionaries."""
    for name, value in leaves(values):
        if (value := number(value)) is not None:
            yield name, value


def machine(environment):
    """Return what a record says of its machine: its settings as texts by name, [(name, number)].

    Numbers, such as temperatures, were measured: at any time, before, during or after the launches.
    """
    settings, numbers = {}, []
    for name, value in environment.items():
        if name in _STATES:
            for state in value if isinstance(value, list) else [value]:
                numbers += measured(state) if isinstance(state, dict) else ()
        elif name != "throttled":
            numbers += measured({name: value})
            settings |= {leaf: text(each, 120) for leaf, each in leaves({name: value})
                         if each is not None and number(each) is None}
    return settings, numbers
