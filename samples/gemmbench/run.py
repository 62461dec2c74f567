"""GEMM kernels as data: each is checked, measured, and completely recorded.

python samples/gemmbench/run.py                                   one point, as the original does
python samples/gemmbench/run.py -f SGEMM_NT_4x2 -n 512 -lws 8,8
python samples/gemmbench/run.py -f 'SGEMM_*_mnk' -n 101x203x77    M x N x K
python samples/gemmbench/run.py --kernels DIR -f NAME.json        a kernel written elsewhere
python samples/gemmbench/run.py paper                             why the paper's validation failed
"""

import sys
import time
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
    from common.arguments import positive
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
    parser = cli.parser("gemmbench", __doc__)
    parser.set_defaults(seed=12345, repeat=4)
    add = parser.add_argument
    add("-f", "--file", metavar="NAME", default="SGEMM_NN_1x1.json",
        help="kernels: a name, A,B, 'SGEMM_*' or all (default %(default)s)")
    add("-n", "--size", type=gemm.parse_size, default="256", metavar="N",
        help="order; MxNxK or @resnet50.fc for kernels that take it (default %(default)s)")
    add("-lws", "--local-size", dest="lws", type=metadata.parse_local_size, metavar="J,I",
        help="columns,rows of a work-group (default 0,0: the driver chooses)")
    add("--kernels", type=Path, metavar="DIR", default=metadata.KERNELS,
        help="folder of the kernels (default: the one beside run.py)")
    add("--data", choices=["drawn", "integer", *hard.HARD], default="drawn",
        help="integer: exact results; scaled, cancelling: ill-conditioned")
    add("-eps", "--eps", type=positive, metavar="E",
        help="tolerance of all elements (default: a bound for each element)")
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
        asked = cli.parameters(args, "size", "seed", "data", "guards")
        params = {**by_name[name].params(), **asked, "pin": args.pin, "transfers": "not counted"}
        try:
            statuses.append(point(args, queue, limits, about, by_name[name], params))
        except (SampleError, cl.Error) as error:
            exit_status, status, reason = args.progress.survive(error, queue, len(kernels) == 1)
            print(f"\n{name}: {status}: {reason}", flush=True)
            cli.save(args, Record("gemmbench", name, status, reason, params, about,
                                  cli.environment(args.sysfs)))
            statuses.append(exit_status)
    return worst(statuses)


def point(args, queue, limits, about, meta, params):
    """Check and time one kernel, print and record the point; return the exit status."""
    # Draw the inputs.
    size = args.size
    meta.require(size, limits)
    drawn = matrices.draw(size, meta, args.seed, args.data)

    # Build the kernel, and choose the NDRange: a work-item per tile of C.
    args.progress.at(meta.name, "building")
    started = time.perf_counter()
    kernel = metadata.build(queue.context, meta)
    build_s = time.perf_counter() - started
    total = metadata.global_size(meta, size)
    local = metadata.local_size(meta, total, args.lws, kernel, limits)
    if args.build_only:
        return cli.built(args, about, params, {meta.name: kernel})

    # Set the arguments. On the device each matrix is between guards.
    operands = matrices.Operands(queue, meta, drawn)
    A, B, C = operands.A, operands.B, operands.C
    orders = size[:1] if meta.shape == "n" else (*size, A.ld, B.ld, C.ld)
    kernel.set_args(A.device, B.device, C.device, drawn.alpha, drawn.beta, *map(np.uint32, orders))
    expected, bound, rule = matrices.reference(drawn, meta, args.data, args.eps)
    alpha, beta = matrices.text(drawn.alpha), matrices.text(drawn.beta)
    params.update(alpha=alpha, beta=beta, tolerance=rule, local=local and "x".join(map(str, local)))
    params["global"] = total
    print(f"\n{meta.name}")
    say("computes", meta.computes())
    say("origin", ", ".join(f"{what} {name or 'unset'}" for what, name in meta.origin.items()))
    groups = f"work-groups of {local[0]} x {local[1]}" if local else "work-groups by the driver"
    say("size", f"{size}, NDRange {total[0]} x {total[1]}, {groups}")
    kind = {"integer": "whole numbers", "drawn": "in [-0.5, 0.5]", **hard.HARD}[args.data]
    say("inputs", f"alpha {alpha}, beta {beta}, {kind}, seed {args.seed}")

    def enqueue():
        return cl.enqueue_nd_range_kernel(queue, kernel, total, local)

    # Run once and check every element. Then run again with other values around the matrices, which
    # must not change the result.
    args.progress.at(meta.name, "running")
    upload_s = operands.fill()
    enqueue().wait()
    started = time.perf_counter()
    result = C.read()
    download_s = time.perf_counter() - started
    outside = operands.touched(lambda: enqueue().wait(), result)
    check = gemm.check(result, expected, bound)
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
        say_measured(args, found, flop / 1e9, **copies)

    # Print and record the results.
    say("tolerance", rule)
    for text in outside:
        print(f"OUTSIDE: {text}")
    if not outside:
        say("outside", f"no out-of-bounds access found, with --guards {args.guards}")
    error = f"largest error {check.max_abs_error:.3g}, {check.error_over_bound:.3g} of its bound"
    print(f"MISMATCH: {check.reason}; {error}" if check.reason else f"MATCH: {error}", flush=True)
    values = check.values((drawn.A, drawn.B, drawn.C), result)
    return cli.save_result(args, about, meta.name, reason, params, found, values, result, **copies)


def say_measured(args, found, gflop, build_s, upload_s, download_s):
    """Print the measurements, and what the machine did meanwhile."""
    times, before = found.times, found.machine["before"]
    where = "their maximum" if args.pin == "max" else f"{args.pin} MHz"
    loose = "not pinned" + ", see --pin" * bool(before["clocks_hz"])
    medians = ", ".join(f"{name} {ms(median(getattr(times, f'{name}_s')))}"
                        for name in ("queued", "wait", "run", "host"))
    rate = figures(gflop / (median(times.seconds()) + upload_s + download_s))
    say("machine", state.line(before))
    say("clocks", f"pinned to {where}" if args.pin else loose)
    say("throttled", *found.machine["throttled"])
    say("times", f"{medians} (medians); build {ms(build_s)}")
    say("run times", *[" ".join(map(ms, times.run_s))] * args.verbose)
    say("GFLOPS", times.statistics_line(gflop))
    for line in found.sustained:
        print(f"  {line}")
    say("transfers", f"not counted above: {ms(upload_s)} to the device, {ms(download_s)} back; "
        f"with them {rate} GFLOPS")
    say("energy", *found.energy or ["not measured, see --energy"])


def say(what, *texts):
    """Print lines of the table of a point."""
    for text in texts:
        print(f"  {what:<13} {text}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["paper"]:
        cli.run(paper.main, paper.parser(), sys.argv[2:])
    cli.run(main, options())
