"""Which kernel `--kernel best` runs: the one that was stored, or the fastest of a few.

Parameters that were tuned for the device come first. Else a model of the time, or the number of
rows and columns of C, leaves a few kernels that may be the fastest, often only one. If they are
several, each is timed for a fraction of a second.
"""

from contextlib import suppress
from functools import partial
from math import inf
from types import SimpleNamespace
from typing import NamedTuple

from special import (
    DOT_PRODUCTS,
    KERNELS,
    MALI_INT8,
    MATRIX_UNITS,
    PACKED,
    REGISTERS_ONLY,
    ROW_SUMS,
    WARPGROUPS,
    WARPS,
)

from common import constraints, interleaved
from common.device import type_of
from common.errors import SampleError, Unsupported
from common.gemm import INPUTS
from common.interleaved import Contender
from common.planning import nvidia, plans, vectors
from common.planning.plans import Kernel
from common.planning.result import Result
from common.planning.stream import Stream
from common.tuned import find

CLOSE = 1.3  # times the least time by the model: a kernel with more is not tried
_FEW = 8  # rows or columns of C for which 16 and 17, which are for one, may be faster on a CPU
_SMALL = 2**15  # flop of a product to which the start of a launch matters more
_ROUNDS = 5  # of a trial: the best counts, since what disturbs one only makes it slower
_TIE = 1.03  # the favourite's time by that of one that replaces it, at least
_BY_NAME = {key: each for each in KERNELS for key in (each.name, each.label)}


class Candidate(NamedTuple):
    """A kernel with the parameters given for it, and a text that says why."""

    kernel: Kernel
    params: dict
    why: str

    @property
    def name(self):
        return f"{self.kernel.label} {constraints.options(self.params)}".rstrip()


def pick(args, problem, about, limits, queue, launcher):
    """Return [(kernel, parameters)] of what `--kernel best` means; say which it is.

    `launcher(built, alpha, beta, stream)` returns a function that launches a kernel. With
    --build-only nothing is tried. Raises Unsupported where no kernel suits.
    """
    found = candidates(args, problem, about, limits, queue.device)
    if not found:
        raise Unsupported("no kernel suits this device")
    fastest = found[0]
    if len(found) > 1 and not args.build_only:
        fastest = _fastest(args, problem, limits, queue, launcher, found)
    print(f"best: {fastest.name} ({fastest.why})", flush=True)
    return [fastest[:2]]


def candidates(args, problem, about, limits, device):
    """Return the Candidates that are legal on the device, the favourite first.

    What a search found is the only one.
    """
    _, N, K = problem.size
    stored = find(args.tuned, about, args.precision, str(problem.size), problem.batch,
                  usual=problem.leading == (K, N, N))
    vector = {problem.size.M: ROW_SUMS, problem.size.N: DOT_PRODUCTS}.get(1)
    if vector:  # what is stored for other sizes may be for matrices
        stored = [each for each in stored if each.exact or _BY_NAME.get(each.kernel) is vector]
    for each in stored:
        found = Candidate(_BY_NAME.get(each.kernel), each.params, each.why)
        if _legal(found, problem, limits, device):
            return [found]
    likely = sorted(_likely(problem, about, limits, device), key=lambda each: each[2])
    found = [
        (seconds, Candidate(kernel, params, f"the default for {what}; no stored parameters apply"))
        for kernel, params, seconds, what in likely
    ]
    found = [pair for pair in found if _legal(pair[1], problem, limits, device)]
    return [each for seconds, each in found if seconds <= CLOSE * found[0][0]]


def _legal(candidate, problem, limits, device):
    kernel, params, _ = candidate
    if not kernel or not set(params) <= set(kernel.space.defaults):
        return False
    with suppress(SampleError):
        plans.plan(kernel, params, problem, limits, device)
        return True
    return False


def _likely(problem, about, limits, device):
    """Yield (kernel, parameters, seconds, what it is for) of kernels that may be the fastest.

    The seconds are those of a model; 0 where there is none, and inf for what is used if all others
    are not legal.
    """
    M, N, _ = problem.size
    vector = {M: ROW_SUMS, N: DOT_PRODUCTS}.get(1)
    if about["type"] == "gpu" and "nvidia" in about["vendor"].lower():
        if vector:
            yield vector, {}, vectors.seconds(*vectors.about(problem, device)), "a vector"
        yield WARPS, {}, nvidia.warps(problem, limits, device)[0], "NVIDIA's GPUs"
        yield MATRIX_UNITS, {}, nvidia.units(problem, device)[0], "NVIDIA's GPUs"
        yield WARPGROUPS, {}, nvidia.warpgroups(problem, device)[0], "NVIDIA's GPUs"
    elif vector:
        yield vector, {}, 0, "a vector"
    if about["type"] == "cpu":
        if vector:
            for params in vectors.others(problem, limits, device):
                yield vector, params, 0, "a vector"
        yield PACKED, {}, 0, "CPUs"
        small = problem.size.flop() <= _SMALL
        for kernel, count in ((ROW_SUMS, M), (DOT_PRODUCTS, N)):
            if kernel is not vector and (count <= _FEW or small):
                yield kernel, {}, 0, "few rows or columns"
    yield REGISTERS_ONLY, {}, inf, "every device"
    yield MALI_INT8, {}, inf, "every device"  # one of these two is for the precision


def _fastest(args, problem, limits, queue, launcher, found):
    """Time the Candidates; return the fastest, or the first if all fail.

    The `why` of the fastest has the times of the others. For one that fails, a line is printed that
    says why.
    """
    stream = Stream(queue, problem)
    stream.write(*INPUTS[args.data](problem.size, args.seed, problem.dtype, problem.batch))
    run, bare = SimpleNamespace(args=args, queue=queue), type_of(queue.device) != "cpu"
    results = [Result(problem, each.name, run, each.kernel, each.params) for each in found]
    for result in results:
        if result.past:  # it crashed when it was tried before
            continue
        with result.going_on():
            result.at("building")
            built = plans.build_kernel(queue, limits, result.kernel, result.given, problem)
            launch = partial(launcher, built, args.alpha, args.beta)
            result.contender = Contender(result.name, launch, bare=bare)
            result.contender.announce = partial(result.at, "trying")
            result.contender.failed = result.failed
    contenders, times = [result.contender for result in results if result.contender], {}
    if contenders:
        times, _ = interleaved.measure(contenders, stream, _ROUNDS, 1, args.in_flight, args.queues,
                                       args.caches)
    args.progress.now("starting")
    for result in results:
        if result.reason:
            print(f"{result.name} was tried, but ended with: {result.reason}")
    seconds = {name: min(each.host_s) for name, each in times.items()}
    if not seconds:
        return found[0]
    favourite = next(iter(seconds))  # the model is right about most of those that tie
    name = min(seconds, key=lambda name: seconds[name] * (1 if name == favourite else _TIE))
    fastest = next(each for each in found if each.name == name)
    others = {other: spent / seconds[name] for other, spent in seconds.items() if other != name}
    if not others:
        return fastest
    (first, ratio), *more = others.items()
    told = [f"{first} takes {ratio:.2f} times as long",
            *(f"{other} {ratio:.2f} times" for other, ratio in more)]
    return fastest._replace(why=f"the fastest of those tried, within 3 %: {', '.join(told)}")
