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

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
try:
    from common.errors import importing
except ImportError:
    print("run.py: error: no folder common beside samples: copy both", file=sys.stderr)
    sys.exit(3)

with importing():  # or tell in one line what this machine lacks
    import metadata
    import numpy as np
    import paper
    import point
    import pyopencl as cl

    from common import cli, device, flush, measuring
    from common.errors import SampleError, worst


def options():
    parser = cli.parser("gemmbench", __doc__)
    parser.set_defaults(seed=12345, repeat=4)
    point.add_options(parser)  # --file, --size, --local-size, --kernels, --data, --eps
    return parser


def main(args):
    # Find the kernels. The files of those that are no part of this sample are noted as code, too.
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
    cli.pin(args, about, len(kernels))

    # A kernel that fails is recorded, and the others still run.
    by_name, statuses = {meta.name: meta for meta in kernels}, []
    for name in args.progress.each(by_name):
        asked = cli.parameters(args, "size", "seed", "data", "guards")
        params = {**by_name[name].params(), **asked, "pin": args.pin, "transfers": "not counted"}
        try:
            statuses.append(multiply(args, queue, limits, about, by_name[name], params))
        except (SampleError, cl.Error) as error:
            exit_status, status, reason = args.progress.survive(error, queue, len(kernels) == 1)
            print(f"\n{name}: {status}: {reason}", flush=True)
            cli.save_stopped(args, about, name, status, reason, params)
            statuses.append(exit_status)
    return worst(statuses)


def multiply(args, queue, limits, about, meta, params):
    """Check and time one kernel, print and record the point; return the exit status."""
    # Draw the inputs.
    meta.require(args.size, limits)
    drawn = point.draw(args.size, meta, args.seed, args.data)

    # Build the kernel, and choose the NDRange: a work-item per tile of C.
    args.progress.at(meta.name, "building")
    started = time.perf_counter()
    kernel = metadata.build(queue.context, meta)
    build_s = time.perf_counter() - started
    total = metadata.global_size(meta, args.size)
    local = metadata.local_size(meta, total, args.lws, kernel, limits)
    if args.build_only:
        return cli.built(args, about, params, {meta.name: kernel})

    # Set the arguments. On the device each matrix is between guards.
    operands = point.Operands(queue, meta, drawn)
    A, B, C = operands.matrices
    orders = args.size[:1] if meta.shape == "n" else (*args.size, A.ld, B.ld, C.ld)
    kernel.set_args(A.device, B.device, C.device, drawn.alpha, drawn.beta, *map(np.uint32, orders))

    def enqueue():
        return cl.enqueue_nd_range_kernel(queue, kernel, total, local)

    # Compute the reference result on the host.
    nearest = device.rounds_to_nearest(queue.device, meta.sums)
    right = point.reference(drawn, meta, args.data, nearest, args.eps)
    point.say_task(args, meta, drawn, total, local)
    params.update(drawn.scalars(), tolerance=right.rule, local=local and "x".join(map(str, local)))
    params["global"] = total

    # Run once and check every element.
    args.progress.at(meta.name, "running")
    upload_s = operands.fill()
    enqueue().wait()
    started = time.perf_counter()
    result = C.read()
    download_s = time.perf_counter() - started
    check = right.check(result)

    # Run again with other values around the matrices, which must not change the result.
    outside = operands.touched(lambda: enqueue().wait(), result)
    reason = "; ".join(filter(None, [check.reason, *outside])) or None

    # Warm up and time a right kernel, and watch the clocks.
    copies, found = {}, measuring.Measured()
    if not (reason or args.check_only):
        operands.fill()
        copies = {"build_s": build_s, "upload_s": upload_s, "download_s": download_s}
        flop, convention = point.flop(args.size, meta.dtype)
        between = flush.flusher(queue, args.caches)
        found = measuring.measure(args, about, enqueue, "gflops", flop / 1e9, between,
                                  flop_convention=convention)
        point.say_measured(args, found, flop / 1e9, **copies)

        # After that the result must still be the same.
        if not args.ended:
            operands.fill()
            enqueue().wait()
            check = check.again(result, C.read())
            reason = check.reason

    # Record the result.
    point.say_check(check, right.rule, outside, args.guards)
    values = check.values((drawn.A, drawn.B, drawn.C), result)
    return cli.save_result(args, about, meta.name, reason, params, found, values, result, **copies)


if __name__ == "__main__":
    if sys.argv[1:2] == ["paper"]:
        cli.run(paper.main, paper.parser(), sys.argv[2:])
    cli.run(main, options())
