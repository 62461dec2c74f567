"""myGEMM: numbered kernels, each adding one idea; checked, timed, and compared.

python samples/mygemm/run.py                                      order 1024, the best kernel here
python samples/mygemm/run.py --kernel all                         all kernels, the naive one first
python samples/mygemm/run.py --kernel 1,6,10 --size 256:1024:256  some of them, several sizes
python samples/mygemm/run.py --kernel 6 --TSM 64 --WPTM 4         other tiles
python samples/mygemm/run.py --kernel all --limits mali-t628      as on a smaller device

README.md shows the same for kernel 6 alone, and says where each line of it is here.
"""

import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
try:
    from common.errors import importing
except ImportError:
    print("run.py: error: no folder common beside samples: copy both", file=sys.stderr)
    sys.exit(3)

with importing():  # or tell in one line what this machine lacks
    import compare
    import numpy as np
    import pyopencl as cl
    import special

    from common import cli, device, gemm
    from common.bounds import Expected
    from common.planning import plans, steps
    from common.planning.stream import Stream


def options():
    parser = cli.parser("mygemm", __doc__)
    gemm.add_options(parser)  # --size, --precision, --alpha, ...
    special.add_options(parser)  # --kernel, and parameters of all kernels; kernels.py has 1 to 11
    compare.add_options(parser)  # --libraries, --queues, ...
    return parser


def main(args):
    # Open the device.
    chosen, limits, about = cli.choose(args)
    problems, named = gemm.problems(args, limits), special.named(args)
    if args.describe:
        return cli.describe(args, about, special.described(args, problems[0], limits, chosen))
    cli.show(args, about)
    gemm.require_precision(args.precision, limits)
    queue = device.open_queue(chosen)
    cli.pin(args, about, len(problems) * max(1, len(named)))

    # At each size run the kernels that are named, or those that may be the best one.
    comparison = compare.Comparison(args, queue, limits, about, problems)
    for problem in comparison.each_size():
        picked = named or special.best(args, problem, about, limits, chosen)
        results = comparison.start(problem, picked)
        if args.build_only:
            comparison.build(results)
            continue

        # Make the inputs, the expected results, and buffers for A, B and C.
        nearest = device.rounds_to_nearest(chosen, problem.dtype)
        expected = Expected(problem.size, problem.dtype, args.data, args.seed, args.alpha,
                            args.beta, nearest, problem.batch)
        stream = Stream(queue, problem)

        # Build each kernel, run it once and check every element. each() records a result before
        # the next one, and going_on() notes an error, so that others still run.
        for result in comparison.each(results, expected.inputs):
            with result.going_on():
                built = plans.build_kernel(queue, limits, result.kernel, result.given, problem)
                result.built(built.plan)
                result.checked(*check(built, args.alpha, stream, expected))
                result.launcher = partial(enqueuer, built, args.alpha, args.beta)  # for any queue

        # Warm up and time the right ones, in rounds with the libraries. Record and print all.
        comparison.measure(results, stream, expected)
        del stream, expected  # the next size needs their memory
    return comparison.end()


def check(built, alpha, stream, expected):
    """Run with each beta; check every element; return the Check and C that fail, or the first.

    The cases are --beta and, as kernels differ there, 0 or another. Each element is compared with a
    float64 product, within a bound of what rounding can do in K additions: see common/bounds.py.
    """
    found = []
    for case in expected.cases:
        # Copy the inputs in. With beta = 0, C is full of NaN, which no kernel may read.
        stream.write(*expected.inputs[:2], case.C)
        enqueue = enqueuer(built, alpha, case.beta, stream)
        enqueue()[-1].wait()  # the last launch
        product = stream.C.read()
        found.append((case.check(product, built.plan.chain, stream.intact()), product))
    return next((pair for pair in found if pair[0].reason), found[0])


def enqueuer(built, alpha, beta, stream):
    """Return a function that enqueues C = alpha * A * B + beta * C, and returns its events."""
    # If the kernel needs whole tiles, or A transposed, these are copies: `before` makes them, and
    # `after` copies C back.
    A, B, C, before, after = steps.copies(built, stream, beta)

    plan, real = built.plan, built.plan.problem.c_dtype.type
    M, N, K, lda, ldb, ldc = map(np.int32, (*plan.size, A.ld, B.ld, C.ld))
    arguments = M, N, K, real(alpha), A.device, lda, B.device, ldb, real(beta), C.device, ldc
    # Some kernels from 12 on have further buffers, and launches around gemm: passes split or pack A
    # and B, sums add up parts of C. For kernel 6 both are empty.
    arguments, passes, sums = steps.around(built, stream, arguments)
    kernel = cl.Kernel(built.program, "gemm")
    batch = plan.problem.batch
    gemm = steps.Step("gemm", kernel, plan.global_size, plan.local_size, arguments)
    order = [*(step.times(batch) for step in (*before, *passes)),
             gemm.times(batch, plan.products),
             *(step.times(batch) for step in (*sums, *after))]

    # Set the arguments. They belong to the kernel, so each stream has kernels of its own.
    for step in order:
        step.kernel.set_args(*step.arguments)

    def enqueue():
        return [
            cl.enqueue_nd_range_kernel(stream.queue, step.kernel, step.global_size, step.local_size)
            for step in order
        ]

    enqueue.steps = [step.what for step in order]
    return enqueue


if __name__ == "__main__":
    cli.run(main, options())
