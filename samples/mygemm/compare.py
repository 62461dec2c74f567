"""Kernels and baseline libraries side by side: timing, ratios, tables."""

import os
from argparse import SUPPRESS
from contextlib import nullcontext
from functools import partial
from statistics import median

import numpy as np
import pyopencl as cl

from common import interleaved, libraries, measuring, roofline, table
from common.arguments import count
from common.device import type_of
from common.errors import UNSUPPORTED, UsageError, worst
from common.interleaved import Contender
from common.machine import state
from common.planning import plans, steps, vectors
from common.planning.result import Result
from common.program import report
from common.text import complain, figures, milliseconds, printable

# The ceiling is that of plain multiplications.
_OTHER_UNITS = ("14_matrix_units", "15_warpgroups", "cublas")


def add_options(parser):
    """Add the options that say what is timed beside the kernels, and how."""
    add = parser.add_argument
    names = ", ".join(libraries.NAMES)
    add("--libraries", type=libraries.parse, default="all", metavar="NAMES",
        help=f"baseline libraries, comma-separated: {names}; or all (default), none")
    add("--peers", dest="libraries", type=libraries.parse, default=SUPPRESS, help=SUPPRESS)
    add("--blas", metavar="FILE",
        help="one more library with the CBLAS interface: libopenblas.so.0, ...")
    add("--in-flight", type=count(1, 10_000), metavar="N",
        help="launches per sample (default: several if they are short)")
    add("--queues", type=count(1, 64), metavar="N",
        help="command queues for these launches (default: 1; on a CPU 1 or one per core, up to 8, "
             "whichever is faster)")


