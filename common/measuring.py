"""Measure a kernel whose result is right: repeats or a duration, clocks held, energy."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from common import flush, sustained, timing
from common.arguments import count, positive
from common.machine import cores, power, state
from common.record import RATES
from common.timing import Timing

MOST_RUNS = 100_000  # of a kernel: a record keeps the times of each
_LONG = 10  # seconds that a person wants to know of before
MOST_SECONDS = 100_000  # of --duration: a day and some hours


def add_options(group):
    """Add the options that say how long, at which clocks, and what beside the time is measured."""
    add = group.add_argument
    for name, least, usual, what in (("--repeat", 1, 5, "timed runs"),
                                     ("--warmup", 0, 1, "runs before them")):
        add(name, type=count(least, MOST_RUNS), default=usual, metavar="N",
            help=f"{what} (default %(default)s)")
    add("--caches", choices=flush.CACHES, default="warm",
        help="flushed: overwrite the caches before each timed run (default %(default)s)")
    add("--duration", type=count(1, MOST_SECONDS), metavar="SECONDS",
        help="run one kernel back to back for this time, instead of --repeat")
    add("--pin", nargs="?", const="max", type=_frequency, metavar="MHZ", help="fix all clocks at "
        "their maximum, the device's at MHZ if given; restored at the end")
    add("--energy", action="store_true", help="measure the energy of a launch as well")


def _frequency(text):
    return "max" if text == "max" else f"{positive(text):g}"


def plan(args, once_s=0):
    """Return the text of how often the kernel will be launched, and, if it is long, for how long.

    `once_s` is how many seconds a launch took.
    """
    if args.duration:
        return f"Launches: {args.warmup} warm-up, timed for {args.duration} s"
    seconds = once_s * (args.warmup + args.repeat)
    long = f": about {seconds:.0f} s" if seconds >= _LONG else ""
    return f"Launches: {args.warmup} warm-up, {args.repeat} timed{long}"


@dataclass(frozen=True)
class Measured:
    """The Timing, None where there is none, and what a record keeps of it and of the machine.

    `rate` is the line on the rate; `sustained` and `energy` are lines on the metrics of that name.
    """

    times: Timing | None = None
    machine: dict = field(default_factory=dict)
    metrics: dict = field(default_factory=dict)
    rate: str = ""
    sustained: list = field(default_factory=list)
    energy: list = field(default_factory=list)

    @property
    def timing(self):
        """What a record keeps of the Timing."""
        return asdict(self.times) if self.times else {}

    def lines(self, verbose=False):
        """Return all that a person reads."""
        lines = [*self.times.lines(verbose), self.rate] if self.times else []
        changed = state.told(self.machine.get("throttled", []))
        if changed and not self.sustained:  # which says it
            lines.append(f"{'Throttled:':<16}{changed}")
        return [*lines, *self.sustained, *(f"{'Energy:':<16}{line}" for line in self.energy)]


def measure(args, about, enqueue, unit, amount, between=lambda: None, **metrics):
    """Warm up, and time a kernel: --repeat launches, or --duration; then its energy for --energy.

    `enqueue` launches it once, and returns its event or those of its steps. `amount` of the `unit`
    is what a launch does; `metrics` are more of them for the record. `between` is called before
    each of the repeats: see common/flush.py. Where --duration is ended early, cli.save() records
    that and then raises what ended it.
    """
    lines = []
    timing.settle()  # after a reference by numpy
    if args.duration:
        with cores.beside_workers():
            run = sustained.run(enqueue, args.duration, args.warmup, args.sysfs)
        times = run.times
        metrics["sustained"], machine = sustained.summary(run, amount, RATES[unit], about["type"])
        lines = sustained.lines(metrics["sustained"])
        args.ended = run.error and (run.error, run.reason)
    else:
        watch = state.Watch(args.sysfs)
        with cores.beside_workers():
            times = timing.measure(
                enqueue, args.repeat, args.warmup, lambda: (watch.look(), between()))
        machine = watch.end()
    more, energy = _energy(args, lambda: timing.wait(enqueue()), unit, amount)
    metrics.update({unit: times.rate(amount).median, **more})
    rate = times.rate_line(RATES[unit], amount, "parts" if args.duration else "")
    return Measured(times, machine, metrics, rate, lines, energy)


def alone(args, about, launch, finish, unit, amount):
    """Measure by itself what is else timed beside others: for --duration, or its energy only.

    `launch` enqueues it and returns the events of its steps; `finish` waits for its end.
    """
    if args.duration:
        return measure(args, about, launch, unit, amount)
    metrics, lines = _energy(args, lambda: (launch(), finish()), unit, amount)
    return Measured(metrics=metrics, energy=lines)


def _energy(args, work, unit, amount):
    """Return what --energy adds to a record's metrics, and the lines on it; maybe nothing."""
    if not args.energy or args.ended:
        return {}, []
    found = power.measure(work, amount, unit, tree=args.sysfs)
    return {"energy": found}, power.lines(found, unit, RATES[unit])
