"""GEMM kernels as data: each is checked, measured, and completely recorded.

python samples/gemmbench/run.py                                   one point, as the original does
python samples/gemmbench/run.py -f SGEMM_NT_4x2 -n 512 -lws 8,8
python samples/gemmbench/run.py -f 'SGEMM_*_mnk' -n 101x203x77    M x N x K
python samples/gemmbench/run.py --kernels DIR -f NAME.json        a kernel written elsewhere
python samples/gemmbench/run.py paper                             why the paper's validation failed
"""

import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

try:
    import matrices
    import metadata
    import numpy as np
    import paper
    import pyopencl as cl

    from common import cli, device, flush, gemm, hard, measuring
    from common.errors import SampleError, worst
    from common.machine import state
    from common.record import Record
    from common.text import figures
    from common.text import milliseconds as ms
except ImportError as missing:
    why = str(missing).strip().splitlines()[-1]  # numpy says much more
    print(f"run.py: error: {why}: see docs/boards.md, What a board needs", file=sys.stderr)
    sys.exit(3)
except KeyboardInterrupt:
    sys.exit(130)


def options():
    """Return the parser."""
    parser = cli.parser("gemmbench", __doc__)
    parser.set_defaults(seed=12345, repeat=4)
    add = parser.add_argument
    add("-f", "--file", metavar="NAME", default="SGEMM_NN_1x1.json",
        help="metadata of kernels: one, A,B or 'SGEMM_*' or all (%(default)s)")
    add("-n", "--size", type=gemm.parse_size, default="256", metavar="N",
        help="order; MxNxK or @resnet50.fc for kernels that take it (default %(default)s)")
    add("-lws", "--local-size", dest="lws", type=metadata.parse_local_size, metavar="J,I",
        help="columns,rows of a work-group (default 0,0: the driver chooses)")
    add("--kernels", type=Path, metavar="DIR", default=metadata.KERNELS,
        help="folder of the kernels (default: the one beside run.py)")
    add("--data", choices=["drawn", "integer", *hard.HARD], default="drawn",
        help="integer: exact results; scaled and cancelling: hard ones")
    add("-eps", "--eps", type=cli.positive, metavar="E",
        help="largest error of any element (default: a bound for each element)")
    return parser


def main(args):
    kernels = metadata.find(args.kernels, ["all"] if args.describe else args.file.split(","))
    others = [meta for meta in kernels if meta.path.parent != metadata.KERNELS]
    args.code_files = [path for meta in others for path in (meta.path, meta.source)]

    # Open the device.
    chosen, limits, about = cli.choose(args)
    if args.describe:
        return cli.describe(args, about, [
            {"name": m.name, "options": ["-f", m.path.stem], "space": None} for m in kernels
        ])
    cli.show(args, about)
    queue = device.open_queue(chosen)
    cli.pin(args, about, kernels)

    # A kernel that fails is recorded, and the others still run.
    by_name, statuses = {meta.name: meta for meta in kernels}, []
    for name in args.progress.each(by_name):
        try:
            statuses.append(point(args, queue, limits, about, by_name[name]))
        except (SampleError, cl.Error) as error:
            exit_status, status, reason = args.progress.survive(error, queue, len(kernels) == 1)
            print(f"\n{name}: {status}: {reason}", flush=True)
            params = parameters(args, by_name[name])
            cli.save(args, Record("gemmbench", name, status, reason, params, about,
                                  cli.environment(args.sysfs)))
            statuses.append(exit_status)
    return worst(statuses)


