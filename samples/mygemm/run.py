"""myGEMM: one kernel after the other, each with one idea more, checked, timed, side by side.

python samples/mygemm/run.py                                      order 1024, the best kernel here
python samples/mygemm/run.py --kernel all                         the whole ladder
python samples/mygemm/run.py --kernel 1,6,10 --size 256:1024:256  some of it, several sizes
python samples/mygemm/run.py --kernel 6 --TSM 64 --WPTM 4         other tiles
python samples/mygemm/run.py --kernel all --limits mali-t628      as on a smaller device
python samples/mygemm/run.py inspect --kernel 6,7                 what the driver made of them
python samples/mygemm/run.py tune --kernel 6 --budget 100         search for better parameters
"""

import sys
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

try:
    import checking
    import command
    import inspection
    import launch
    import loading
    import measure
    import numpy as np
    import peers
    import roofline
    import runner
    import texts
    import tuning
    from outcome import Result, exit_status

    from common import cli, device
    from common.errors import UsageError
except ImportError as missing:
    why = str(missing).strip().splitlines()[-1]  # numpy says much more
    print(f"run.py: error: {why}: see docs/boards.md, What a board needs", file=sys.stderr)
    sys.exit(3)
except KeyboardInterrupt:
    sys.exit(130)


def main(args):
    # Open the device. With --limits it counts as a smaller one.
    if args.do == "inspect":
        inspection.set_environment()
    chosen = device.choose(args.platform, args.device, args.type)
    limits = device.limits(chosen, args.limits)
    about = device.describe(chosen, limits)
    print("\n".join(device.summary(about)))
    launch.require_precision(args.precision, limits)
    queue = device.open_queue(chosen)
    named, problems = command.rungs(args), command.problems(args, limits)
    if args.do != "run":
        if len(problems) > 1:
            raise UsageError(f"--size: {args.do} takes one size, not {len(problems)}")
        rungs = named or command.best(args, problems[0], chosen, about, limits)
        if args.do == "tune" and not named:
            rungs = [(rungs[0][0], {})]  # its parameters are what is searched for
        do = {"inspect": inspection.inspect, "tune": tuning.tune}[args.do]
        return do(args, queue, limits, about, problems[0], rungs)
    blas = None if args.blas is None or args.check_only else loading.cblas(args.blas)
    roof = None

    everything = []
    for problem in problems:
        if args.progress.is_done("all", str(problem.size)):
            continue
        print(f"\n{problem.size}, {args.precision} precision", flush=True)
        rungs = [
            (rung, given)
            for rung, given in named or command.best(args, problem, chosen, about, limits)
            if not args.progress.is_done(rung.label, str(problem.size))
        ]
        if not rungs:
            continue
        kernels = [Result(problem, rung.label, args.progress) for rung, _ in rungs]
        alone = len(rungs) == 1
        if alone and len(problems) == 1:
            args.progress.single()
        for result, (rung, given) in zip(kernels, rungs):
            with result.going_on(alone):
                launch.choose(rung, given, limits, problem.dtype)

        # Make the inputs, on the host and on the device, and what they must give.
        expected = checking.Expected(problem, args.data, args.seed, args.alpha, args.beta)
        stream = runner.Stream(queue, problem)
        for number in range(2):
            stream.matrices.write(number, expected.inputs[number])

        # Build each kernel, run it once and check every element.
        for result, (rung, given) in zip(kernels, rungs):
            if result.status != "passed":
                continue

            def launch_once(beta):
                result.gemm.set_up(stream, args.alpha, beta).enqueue()[-1].wait()

            with result.going_on(alone, queue):
                result.at("building")
                result.gemm = runner.prepare(queue, limits, rung, given, problem)
                print("\n".join(texts.chosen(result.gemm)), flush=True)
                result.at("running")
                result.checked(*expected.check(launch_once, stream.matrices))
            result.save_checked(args, expected.inputs, about)

        # Time what is right, interleaved, libraries as well.
        libraries, missing, peak = [], {}, None
        if not args.check_only:
            if roof is None:
                print(measure.busy() or "", end="")
                dtype = problem.dtype
                roof, no_roof = roofline.attempt(roofline.Roofline, queue, limits, dtype)
            found, missing = peers.find(args.peers, chosen, problem, expected.inputs, blas)
            libraries = [check_peer(problem, expected, peer, stream, args) for peer in found]
        results = [*kernels, *libraries]
        if not args.check_only:
            racing = [result for result in results if result.status == "passed"]
            for result in racing:
                if result.gemm:
                    result.bar = measure.of_gemm(result.name, result.gemm, args)
                result.bar.announce = partial(result.at, "timing")
            times, turns = measure.race([result.bar for result in racing], stream, args)
            for result in racing:
                result.times, result.turn = times.get(result.name), turns[result.name]
                with result.going_on(alone and not libraries):
                    result.require_no_error()
            peak, why = roofline.attempt(roof.peak, problem) if roof else (None, no_roof)
            missing |= {"ceiling": why} if why else {}

        # Compare, show and record.
        ceiling = peak and peak.ceiling(problem, args.beta)
        for result in results:
            result.compare([kernels[0], *libraries], ceiling)
            result.save(args, expected.inputs, about, peak)
        args.progress.done("all", str(problem.size))
        print("\n" + "\n".join(texts.table(results, args, kernels[0], libraries)))
        for line in texts.remarks(results, missing, peak, ceiling, args.verbose):
            print(line, flush=True)
        for result in results:
            result.release()
        everything += results
    if len(problems) > 1:
        print("\n".join(texts.by_size([p.size for p in problems], everything)))
    return exit_status(everything)


def check_peer(problem, expected, peer, stream, args):
    """Return the Result of a library, run and checked once."""
    result = Result(problem, peer.name, args.progress)
    result.version = peer.version
    result.bar = measure.Bar(
        peer.name, peer.launcher, peer.finish, queued=peer.queued, settle=peer.settle
    )
    if result.status != "passed":
        return result
    with result.going_on():
        result.at("running")
        stream.matrices.write(2, np.nan)  # not the result of a kernel
        peer.launcher(stream)()
        peer.finish([stream])
        product, clean = peer.result(stream)
        result.checked(expected.check_host(product, clean), product)
        time.sleep(peer.settle)
    return result


if __name__ == "__main__":
    cli.run(main, command.options(__doc__))
