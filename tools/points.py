"""A point: a sample with options. The identity of points, and the points of axes."""

import hashlib
import json
import re
from itertools import product
from typing import NamedTuple

# Keys of device.describe() that tell devices apart. A new driver makes other points.
RAN_ON = ("platform", "platform_version", "name", "driver")


class Point(NamedTuple):
    """The options of one run of a sample. `key` is equal for equal points, `label` for a person."""

    options: tuple
    key: str = "0" * 32
    label: str = ""


def identity(sample, described):
    """Return a text of what the points of one sample, code and device have in common.

    `described` is the record of --describe.
    """
    about = {name: described.device.get(name) for name in RAN_ON}
    return json.dumps([sample, described.code, about], sort_keys=True)


def point(common, options, label=None):
    """Return the Point of these options, where `common` is an identity()."""
    text = common + "\0".join(options)
    digest = hashlib.blake2b(text.encode(errors="surrogateescape"), digest_size=16)
    return Point(tuple(options), digest.hexdigest(), label or " ".join(options))


def combinations(axes):
    """Yield the words of each combination of axes, values by option. The last changes fastest."""
    for values in product(*axes.values()):
        yield words(zip(axes, values))


def named(words):
    """Return the names of the options in a command line."""
    return {word.partition("=")[0] for word in words}


def words(pairs):
    """Return the words of ((option, value), ...). A value may begin with a hyphen."""
    return [word for option, value in pairs
            for word in ([f"{option}={value}"] if value.startswith("-") and option[:2] == "--"
                         else [option, value])]


def apart(words, axes=()):
    """Return (words, axes) of a command line: an option with several values is an axis.

    One in `axes` is an axis with a single value as well, also as OPTION=VALUE.
    """
    options, found, left = [], {}, list(words)
    while left:
        taken = [left.pop(0)]
        while taken[0].startswith("-") and left and re.match("[^-]|-[0-9]", left[0]):
            taken.append(left.pop(0))
        option, *values = taken[0].split("=", 1) + taken[1:]
        if len(values) > 1 or (values and option in axes):
            found[option] = tuple(dict.fromkeys(values))
        else:
            options += taken
    return options, found
