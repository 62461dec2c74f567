"""What became of each kernel and peer: its status, its ratios, and its record."""

from contextlib import contextmanager
from dataclasses import asdict

import measure
import pyopencl as cl

from common import cli, gemm, record
from common.errors import OPENCL_FAILURE, PASSED, WRONG_RESULT, SampleError, outcome, worst
from common.record import Record

_OPTIONS = ("precision", "alpha", "beta", "data", "seed")


class Result:
    """What became of one kernel (`gemm`, a runner.Gemm) or one peer (`version`) at one size.

    `times` is its Timing, each of a measure.Turn, `turn`. `ratios` says how many times as fast
    as others it was, and which share of the ceiling it reached. A kernel that crashed the driver,
    as `progress` knows, has its record.
    """

    def __init__(self, problem, name, progress):
        self.problem, self.name = problem, name
        self._progress, self._unit = progress, (name, str(problem.size))
        self.gemm = self.version = self.bar = self.check = self.output = self.times = None
        self.status, self.reason, self.exit_status, self.ratios = "passed", None, PASSED, {}
        self.turn = measure.Turn(1, 1)
        self._crashed = self._recorded = self._unit in progress.crashed
        if self._crashed:
            self.status, self.reason = "error", progress.crashed[self._unit]
            self.exit_status = OPENCL_FAILURE

    def at(self, doing):
        """Note that this one is at work: if the process dies now, it was this one."""
        variant, size = self._unit
        self._progress.at(variant, doing, size)

    @contextmanager
    def going_on(self, alone=False, queue=None):
        """Take over what went wrong in the block, and let the others go on.

        With `alone` there are no others: it goes through. Where `queue` does not answer after an
        error, this process ends, and the others go on in another one.
        """
        try:
            yield
        except (SampleError, cl.Error) as error:
            if isinstance(error, cl.Error) and queue is not None:
                self._progress.require_alive(queue, error)
            if alone:
                raise
            if log := getattr(error, "log", None):  # of the compiler
                print(log)
            self.exit_status, self.status, self.reason = outcome(error)

    def require_no_error(self):
        """Raise what ended the turns of the bar, if anything did."""
        if self.bar and self.bar.error:
            raise self.bar.error

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
        """Return the median, lowest and highest rate in GFLOPS."""
        return self.times.rate(self.problem.size.flop() / 1e9)

    def release(self):
        """Let go of C, and of the buffers of a library: there may be further sizes to come."""
        self.bar = self.output = None

    def compare(self, others, ceiling):
        """Note the ratios to other Results that have times, and to the Ceiling, if it is known."""
        if self.times is None:
            return
        self.ratios = {o.name: measure.ratio(self.times, o.times) for o in others if o.times}
        if ceiling is not None:
            self.ratios["ceiling"] = self.gflops / ceiling.gflops

    def save_checked(self, args, inputs, about):
        """Append what is known so far, so that it is on the disk when another kernel starts.

        The record that follows when the kernel was timed takes the place of this one.
        """
        if self.status == "passed" and not args.check_only:
            self.status, self.reason = "error", record.UNFINISHED
            self.save(args, inputs, about, None)
            self.status, self.reason = "passed", None
        elif not self._crashed:
            self.save(args, inputs, about, None)
            self._progress.done(*self._unit)
            self._recorded = True

    def save(self, args, inputs, about, peak, more=None):
        """Append the record; `peak` is the Peak that was measured, or None, `more` parameters."""
        if self._recorded:
            return
        problem = self.problem
        params = cli.parameters(args, *_OPTIONS) | {"size": str(problem.size)}
        params |= dict(zip(("lda", "ldb", "ldc"), problem[2:]))
        if self.gemm:
            params |= self.gemm.params
            params["local"] = "x".join(map(str, self.gemm.plan.local_size))
        if self.version:
            params["peer"] = self.version
        params |= more or {}
        timing, metrics = {}, {}
        if self.times:
            timing = asdict(self.times) | self.turn._asdict()
            metrics = gemm.metrics(problem.size, self.times) | {"ratios": self.ratios}
        if self.times and peak:
            metrics["peak_gflops"] = peak.gflops
            metrics["peak_gbytes_per_s"] = peak.gbytes_per_s
            metrics["near_gbytes_per_s"] = peak.near_gbytes_per_s
            metrics["ceiling_gflops"] = peak.ceiling(problem, args.beta).gflops
        cli.save(args, Record(
            "mygemm", self.name, self.status, self.reason, params=params, device=about,
            environment=cli.environment(), timing=timing,
            metrics=metrics, check=self.check.values(inputs, self.output) if self.check else {},
        ), self.output if self.gemm and self.reason != record.UNFINISHED else None)  # fmt: skip


def exit_status(results):
    """Return the exit status that counts most among those of the Results."""
    return worst(r.exit_status for r in results)
