"""myGEMM: numbered kernels, each adding one idea; checked, timed, and compared.

python samples/mygemm/run.py                                      order 1024, the best kernel here
python samples/mygemm/run.py --kernel all                         all kernels, the naive one first
python samples/mygemm/run.py --kernel 1,6,10 --size 256:1024:256  some of them, several sizes
python samples/mygemm/run.py --kernel 6 --TSM 64 --WPTM 4         other tiles
python samples/mygemm/run.py --kernel all --limits mali-t628      as on a smaller device
"""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

try:
    import compare
    import kernels
    import numpy as np
    import plans
    import pyopencl as cl

    from common import cli, device, gemm, roofline, steps
    from common.bounds import Expected
    from common.errors import worst
    from common.interleaved import Contender
    from common.stream import Stream
except ImportError as missing:
    why = str(missing).strip().splitlines()[-1]  # numpy says much more
    print(f"run.py: error: {why}: see docs/boards.md, What a board needs", file=sys.stderr)
    sys.exit(3)
except KeyboardInterrupt:
    sys.exit(130)


def options():
    parser = cli.parser("mygemm", __doc__)
    gemm.add_options(parser)  # --size, --precision, --alpha, ...
    kernels.add_options(parser)  # --kernel, and the parameters of the kernels
    compare.add_options(parser)  # --libraries, --queues, ...
    return parser


def main(args):
    # Open the device.
    chosen, limits, about = cli.choose(args)
    problems, named = gemm.problems(args, limits), kernels.named(args)
    if args.describe:
        ours = [kernel for kernel, _ in named] or kernels.of(args.precision)
        return cli.describe(args, about, plans.described(ours, problems[0], limits, chosen))
    cli.show(args, about)
    gemm.require_precision(args.precision, limits)
    queue = device.open_queue(chosen)
    cli.pin(args, about, problems * max(1, len(named)))
    roof = roofline.Roofline(queue, limits, problems[0].dtype)
    blas = None if args.check_only or args.build_only else compare.prepare(args)

    results = []
    for problem in problems:
        if not args.progress.is_done("all", str(problem.size)):
            print(f"\n{problem}, {args.precision} precision", flush=True)
            picked = named or kernels.best(args, problem, about, limits, chosen)
            results += multiply(args, queue, limits, about, problem, picked, blas, roof)
            args.progress.done("all", str(problem.size))
    if len(problems) > 1:
        print("\n".join(compare.by_size([problem.size for problem in problems], results)))
    return worst(result.exit_status for result in results)


def multiply(args, queue, limits, about, problem, picked, blas, roof):
    """Run the (kernel, parameters) of `picked` at one size, and libraries; return their Results."""
    results = compare.started(args, problem, picked)
    if not results:
        return []
    alone = len(results) == 1
    # Parameters that cannot be are refused before the inputs are made.
    for result in results:
        with result.going_on(alone):
            plans.choose(result.kernel, result.given, problem, limits, queue.device)

    if args.build_only:
        compare.build_only(args, queue, limits, about, results)
        return results

    # Make the inputs and the expected results.
    drawn = args.data, args.seed, args.alpha, args.beta
    nearest = device.rounds_to_nearest(queue.device, problem.dtype)
    expected = Expected(*problem[:2], *drawn, nearest, problem.batch)
    stream = Stream(queue, problem)

    # Build each kernel, run it once and check every element.
    for result in results:
        if result.status != "passed":
            continue
        with result.going_on(alone, queue):
            result.at("building")
            result.built = plans.build_kernel(queue, limits, result.kernel, result.given, problem)
            print("\n".join(compare.chosen(result.built.plan)), flush=True)
            result.at("running")
            result.checked(*check(result.built, args.alpha, stream, expected))
            launcher = partial(enqueuer, result.built, args.alpha, args.beta)
            bare = device.type_of(queue.device) != "cpu"
            result.contender = Contender(result.name, launcher, events=True, bare=bare)
            result.steps = [step.what for step in launches(*launcher.args, stream)]
        result.save_checked(args, expected.inputs, about)

    # Warm up and time the right kernels, in rounds with the libraries; then measure the ceiling.
    missing, peak = {}, None
    if not args.check_only:
        missing = compare.beside(args, results, expected, stream, blas)
        compare.measure(args, results, stream, about)
        if not args.duration:  # after which the device is hot
            args.progress.now("measuring the ceiling")
            peak, missing["the ceiling"] = roof.peak(problem.size, problem.batch)

    # Compare, record and show.
    compare.compare(args, results, peak)
    for result in results:
        result.save(args, expected.inputs, about, peak)
    compare.show(args, results, missing, peak)
    return results


def check(built, alpha, stream, expected):
    """Run a kernel with each beta, and check every element; return the Check that counts, and C."""
    found = []
    stream.held.pop("counters", None)  # a kernel that broke off may have left them counted
    for case in expected.cases:
        # Copy the inputs in. With beta = 0, C is full of NaN, which no kernel may read.
        A, B, C = expected.inputs
        stream.write(A, B, C if case.beta else expected.unread)
        enqueuer(built, alpha, case.beta, stream)()[-1].wait()
        product = stream.C.read()
        verdict = case.check(product, built.plan.chain, stream.intact())
        if verdict.reason and len(expected.cases) > 1:
            verdict = replace(verdict, reason=f"with --beta {case.beta:g}, {verdict.reason}")
        found.append((verdict, product))
    return next((pair for pair in found if pair[0].reason), found[0])


def enqueuer(built, alpha, beta, stream):
    """Return a function that enqueues C = alpha * A * B + beta * C, and returns its events."""
    # Set the arguments. They belong to the kernel, so each stream has kernels of its own.
    queue, order = stream.queue, launches(built, alpha, beta, stream)
    for step in order:
        step.kernel.set_args(*step.arguments)

    def enqueue():
        return [
            cl.enqueue_nd_range_kernel(queue, step.kernel, step.global_size, step.local_size)
            for step in order
        ]

    return enqueue


def launches(built, alpha, beta, stream):
    """Return the Steps of C = alpha * A * B + beta * C: that of gemm(), and those around it."""
    # If the kernel needs whole tiles, or A transposed, these are copies, which `before` makes.
    A, B, C, before, after = steps.copies(built, stream, beta)

    plan, real = built.plan, built.plan.problem.c_dtype.type
    arguments = steps.Arguments(
        *map(np.int32, plan.size), alpha=real(alpha), A=A.device, lda=np.int32(A.ld), B=B.device,
        ldb=np.int32(B.ld), beta=real(beta), C=C.device, ldc=np.int32(C.ld),
    )
    rooms = {role: stream.room(role, room) for role, room in plan.room.items()}
    given = *arguments, *rooms.values()
    kernel = cl.Kernel(built.program, "gemm")
    gemm = steps.Step("gemm", kernel, plan.global_size, plan.local_size, given)
    passes, sums = steps.passes(built, given), steps.sums(built, arguments, rooms.get("parts"))
    order = [*before, *passes, gemm, *sums, *after]
    return [step.times(plan.problem.batch) for step in order]


if __name__ == "__main__":
    cli.run(main, options())
