"""SGEMM: C = alpha * A * B + beta * C in float32, checked and timed.

python samples/sgemm/run.py                       order 1024, the SDK's kernel
python samples/sgemm/run.py --kernel all          every kernel, one after the other
python samples/sgemm/run.py --size 640x48x1000    M x N x K, any order from 1 up
python samples/sgemm/run.py --seed 11 --size 4 --print
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
    import pyopencl as cl

    from common import arguments, bounds, cli, device, flush, gemm, measuring
    from common.errors import worst
    from common.matrices import Matrix
    from common.program import build, group_limit

SOURCE = Path(__file__).with_name("sgemm.cl")
TILE = {"dot4": (1, 1), "row4": (1, 4), "tile4x4": (4, 4)}  # rows, columns of C per work-item
LOCAL = (16, 4)  # columns, rows of work-items in a work-group


def options():
    parser = cli.parser("sgemm", __doc__)
    parser.add_argument("--size", type=gemm.parse_size, default="1024",
                        help="order, MxNxK or @resnet50.fc (default %(default)s)")
    parser.add_argument("--kernel", choices=[*TILE, "all"], default="dot4", help="(default dot4)")
    parser.add_argument("--alpha", type=arguments.number, default=1.0, help="(default %(default)s)")
    parser.add_argument("--beta", type=arguments.number, default=0.1, help="(default %(default)s)")
    parser.add_argument("--data", choices=gemm.INPUTS, default="sdk", help="integer: exact results")
    parser.add_argument("--print", action="store_true", help="print the four matrices")
    return parser


def main(args):
    # Open the device.
    chosen, limits, about = cli.choose(args)
    if args.describe:
        return cli.describe(args, about, TILE)
    cli.show(args, about)
    gemm.require_fit(args.size, np.float32, limits)
    queue = device.open_queue(chosen)
    names = TILE if args.kernel == "all" else [args.kernel]
    cli.pin(args, about, len(names))
    params = cli.parameters(args, "size", "alpha", "beta", "data", "seed")

    # Make the inputs. Of integer data every sum must be exact.
    alpha, beta = np.float32(args.alpha), np.float32(args.beta)
    gemm.require_exact(args.data, args.size, alpha, [beta])
    inputs = gemm.INPUTS[args.data](args.size, args.seed)

    # Build. sgemm.cl says what the defines are for.
    print("\nBuilding the kernels", flush=True)
    args.progress.now("building sgemm.cl")
    local, defines = limits.fit(LOCAL, chosen.max_work_group_size), {}
    if about["type"] == "gpu":
        defines.update(GROUP_X=local[0], GROUP_Y=local[1])
    if about["name"].lower().startswith("mali-t"):
        defines["FEW_REGISTERS"] = 1
    program = build(queue.context, SOURCE, defines)
    if args.build_only:
        kernels = {name: cl.Kernel(program, f"sgemm_{name}") for name in names}
        return cli.built(args, about, params, kernels)

    # Compute the reference result on the host, and how far each element may be from it.
    print("Making the float64 result on the host", flush=True)
    nearest = device.rounds_to_nearest(chosen, np.float32)
    right = bounds.reference(alpha, *inputs[:2], beta, inputs[2], args.data, nearest)
    if args.print:
        print_matrices(zip("ABC", inputs))

    # Create the buffers, each between guards. If beta is 0, C must not be read: NaN shows it.
    given = [*inputs[:2], inputs[2] if beta else np.full_like(inputs[2], np.nan)]
    buffers = [Matrix(queue, *matrix.shape, matrix.dtype) for matrix in given]
    statuses, between = [], flush.flusher(queue, args.caches)  # what is done between timed runs
    for name in args.progress.each(names):
        # Copy A and B in: each buffer is mapped, filled and unmapped, and its guards are mended.
        for buffer, matrix in zip(buffers[:2], given):
            buffer.write(matrix)

        # Set the arguments, and the NDRange: one work-item per tile of C, in whole work-groups.
        kernel = cl.Kernel(program, f"sgemm_{name}")
        a, b, c = (buffer.device for buffer in buffers)
        kernel.set_args(*map(np.int32, args.size), alpha, a, b, beta, c)
        group = limits.fit(local, group_limit(kernel))
        rows, columns = TILE[name]
        tiles = (-(-args.size.N // columns), -(-args.size.M // rows))
        total = tuple(-(-n // side) * side for n, side in zip(tiles, group))

        def enqueue():
            return cl.enqueue_nd_range_kernel(queue, kernel, total, group)

        def run():
            buffers[2].write(given[2])  # which the kernel overwrites
            enqueue().wait()
            return buffers[2].read()

        # Run once and check every element.
        ranges = f"NDRange {total[0]} x {total[1]}, work-groups of {group[0]} x {group[1]}"
        print(f"\nsgemm_{name}, {args.size}, {ranges}\nChecking one launch", flush=True)
        result = run()
        check = right.check(result, all(buffer.intact() for buffer in buffers))
        if args.print:
            print_matrices([("C = alpha * A * B + beta * C", result)])

        # Warm up and time a right kernel, run once more, and record it.
        found = measuring.Measured()
        if not (check.reason or args.check_only):
            print(measuring.plan(args), flush=True)
            found = measuring.measure(args, about, enqueue, "gflops", args.size.flop() / 1e9,
                                      between=between, flop_convention=gemm.FLOP_CONVENTION)
            print(*found.lines(args.verbose), sep="\n")
            if not args.ended:
                check = check.again(result, run())
        print(check.line(), flush=True)
        statuses.append(cli.save_result(args, about, name, check.reason, params, found,
                                        check.values(inputs, result), result))
    return worst(statuses)


def print_matrices(named):
    for name, matrix in named:
        print(f"\n{name}")
        np.savetxt(sys.stdout, matrix, fmt="%g")


if __name__ == "__main__":
    cli.run(main, options())
