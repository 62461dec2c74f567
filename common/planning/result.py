"""What became of a kernel or a library at one size: status, reason, times, ratios, its record."""

from contextlib import contextmanager
from dataclasses import asdict

from common import cli, gemm, interleaved, measuring, record
from common.errors import PASSED, WRONG_RESULT
from common.record import Record

_OPTIONS = ("precision", "alpha", "beta", "data", "seed")


class Result:
    """What became of one kernel (`given` parameters) or one library (`version`) at one size.

    `times` is its Timing, each of `launches`. `ratios` says how many times as fast as others it
    was, and which share of the ceiling it reached. One that is `past`, before a driver crashed, as
    the progress knows, has its record.
    """

    def __init__(self, problem, name, run, kernel=None, given=None):
        """Start with a `kernel` and the parameters `given` for it, or with a library.

        `run` has the `args`, the `queue` and `about`.
        """
        self.problem, self.name, self.kernel, self.given = problem, name, kernel, given
        self._run, self._unit, self._progress = run, (name, str(problem.size)), run.args.progress
        self.plan = self.launcher = self.version = self.contender = None
        self.check = self.output = self.times = None
        self.status, self.reason, self.exit_status, self.ratios = "passed", None, PASSED, {}
        self.launches, self.made = interleaved.Launches(1, 1), {}
        self.steps = []  # the names of the launches of a GEMM
        self.found = measuring.Measured()  # by measuring.alone()
        self.machine = {}  # its state during the rounds
        self.past = self._progress.past(*self._unit)
        if self.past:
            self.status, self.reason = self.past

    def at(self, doing):
        """Note that this one is at work: if the process dies now, it was this one."""
        variant, size = self._unit
        self._progress.at(variant, doing, size)

    @contextmanager
    def going_on(self):
        """Take over an error of the block, and let others go on."""
        try:
            yield
        except interleaved.FAILURES as error:
            self.failed(error)

    def failed(self, error):
        """Take over the error of this one while it is at work: see Progress.survive()."""
        self.exit_status, self.status, self.reason = self._progress.survive(
            error, self._run.queue)

    def built(self, plan):
        """Take over the Plan by which the kernel is built, and print it: it runs next."""
        self.plan = plan
        self.at("running")
        print("\n".join(plan.lines()), flush=True)

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

    def save_checked(self, inputs):
        """Append what is known so far, so that it is on the disk when another kernel starts.

        The record that follows when the kernel was timed takes the place of this one.
        """
        if self.status == "passed" and not self._run.args.check_only:
            self.save(inputs, None, unfinished=True)
        elif not self.past:
            self.save(inputs, None)
            self.past = self.status, self.reason
            self._progress.done(*self._unit, *self.past)

    def save(self, inputs, peak, unfinished=False):
        """Append the record; `peak` is the Peak that was measured, or None."""
        if self.past:
            return
        args, problem, status, reason = self._run.args, self.problem, self.status, self.reason
        if unfinished:
            status, reason = "error", record.UNFINISHED
        params = {**cli.parameters(args, *_OPTIONS), "size": str(problem.size)}
        params.update(zip(("lda", "ldb", "ldc"), problem.leading))
        if problem.batch > 1:
            params["batch"] = problem.batch
        # As asked for, another measurement; what is chosen for each run is in the timing only.
        asked = {name: vars(args).get(name) for name in interleaved.Launches._fields}
        params.update((name, count) for name, count in asked.items() if count)
        if self.plan:
            params.update(self.plan.params)
            params["local"] = "x".join(map(str, self.plan.local_size))
        if self.version:
            params["library"] = self.version
        timing, metrics = self.made.get("timing", {}), self.made.get("metrics", {})
        if self.times:
            timing = {**asdict(self.times), **self.launches._asdict()}
            metrics = gemm.metrics(problem, self.times, problem.unit)
            metrics = {**self.found.metrics, **metrics, "ratios": self.ratios}
        if self.times and peak:
            metrics["peak_gflops"] = peak.gflops
            metrics["peak_gbytes_per_s"] = peak.gbytes_per_s
            metrics["near_gbytes_per_s"] = peak.near_gbytes_per_s
            metrics["ceiling_gflops"], _ = peak.ceiling(problem.size, problem.dtype, args.beta)
        cli.save(args, Record(
            args.sample, self.name, status, reason, params=params, device=self._run.about,
            environment={**cli.environment(args.sysfs), **self.machine, **self.found.machine},
            timing=timing,
            metrics=metrics, check=self.check.values(inputs, self.output) if self.check else {},
        ), self.output if self.plan and not unfinished else None)
