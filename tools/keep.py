"""Store the fastest kernel and parameters in records, for the sizes that were measured.

python -m tools keep results/local/*.jsonl
python -m tools keep --tuned FOLDER kernels.jsonl tiles.jsonl

Records of the same device, driver, precision and size are compared: by their ratios to a library,
if all were timed beside it, else by their rates. The fastest kernel and its parameters are stored
where the sample looks for them, and used at this size only. A size with only one kernel and set of
parameters is left out, since nothing was compared there. To search for parameters, use `fab sweep`.
"""

from statistics import median

from common import files, manifest, record, tuned
from common.arguments import Parser, a_path
from common.errors import PASSED, UsageError
from common.sizes import parsed
from tools.space import STORED

_NO_LIBRARY = "ceiling"  # is among the ratios of a record


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
    found = [fastest(variants) for variants in by_size(items).values() if len(variants) > 1]
    if not found:
        raise UsageError("nothing to compare: no size has timed records of two kernels, or of one "
                         "with two sets of parameters")
    folder = args.tuned or _folder(samples[0])
    paths = [tuned.store(folder, *pair) for pair in found]
    for path in dict.fromkeys(paths):
        print(f"the fastest at {paths.count(path)} sizes: stored in {path}")
    if not args.tuned:
        print(STORED)
    return PASSED


def _read(path):
    with files.opened(path):  # or say why it cannot be
        pass
    try:
        return record.read(path)
    except record.RecordError as error:
        raise UsageError(error) from error


def _folder(sample):
    found = manifest.read(sample) if sample in manifest.names() else None
    if not found or not found.tools.tuned:
        raise UsageError(f"{sample} looks for no parameters: give --tuned")
    return found.folder / found.tools.tuned


def by_size(items):
    """Return {what was measured: {(kernel, parameters): its records}} of timed Records.

    Libraries are left out, and rows that are further apart than they are long: what is stored is
    for the usual ones.
    """
    found = {}
    for item in items:
        params, device = item.params, item.device
        size = parsed(str(params.get("size")))
        if item.status != "passed" or not item.times() or record.of_library(params) or not size:
            continue
        usual = {"lda": size.K, "ldb": size.N, "ldc": size.N}
        if any(params.get(name, number) != number for name, number in usual.items()):
            continue
        key = (*tuned.identity(device).items(), device["driver"], device["compute_units"],
               params.get("precision", "single"), params.get("batch", 1), str(size))
        of_kernel = tuple((name, n) for name, n in params.items() if name.isupper())
        found.setdefault(key, {}).setdefault((item.variant, of_kernel), []).append(item)
    return found


def fastest(variants):
    """Return (the identity of the device, the entry) of the fastest of by_size()'s variants."""
    every = [item for of in variants.values() for item in of]
    shared = set.intersection(*(set(item.metrics.get("ratios", ())) for item in every))
    libraries = sorted(shared - {item.variant for item in every} - {_NO_LIBRARY})

    def rate(of):
        return median(item.metrics["ratios"][libraries[0]] if libraries else item.metrics["gflops"]
                      for item in of)

    (kernel, params), of = max(variants.items(), key=lambda pair: rate(pair[1]))
    item = max(of, key=lambda each: each.started)
    batch = item.params.get("batch", 1)
    return tuned.identity(item.device), {
        "kernel": kernel, "precision": item.params.get("precision", "single"),
        "size": item.params["size"], **({"batch": batch} if batch > 1 else {}),
        "params": dict(params), "gflops": median(each.metrics["gflops"] for each in of),
        "driver": item.device["driver"], "when": item.started,
        "compute_units": item.device["compute_units"], "slower_than": None,
    }
