"""GEMM, C := alpha*A*B + beta*C, for CPU compilers that vectorise over work-items.

python samples/gemm_intel/run.py                          order 3968, as Intel's sample
python samples/gemm_intel/run.py -s 1000                  any order; every element is checked
python samples/gemm_intel/run.py -a double --kernel nt    B row-major, in double precision
python samples/gemm_intel/run.py -p intel --tile-group-M 1        a work-group of one: no vectors
"""

import argparse
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
    from common.errors import Unsupported
    from common.matrices import Matrix
    from common.program import build, flags
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
    add("--validation", action="store_true", default=True, help=argparse.SUPPRESS)
    add("--no-validation", dest="validation", action="store_false",
        help="do not compare the result with a float64 reference")
    for name, option in tiling.OPTIONS.items():
        add(option, dest=name, type=cli.count(1), metavar="N", default=getattr(DEFAULTS, name),
            help="(default %(default)s)" + ", for nn only" * (name == "size_k"))
    add("--strict", action="store_true", help="refuse an order that needs padding")
    add("--auto", action="store_true", help="lower the tile options to what is legal")
    add("--data", choices=gemm.INPUTS, default="sdk", help="integer: exact results")
    return parser


def main(args):
    # Open the device.
    chosen, limits, about = cli.choose(args)
    if args.describe:
        return cli.describe(args, about, tiling.kernels(DEFAULTS))
    print("\n".join(texts.choices(chosen, args.type, args.verbose and about)))
    if args.arithmetic == "double" and "cl_khr_fp64" not in limits.extensions:
        raise Unsupported("--arithmetic double needs cl_khr_fp64, which this device does not have")
    queue = device.open_queue(chosen)
    cli.pin(args, about, [args.kernel])
    dtype, order, nn = TYPES[args.arithmetic], args.size, args.kernel == "nn"
    name = f"gemm_{args.kernel}"
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
    args.progress.at(name, "building")
    kernel, most = build_kernel(queue, args, tiles)
    if tiles != (fits := rules.choose(tiles, args.auto, most)):
        tiles, (kernel, _) = fits, build_kernel(queue, args, fits)
    names = ("size", "arithmetic", "validation", "strict", "auto", "data", "seed")
    params = {**cli.parameters(args, *names), **tiles._asdict()}
    if args.build_only:
        return cli.built(args, about, params, {name: kernel})

    # Copy the inputs in, padded to whole tiles.
    padded, stride = rules.layout(tiles)
    print("\n".join(texts.heading(args.kernel, order, padded, stride * dtype.itemsize)), flush=True)
    print(f"Using alpha = {alpha:g} and beta = {beta:g}", flush=True)
    params.update(alpha=float(alpha), beta=float(beta))
    stored = operands.padded(lines, padded, nn)
    A, B, C = matrices = [Matrix(queue, *values.shape, dtype, stride) for values in stored]
    for matrix, values in zip(matrices, stored):
        matrix.write(values)

    # Compute the reference result on the host.
    inputs = operands.transposed(lines, nn)
    runs = args.repeat or args.check_only
    validation = runs and (args.validation or args.check_only or args.duration)
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

    # Run once. Check every element, and that all writes were to the buffers.
    args.progress.at(name, "running")
    check = reason = last = None
    if runs:
        enqueue().wait()
        first = last = C.read()
        if validation:
            check = gemm.check(first[:order, :order].T, expected, bound)
            print("\n".join(texts.verdict(check, first.T, expected)), flush=True)
            reason = check.reason
        if not all(matrix.intact() for matrix in matrices):
            reason = "the kernel wrote outside of its buffers"

    # Warm up, then time a right kernel. Each iteration starts from the same C, as does a last one.
    gflop, found = size.flop() / 1e9, measuring.Measured(timing.Timing([], [], [], [], 0))
    if args.repeat and not (reason or args.check_only):
        print(measuring.plan(args), flush=True)
        flusher = flush.flusher(queue, args.caches)
        found = measuring.measure(args, about, enqueue, "gflops", gflop,
                                  lambda: (C.write(stored[2]), flusher()),
                                  flop_convention=gemm.FLOP_CONVENTION)
        if not args.ended:
            C.write(stored[2])
            enqueue().wait()
            last = C.read()
        if first.tobytes() != last.tobytes():
            reason = "a launch after the last iteration gave another result than the first"

    # Summarise and record the results.
    if found.metrics or not runs:
        print("\n".join(texts.summary(args, found, gflop)))
    if reason or (runs and not check):
        print(f"FAILED: {reason}" if reason else texts.UNCHECKED)
    result = None if last is None else last[:order, :order].T
    values = check.values(inputs, result) if check else {}
    return cli.save_result(args, about, name, reason, params, found, values, result)


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
