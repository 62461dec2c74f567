"""Values of records as safe texts: none of them is trusted."""

import json
from functools import lru_cache

from common.stats import number
from common.text import printable

_DIGEST = 8  # characters of a SHA-256: enough to tell two from each other
_STATES = ("before", "during", "after")  # of the machine, around what was timed


@lru_cache(100_000)
def _clean(value, most):
    return printable(value if len(value) <= most else value[: most - 1] + "…")


def text(value, most=300):
    """Return any value as a line."""
    if isinstance(value, list) and value and all(type(each) is int for each in value):
        value = "x".join(map(str, value))  # an NDRange
    if not isinstance(value, str):
        value = repr(value) if type(value) in (int, float) else json.dumps(value, sort_keys=True)
    return _clean(value, most)


@lru_cache(100_000)
def word(name, value):
    """Return a parameter, whose value is a text, as a word such as size=512; a digest truncated."""
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
