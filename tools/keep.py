"""Store the fastest kernel and parameters in records, for the sizes that were measured.

python -m tools keep results/local/*.jsonl
python -m tools keep --tuned FOLDER kernels.jsonl tiles.jsonl

Records of the same device, precision, batch and size are compared: by their ratios to a library, if
all were timed beside it, else by their rates. The fastest kernel and its parameters are stored
where the sample looks for them, and used at this size only. A size with only one kernel and set of
parameters is left out, since nothing was compared there. CPUs are left out, since the name of a CPU
often does not say which CPU it is. To search for parameters, use `fab sweep`.
"""

from math import isfinite
from statistics import median

from common import files, manifest, record, tuned
from common.arguments import Parser, a_path
from common.errors import PASSED, UsageError
from common.sizes import parsed


def options():
    result = Parser("python -m tools keep", __doc__, "")
    add = result.add_argument
    add("records", metavar="FILE", nargs="+", type=a_path, help="records, from --json")
    add("--tuned", type=a_path, metavar="FOLDER",
        help="where to store the best (default: where the sample looks for it)")
    add("--debug", action="store_true", help="show where an error came from")
    return result


def main(argv):
    """Store the fastest of each size; return the exit status."""
    args = options().parse_args(argv)
    items = [item for path in args.records for item in _read(path)]
    samples = sorted({item.sample for item in items})
    if len(samples) != 1:
        have = ", ".join(samples) or "no sample"
        raise UsageError(f"the records are of {have}: give those of one sample")
    folder = args.tuned or _folder(samples[0])
    stored = {}  # by the file: how many
    for kernels, libraries in by_size(items).values():
        if len(kernels) > 1:
            path = tuned.store(folder, *fastest(kernels, libraries))
            stored[path] = stored.get(path, 0) + 1
    if not stored:
        raise UsageError("nothing to compare: no size has timed records, on a GPU, of two kernels, "
                         "or of one with two sets of parameters")
    for path, count in stored.items():
        print(f"{path}: the fastest at {count} size{'s' * (count > 1)}")
    print("The sample uses them at these sizes. Commit the files for others, or delete them.")
    return PASSED


def _read(path):
    """Return the records of a file. Raises UsageError."""
    found, errors = record.sort(files.records(path))
    if errors:
        raise UsageError(errors[0])
    return found


def _folder(sample):
    found = manifest.read(sample) if sample in manifest.names() else None
    if not found or not found.tools.tuned:
        raise UsageError(f"{sample} looks for no parameters: give --tuned")
    return found.folder / found.tools.tuned


def by_size(items):
    """Return {what was measured: ({(kernel, parameters): records}, {library: records})}.

    Of several drivers of a device, the one of the newest record counts.
    """
    items = sorted(filter(_is_comparable, items), key=lambda each: each.started)
    drivers, found = {_measured(item): item.device["driver"] for item in items}, {}
    for item in items:
        key, params = _measured(item), item.params
        if item.device["driver"] != drivers[key]:
            continue
        kernels, libraries = found.setdefault(key, ({}, {}))
        if record.of_library(params):
            libraries.setdefault(item.variant, []).append(item)
        else:
            of_kernel = tuple((name, n) for name, n in params.items() if name.isupper())
            kernels.setdefault((item.variant, of_kernel), []).append(item)
    return found


def _measured(item):
    """Return what must be equal of Records that are compared, apart from the driver."""
    device, params = item.device, item.params
    return (device["name"], device["platform"], device["compute_units"],
            params.get("precision", "single"), params.get("batch", 1), _size(params))


def _size(params):
    return parsed(str(params.get("size")))


def _is_comparable(item):
    """Tell whether a Record is complete, timed, and of a usual run.

    With other leading dimensions, limits, caches or beta another kernel may be the fastest.
    """
    params, device, size = item.params, item.device, _size(item.params)
    if item.status != "passed" or not item.times() or not size or min(size) < 1:
        return False
    usual = {"lda": size.K, "ldb": size.N, "ldc": size.N, "beta": 0, "caches": "warm"}
    limits, units = device.get("limits"), device.get("compute_units")
    rate, texts = item.metrics.get("gflops"), ("name", "type", "platform", "vendor", "driver")
    numbers = [n for name, n in params.items() if name.isupper() or name == "batch"]
    return (
        device.get("type") != "cpu"
        and isinstance(limits, dict) and limits.get("profile") == "device"
        and all(params.get(name, value) == value for name, value in usual.items())
        and all(isinstance(device.get(name), str) for name in texts)
        and all(type(n) is int for n in (units, *numbers)) and units > 0
        and isinstance(params.get("precision", "single"), str)
        and bool(item.variant) and rate is not None and isfinite(rate)
    )


def fastest(kernels, libraries):
    """Return (the identity of the device, the entry) of the fastest of by_size()'s `kernels`.

    They are compared with the fastest of the `libraries` that all have a ratio to.
    """
    def rate(items):
        return median(item.metrics["gflops"] for item in items)

    every = [item for items in kernels.values() for item in items]
    shared = [name for name in libraries if all(_ratio(item, name) for item in every)]
    beside = max(shared, key=lambda name: rate(libraries[name]), default=None)

    def judged(variant):
        items = kernels[variant]
        return median(_ratio(item, beside) for item in items) if beside else rate(items)

    best = kernel, params = max(kernels, key=judged)
    newest = kernels[best][-1]
    batch = newest.params.get("batch", 1)
    return tuned.identity(newest.device), {
        "kernel": kernel, "precision": newest.params.get("precision", "single"),
        "size": str(_size(newest.params)), **({"batch": batch} if batch > 1 else {}),
        "params": dict(params), "gflops": rate(kernels[best]),
        "driver": newest.device["driver"], "when": newest.started,
        "compute_units": newest.device["compute_units"], "slower_than": None,
    }


def _ratio(item, name):
    """Return the ratio of a record to a library, or None."""
    value = item.metrics.get("ratios", {}).get(name)
    return value if type(value) in (int, float) and isfinite(value) else None
