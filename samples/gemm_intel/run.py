"""GEMM, C := alpha*A*B + beta*C, for CPU compilers that vectorise over work-items.

python samples/gemm_intel/run.py                          order 3968, as Intel's sample
python samples/gemm_intel/run.py -s 1000                  any order; every element is checked
python samples/gemm_intel/run.py -a double --kernel nt    B row-major, in double precision
python samples/gemm_intel/run.py -p intel --tile-group-M 1        a work-group of one: no vectors
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
try:
    from common.errors import importing
except ImportError:
    print("run.py: error: no folder common beside samples: copy both", file=sys.stderr)
    sys.exit(3)

with importing():  # or tell in one line what this machine lacks
    import numpy as np
    import operands
    import pyopencl as cl
    import tiling

    from common import bounds, cli, device, flush, gemm, measuring, timing
    from common.arguments import count
    from common.matrices import Matrix


def options():
    parser = cli.parser("gemm_intel", __doc__)
    add = parser.add_argument
    add("-s", "--size", type=count(1, gemm.LARGEST_ORDER), default=3968, metavar="N",
        help="order of the matrices (default %(default)s)")
    add("-i", "--iterations", dest="repeat", type=count(1, measuring.MOST_RUNS), metavar="N",
        help="the same as --repeat")
    parser.set_defaults(repeat=10)
    add("-a", "--arithmetic", choices=["float", "double"], default="float", help="(default float)")
    add("--kernel", choices=["nn", "nt"], default="nn", help="nt: B is row-major")
    tiling.add_options(parser)  # --tile-size-M, ..., --strict, --auto
    add("--data", choices=gemm.INPUTS, default="sdk", help="integer: exact results")
    return parser


def main(args):
    # Open the device.
    chosen, limits, about = cli.choose(args)
    if args.describe:
        return cli.describe(args, about, tiling.kernels())
    cli.show(args, about)
    gemm.require_precision(args.arithmetic, limits, "--arithmetic")
    queue = device.open_queue(chosen)
    name, nn = f"gemm_{args.kernel}", args.kernel == "nn"
    cli.pin(args, about, 1)
    args.progress.single()

    # Choose the tiles. The matrices are padded to whole blocks of them.
    n, dtype = args.size, np.dtype(np.float32 if args.arithmetic == "float" else np.float64)
    size = gemm.Size(n, n, n)
    tiles = tiling.choose(args, limits)
    gemm.require_fit(gemm.padded(size, tiles.block()), dtype, limits)

    # Draw the inputs, by row and column.
    alpha, beta, *inputs = operands.draw(n, dtype, args.seed, args.data, nn)

    # Build the kernel for the tiles. Only then its own limit is known, which may need other tiles.
    args.progress.at(name, "building")
    kernel, tiles = tiling.build(queue, args, limits, tiles)
    params = cli.parameters(args, "size", "arithmetic", "strict", "auto", "data", "seed")
    params.update(tiles._asdict(), alpha=float(alpha), beta=float(beta))
    if args.build_only:
        return cli.built(args, about, params, {name: kernel})

    # Create the buffers. Each line, a column or for nt a row of B, starts where a sub-buffer could.
    M, N, K = padded = gemm.padded(size, tiles.block())
    unit = max(chosen.mem_base_addr_align // 8 // dtype.itemsize, 1)  # the alignment is in bits
    stride = -(-max(padded) // unit) * unit
    lines = operands.lines(inputs, padded, nn)
    A, B, C = matrices = [Matrix(queue, *each.shape, dtype, stride) for each in lines]
    operands.show(name, n, padded, matrices, alpha, beta)

    # Set the arguments, and the NDRange: a work-item per tile of C.
    ld = np.uint64(stride)
    kernel.set_args(np.int32(K), alpha, A.device, ld, B.device, ld, beta, C.device, ld)
    total, local = (M // tiles.size_m, N // tiles.size_n), (tiles.group_m, tiles.group_n)

    def enqueue():
        return cl.enqueue_nd_range_kernel(queue, kernel, total, local)

    def run():
        C.write(lines[2])  # which the kernel overwrites
        return timing.launch(enqueue), C.read()

    # Copy A and B in, and run once with C.
    args.progress.at(name, "running")
    print("Running one launch", flush=True)
    A.write(lines[0])
    B.write(lines[1])
    (_, _, once, _), first = run()  # the kernel's own time: some drivers compile before it

    # Check every element, and that all writes were to the buffers.
    print("Making the float64 result on the host", flush=True)
    nearest = device.rounds_to_nearest(chosen, dtype)
    right = bounds.reference(alpha, *inputs[:2], beta, inputs[2], args.data, nearest,
                             around_0=False)
    result = first[:n, :n].T
    check = right.check(result, all(matrix.intact() for matrix in matrices))

    # Warm up, then time a right kernel. Each iteration starts from the same C, as does a last one.
    found = measuring.Measured()
    if not (check.reason or args.check_only):
        print(measuring.plan(args, once), flush=True)
        flusher, gflop = flush.flusher(queue, args.caches), size.flop() / 1e9
        found = measuring.measure(args, about, enqueue, "gflops", gflop,
                                  lambda: (C.write(lines[2]), flusher()),
                                  flop_convention=gemm.FLOP_CONVENTION)
        for seconds in [] if args.duration else found.times.host_s:
            print(f"Host time: {seconds:.6g} sec.\nHost perf: {gflop / seconds:.6g} GFLOPS")
        print(*found.lines(args.verbose), sep="\n")
        if not args.ended:
            check = check.again(first, run()[1])
    print(f"Validate output... {check.line()}", flush=True)
    return cli.save_result(args, about, name, check.reason, params, found,
                           check.values(inputs, result), result)


if __name__ == "__main__":
    cli.run(main, options())
