"""Search for the best parameters of a kernel with the Kernel Tuner library.

Kernel Tuner lays out the space of parameters under the rules of the rung, walks through it, and
keeps a cache. A configuration is evaluated as run.py does it: planned, built, every element of its
result checked, copies counted in its time. B. van Werkhoven, Kernel Tuner: A search-optimizing GPU
code auto-tuner, Future Generation Computer Systems 90, 2019.
"""

import hashlib
import importlib
import json
import random
import re
import warnings
from math import prod
from pathlib import Path

import checking
import launch
import measure
import numpy as np
import pyopencl as cl
import runner
import texts
import tuned
from ladder import RUNGS
from outcome import Result

from common import record
from common.errors import OpenCLFailure, Unsupported, UsageError
from common.timing import figures

_FINAL = 5  # configurations that are timed again side by side, and the default beside them
_MISSING = "tune needs the Kernel Tuner library: `make tune`, or pip install kernel_tuner"


class Evaluation:
    """What it takes to try configurations of one rung on one problem."""

    def __init__(self, args, queue, limits, about, rung, problem):
        self.args, self.queue, self.limits, self.about = args, queue, limits, about
        self.rung, self.problem = rung, problem
        self.expected = checking.Expected(problem, args.data, args.seed, args.alpha, args.beta)
        self.stream, self.turn = runner.Stream(queue, problem), None
        for number in range(2):
            self.stream.matrices.write(number, self.expected.inputs[number])

    def prepare(self, params):
        """Return the Result of a configuration: built and checked, with a bar to time it by."""
        result = Result(self.problem, self.rung.label, self.args.progress)
        choice = launch.Choice(params, None)
        with result.going_on():
            gemm = runner.Gemm(self.queue, self.limits, self.rung, choice, self.problem)
            result.gemm = gemm
            if prod(gemm.plan.local_size) > (most := gemm.group_limit()):
                raise UsageError(f"a work-group of the built kernel has at most {most}")
            result.checked(*self.expected.check(self._once(gemm), self.stream.matrices))
            result.bar = measure.of_gemm(texts.parameters(params), gemm, self.args)
        return result

    def _once(self, gemm):
        """Return a function that runs a kernel with the beta that it is given, and waits."""
        return lambda beta: gemm.set_up(self.stream, self.args.alpha, beta).enqueue()[-1].wait()

    def time(self, results):
        """Time Results that are right, in turns such as the first time's."""
        bars = [result.bar for result in results]
        times, turns = measure.race(bars, self.stream, self.args, self.turn)
        for result in results:
            result.turn = turns[result.bar.name]
            with result.going_on():
                result.require_no_error()
                result.times = times[result.bar.name]
                self.turn = self.turn or result.turn

    def lost_device(self):
        """Return an OpenCLFailure where the device does not answer any more, else None."""
        try:
            self.stream.matrices.write(2, 0)
            self.queue.finish()
        except cl.Error as error:
            text = f"the device does not answer any more ({' '.join(str(error).split())})"
            return OpenCLFailure(f"{text}. What was tried is kept: tune again")
        return None


class _Device:
    """Kernel Tuner's view of a device, whose configurations we evaluate ourselves."""

    def __init__(self, theirs, evaluation, failed):
        self._theirs, self._evaluation, self._failed = theirs, evaluation, failed
        self._lost = None

    def __getattr__(self, name):
        return getattr(self._theirs, name)

    def compile_and_benchmark(self, _source, _arguments, params, _kernel_options, _options):
        """Return a result as Kernel Tuner keeps it; times in ms.

        Some drivers lose the device to a bad kernel. Which one it was must be kept, or the next
        search would try it again: so only what comes after it raises.
        """
        if self._lost:
            raise self._lost
        mine = self._evaluation
        params = {name: params[name] for name in mine.rung.defaults}
        result = mine.prepare(params)
        if result.status == "passed":
            mine.time([result])
        result.save(mine.args, mine.expected.inputs, mine.about, None)
        rate = figures(result.gflops) + " GFLOPS" if result.times else result.reason
        print(f"{texts.parameters(params)}: {rate}", flush=True)
        unused = {"compile_time": 0, "verification_time": 0, "benchmark_time": 0}
        if result.times:
            seconds = result.problem.size.flop() / 1e9 / result.gflops
            return {"time": seconds * 1e3, "gflops": result.gflops, **unused}
        self._lost = mine.lost_device()
        return {"__error__": self._failed, "reason": result.reason, **unused}


