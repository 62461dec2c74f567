"""A point: a sample with options. The identity of points, and the points of axes."""

import hashlib
import json
from math import prod
from typing import NamedTuple

# The shared options that choose the device: another one makes another point.
DEVICE_OPTIONS = frozenset(
    ("-p", "--platform", "-d", "--device", "-t", "--type", "--limits")
)
# Keys of device.describe() that tell devices apart. A new driver makes other points.
RAN_ON = ("platform", "platform_version", "name", "driver")


class Point(NamedTuple):
    """The options of one run of a sample. `key` is equal for equal points, `label` for a person."""

    options: tuple
    key: str
    label: str


class Identity:
    """What the points of one sample, code and device have in common."""

    def __init__(self, sample, described):
        """Take the record of --describe."""
        about = {name: described.device.get(name) for name in RAN_ON}
        text = json.dumps([sample, described.code, about], sort_keys=True)
        self._common = hashlib.blake2b(text.encode(), digest_size=16)

    def point(self, options, label=None):
        """Return the Point of these options."""
        digest = self._common.copy()
        digest.update("\0".join(options).encode(errors="surrogateescape"))
        return Point(tuple(options), digest.hexdigest(), label or " ".join(options))


def size(axes):
    """Return how many combinations of the axes, values by option, there are."""
    return prod(len(values) for values in axes.values())


def pair(axes, index):
    """Return the ((option, value), ...) of a combination. The last axis changes fastest."""
    found = []
    for option, values in reversed(axes.items()):
        index, at = divmod(index, len(values))
        found.append((option, values[at]))
    return found[::-1]


def words(pair):
    """Return the words of ((option, value), ...). Its value may begin with a hyphen."""
    return [word for option, value in pair
            for word in ([f"{option}={value}"] if value.startswith("-") and option[:2] == "--"
                         else [option, value])]


def apart(options):
    """Return (the words that choose the device, with their values; the others)."""
    device, others, left = [], [], iter(options)
    for word in left:
        if word in DEVICE_OPTIONS:
            device += [word, next(left, "")]
        else:
            (device if word.partition("=")[0] in DEVICE_OPTIONS else others).append(word)
    return tuple(device), tuple(others)
