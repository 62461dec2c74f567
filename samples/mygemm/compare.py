"""The results of kernels and baseline libraries: status, ratios, records, tables."""

from argparse import SUPPRESS
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from statistics import median

import numpy as np
import plans
import pyopencl as cl

from common import cli, gemm, interleaved, libraries, measuring, record, steps, table
from common.arguments import count
from common.constraints import options
from common.errors import PASSED, WRONG_RESULT, SampleError, UsageError
from common.program import report
from common.record import Record
from common.text import figures, milliseconds

_OPTIONS = ("precision", "alpha", "beta", "data", "seed")
# The ceiling is that of plain multiplications.
_OTHER_UNITS = ("14_matrix_units", "15_warpgroups", "cublas")


def add_options(parser):
    """Add the options that say what is timed beside the kernels, and how."""
    add = parser.add_argument
    names = ", ".join(libraries.NAMES)
    add("--libraries", type=libraries.parse, default="all", metavar="NAMES",
        help=f"comma-separated: {names}; or all (default), none")
    add("--peers", dest="libraries", type=libraries.parse, default=SUPPRESS, help=SUPPRESS)
    add("tool", nargs="?", type=_moved, help=SUPPRESS)
    add("--blas", metavar="FILE",
        help="one more library with the CBLAS interface: libopenblas.so.0, ...")
    add("--in-flight", type=count(1, 10_000), metavar="N",
        help="launches per sample (default: several if they are short)")
    add("--queues", type=count(1, 64), metavar="N",
        help="command queues for these launches (default: 1; on a CPU one per core, up to 8)")


def _moved(word):
    """Refuse a word; those that were commands here are tools now."""
    tools = {"inspect": "python -m tools inspect mygemm", "tune": "fab sweep mygemm --kernel N"}
    if word in tools:
        raise UsageError(f"{word} is a tool now: {tools[word]}")
    raise UsageError(f"unrecognized argument: {word}; see --help")