class Comparison:
    """Kernels and libraries side by side, size by size: what fails is noted, and others go on."""

    def __init__(self, args, queue, limits, about, problems):
        """Find the ceiling's kernels and the library of --blas; say where others use this machine.

        Raises UsageError.
        """
        self.args, self.queue, self.about, self._limits = args, queue, about, limits
        self._problems, self._results, self._blas, self._above = problems, [], None, []
        self._roof = roofline.Roofline(queue, limits, problems[0].dtype)
        if args.check_only or args.build_only:
            return
        if args.caches == "flushed" and (args.in_flight or args.queues):
            raise UsageError("--caches flushed times each launch alone: omit --in-flight and "
                             "--queues")
        self._blas = libraries.cblas(args.blas) if args.blas else None
        told = state.settings(os.environ, state.OF_LIBRARIES)
        if told and (args.libraries or self._blas) and not args.duration:
            variables = ", ".join(f"{name}={printable(value)}" for name, value in told.items())
            print(f"Environment variables that affect libraries: {variables}")

    def each_size(self):
        """Yield each Problem that is left after a crash."""
        for problem in self._problems:
            if self.args.progress.past("all", str(problem.size)):
                self._above.append(str(problem.size))
                continue
            print(f"\n{problem}, {self.args.precision} precision", flush=True)
            yield problem
            self.args.progress.done("all", str(problem.size))

    def start(self, problem, picked):
        """Return a Result for each (kernel, parameters) of `picked`.

        Parameters that cannot be are refused here, before the inputs are made: those of a kernel
        alone by a UsageError.
        """
        alone = len(picked) == 1
        if alone and len(self._problems) == 1:
            self.args.progress.single()
        results = [Result(problem, pair[0].label, self, *pair) for pair in picked]
        for result in results:
            with nullcontext() if alone else result.going_on():
                plans.choose(result.kernel, result.given, problem, self._limits, self.queue.device)
        self._results += results
        return results

    def each(self, results, inputs=None):
        """Yield each Result that did not fail before; save what became of it, with the others."""
        for result in results:
            if result.past:
                continue
            if result.status == "passed":
                result.at("building")
                yield result
            if self.args.build_only and result.reason:  # else it stands below the table
                print(f"{result.name}: {result.status}: {result.reason}", flush=True)
            result.save_checked(inputs)

    def build(self, results):
        """Build the kernel of each Result; record what the driver made of it."""
        for result in self.each(results):
            with result.going_on():
                given = result.kernel, result.given, result.problem
                built = plans.build_kernel(self.queue, self._limits, *given)
                result.plan = built.plan
                result.made = report(result.name, cl.Kernel(built.program, "gemm"))
                for name, kernel in steps.others(built).items():
                    made = report(f"{result.name} {name}", kernel)["metrics"]
                    result.made["metrics"].setdefault("others", {})[name] = made
                result.status = "built"

    def measure(self, results, stream, expected):
        """Time the Results that passed, with the libraries; compare, save and print them all."""
        args, missing, peak = self.args, {}, None
        if not args.check_only and any(result.status == "passed" for result in results):
            missing = self.beside(results, stream, expected)
            self._time([result for result in results if result.status == "passed"], stream)
            self._again(results, stream, expected.cases[0].C)
            if not args.duration:  # after which the device is hot
                args.progress.now("measuring the ceiling")
                size = stream.problem.size, stream.problem.batch
                peak, missing["the ceiling"] = self._roof.peak(*size)
        compare(results, peak, args.beta)
        for result in results:
            result.save(expected.inputs, peak)
        below = [*remarks(results, missing, peak, args), *fastest(results, args), *passed(results)]
        print("", *rates_table(results), *below, sep="\n", flush=True)
        for result in results:  # of this size nothing is left on the device
            result.contender = result.launcher = result.output = None

    def beside(self, results, stream, expected):
        """Add a Result for each library that is here, checked; return why the others are not.

        With --duration there is none: a library is no launch that could follow another at once.
        """
        if self.args.duration:
            return {}
        A, B, _ = inputs = expected.inputs
        found, missing = libraries.find(
            self.args.libraries, self.queue.device, inputs, self._blas, self.args.caches)
        for library in found:
            result = Result(stream.problem, library.name, self)
            results.append(result)
            self._results.append(result)
            result.version, result.contender = library.version, library
            if result.status != "passed":
                continue
            with result.going_on():
                result.at("running")
                stream.write(A, B, np.nan)  # C is not the result of a kernel
                library.launcher(stream)()
                library.finish([stream])
                product = library.result(stream)
                check = expected.product().check(product, stream.problem.size.K, stream.intact())
                result.checked(check, product)
                library.rest()
        return missing

    def _time(self, results, stream):
        """Warm up and time Results, interleaved or for --duration; then the energy."""
        args, bare = self.args, type_of(self.queue.device) != "cpu"
        for result in results:
            if result.launcher:
                result.steps = result.launcher(stream).steps
                result.contender = Contender(result.name, result.launcher, events=True, bare=bare)
            result.contender.announce = partial(result.at, "timing")
            result.contender.failed = result.failed
        if not args.duration:
            queues = args.queues or (1 if vectors.fills_caches(stream.problem) else None)
            watch = state.Watch(args.sysfs)
            times, launches = interleaved.measure(
                [result.contender for result in results], stream, args.repeat, args.warmup,
                args.in_flight, queues, args.caches, watch.look,
            )
            machine = watch.end()
            for result in results:
                result.times, result.launches = times.get(result.name), launches[result.name]
                result.machine = machine
        no_sensor = None
        for result in results:
            if args.duration or (args.energy and result.times):
                result.contender.announce()
                with result.going_on():
                    launch, gflop = result.contender.launcher(stream), result.problem.flop() / 1e9
                    end = partial(result.contender.finish, [stream])
                    result.found = measuring.alone(args, self.about, launch, end, "gflops", gflop)
                    result.times = result.times or result.found.times
                    if args.duration or result.found.metrics.get("energy"):
                        print(result.name, *result.found.lines(), sep="\n    ", flush=True)
                    else:
                        no_sensor = result.found
        if no_sensor:
            print(*no_sensor.lines(), sep="\n")

    def _again(self, results, stream, C):
        """Run each kernel that was timed once more, from the same C: the bits must be the same."""
        for result in results:
            if result.launcher and result.status == "passed" and not self.args.ended:
                with result.going_on():
                    result.at("running again")
                    stream.C.write(C)  # not A and B, which kernels must leave as they were
                    result.launcher(stream)()[-1].wait()
                    check = result.check.again(result.output, stream.C.read())
                    result.checked(check, result.output)

    def end(self):
        """Print the sizes side by side, if there are several; return the exit status."""
        if len(self._problems) > 1:
            sizes = [problem.size for problem in self._problems]
            print("\n".join(by_size(sizes, self._results)))
        if self._above:
            print(f"Run before a driver crashed, so only in the tables above: "
                  f"{', '.join(self._above)}")
        if len(self._results) == 1 and self._results[0].reason:  # of all that ran
            complain(f"run.py: error: {self._results[0].reason}")
        return worst(result.exit_status for result in self._results)


