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
    import numpy as np
    import operands
    import pyopencl as cl
    import tiling

    from common import cli, constraints, device, flush, gemm, measuring, timing
    from common.arguments import count
    from common.errors import Unsupported
    from common.matrices import Matrix
    from common.program import build, flags
except ImportError as missing:
    why = str(missing).strip().splitlines()[-1]  # numpy says much more
    print(f"run.py: error: {why}: see docs/boards.md, What a board needs", file=sys.stderr)
    sys.exit(3)
except KeyboardInterrupt:
    sys.exit(130)

SOURCE = Path(__file__).with_name("gemm.cl")
TYPES = {"float": np.dtype(np.float32), "double": np.dtype(np.float64)}


def options():
    parser = cli.parser("gemm_intel", __doc__)
    add = parser.add_argument
    add("-s", "--size", type=count(1, gemm.LARGEST_ORDER), default=3968, metavar="N",
        help="order of the matrices (default %(default)s)")
    add("-i", "--iterations", dest="repeat", type=count(0, measuring.MOST_RUNS), metavar="N",
        help="the same as --repeat; 0 runs none")
    parser.set_defaults(repeat=10)
    add("-a", "--arithmetic", choices=TYPES, default="float", help="(default %(default)s)")
    add("--kernel", choices=["nn", "nt"], default="nn", help="nt: B is row-major")
    add("--no-validation", dest="validation", action="store_false",
        help="do not compare the result with a float64 reference")
    for name, usual in tiling.Tiles()._asdict().items():
        add(tiling.OPTIONS[name], dest=name, type=count(1), metavar="N", default=usual,
            help="(default %(default)s)" + ", for nn only" * (name == "size_k"))
    add("--strict", action="store_true", help="refuse an order that needs padding")
    add("--auto", action="store_true", help="reduce the tile options to legal values")
    add("--data", choices=gemm.INPUTS, default="sdk", help="integer: exact results")
    return parser


