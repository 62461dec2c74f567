"""Run every point of kernels x orders x local sizes x frequencies; each into the journal.

python samples/gemmbench/run.py explore                        our kernels, orders 64, 96, 128
python samples/gemmbench/run.py explore -f 'SGEMM_NT_*' --orders 64,96 --lws 0x0,8x8 --repeat 4
python samples/gemmbench/run.py explore --random 20 --seed 7   20 points drawn from all of them

Each point runs in a process of its own, under a time limit. Stop it at any time, even with SIGKILL:
the same command goes on where it stopped.
"""

import random
from argparse import Namespace
from pathlib import Path

import child
import key
import metadata
import options
from journal import Journal, key_text
from progress import Progress

from common import cli, device, gemm
from common.errors import (
    OPENCL_FAILURE,
    PASSED,
    UNSUPPORTED,
    WRONG_RESULT,
    WRONG_USAGE,
    UsageError,
)
from common.machine.pin import pinned
from common.record import Record
from common.timing import figures


def parser():
    """Return the parser of `explore`."""
    result = cli.bare_parser("gemmbench", __doc__)
    cli.add_device(result)
    cli.add_inputs(result)
    cli.add_repetition(result)
    add = result.add_argument
    add("-f", "--file", metavar="NAME", default="all",
        help="metadata of kernels: A,B or 'SGEMM_*' (default %(default)s)")  # fmt: skip
    add("--orders", type=options.listed(gemm.parse_size), metavar="N,...", default="64,96,128",
        help="orders, or MxNxK (default %(default)s)")  # fmt: skip
    add("--lws", type=options.listed(options.local_size), metavar="JxI,...", default="0x0,8x8",
        help="local sizes, 0x0: the driver's choice (default %(default)s)")  # fmt: skip
    add("--frequencies", type=options.listed(options.frequency), metavar="F,...", default="max",
        help="MHz of the device, or max; set with --pin only (default %(default)s)")  # fmt: skip
    add("--pin", action="store_true", help="hold the clocks at each frequency while a point runs")
    add("--random", type=cli.count(1), metavar="N", help="only N of the points, drawn by --seed")
    add("--journal", type=Path, metavar="FILE", default="gemmbench.jsonl",
        help="where the records go, and what is not run again (default %(default)s)")  # fmt: skip
    add("--limit", type=options.positive, metavar="S", default=60,
        help="seconds that a point may take (default %(default)s)")  # fmt: skip
    options.add_shared(result)
    return result


def main(args):
    """Run the points that the journal does not have yet; return the exit status."""
    chosen = device.choose(args.platform, args.device, args.type)
    points = plan(args, device.describe(chosen, device.limits(chosen, args.limits)))
    if args.pin:
        with pinned("cpu", None, args.sysfs):
            pass  # that it can be done, before all points fail for the want of it
    journal = Journal(args.journal)
    done = journal.by_point()
    left = [(meta, k) for meta, k in points if not settled(done.get(key_text(k)), args.limit)]
    plural = "" if len(points) == 1 else "s"
    there = len(points) - len(left)
    print(f"{len(points)} point{plural}, {there} of them in {args.journal} already")
    if not args.pin:
        print("Clocks are left as they are: --pin holds them")
    with Progress(len(left)) as progress:
        for meta, point in left:
            outcome = child.run(key.command(point, meta.path, args.sysfs), args.limit)
            item = outcome.record or Record("gemmbench", meta.name, "error", outcome.reason)
            item.variant = meta.name  # which what ends a point early does not know
            item.params |= {"point": point, "kernel": meta.name, "metadata": str(meta.path),
                            "exit_status": outcome.status, "limit_s": args.limit}  # fmt: skip
            journal.add(item)
            progress.step(f"{key.label(point)}: {result_of(item)}")
    records = journal.by_point()
    return summary([records[key_text(k)] for _, k in points], args.journal)


def settled(item, limit_s):
    """Tell whether a point's record, or None, is its last: more time may help one that had none."""
    timed_out = item is not None and item.params.get("exit_status", 0) is None
    return item is not None and not (timed_out and item.params.get("limit_s", 0) < limit_s)


def plan(args, about):
    """Return (Metadata, key) of each point: of all, or of those that --random draws.

    `about` is what device.describe() says of the device.
    """
    if not args.pin and args.frequencies != ["max"]:
        raise UsageError("--frequencies sets clocks: add --pin, or leave it out")
    kernels = metadata.find(args.kernels, args.file.split(","))
    names = [meta.name for meta in kernels]
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"two kernels are called {twice[0]}: a record must tell them apart")
    points = []
    for frequency in args.frequencies:
        for meta in kernels:
            for size in args.orders:
                for lws in args.lws:
                    one = Namespace(**{**vars(args), "size": size, "lws": lws})
                    one.pin = frequency if args.pin else None
                    points.append((meta, key.of(one, meta, about)))
    unique = {key_text(point): (meta, point) for meta, point in points}
    points = list(unique.values())
    if args.random is None or args.random >= len(points):
        return points
    drawn = sorted(random.Random(args.seed).sample(range(len(points)), args.random))
    return [points[n] for n in drawn]


def result_of(item):
    """Return what a person wants to know of a record first."""
    if item.params.get("exit_status") == WRONG_USAGE:
        return f"refused: {item.reason}"
    if item.status != "passed":
        return f"{item.status}: {item.reason}"
    s = item.metrics["statistics"]
    throttled = ", throttled" if item.environment.get("throttled") else ""
    return f"{figures(s['median'])} GFLOPS ({figures(s['min'])} to {figures(s['max'])}){throttled}"


def summary(items, path):
    """Print how many points ended how, and why; return the exit status.

    What the device cannot do is no failure where another point passed.
    """
    counts = dict.fromkeys(("passed", "failed", "refused", "unsupported", "error"), 0)
    for item in items:
        refused = item.params.get("exit_status") == WRONG_USAGE
        counts["refused" if refused else item.status] += 1
    throttled = sum(bool(item.environment.get("throttled")) for item in items)
    shown = ", ".join(f"{number} {name}" for name, number in counts.items() if number)
    print(f"{shown}{f', {throttled} throttled' if throttled else ''}: records in {path}")
    if best := [item for item in items if item.status == "passed"]:
        fastest = max(best, key=lambda item: item.metrics["gflops"])
        print(f"fastest: {key.label(fastest.params['point'])}: {result_of(fastest)}")
    if counts["failed"]:
        return WRONG_RESULT
    if counts["error"]:
        return OPENCL_FAILURE
    if counts["passed"]:
        return PASSED
    return WRONG_USAGE if counts["refused"] else UNSUPPORTED