def compare(results, peak, beta):
    """Note the ratios of each Result to the first with times, the libraries and the ceiling."""
    timed = [r for r in results if r.times]
    compared = [r for r in timed if r is timed[0] or r.version]
    for result in timed:
        pairs = ((other.name, interleaved.ratio(result.times, other.times)) for other in compared)
        result.ratios = dict(pairs)
        if peak:
            problem = result.problem
            ceiling, _ = peak.ceiling(problem.size, problem.dtype, beta)
            result.ratios["ceiling"] = result.gflops / ceiling


# What is printed: plain text, in columns.


def rates_table(results):
    """Return the lines that show the Results of one size side by side, with their ratios.

    The others are compared with the first, and with libraries.
    """
    if not any(r.times for r in results):
        return table.lines(["", "", "error/bound"], [[r.name, r.status, error(r)] for r in results])
    timed = [r for r in results if r.times]
    best = max((r for r in timed if r.version), key=lambda r: r.gflops, default=None)
    compared = [r for r in results if r.name in timed[0].ratios] if len(results) > 1 else []
    marks = {r.name: "*" if r is best else "" for r in compared}
    count, parts = len(timed[0].times.host_s), " parts" * bool(timed[0].found.sustained)
    what = f"median of {count}{parts}" if count > 1 else "1 run"
    head = [what, "time", timed[0].problem.unit, "10 %", "90 %"]
    short = {r.name: r.name.split("_")[0] if r.plan else r.name for r in compared}
    head += [f"to {short[r.name]}{marks[r.name]}" for r in compared]
    measured = any("ceiling" in r.ratios for r in timed)
    head += [*["of ceiling"] * measured, "error/bound"]
    rows = []
    for r in results:
        if r.times is None:
            rows.append([r.name, r.status, *[""] * (len(head) - 3), error(r)])
            continue
        seconds = r.problem.flop() / 1e9 / r.gflops
        rates = [*map(figures, r.rates())] if count > 1 else [figures(r.gflops), "-", "-"]
        ratios = [f"{r.ratios[o.name]:.2f}" for o in compared]
        share = [f"{r.ratios['ceiling']:.1%}"] if measured else []
        rows.append([r.name, milliseconds(seconds), *rates, *ratios, *share, error(r)])
    notes = ["error/bound: the largest error, relative to its bound; above 1 it is wrong."]
    if compared:
        notes.append("to NAME: times NAME's rate, the median over the rounds by the host's clock, "
                     "which includes launching.")
    if best in compared:
        notes.append(f"* {best.version}, the best library here")
    doubts = {r.name: why for r in timed if r.plan and (why := r.times.doubt())}
    if doubts:
        notes.append(f"Times of {', '.join(doubts)} are by the host's clock: "
                     f"{'; '.join(dict.fromkeys(doubts.values()))}.")
    elif best in compared:
        # On a GPU the host's time is taken where it is less: see Contender.sample().
        either = any(run == host for r in timed if r.plan
                     for run, host in zip(r.times.run_s, r.times.host_s))
        less = " or, if that is less, the host's" if either else ""
        notes.append(f"Times of kernels are by the device's clock{less}, of libraries by the "
                     "host's: their ratios may differ from `to NAME`.")
    others = {r.name for r in timed if r.version}
    made = interleaved.remarks({r.name: r.launches for r in timed}, others)
    return [*table.lines(head, rows), *notes, *made]


def error(result):
    """Return the largest error relative to its bound."""
    return f"{result.check.error_over_bound:.2g}" if result.check else "-"