class Result:
    """What became of one kernel (`built`) or one library (`version`) at one size.

    `times` is its Timing, each of `launches`. `ratios` says how many times as
    fast as others it was, and which share of the ceiling it reached. A kernel that crashed the
    driver, as the progress knows, has its record. `steps` names the launches of a GEMM.
    """

    def __init__(self, problem, name, progress, kernel=None, given=None):
        """Start with a `kernel` and the parameters `given` for it, or with a library."""
        self.problem, self.name, self.kernel, self.given = problem, name, kernel, given
        self._progress, self._unit = progress, (name, str(problem.size))
        self.built = self.version = self.contender = self.check = self.output = self.times = None
        self.status, self.reason, self.exit_status, self.ratios = "passed", None, PASSED, {}
        self.launches, self.made = interleaved.Launches(1, 1), {}
        self.steps = []
        self.found = None  # what measuring.alone() found
        self._crashed = self._recorded = self._unit in progress.crashed
        if self._crashed:
            self.status, self.reason = "error", progress.crashed[self._unit]

    def at(self, doing):
        """Note that this one is at work: if the process dies now, it was this one."""
        variant, size = self._unit
        self._progress.at(variant, doing, size)

    @contextmanager
    def going_on(self, alone=False, queue=None):
        """Take over what went wrong in the block, and let others go on: see Progress.survive()."""
        try:
            yield
        except (SampleError, cl.Error) as error:
            self.exit_status, self.status, self.reason = self._progress.survive(
                error, queue, alone)

    def checked(self, check, output):
        """Take over a Check, and the C that it was made of."""
        self.check, self.output = check, output
        if check.reason:
            self.status, self.reason, self.exit_status = "failed", check.reason, WRONG_RESULT

    @property
    def gflops(self):
        """The median rate, by the device's clock where there is one; None without times."""
        return self.times and self.rates()[0]

    def rates(self):
        """Return the rate in the problem's unit: median, 10th and 90th percentile."""
        rate = self.times.rate(self.problem.flop() / 1e9)
        return rate.median, rate.low, rate.high

    def save_checked(self, args, inputs, about):
        """Append what is known so far, so that it is on the disk when another kernel starts.

        The record that follows when the kernel was timed takes the place of this one.
        """
        if self.status == "passed" and not args.check_only:
            self.save(args, inputs, about, None, unfinished=True)
        elif not self._crashed:
            self.save(args, inputs, about, None)
            self._progress.done(*self._unit)
            self._recorded = True

    def save(self, args, inputs, about, peak, unfinished=False):
        """Append the record; `peak` is the Peak that was measured, or None."""
        if self._recorded:
            return
        problem, status, reason = self.problem, self.status, self.reason
        if unfinished:
            status, reason = "error", record.UNFINISHED
        params = {**cli.parameters(args, *_OPTIONS), "size": str(problem.size)}
        params.update(zip(("lda", "ldb", "ldc"), problem.leading))
        if problem.batch > 1:
            params["batch"] = problem.batch
        if self.built:
            params.update(self.built.plan.params)
            params["local"] = "x".join(map(str, self.built.plan.local_size))
        if self.version:
            params["library"] = self.version
        timing, metrics = self.made.get("timing", {}), self.made.get("metrics", {})
        found = self.found or measuring.Measured()
        if self.times:
            timing = {**asdict(self.times), **self.launches._asdict()}
            metrics = gemm.metrics(problem, self.times, problem.unit)
            metrics = {**found.metrics, **metrics, "ratios": self.ratios}
        if self.times and peak:
            metrics["peak_gflops"] = peak.gflops
            metrics["peak_gbytes_per_s"] = peak.gbytes_per_s
            metrics["near_gbytes_per_s"] = peak.near_gbytes_per_s
            metrics["ceiling_gflops"] = peak.ceiling(problem.size, problem.dtype, args.beta).gflops
        cli.save(args, Record(
            "mygemm", self.name, status, reason, params=params, device=about,
            environment={**cli.environment(args.sysfs), **found.machine}, timing=timing,
            metrics=metrics, check=self.check.values(inputs, self.output) if self.check else {},
        ), self.output if self.built and not unfinished else None)


def started(args, problem, picked):
    """Return a Result for each (kernel, parameters) of `picked` that is left after a crash."""
    size = str(problem.size)
    picked = [pair for pair in picked if not args.progress.is_done(pair[0].label, size)]
    if len(picked) == len(args.size) == 1:
        args.progress.single()
    return [Result(problem, pair[0].label, args.progress, *pair) for pair in picked]


def build_only(args, queue, limits, about, results):
    """Build the kernel of each Result; record what the driver made of it."""
    for result in results:
        if result.status == "passed":
            with result.going_on(len(results) == 1, queue):
                result.at("building")
                given = result.kernel, result.given, result.problem
                result.built = plans.build_kernel(queue, limits, *given)
                result.made = report(result.name, cl.Kernel(result.built.program, "gemm"))
                for name, kernel in steps.others(result.built).items():
                    made = report(f"{result.name} {name}", kernel)["metrics"]
                    result.made["metrics"].setdefault("others", {})[name] = made
                result.status = "built"
        if result.reason:
            print(f"{result.name}: {result.status}: {result.reason}", flush=True)
        result.save_checked(args, None, about)


def prepare(args):
    """Return the Cblas of --blas, or None; say where others use this machine."""
    if args.caches == "flushed" and (args.in_flight or args.queues):
        raise UsageError("--caches flushed times each launch alone: omit --in-flight and --queues")
    if busy := interleaved.busy():
        print(busy)
    return None if args.blas is None else libraries.cblas(args.blas)


