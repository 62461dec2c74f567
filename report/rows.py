"""The table of all points, as compressed JSON for the page's script."""

import base64
import gzip
import io
import json

from common import stats
from common.record import RATES
from common.stats import number
from report.replay import command
from report.values import text

COLUMNS = {  # name: heading
    "board": "Board", "sample": "Sample", "case": "Case", "kernel": "Kernel", "status": "Status",
    "gflops": "GFLOPS", "gbytes_per_s": "GB/s", "median_ms": "Median ms", "spread": "Spread %",
    "params": "Parameters", "min_ms": "Min ms", "mean_ms": "Mean ms", "max_ms": "Max ms",
    "launches": "Launches", "records": "Records", "error": "Error / bound",
    "energy": "Energy of a launch", "state": "Machine state", "device": "Device",
    "started": "Started", "reason": "Reason", "others": "Other parameters",
}
# No state of it.
MACHINE = ("host", "machine", "kernel", "python", "cpus", "numpy", "pyopencl", "board")


def packed(points):
    """Return the table as gzip in Base64, which can stand in a <script> element.

    It is {"columns": COLUMNS, "rows": [[a value or null for each column, the replay command]]}.
    """
    file, varying = io.BytesIO(), _varying(points)
    with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=3, mtime=0) as out:
        out.write(b'{"columns":%s,"rows":[' % json.dumps(COLUMNS).encode())
        for index, point in enumerate(points):
            values = _row(point, varying[point.sample])
            row = json.dumps([*map(values.get, COLUMNS), command(point)], separators=(",", ":"))
            out.write(b"," * bool(index) + row.encode())
        out.write(b"]}")
    return base64.b64encode(file.getbuffer()).decode()


def _varying(points):
    """Return by sample the names of the parameters that tell points of one kernel apart."""
    first, varying = {}, {}
    for point in points:
        names = varying.setdefault(point.sample, {"size"})
        for name, value in point.params.items():
            key = point.sample, point.kernel, name
            if name not in names and value != first.setdefault(key, value):
                names.add(text(name, 80))
    return varying


def _row(point, varying):
    """Return the values of a point by the names in COLUMNS; None, or none, where there is none."""
    params = {True: [], False: []}  # whether they tell points apart
    for word in point.words:
        params[word.partition("=")[0] in varying].append(word)
    numbers = {"gflops": point.metric("gflops"), "gbytes_per_s": point.metric("gbytes_per_s"),
               "error": point.error_over_bound}
    if times := point.spread:
        # Of the rate, as everywhere else: that of the times is another one if it is wide.
        rates = (point.metrics[name] for name in RATES if name in point.metrics)
        rate = next((stats.rate(values, times) for values in rates), None)
        relative = 100 * (rate or times).relative if times.count > 1 else None
        numbers |= {"median_ms": 1e3 * times.median, "spread": relative,
                    "min_ms": 1e3 * times.least, "mean_ms": 1e3 * times.mean,
                    "max_ms": 1e3 * times.most}
    return {
        "board": point.board, "sample": point.sample, "case": point.case or None,
        "kernel": point.kernel, "status": _status(point),
        **{name: _figure(value) for name, value in numbers.items()},
        "params": _joined(params[True]), "others": _joined(params[False]),
        "launches": len(point.times), "records": point.records,
        "energy": _joined(_energy(point)), "state": _joined(_state(point)),
        "device": point.device_name, "started": text(point.started) or None,
        "reason": point.reason,
    }


def _figure(value):
    """Return a number with five digits: what follows them is noise, and makes the page large."""
    return None if number(value) is None else float(f"{value:.5g}")


def _joined(words):
    return " ".join(words) or None


def _status(point):
    count = point.counts[point.status]
    return point.status if point.records == count else f"{point.status} {count} of {point.records}"


def _energy(point):
    """Return the energy of a launch by each sensor, as words."""
    return [f"{name[7:-7]}={point.metric(name):.4g}J" for name in point.metrics
            if name.startswith("energy.") and name.endswith(".joules")]


def _state(point):
    """Return the state of the machine as words: governors, clocks, temperatures."""
    def varies(name):
        return name.partition(".")[0] not in MACHINE

    settings = [f"{name}={value}" for name, value in point.settings.items()
                if value and varies(name)]
    numbers = [_range(name, *span) for name, span in point.state.items() if varies(name)]
    return [*settings, *numbers, *point.throttled[:3]]


def _range(name, low, high):
    if "_hz" in name:  # as a person reads it
        name, low, high = name.replace("_hz", "_mhz"), low / 1e6, high / 1e6
    return f"{name}={_reading(low)}" + (f"..{_reading(high)}" if high > low else "")


def _reading(value):
    """Return a value of a sensor: three digits, as it hardly has more; of clocks five."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:.5g}"