class _Strategy:
    """One of Kernel Tuner's strategies, let loose on our _Device."""

    def __init__(self, name, evaluation, failed):
        self._module = importlib.import_module(f"kernel_tuner.strategies.{name}")
        self._evaluation, self._failed = evaluation, failed

    def tune(self, searchspace, their_runner, options):
        print(f"{searchspace.size} configurations keep the rules", flush=True)
        their_runner.dev = _Device(their_runner.dev, self._evaluation, self._failed)
        their_runner.warmed_up = True
        return self._module.tune(searchspace, their_runner, options)


def tune(args, queue, limits, about, problem, rungs):
    """Tune each rung, given as (rung, fixed parameters); return the exit status."""
    _kernel_tuner()
    for rung, given in rungs:
        values = {**rung.values, **{name: (value,) for name, value in given.items()}}
        start = launch.choose(rung, given, limits, problem.dtype).params
        rung.plan(problem, start, limits, queue.device)  # what the device lacks is said at once
        print(f"\n{rung.label}, {problem.size}, {args.precision} precision")
        evaluation = Evaluation(args, queue, limits, about, rung, problem)
        if (first := evaluation.prepare(start)).status == "passed":
            evaluation.time([first])  # as it is timed, so are all
        results = _search(args, evaluation, values)
        _finish(args, evaluation, results, start)
    return 0