def beside(args, results, expected, stream, blas):
    """Add a Result for each library that is here, checked; return why the others are not.

    With --duration there is none: a library is no launch that could follow another at once.
    """
    if args.duration:
        return {}
    device, inputs = stream.queue.device, expected.inputs
    found, missing = libraries.find(args.libraries, device, inputs, blas, args.caches)
    for library in found:
        result = Result(stream.problem, library.name, args.progress)
        results.append(result)
        result.version, result.contender = library.version, library
        if result.status != "passed":
            continue
        with result.going_on():
            result.at("running")
            stream.write(*expected.inputs[:2], np.nan)  # C is not the result of a kernel
            library.launcher(stream)()
            library.finish([stream])
            product = library.result(stream)
            check = expected.product().check(product, stream.problem.size.K, stream.intact())
            result.checked(check, product)
            library.rest()
    return missing


def measure(args, results, stream, about):
    """Warm up and time the Results that passed, interleaved or for --duration; then the energy."""
    timed = [result for result in results if result.status == "passed"]
    for result in timed:
        result.contender.announce = partial(result.at, "timing")
    if not args.duration:
        times, launches = interleaved.measure(
            [result.contender for result in timed], stream, args.repeat, args.warmup,
            args.in_flight, args.queues, args.caches,
        )
        for result in timed:
            result.times, result.launches = times.get(result.name), launches[result.name]
            with result.going_on(alone=len(results) == 1):
                if result.contender.error:
                    raise result.contender.error
    for result in timed:
        if args.duration or (args.energy and result.times):
            result.contender.announce()
            with result.going_on(alone=len(results) == 1):
                launch, gflop = result.contender.launcher(stream), result.problem.flop() / 1e9
                end = partial(result.contender.finish, [stream])
                result.found = measuring.alone(args, about, launch, end, "gflops", gflop)
                result.times = result.times or result.found.times
                print(result.name, *result.found.lines(), sep="\n    ", flush=True)


def compare(args, results, peak):
    """Note the ratios of each Result to the first with times, the libraries and the ceiling."""
    timed = [r for r in results if r.times]
    compared = [r for r in timed if r is timed[0] or r.version]
    for result in timed:
        pairs = ((other.name, interleaved.ratio(result.times, other.times)) for other in compared)
        result.ratios = dict(pairs)
        if peak:
            problem = result.problem
            ceiling = peak.ceiling(problem.size, problem.dtype, args.beta)
            result.ratios["ceiling"] = result.gflops / ceiling.gflops


# What is printed: plain text, in columns.


def chosen(plan):
    """Return the lines that say how a kernel is launched, and why not with its defaults."""
    local = " x ".join(map(str, plan.local_size))
    line = f"{plan.kernel.label}: {options(plan.params)}, work-groups of {local}"
    if plan.local_bytes:
        line += f", {plan.local_bytes} bytes of local memory"
    return [line, *([f"    not with the defaults: {plan.why}"] if plan.why else [])]


def show(args, results, missing, peak):
    """Print what became of the Results of one size, and let go of the device's memory."""
    lines = ["", *rates_table(results), *remarks(results, missing, peak, args), *passed(results)]
    print("\n".join(lines), flush=True)
    for result in results:
        result.contender = result.output = None


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
    count = len(timed[0].times.host_s)
    head = [f"median of {count}", "time", timed[0].problem.unit, "10 %", "90 %"]
    short = {r.name: r.name.split("_")[0] if r.built else r.name for r in compared}
    head += [f"to {short[r.name]}{marks[r.name]}" for r in compared]
    head += ["of ceiling", "error/bound"]
    rows = []
    for r in results:
        if r.times is None:
            rows.append([r.name, r.status, *[""] * (len(head) - 3), error(r)])
            continue
        seconds = r.problem.flop() / 1e9 / r.gflops
        ratios = [f"{r.ratios[o.name]:.2f}" for o in compared]
        share = f"{r.ratios['ceiling']:.1%}" if "ceiling" in r.ratios else "-"
        rows.append(
            [r.name, milliseconds(seconds), *map(figures, r.rates()), *ratios, share, error(r)]
        )
    notes = []
    if best in compared:
        notes = [
            f"* {best.version}, the best library here",
            f"Times of kernels are by the {_clock(timed)}'s clock, of libraries by the host's.",
            "Ratios are medians over the rounds, by the host's clock, which includes launching.",
        ]
    others = {r.name for r in timed if r.version}
    made = interleaved.remarks({r.name: r.launches for r in timed}, others)
    return [*table.lines(head, rows), *notes, *made]