def point(args, queue, limits, about, meta):
    """Check and time one kernel, print and record the point; return the exit status."""
    size = args.size
    meta.require(size, limits)

    # Draw the inputs.
    drawn = matrices.draw(size, meta.dtype, meta.scalar, args.seed, args.data == "integer")
    drawn = matrices.hardened(drawn, meta, size, args.data, args.seed)

    # Build the kernel, and choose the NDRange: a work-item per tile of C.
    args.progress.at(meta.name, "building")
    kernel, build_s = timed(metadata.build, queue.context, meta)
    total = metadata.global_size(meta, size)
    local = metadata.local_size(meta, total, args.lws, kernel, limits)
    if args.build_only:
        return cli.built(args, about, parameters(args, meta), {meta.name: kernel})

    # Set the arguments. On the device each matrix is between guards.
    operands = matrices.Operands(queue, meta, size, drawn)
    A, B, C = operands.A, operands.B, operands.C
    orders = size[:1] if meta.shape == "n" else (*size, A.ld, B.ld, C.ld)
    metadata.set_arguments(kernel, meta, A.device, B.device, C.device, drawn.alpha, drawn.beta,
                           *map(np.uint32, orders))
    rule = matrices.tolerance(meta, args.data, args.eps)
    alpha, beta = matrices.text(drawn.alpha), matrices.text(drawn.beta)
    print(*meta.lines(), sep="\n")
    groups = f"work-groups of {local[0]} x {local[1]}" if local else "work-groups by the driver"
    print(f"  size          {size}, NDRange {total[0]} x {total[1]}, {groups}")
    kind = {"integer": "whole numbers", "drawn": "in [-0.5, 0.5]", **hard.HARD}[args.data]
    print(f"  inputs        alpha {alpha}, beta {beta}, {kind}, seed {args.seed}", flush=True)

    def enqueue():
        return cl.enqueue_nd_range_kernel(queue, kernel, total, local)

    # Run once and compare with the reference. Then run again with other values around the
    # matrices, which must not change the result.
    args.progress.at(meta.name, "running")
    upload_s = operands.fill()
    enqueue().wait()
    result, download_s = timed(C.read)
    outside = operands.touched(lambda: enqueue().wait(), result)
    check = gemm.check(result, *matrices.result_and_bound(drawn, meta, size, args.data, args.eps))
    if check.reason and (left := matrices.unwritten(result, drawn.C)):
        check = replace(check, reason=f"{check.reason}; {left}: are di and dj of {meta.path.name} "
                        "the rows and columns that a work-item computes?")
    reason = "; ".join(filter(None, [check.reason, *outside])) or None

    # Warm up and time a right kernel, and watch the clocks.
    copies, found = {}, measuring.Measured()
    if not (reason or args.check_only):
        operands.fill()
        copies = {"build_s": build_s, "upload_s": upload_s, "download_s": download_s}
        flop, convention = matrices.flop(size, meta.dtype)
        found = measuring.measure(args, about, enqueue, "gflops", flop / 1e9,
                                  between=flush.flusher(queue, args.caches),
                                  flop_convention=convention)
        found.metrics["statistics"] = found.times.statistics(flop / 1e9)
        print("\n".join(measured(args, found, flop / 1e9, copies)))

    # Print and record the results.
    error = f"largest error {check.max_abs_error:.3g}, {check.error_over_bound:.3g} of its bound"
    print(f"  tolerance     {rule}")
    print("\n".join(f"OUTSIDE: {text}" for text in outside)
          or f"  outside       no out-of-bounds access found, with --guards {args.guards}")
    print(f"MISMATCH: {check.reason}; {error}" if check.reason else f"MATCH: {error}", flush=True)
    params = {
        **parameters(args, meta), "global": total, "local": local and "x".join(map(str, local)),
        "alpha": alpha, "beta": beta, "tolerance": rule,
    }
    values = check.values((drawn.A, drawn.B, drawn.C), result)
    return cli.save_result(args, about, meta.name, reason, params, found, values, result, **copies)


def parameters(args, meta):
    """Return what each record keeps of a kernel and of the options."""
    asked = cli.parameters(args, "size", "seed", "data", "guards")
    return {**meta.params(), **asked, "pin": args.pin, "transfers": "not counted"}


def timed(function, *args):
    """Call the function; return its result and the seconds it took."""
    start = time.perf_counter()
    result = function(*args)
    return result, time.perf_counter() - start


def measured(args, found, gflop, copies):
    """Return the lines on the measurements, and on the machine during them."""
    times, before = found.times, found.machine["before"]
    pin = "not pinned" + ", see --pin" * bool(before["clocks_hz"])
    if args.pin:
        pin = f"pinned to {'their maximum' if args.pin == 'max' else f'{args.pin} MHz'}"
    medians = ", ".join(f"{name} {ms(median(getattr(times, f'{name}_s')))}"
                        for name in ("queued", "wait", "run", "host"))
    up, down = copies["upload_s"], copies["download_s"]
    rate = figures(gflop / (median(times.seconds()) + up + down))
    joules = found.energy or ["not measured, see --energy"]
    return [
        f"  machine       {state.line(before)}",
        f"  clocks        {pin}",
        *(f"  throttled     {text}" for text in found.machine["throttled"]),
        f"  times         {medians} (medians); build {ms(copies['build_s'])}",
        *[f"  run times     {' '.join(map(ms, times.run_s))}"] * args.verbose,
        f"  GFLOPS        {times.statistics_line(gflop)}",
        *(f"  {text}" for text in found.sustained),
        f"  transfers     not counted above: {ms(up)} to the device, {ms(down)} back; "
        f"with them {rate} GFLOPS",
        *(f"  energy        {text}" for text in joules),
    ]


if __name__ == "__main__":
    if sys.argv[1:2] == ["paper"]:
        cli.run(paper.main, paper.parser(), sys.argv[2:])
    cli.run(main, options())