def _kernel_tuner():
    """Return what is used of the library. Raises Unsupported where it is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from kernel_tuner import tune_kernel
            from kernel_tuner.util import RuntimeFailedConfig
    except ImportError as missing:
        raise Unsupported(f"{_MISSING} ({missing})") from missing
    return tune_kernel, RuntimeFailedConfig


def _search(args, evaluation, values):
    """Return what Kernel Tuner found: a dict for each configuration."""
    tune_kernel, failed = _kernel_tuner()
    rung, problem, device = evaluation.rung, evaluation.problem, evaluation.queue.device
    random.seed(args.seed)
    np.random.seed(args.seed)
    platform = cl.get_platforms().index(device.platform)
    path = _cache(args, evaluation)

    def legal(*values, **params):  # it is called in either way
        params = params or dict(zip(rung.defaults, values))
        return not rung.rules(params, evaluation.limits, problem.dtype)

    _require_readable(path)
    strategy = "brute_force" if args.budget is None else "random_sample"
    options = {} if args.budget is None else {"max_fevals": args.budget}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it compares the types of arguments we do not give
        results, _ = tune_kernel(
            "gemm", rung.file.read_text(encoding="utf-8"), tuple(problem.size), [],
            {name: list(values[name]) for name in rung.defaults},
            restrictions=[legal],
            strategy=_Strategy(strategy, evaluation, failed()),
            strategy_options=options, cache=str(path), lang="OpenCL", quiet=True,
            platform=platform, device=device.platform.get_devices().index(device),
        )  # fmt: skip
    return results


def _cache(args, evaluation):
    """Return the path of the cache: of another one where kernel, driver or options are others."""
    about, rung, size = evaluation.about, evaluation.rung, evaluation.problem.size
    names = ("precision", "alpha", "beta", "lda", "ldb", "ldc", "in_flight", "queues", "limits")
    key = [about["driver"], about["platform_version"], *(getattr(args, name) for name in names)]
    key.append(rung.file.read_text(encoding="utf-8"))
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:12]
    slug = re.sub(r"[^a-z0-9]+", "-", about["name"].lower()).strip("-")
    folder = Path(args.tuned, "cache")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}") from error
    return folder / f"{slug}-{rung.label}-{size}-{digest}.json"


def _require_readable(path):
    """Raise UsageError for a cache that is no JSON, but for the end that a kill leaves open."""
    if not path.exists():
        return
    try:
        text = path.read_text(encoding="utf-8").strip()
        for end in ("", "}}", "}\n}"):
            try:
                found = json.loads(text.rstrip(",") + end)
                break
            except ValueError:
                continue
        else:
            raise ValueError("it is no JSON")
        if not isinstance(found.get("cache"), dict):
            raise ValueError("it has no results")
    except (OSError, ValueError, AttributeError) as error:
        raise UsageError(f"{path} cannot be used: {error}; delete it") from error


def _finish(args, evaluation, found, start):
    """Time the best again side by side, and store the winner."""
    rung = evaluation.rung
    names = list(rung.defaults)
    right = sorted((each for each in found if "__error__" not in each), key=lambda e: e["time"])
    print(f"{len(right)} of {len(found)} configurations passed")
    finalists = [start, *({n: int(each[n]) for n in names} for each in right[:_FINAL])]
    finalists = [dict(each) for each in dict.fromkeys(tuple(f.items()) for f in finalists)]
    results = [r for r in map(evaluation.prepare, finalists) if r.status == "passed"]
    if not results:
        raise OpenCLFailure(f"{rung.label}: no configuration gives the right result")
    usual = _usual(args, evaluation)
    evaluation.turn = None  # of the fastest now, not of the first choice
    evaluation.time([*results, *usual])
    for lost in (r for r in [*results, *usual] if not r.times):
        print(f"{lost.bar.name}: {lost.reason}")
    results, usual = ([r for r in those if r.times] for those in (results, usual))
    if not results:
        raise OpenCLFailure(f"{rung.label}: no configuration could be timed again")
    compared = results[0]
    ratios = {result: measure.ratio(result.times, compared.times) for result in [*results, *usual]}
    results.sort(key=ratios.get, reverse=True)
    rows = [
        [r.bar.name, figures(r.gflops), figures(r.rates()[2]), f"{ratios[r]:.2f}"]
        for r in [*results, *usual]
    ]
    first = compared.gemm.choice.params == start
    head = ["timed again, side by side", "GFLOPS", "best"]
    head.append(f"to {'the first choice' if first else compared.bar.name}")
    print("\n" + "\n".join(texts.columns(head, rows)))
    winner, about = results[0], evaluation.about
    faster = next((other.name for other in usual if ratios[other] > ratios[winner]), None)
    entry = {
        "kernel": rung.name,
        "precision": args.precision,
        "size": str(evaluation.problem.size),
        "params": winner.gemm.choice.params,
        "gflops": winner.gflops,
        "driver": about["driver"],
        "when": record.now(),
        "slower_than": faster,
    }
    path = tuned.store(tuned.identity(evaluation.queue.device, about), entry, args.tuned)
    print(f"{winner.bar.name} is stored in {path}")
    if faster:
        print(f"--kernel best stays with {faster}, which is faster")


def _usual(args, evaluation):
    """Return what --kernel best takes by now as a list: of one Result of another kernel, or none.

    It is timed beside the configurations of this one, to say whether tuning has made this the best.
    """
    its = evaluation
    best = tuned.find(
        RUNGS, its.problem, args.precision, its.queue.device, its.about, its.limits, args.tuned
    )
    if best.rung is its.rung:
        return []
    result = Evaluation(args, its.queue, its.limits, its.about, best.rung, its.problem).prepare(
        best.params
    )
    if result.bar:
        result.bar.name = result.name
    return [result] if result.status == "passed" else []