def fastest(results, args):
    """Return the line that says which kernel is the best, if several may be it.

    It goes by the ratios to the first, as those are taken within the rounds.
    """
    kernels = [result for result in results if result.kernel]
    timed = [result for result in kernels if result.times]
    if args.kernel != "best" or len(kernels) < 2 or not timed:
        return []
    return [f"best: {max(timed, key=lambda result: result.ratios[timed[0].name]).name}"]


def remarks(results, missing, peak, args):
    """Return the lines below the table: what ended or split the runs, libraries, and the ceiling.

    With --verbose each time that was taken as well.
    """
    lines = []
    for r in results:
        if r.reason:
            name = "" if r.reason.startswith(r.name) else f"{r.name}: "
            lines.append(f"{name}{r.status.upper()}: {r.reason}")
        elif r.plan and r.contender and r.contender.steps and len(r.steps) > 1:
            parts = [
                f"{what} {milliseconds(median(times))}"
                for what, times in zip(r.steps, zip(*r.contender.steps))
            ]
            alone = ", one launch at a time" if r.launches.queues > 1 else ""
            lines.append(f"{r.name}{alone}: {', '.join(parts)}")
        if r.times and args.verbose:
            lines.append(f"{r.name}, each time: {' '.join(map(milliseconds, r.times.seconds()))}")
            if r.times.seconds() is not r.times.host_s:
                host = " ".join(map(milliseconds, r.times.host_s))
                lines.append(f"{r.name}, by the host's clock: {host}")
    machine = next((r.machine for r in results if r.machine), {})
    if changed := state.told(machine.get("throttled", [])):
        lines.append(f"Throttled: {changed}")
    lines += [f"{name} was not measured: {reason}" for name, reason in missing.items() if reason]
    if peak:
        problem = results[0].problem
        ceiling, limit = peak.ceiling(problem.size, problem.dtype, args.beta)
        lines.append(f"Ceiling: {figures(ceiling)} GFLOPS, by {limit}. Measured: {peak}")
    above = [r.name for r in results if r.ratios.get("ceiling", 0) > 1]
    if above := [name for name in above if name not in _OTHER_UNITS]:
        lines.append(
            f"Above the ceiling: {', '.join(above)}. The ceiling is the rate of a simple kernel, "
            "measured later" + (
                ", perhaps while others used the machine" if limit == "compute" else
                ". Launches that overlap may share what they read from memory")
        )
    return lines


def passed(results):
    """Return the line that says that no kernel and no library is wrong, or none."""
    right = sum(r.status == "passed" for r in results if not r.version)
    if not right or any(r.status in ("failed", "error") for r in results):
        return []
    others = sum(r.status == "unsupported" for r in results)
    left = f"; {others} unsupported: exit status {UNSUPPORTED}" if others else ""
    return [f"PASSED: every element of {right} kernel{'s' * (right > 1)} is within its bound{left}"]


def by_size(sizes, results):
    """Return the lines of tables kernel x size: rates, and the ratios of them."""

    def ratio(others, form="{:.2f}"):
        def view(result):
            found = [result.ratios[name] for name in others if name in result.ratios]
            return form.format(min(found)) if found else "-"

        return view

    cells = {(r.name, r.problem.size): r for r in results if r.times}
    names = list(dict.fromkeys(r.name for r in results))
    kernels = list(dict.fromkeys(r.name for r in results if r.plan))
    views = {results[0].problem.unit: lambda r: figures(r.gflops)} if results else {}
    # Ratios are to the first kernel at a size. With --kernel best another one may be the first.
    firsts = {r.problem.size: r.name for r in reversed(results) if r.kernel}
    if len(kernels) > 1 and len(set(firsts.values())) == 1:
        views[f"to {kernels[0]}"] = ratio(kernels[:1])
    views["to the best library"] = ratio([r.name for r in results if r.version])
    views["of the ceiling"] = ratio(["ceiling"], "{:.1%}")
    lines = []
    for title, view in views.items():
        shown = kernels if " " in title else names
        rows = [[n, *(view(cells[n, s]) if (n, s) in cells else "-" for s in sizes)] for n in shown]
        if any(set(row[1:]) != {"-"} for row in rows):
            lines += ["", *table.lines([title, *map(str, sizes)], rows)]
    return lines