def _clock(results):
    """Return whose clock gave the times of the kernels: the device's, if its driver has one."""
    times = [r.times for r in results if r.built]
    return "device" if all(each.seconds() is each.run_s for each in times) else "host"


def error(result):
    """Return the largest error relative to its bound."""
    return f"{result.check.error_over_bound:.2g}" if result.check else "-"


def remarks(results, missing, peak, args):
    """Return the lines below the table: what ended or split the runs, libraries, and the ceiling.

    With --verbose each time that was taken as well.
    """
    lines = []
    for r in results:
        if r.reason:
            lines.append(f"{r.name}: {r.status.upper()}: {r.reason}")
        elif r.built and r.contender and r.contender.steps and len(r.steps) > 1:
            parts = [
                f"{what} {milliseconds(median(times))}"
                for what, times in zip(r.steps, zip(*r.contender.steps))
            ]
            alone = ", alone" if r.launches.queues > 1 else ""
            lines.append(f"{r.name}{alone}: {', '.join(parts)}")
        if r.times and args.verbose:
            lines.append(f"{r.name}, each time: {' '.join(map(milliseconds, r.times.seconds()))}")
            if r.times.seconds() is not r.times.host_s:
                host = " ".join(map(milliseconds, r.times.host_s))
                lines.append(f"{r.name}, by the host's clock: {host}")
    lines += [f"{name} was not measured: {reason}" for name, reason in missing.items() if reason]
    if peak:
        problem = results[0].problem
        ceiling = peak.ceiling(problem.size, problem.dtype, args.beta)
        lines.append(f"Ceiling: {ceiling}. Measured: {peak}")
    above = [r.name for r in results if r.ratios.get("ceiling", 0) > 1]
    if above := [name for name in above if name not in _OTHER_UNITS]:
        lines.append(
            f"Above the ceiling: {', '.join(above)}. The ceiling was measured later, when this "
            "device was slower"
        )
    return lines


def passed(results):
    """Return the line that says that no kernel and no library is wrong, or none."""
    right = sum(r.status == "passed" for r in results if not r.version)
    if not right or any(r.status in ("failed", "error") for r in results):
        return []
    return [f"PASSED: every element of {right} kernel{'s' * (right > 1)} is within its bound"]


def by_size(sizes, results):
    """Return the lines of tables kernel x size: rates, and the ratios of them."""
    cells = {(r.name, r.problem.size): r for r in results}
    names = list(dict.fromkeys(r.name for r in results))
    kernels = [n for n in names if any(cells[n, s].built for s in sizes if (n, s) in cells)]
    others = [r.name for r in results if r.version]
    views = {results[0].problem.unit: lambda r: figures(r.gflops)} if results else {}
    if len(kernels) > 1:
        views[f"to {kernels[0]}"] = lambda r: _ratio(r, kernels[:1])
    views["to the best library"] = lambda r: _ratio(r, others)
    views["of the ceiling"] = lambda r: f"{r.ratios['ceiling']:.1%}"
    lines = []
    for title, view in views.items():
        shown = kernels if " " in title else names
        rows = [[n, *(_cell(cells.get((n, s)), view) for s in sizes)] for n in shown]
        if any(set(row[1:]) != {"-"} for row in rows):
            lines += ["", *table.lines([title, *map(str, sizes)], rows)]
    return lines


def _ratio(result, names):
    return f"{min(result.ratios[name] for name in names if name in result.ratios):.2f}"


def _cell(result, view):
    try:
        return view(result) if result and result.times else "-"
    except (KeyError, ValueError):  # nothing to compare with
        return "-"
