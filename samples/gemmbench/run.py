"""GEMM kernels as data: each is checked, measured, and completely recorded.

python samples/gemmbench/run.py                                   one point, as the original does
python samples/gemmbench/run.py -f SGEMM_NT_4x2 -n 512 -lws 8,8
python samples/gemmbench/run.py -f 'SGEMM_*_mnk' -n 101x203x77    M x N x K
python samples/gemmbench/run.py --kernels DIR -f NAME.json        a kernel written elsewhere
python samples/gemmbench/run.py paper                             why the paper's validation failed
"""

import argparse
import sys
import time
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

try:
    import matrices
    import metadata
    import numpy as np
    import paper
    import pyopencl as cl

    from common import cli, device, gemm, timing
    from common.errors import (
        PASSED,
        UNSUPPORTED,
        WRONG_RESULT,
        SampleError,
        UsageError,
        outcome,
        worst,
    )
    from common.machine import power, state, sysfs
    from common.machine.pin import pinned
    from common.program import report
    from common.record import Record
    from common.text import printable
    from common.timing import figures
except ImportError as missing:
    why = str(missing).strip().splitlines()[-1]  # numpy says much more
    print(f"run.py: error: {why}: see docs/boards.md, What a board needs", file=sys.stderr)
    sys.exit(3)
except KeyboardInterrupt:
    sys.exit(130)

# What the sample did itself before there were tools for all samples.
MOVED = {"explore": "sweep gemmbench", "replay": "replay FILE:LINE", "check": "check gemmbench"}
ENERGY_LIMIT = 15.0  # seconds that a power sensor has for its readings


@dataclass
class Bench:
    """What all points of one run share. `about` is what device.describe() says."""

    args: argparse.Namespace
    device: object
    limits: device.Limits
    about: dict
    queue: object


def options():
    """Return the parser."""
    parser = cli.parser("gemmbench", __doc__)
    parser.set_defaults(seed=12345, repeat=4)
    add = parser.add_argument
    add("command", nargs="?", metavar="COMMAND", help="paper, first of all: see paper --help")
    add("-f", "--file", metavar="NAME", default="SGEMM_NN_1x1.json",
        help="metadata of kernels: one, A,B or 'SGEMM_*' or all (%(default)s)")  # fmt: skip
    add("-n", "--size", type=gemm.parse_size, default="256", metavar="N",
        help="order, or MxNxK for kernels that take it (default %(default)s)")  # fmt: skip
    add("-lws", "--local-size", dest="lws", type=metadata.parse_local_size, metavar="J,I",
        help="columns,rows of a work-group (default 0,0: the driver chooses)")  # fmt: skip
    add("--kernels", type=Path, metavar="DIR", default=metadata.KERNELS,
        help="folder of the kernels (default: the one beside run.py)")  # fmt: skip
    add("--data", choices=["drawn", "integer"], default="drawn", help="integer: exact results")
    add("-eps", "--eps", type=cli.positive, metavar="E",
        help="largest error of any element (default: a bound for each element)")  # fmt: skip
    add("--pin", nargs="?", const="max", type=frequency, metavar="MHZ", help="hold all clocks at "
        "their maximum, the device's at MHZ if given; restored at the end")  # fmt: skip
    add("--energy", action="store_true", help="measure the energy of a launch as well")
    add("--sysfs", type=folder, metavar="DIR", default=sysfs.SYSFS, help="used in place of /sys")
    add("--no-fence", action="store_true", help="no effect: replaced by --guards")
    return parser


def main(args):
    """Run the point of every kernel that is named; return the exit status."""
    refuse_command(args.command)
    kernels = metadata.find(args.kernels, ["all"] if args.describe else args.file.split(","))
    others = [meta for meta in kernels if meta.path.parent != metadata.KERNELS]
    args.code_files = [path for meta in others for path in (meta.path, meta.source)]

    # Open the device. With --limits it counts as a smaller one.
    chosen = device.choose(args.platform, args.device, args.type)
    limits = device.limits(chosen, args.limits)
    about = device.describe(chosen, limits)
    if args.describe:
        return cli.describe(args, about, [
            {"name": m.name, "options": ["-f", m.path.stem], "space": None} for m in kernels
        ])  # fmt: skip
    print("\n".join(device.summary(about)), flush=True)
    bench = Bench(args, chosen, limits, about, device.open_queue(chosen))

    # A point that fails is recorded; it is no reason to end. What this device cannot do counts only
    # where no kernel passed.
    hertz = None if args.pin in (None, "max") else float(args.pin) * 1e6
    by_name = {meta.name: meta for meta in kernels}
    with pinned(about["type"], hertz, args.sysfs) if args.pin else nullcontext():
        statuses = [point_or_reason(bench, by_name[name], len(kernels) == 1)
                    for name in args.progress.each(by_name)]  # fmt: skip
    final = worst(statuses)
    return PASSED if final == UNSUPPORTED and PASSED in statuses else final