def main(args):
    # Open the device.
    chosen, limits, about = cli.choose(args)
    if args.describe:
        return cli.describe(args, about, tiling.kernels())
    cli.show(args, about)
    if args.arithmetic == "double" and "cl_khr_fp64" not in limits.extensions:
        raise Unsupported("--arithmetic double needs cl_khr_fp64, which this device does not have")
    queue = device.open_queue(chosen)
    name, nn = f"gemm_{args.kernel}", args.kernel == "nn"
    cli.pin(args, about, [name])
    args.progress.single()

    # Choose the tiles, and pad the matrices to whole blocks of them.
    n, dtype = args.size, TYPES[args.arithmetic]
    size = gemm.Size(n, n, n)
    tiles = tiling.Tiles(*(getattr(args, name) for name in tiling.OPTIONS))
    tiles = tiles if nn else tiles._replace(size_k=1)
    known = {**constraints.facts(limits, dtype.itemsize), "order": n}
    tiles = tiling.choose(tiles, known, args.strict, args.auto)
    gemm.require_fit(gemm.padded(size, tiles.block()), dtype, limits)

    # Draw the inputs, by row and column.
    alpha, beta, *inputs = operands.draw(n, dtype, args.seed, args.data, nn)

    # Build the kernel for the tiles. Only then its own limit is known, which may need other tiles.
    args.progress.at(name, "building")
    kernel, most = build_kernel(queue, args, tiles)
    known["max_work_group_size"] = min(most, known["max_work_group_size"])
    if tiles != (fits := tiling.choose(tiles, known, args.strict, args.auto)):
        tiles, (kernel, _) = fits, build_kernel(queue, args, fits)
    names = ("size", "arithmetic", "validation", "strict", "auto", "data", "seed")
    params = {**cli.parameters(args, *names), **tiles._asdict()}
    if args.build_only:
        return cli.built(args, about, params, {name: kernel})

    # Copy the inputs in. They are column-major, so the columns are the lines in memory; for nt the
    # lines of B are its rows. Each line starts where a sub-buffer could: that boundary is in bits.
    M, N, K = padded = gemm.padded(size, tiles.block())
    unit = max(chosen.mem_base_addr_align // 8 // dtype.itemsize, 1)
    stride = -(-max(padded) // unit) * unit
    print(f"Running {name} kernel with matrix size: {n}x{n}\n"
          f"Memory row stride to ensure necessary alignment: {stride * dtype.itemsize} bytes")
    if max(padded) > n:
        print(f"Padded to M = {M}, N = {N}, K = {K}")
    print(f"Using alpha = {alpha:g} and beta = {beta:g}", flush=True)
    params.update(alpha=float(alpha), beta=float(beta))
    A, B, C = map(operands.padded, inputs, (M, K, M), (K, N, N))
    lines = A.T, B.T if nn else B, C.T
    matrices = [Matrix(queue, *each.shape, dtype, stride) for each in lines]
    for matrix, each in zip(matrices, lines):
        matrix.write(each)

    # Set the arguments, and the NDRange: a work-item per tile of C.
    a, b, c = (matrix.device for matrix in matrices)
    ld = np.uint64(stride)
    kernel.set_args(np.int32(K), alpha, a, ld, b, ld, beta, c, ld)
    total, local = (M // tiles.size_m, N // tiles.size_n), (tiles.group_m, tiles.group_n)

    def enqueue():
        return cl.enqueue_nd_range_kernel(queue, kernel, total, local)

    def restore():
        matrices[2].write(lines[2])

    # Run once. Check every element, and that all writes were to the buffers.
    if not (args.repeat or args.check_only):
        print("No iterations, so nothing was run or checked")
        return cli.save_result(args, about, name, None, params, measuring.Measured(), {})
    args.progress.at(name, "running")
    print("Running one launch", flush=True)
    *_, once = timing.launch(enqueue)
    written = matrices[2].read()
    result, values, reason = written[:n, :n].T, {}, None
    if args.validation or args.check_only or args.duration:
        print("Making the float64 result on the host", flush=True)
        expected, bound = gemm.reference(float(alpha), *inputs[:2], float(beta), inputs[2])
        bound *= args.data != "integer"
        check = gemm.check(result, expected, bound)
        print(f"Validate output... {check.line()}", flush=True)
        values, reason = check.values(inputs, result), check.reason
    else:
        print("Nothing was checked: omit --no-validation to compare with float64")
    if not all(matrix.intact() for matrix in matrices):
        reason = "the kernel wrote outside of its buffers"

    # Warm up, then time a right kernel. Each iteration starts from the same C, as does a last one.
    found = measuring.Measured()
    if not (reason or args.check_only):
        print(measuring.plan(args, once), flush=True)
        flusher, gflop = flush.flusher(queue, args.caches), size.flop() / 1e9
        found = measuring.measure(args, about, enqueue, "gflops", gflop,
                                  lambda: (restore(), flusher()),
                                  flop_convention=gemm.FLOP_CONVENTION)
        for seconds in [] if args.duration else found.times.host_s:
            print(f"Host time: {seconds:.6g} sec.\nHost perf: {gflop / seconds:.6g} GFLOPS")
        print(*found.lines(args.verbose), sep="\n")
        if not args.ended:
            restore()
            enqueue().wait()
            if matrices[2].read().tobytes() != written.tobytes():
                reason = "a launch after the last iteration gave another result than the first"
    if reason:
        print(f"FAILED: {reason}")
    return cli.save_result(args, about, name, reason, params, found, values, result)


def build_kernel(queue, args, tiles):
    """Return the kernel, and how many work-items a work-group of it may have."""
    defines = {"T": args.arithmetic, **tiles.defines(args.kernel)}
    if args.auto:
        print(f"Using {tiling.options(tiles._asdict())}")
    print(f'Build program options: "{" ".join(flags(defines))}"', flush=True)
    kernel = cl.Kernel(build(queue.context, SOURCE, defines), "gemm")
    info = cl.kernel_work_group_info.WORK_GROUP_SIZE
    return kernel, kernel.get_work_group_info(info, queue.device)


if __name__ == "__main__":
    cli.run(main, options())
