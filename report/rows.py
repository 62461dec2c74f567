"""The table of all points as compact data for the page's script.

A column of texts is a list of the different texts and, for each row, which of them. Parameters and
commands are lists of words coded in the same way: a sweep repeats the same few words in every row.
"""

import json
import math
from collections import Counter
from functools import lru_cache
from itertools import chain

from report.points import NO_KERNEL, RATES
from report.replay import Command, command
from report.values import flat, text

# name, heading, kind. The script sorts words as texts, and numbers as numbers.
COLUMNS = (
    ("board", "Board", "text"),
    ("sample", "Sample", "text"),
    ("case", "Case", "text"),
    ("kernel", "Kernel", "text"),
    ("status", "Status", "text"),
    ("gflops", "GFLOPS", "number"),
    ("gbytes_per_s", "GB/s", "number"),
    ("median_ms", "Median ms", "number"),
    ("spread", "Spread %", "number"),
    ("params", "Parameters", "words"),
    ("min_ms", "Min ms", "number"),
    ("mean_ms", "Mean ms", "number"),
    ("max_ms", "Max ms", "number"),
    ("launches", "Launches", "number"),
    ("records", "Records", "number"),
    ("error", "Error / bound", "number"),
    ("energy", "Energy of a launch", "words"),
    ("state", "Machine state", "words"),
    ("device", "Device", "text"),
    ("started", "Started", "text"),
    ("reason", "Reason", "text"),
    ("others", "Other parameters", "words"),
)
_NO_COMMAND = Command("", ())
MACHINE = ("host", "machine", "kernel", "python", "cpus", "numpy", "pyopencl")  # no state of it


class Coded:
    """Texts as numbers: the same text has the same one."""

    def __init__(self, texts=()):
        self.known = {text: number for number, text in enumerate(texts)}

    def __call__(self, value):
        return self.known.setdefault(value, len(self.known))


def data(points):
    """Return what the script reads, as JSON that can stand in a <script> element."""
    varying = varying_parameters(points)
    values = {name: _values(name, points, varying) for name, _, _ in COLUMNS}
    commands = [command(point) or _NO_COMMAND for point in points]
    spoken = [row for name, _, kind in COLUMNS if kind == "words" for row in values[name]]
    counts = Counter(chain.from_iterable([*spoken, *(again.words for again in commands)]))
    words = Coded(word for word, _ in counts.most_common())  # short numbers for the common ones
    frames = Coded()
    whole = {
        "rows": len(points),
        "columns": [_column(*column, values[column[0]], words) for column in COLUMNS],
        "words": list(words.known),
        "commands": [[frames((c.before, c.after)), *map(words, c.words)] for c in commands],
        "frames": list(frames.known),
    }
    return json.dumps(whole, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _column(name, title, kind, values, words):
    """Return a column as data, its texts or words coded."""
    more = {}
    if kind == "text":
        texts = Coded()
        values, more = list(map(texts, values)), {"texts": list(texts.known)}
    elif kind == "words":
        values = [list(map(words, own)) for own in values]
    return {"name": name, "title": title, "kind": kind, "values": values, **more}


@lru_cache(100_000)
def _name(word):
    return word.partition("=")[0]


def varying_parameters(points):
    """Return the names of the parameters that tell points of one kernel apart, by sample."""
    seen, varying = {}, {}
    for point in points:
        for word in point.words if point.kernel != NO_KERNEL else ():
            name = _name(word)
            first = seen.setdefault((point.sample, point.kernel, name), word)
            if first != word:
                varying.setdefault(point.sample, {"size"}).add(name)
    return varying


def _values(name, points, varying):
    """Return the values of a column, a row for each point; None where it has none."""
    if name in ("params", "others"):
        wanted = name == "params"
        return [
            [w for w in p.words
             if (_name(w) in varying.get(p.sample, ("size",))) == wanted]
            for p in points
        ]  # fmt: skip
    if name == "state":
        return _states(points)
    if name in RATES:
        return [_short(p.rates[name].median) if name in p.rates else None for p in points]
    if name in _TIMES:
        unit, part = 1e3, _TIMES[name]
        return [_short(unit * getattr(p.spread, part)) if p.spread else None for p in points]
    if name in _OTHERS:
        return list(map(_OTHERS[name], points))
    return [getattr(point, name) for point in points]


def _status(point):
    if point.records == point.counts[point.status]:
        return point.status
    return f"{point.status} {point.counts[point.status]} of {point.records}"


def _energy(point):
    """Return what a launch took by each sensor, as words."""
    return [f"{name[7:-7]}={point.metric(name):.4g}J" for name in point.metrics
            if name.startswith("energy.") and name.endswith(".joules")]  # fmt: skip


def _states(points):
    """Return what the machine said of its state, as words: governors, clocks, temperatures."""
    told = {id(point.environment): point.environment for point in points}  # a few, shared by all
    told = {key: _settings(environment) for key, environment in told.items()}
    return [[*told[id(point.environment)], *_measured(point)] for point in points]


def _measured(point):
    numbers = [_range(name, *span) for name, span in point.state.items() if name not in MACHINE]
    return numbers + point.throttled[:3]


def _range(name, low, high):
    if "_hz" in name:  # as a person reads it
        name, low, high = name.replace("_hz", "_mhz"), low / 1e6, high / 1e6
    return f"{name}={low:.5g}" + (f"..{high:.5g}" if high > low else "")


def _settings(environment):
    told = {name: value for name, value in environment.items() if name not in MACHINE}
    return [f"{name}={value}" for name, value in flat(told) if value not in ("", "null")]


def _short(value):
    """Return a number with five digits: what follows them is noise, and makes the page large.

    None for what is no finite number, such as a ratio to a time that is next to nothing.
    """
    return None if value is None or not math.isfinite(value) else float(f"{value:.5g}")


_TIMES = {"median_ms": "median", "min_ms": "least", "mean_ms": "mean", "max_ms": "most"}
_OTHERS = {
    "status": _status,
    "launches": lambda p: len(p.times),
    "spread": lambda p: _short(100 * p.spread.relative) if p.spread else None,
    "error": lambda p: _short(p.error_over_bound),
    "device": lambda p: p.device_name,
    "energy": _energy,
    "started": lambda p: text(p.started),
    "reason": lambda p: p.reason or "",
}