def point_or_reason(bench, meta, alone):
    """Run one point, or print and record why that cannot be; `alone` lets cli.run() do that."""
    try:
        return point(bench, meta)
    except (SampleError, cl.Error) as error:
        if isinstance(error, cl.Error):
            bench.args.progress.require_alive(bench.queue, error)
        if alone:
            raise
        if log := getattr(error, "log", None):  # of the compiler
            print(log)
        exit_status, status, reason = outcome(error)
        print(f"\n{meta.name}: {status}: {reason}", flush=True)
        save(bench, meta, status, reason)
        return exit_status


def point(bench, meta):
    """Check and time one kernel, print and record the point; return the exit status."""
    args, queue, size = bench.args, bench.queue, bench.args.size
    meta.require_support(bench.limits)
    meta.require_shape(size)
    gemm.require_fit(size, meta.dtype, bench.limits)

    # Build the kernel, choose the NDRange: a work-item per tile of C.
    args.progress.at(meta.name, "building")
    kernel, build_s = timed(metadata.build, queue.context, meta)
    total = metadata.global_size(meta, size)
    local = metadata.local_size(meta, total, args.lws, kernel, bench.device, bench.limits)
    if args.build_only:
        save(bench, meta, "built", None, **report(meta.name, kernel))
        return PASSED

    # Draw the inputs, and set the arguments. On the device guards lie around each matrix.
    drawn = matrices.draw(size, meta.dtype, meta.scalar, args.seed, args.data == "integer")
    operands = matrices.Operands(queue, meta, size, drawn)
    A, B, C = operands.A, operands.B, operands.C
    orders = size[:1] if meta.shape == "n" else (*size, A.ld, B.ld, C.ld)
    metadata.set_arguments(kernel, meta, A.device, B.device, C.device, drawn.alpha, drawn.beta,
                           *map(np.uint32, orders))  # fmt: skip
    groups = f"work-groups of {local[0]} x {local[1]}" if local else "work-groups by the driver"
    kind = "whole numbers" if args.data == "integer" else "in [-0.5, 0.5]"
    alpha, beta = matrices.text(drawn.alpha), matrices.text(drawn.beta)
    print(f"\n{meta.name}")
    print(f"  computes      {meta.line()}")
    print(f"  size          {size}, NDRange {total[0]} x {total[1]}, {groups}")
    print(f"  inputs        alpha {alpha}, beta {beta}, {kind}, seed {args.seed}", flush=True)

    def enqueue():
        return cl.enqueue_nd_range_kernel(queue, kernel, total, local)

    # Run once and compare with the reference. Then run it again with other numbers around the
    # matrices: nothing that lies there may go into the result.
    args.progress.at(meta.name, "running")
    upload_s = operands.fill()
    enqueue().wait()
    result, download_s = timed(C.read)
    outside = [] if operands.intact() else ["the kernel wrote where C is not"]

    def run_amid(around):
        operands.fill(around)
        enqueue().wait()
        return C.read()

    outside += filter(None, [matrices.read_outside(run_amid, result, meta.dtype)])
    expected, bound = matrices.result_and_bound(drawn, meta, size, args.data, args.eps)
    check = gemm.check(result, expected, bound)
    if check.reason and (left := matrices.unwritten(result, drawn.C)):
        check = replace(check, reason=f"{check.reason}; {left}: are di and dj of {meta.path.name} "
                        "the rows and columns that a work-item makes?")  # fmt: skip
    reason = "; ".join(filter(None, [check.reason, *outside])) or None
    kept = {
        "of_a_run": {"global": total, "local": local, "alpha": alpha, "beta": beta},
        "check": check.values((drawn.A, drawn.B, drawn.C), result), "output": result,
    }  # fmt: skip
    if reason or args.check_only:
        print("\n".join(verdict(bench, meta, check, outside)), flush=True)
        save(bench, meta, "failed" if reason else "passed", reason, **kept)
        return WRONG_RESULT if reason else PASSED

    # Warm up and time what is right, with an eye on the clocks.
    operands.fill()
    timing.settle()
    watch = state.Watch(args.sysfs)
    times = timing.measure(enqueue, args.repeat, args.warmup, watch.look)
    states = watch.end()
    energy = measure_energy(enqueue, args) if args.energy else {}
    gflop = matrices.flop(size, meta.dtype) / 1e9
    middles = (f"{name} {ms(median(getattr(times, f'{name}_s')))}"
               for name in ("queued", "wait", "run", "host"))  # fmt: skip
    with_transfers = gflop / (median(times.seconds()) + upload_s + download_s)
    print(f"  machine       {state.line(states[0])}")
    print(f"  clocks        {pinning(args.pin, states)}")
    for text in state.moved(states):
        print(f"  throttled     {text}")
    print(f"  times         {', '.join(middles)} (medians); build {ms(build_s)}")
    if args.verbose:
        print(f"  run times     {' '.join(map(ms, times.run_s))}")
    print(f"  GFLOPS        {times.statistics_line(gflop)}")
    print(f"  transfers     not counted above: {ms(upload_s)} to the device, {ms(download_s)} back;"
          f" with them {figures(with_transfers)} GFLOPS")  # fmt: skip
    for text in power.lines(energy) if args.energy else ["not measured, see --energy"]:
        print(f"  energy        {text}")
    print("\n".join(verdict(bench, meta, check, outside)), flush=True)
    values = times.statistics(gflop)
    save(
        bench, meta, "passed", None, **kept, states=states,
        timing={**asdict(times), "build_s": build_s, "upload_s": upload_s,
                "download_s": download_s},
        metrics={"gflops": values["median"], "statistics": values, "energy": energy,
                 "flop_convention": matrices.flop_convention(meta.dtype)},
    )  # fmt: skip
    return PASSED


