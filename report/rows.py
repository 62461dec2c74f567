"""The table of all points as compact data for the page's script.

A column of texts is a list of the different texts and, for each row, which of them. Parameters and
commands are lists of words coded in the same way: a sweep repeats the same few words in every row.
"""

import json
import math
from array import array

from report.points import NO_KERNEL, SEVERITY
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
    """Texts as numbers: the same text has the same one. Counts how often each came."""

    def __init__(self):
        self.known, self.counts = {}, []

    def __call__(self, text):
        number = self.known.setdefault(text, len(self.known))
        if number == len(self.counts):
            self.counts.append(0)
        self.counts[number] += 1
        return number

    def by_count(self):
        """Return the texts, the commonest first, and the place among them of each number."""
        order = sorted(range(len(self.counts)), key=lambda number: -self.counts[number])
        texts, ranks = list(self.known), array("I", bytes(4 * len(order)))
        for rank, number in enumerate(order):
            ranks[number] = rank
        return [texts[number] for number in order], ranks


def data(points):
    """Yield what the script reads, as parts of a JSON text that can stand in a <script> element."""
    return (part.replace("<", "\\u003c") for part in _parts(points))


def _parts(points):
    """Yield the parts. What is not kept in arrays is made for one column at a time."""
    words, frames = Coded(), Coded()
    coded = {name: [array("I", map(words, of(point))) for point in points]
             for name, of in _WORDS.items()}  # fmt: skip
    framed, commands = array("I"), []
    for point in points:
        again = command(point) or _NO_COMMAND
        framed.append(frames((again.before, again.after)))
        commands.append(array("I", map(words, again.words)))
    texts, ranks = words.by_count()  # short numbers for the common ones
    varies = _varying(points, coded["params"], list(map(_name, words.known)))
    numbers = _numbers(points)

    def values(name):
        if name in ("params", "others"):
            return [[ranks[word] for word in own if varies(point, word) == (name == "params")]
                    for point, own in zip(points, coded["params"])]  # fmt: skip
        if name in coded:
            return [[ranks[word] for word in own] for own in coded[name]]
        if name in numbers:
            return list(map(_plain, numbers[name]))
        return [_OTHERS[name](p) if name in _OTHERS else getattr(p, name) for p in points]

    yield f'{{"rows":{len(points)},"columns":['
    for number, (name, title, kind) in enumerate(COLUMNS):
        yield "," * bool(number) + _json(_column(name, title, kind, values(name)))
    rows = ([frame, *(ranks[word] for word in own)] for frame, own in zip(framed, commands))
    yield f'],"words":{_json(texts)},"commands":{_json(list(rows))},'
    yield f'"frames":{_json(list(frames.known))}}}'


def _json(value):
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _plain(value):
    return None if math.isnan(value) else int(value) if value.is_integer() else value


def _column(name, title, kind, values):
    """Return a column as data, its texts coded."""
    more = {}
    if kind == "text":
        texts = Coded()
        values, more = list(map(texts, values)), {"texts": list(texts.known)}
    return {"name": name, "title": title, "kind": kind, "values": values, **more}


def _name(word):
    return word.partition("=")[0]


def _varying(points, coded, names):
    """Return which parameters tell points of one kernel apart: a function of point and word.

    `coded` holds the parameters of each point as numbers of words, `names` the name of each word.
    """
    seen, varying = {}, {}
    for point, own in zip(points, coded):
        for word in own if point.kernel != NO_KERNEL else ():
            first = seen.setdefault((point.sample, point.kernel, names[word]), word)
            if first != word:
                varying.setdefault(point.sample, {"size"}).add(names[word])
    return lambda point, word: names[word] in varying.get(point.sample, ("size",))


def _numbers(points):
    """Return the values of each column of numbers as an array, in which NaN stands for none."""
    found = {name: array("d") for name, _, kind in COLUMNS if kind == "number"}
    for point in points:
        spread = point.spread
        for name, of in _NUMBERS.items():
            value = of(point, spread)
            # Five digits: what follows them is noise, and makes the page large.
            there = value is not None and math.isfinite(value)
            found[name].append(float(f"{value:.5g}") if there else math.nan)
    return found


def _status(point):
    count = point.counts[SEVERITY.index(point.status)]
    return point.status if point.records == count else f"{point.status} {count} of {point.records}"


def _energy(point):
    """Return what a launch took by each sensor, as words."""
    return [f"{name[7:-7]}={point.metric(name):.4g}J" for name in point.metrics
            if name.startswith("energy.") and name.endswith(".joules")]  # fmt: skip


def _state(point):
    """Return what the machine said of its state, as words: governors, clocks, temperatures."""
    numbers = [_range(name, *span) for name, span in point.state.items() if name not in MACHINE]
    return [*_settings(point.environment), *numbers, *point.throttled[:3]]


def _range(name, low, high):
    if "_hz" in name:  # as a person reads it
        name, low, high = name.replace("_hz", "_mhz"), low / 1e6, high / 1e6
    return f"{name}={_reading(low)}" + (f"..{_reading(high)}" if high > low else "")


def _reading(value):
    """Return what a sensor read: three digits, as it hardly has more; of clocks five."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.5g}"


def _settings(environment):
    told = {name: value for name, value in environment.items() if name not in MACHINE}
    return [f"{name}={value}" for name, value in flat(told) if value not in ("", "null")]


# Of a point and the Spread of its times, or None.
_NUMBERS = {
    "gflops": lambda p, _: p.typical("gflops"),
    "gbytes_per_s": lambda p, _: p.typical("gbytes_per_s"),
    "median_ms": lambda _, times: times and 1e3 * times.median,
    "spread": lambda _, times: times and 100 * times.relative,
    "min_ms": lambda _, times: times and 1e3 * times.least,
    "mean_ms": lambda _, times: times and 1e3 * times.mean,
    "max_ms": lambda _, times: times and 1e3 * times.most,
    "launches": lambda p, _: len(p.times),
    "records": lambda p, _: p.records,
    "error": lambda p, _: p.error_over_bound,
}
_WORDS = {"params": lambda p: p.words, "energy": _energy, "state": _state}
_OTHERS = {
    "status": _status,
    "device": lambda p: p.device_name,
    "started": lambda p: text(p.started),
    "reason": lambda p: p.reason or "",
}
