"""GEMM, C := alpha*A*B + beta*C, for CPU compilers that vectorise over work-items.

python samples/gemm_intel/run.py                          order 3968, as Intel's sample
python samples/gemm_intel/run.py -s 1000 --validation     any order; the result is checked
python samples/gemm_intel/run.py -a double --kernel nt    B row-major, in double precision
python samples/gemm_intel/run.py -p intel --tile-group-M 1        a work-group of one: no vectors
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

try:
    import numpy as np
    import operands
    import pyopencl as cl
    import texts
    import tiling

    from common import cli, device, flush, gemm, measuring, timing
    from common.errors import PASSED, WRONG_RESULT, Unsupported
    from common.matrices import Matrix
    from common.program import build, flags
    from common.record import Record
except ImportError as missing:
    why = str(missing).strip().splitlines()[-1]  # numpy says much more
    print(f"run.py: error: {why}: see docs/boards.md, What a board needs", file=sys.stderr)
    sys.exit(3)
except KeyboardInterrupt:
    sys.exit(130)

TYPES = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}
DEFAULTS = tiling.Tiles(size_m=1, group_m=16, size_n=128, group_n=1, size_k=8)


def options():
    parser = cli.parser("gemm_intel", __doc__)
    add = parser.add_argument
    add("-s", "--size", type=tiling.order, default=3968, help="order (default %(default)s)")
    add("-i", "--iterations", dest="repeat", type=cli.count(0, cli.MOST_RUNS), metavar="N",
        help="the same as --repeat; 0 runs none")
    parser.set_defaults(repeat=10)
    add("-a", "--arithmetic", choices=TYPES, default="float", help="(default %(default)s)")
    add("--kernel", choices=["nn", "nt"], default="nn", help="nt: B is row-major")
    add("--validation", action="store_true", help="check the result of the first iteration")
    for name, option in tiling.OPTIONS.items():
        add(option, dest=name, type=cli.count(1), metavar="N", default=getattr(DEFAULTS, name),
            help="(default %(default)s)" + ", for nn only" * (name == "size_k"))
    add("--strict", action="store_true", help="refuse an order that needs padding")
    add("--auto", action="store_true", help="lower the tile options to what is legal")
    add("--data", choices=gemm.INPUTS, default="sdk", help="integer: exact results")
    return parser


def main(args):
    # Open the device.
    chosen = device.choose(args.platform, args.device, args.type)
    limits = device.limits(chosen, args.limits)
    about = device.describe(chosen, limits)
    if args.describe:
        return cli.describe(args, about, tiling.kernels(DEFAULTS))
    print("\n".join(texts.choices(chosen, args.type, args.verbose and about)))
    if args.arithmetic == "double" and "cl_khr_fp64" not in limits.extensions:
        raise Unsupported("--arithmetic double needs cl_khr_fp64, which this device does not have")
    queue = device.open_queue(chosen)
    cli.pin(args, about, [args.kernel])
    dtype, order, nn = TYPES[args.arithmetic], args.size, args.kernel == "nn"
    size = gemm.Size(order, order, order)

    # Choose the tiles.
    wish = tiling.Tiles(*(getattr(args, name) for name in tiling.OPTIONS))
    rules = tiling.Rules(chosen, limits, order, dtype, args.strict)
    args.progress.single()
    tiles = rules.choose(wish if nn else wish._replace(size_k=1), args.auto)

    # Draw the inputs as lines that are contiguous in memory: the columns of A, B and C; for nt, the
    # rows of B.
    alpha, beta, *lines = operands.draw(order, dtype, args.seed, args.data, nn)

    # Build the kernel for the tiles. Its own limit is known only then.
    args.progress.at(f"gemm_{args.kernel}", "building")
    kernel, most = build_kernel(queue, args, tiles)
    if tiles != (fits := rules.choose(tiles, args.auto, most)):
        tiles, (kernel, _) = fits, build_kernel(queue, args, fits)
    names = ("size", "arithmetic", "validation", "strict", "auto", "data", "seed")
    params = {**cli.parameters(args, *names), **tiles._asdict()}
    if args.build_only:
        return cli.built(args, about, params, {f"gemm_{args.kernel}": kernel})

    # Copy the inputs in, padded to whole tiles.
    padded, stride = rules.layout(tiles)
    heading = texts.heading(args.kernel, order, padded, stride * dtype.itemsize)
    print("\n".join(heading), flush=True)
    print(f"Using alpha = {alpha:g} and beta = {beta:g}", flush=True)
    stored = operands.padded(lines, padded, nn)
    A, B, C = matrices = [Matrix(queue, *values.shape, dtype, stride) for values in stored]
    for matrix, values in zip(matrices, stored):
        matrix.write(values)

    # Compute the reference result on the host.
    inputs = operands.transposed(lines, nn)
    validation = args.validation or args.check_only or args.duration
    if validation:
        print("Making the float64 result on the host", flush=True)
        expected, bound = gemm.reference(float(alpha), *inputs[:2], float(beta), inputs[2])
        bound *= args.data != "integer"

    # Set the arguments, and the NDRange: a work-item per tile of C.
    M, N, K = padded
    ld = np.uint64(stride)
    kernel.set_args(np.int32(K), alpha, A.device, ld, B.device, ld, beta, C.device, ld)
    total, local = (M // tiles.size_m, N // tiles.size_n), (tiles.group_m, tiles.group_n)

    def enqueue():
        return cl.enqueue_nd_range_kernel(queue, kernel, total, local)

    # Run once. Check that all writes were to the buffers and, with --validation, every element.
    args.progress.at(f"gemm_{args.kernel}", "running")
    check = reason = None
    if args.repeat or args.check_only:
        enqueue().wait()
        first = C.read()
        if validation:
            check = gemm.check(first[:order, :order].T, expected, bound)
            print("\n".join(texts.verdict(check, first.T, expected)), flush=True)
            reason = check.reason
        if not all(matrix.intact() for matrix in matrices):
            reason = "the kernel wrote outside of its buffers"

    # Warm up, then time a right kernel. Each iteration starts from the same C.
    def iterations(watch):
        for _ in range(args.warmup):
            enqueue().wait()
        launches, between = [], flush.flusher(queue, args.caches)
        for _ in range(args.repeat):
            watch.look()
            C.write(stored[2])
            between()
            launches.append(timing.launch(enqueue))
            print("\n".join(texts.iteration(launches[-1][-1], gflop)), flush=True)
        return timing.collect(launches, args.warmup)

    gflop, found = size.flop() / 1e9, measuring.Measured(timing.collect([], 0))
    if args.repeat and not (reason or args.check_only):
        print(measuring.plan(args), flush=True)
        found = measuring.measure(args, about, enqueue, "gflops", gflop, iterations,
                                  flop_convention=gemm.FLOP_CONVENTION)

    # Summarise and record the results.
    if found.metrics or not (args.repeat or args.check_only):
        lines = [*texts.summary(found.times, gflop, args.verbose), *found.energy]
        print("\n".join(found.lines(args.verbose) if args.duration else lines))
    if (args.duration or args.energy) and found.metrics and not args.ended:
        C.write(stored[2])  # after many launches: once more from the same C
        enqueue().wait()
    last = first if args.ended else C.read()
    if found.metrics and first.tobytes() != last.tobytes():
        reason = "the last iteration gave another result than the first"
    if reason or (not check and (args.repeat or not validation)):
        print(f"FAILED: {reason}" if reason else texts.UNCHECKED)
    if args.json or args.output or args.ended:
        result = last[:order, :order].T
        cli.save(args, Record(
            "gemm_intel", f"gemm_{args.kernel}", "failed" if reason else "passed", reason,
            {**params, "alpha": float(alpha), "beta": float(beta)}, about,
            {**cli.environment(args.sysfs), **found.machine}, found.timing, found.metrics,
            check.values(inputs, result) if check else {},
        ), result if args.repeat or args.check_only else None)
    return WRONG_RESULT if reason else PASSED


def build_kernel(queue, args, tiles):
    """Return the kernel, and how many work-items a work-group of it may have."""
    defines = tiles.defines(args.arithmetic, args.kernel)
    if args.auto:
        print(f"Using {tiles.text(*tiling.OPTIONS)}")
    print(f'Build program options: "{" ".join(flags(defines))}"', flush=True)
    kernel = cl.Kernel(build(queue.context, Path(__file__).with_name("gemm.cl"), defines), "gemm")
    info = cl.kernel_work_group_info.WORK_GROUP_SIZE
    return kernel, kernel.get_work_group_info(info, queue.device)


if __name__ == "__main__":
    cli.run(main, options())