def timed(function, *args):
    """Call the function; return its result and the seconds it took."""
    start = time.perf_counter()
    result = function(*args)
    return result, time.perf_counter() - start


def measure_energy(enqueue, args):
    """Return the energy of a launch by each sensor, as power.measure()."""
    sensors = sysfs.sensors(args.sysfs)
    with power.switched_on(sensors):
        return power.measure(sensors, lambda: enqueue().wait(), ENERGY_LIMIT)


def save(bench, meta, status, reason, of_a_run=None, states=None, output=None, **groups):
    """Append the record of a point to the file of --json."""
    args = bench.args
    params = {
        "metadata": str(meta.path), "kernel": meta.name, "kernel_sha256": meta.digest(),
        "precision": str(meta.dtype), "sums": str(meta.sums),
        "layout": f"{meta.transA}{meta.transB}, row-major", "shape": meta.shape,
        "tile": f"{meta.di}x{meta.dj}", "options": meta.opts, "size": str(args.size),
        "seed": args.seed, "data": args.data,
        "tolerance": matrices.tolerance(meta, args.data, args.eps), "transfers": "not counted",
        "pin": args.pin, "guards": args.guards, **(of_a_run or {}),
    }  # fmt: skip
    environment = cli.environment(args.sysfs)
    if states:
        before, *during, after = states
        environment |= {"before": before, "during": during, "after": after,
                        "throttled": state.moved(states)}  # fmt: skip
    cli.save(args, Record(
        "gemmbench", meta.name, status, reason, params=params, device=bench.about,
        environment=environment, **groups,
    ), output)  # fmt: skip


def ms(seconds):
    """Return a time in milliseconds."""
    return f"{figures(seconds * 1e3)} ms"


def pinning(pin, states):
    """Return in words which clocks are held."""
    if pin:
        return f"pinned to {'their maximum' if pin == 'max' else f'{pin} MHz'}"
    return "not pinned" + (", see --pin" if states[0]["clocks_hz"] else "")


def verdict(bench, meta, check, outside):
    """Return the lines that say whether the result is right, and what was touched besides."""
    error = f"largest error {check.max_abs_error:.3g}, {check.error_over_bound:.3g} of its bound"
    lines = [f"  tolerance     {matrices.tolerance(meta, bench.args.data, bench.args.eps)}"]
    lines += [f"OUTSIDE: {text}" for text in outside]
    if not outside:
        lines.append(f"  outside       nothing seen, with --guards {bench.args.guards}")
    if check.reason is None:
        return [*lines, f"MATCH: {error}"]
    return [*lines, f"MISMATCH: {check.reason}; {error}"]


def refuse_command(word):
    """Raise UsageError for a word that names no command, or one that stands in the wrong place."""
    if word in MOVED:
        raise UsageError(f"{word} is now a tool for all samples: python -m tools {MOVED[word]}")
    if word == "paper":
        raise UsageError("paper must come first: run.py paper ...")
    if word is not None:
        raise UsageError(
            f"'{printable(word)}' is not a command: the only one is paper; -f names a kernel"
        )


def frequency(text):
    """Return `max`, or the frequency as a text in MHz: an argparse type."""
    return "max" if text == "max" else f"{cli.positive(text):g}"


def folder(text):
    """Return the path of a folder that is there: an argparse type."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is not a folder")
    return Path(text)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[:1] == ["paper"]:
        cli.run(paper.main, paper.parser(), words[1:])
    # The options of what moved are no longer known.
    cli.run(main, options(), words[:1] if words and words[0] in MOVED else words)
