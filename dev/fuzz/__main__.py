"""Run the programs of this suite with invalid inputs, and check that each ends as documented.

python -m dev.fuzz                           10,000 inputs, the same for the same --seed
python -m dev.fuzz --inputs 300              a short one, as in CI
python -m dev.fuzz --only archives,records   some targets only

An input is wrong where a program prints a traceback or speaks of something unforeseen, does not end
within its time limit, ends with a status that is not documented, writes outside of its folder, or,
for fab, takes too much memory. Hypothesis draws the inputs, and reduces what is wrong.
"""

import argparse
import os
import sys
import time
from collections import Counter

# What the programs import, once and before the first fork. None of it opens a device.
import fabric.main  # noqa: F401
import numpy  # noqa: F401
import PIL.Image  # noqa: F401
import pyopencl  # noqa: F401
from hypothesis import HealthCheck, Phase, given, seed, settings

import common.cli  # noqa: F401
import report.__main__  # noqa: F401
from dev.fuzz.engine import Box, judge, run, workplace
from dev.fuzz.targets import TARGETS


class Wrong(Exception):
    """An input that a program does not take as it should."""


def main(argv=None):
    args = _options().parse_args(argv)
    chosen = [t for t in TARGETS if args.only is None or t.name in args.only.split(",")]
    if not chosen:
        print(f"no such target, there is: {', '.join(t.name for t in TARGETS)}", file=sys.stderr)
        return 2
    whole = sum(target.share for target in chosen)
    deadline = time.monotonic() + 60 * args.minutes
    wrong = total = 0
    print(f"{'target':<14} {'inputs':>7} {'seconds':>8} {'slowest':>8} {'MiB':>5}  exit statuses")
    for target in chosen:
        count = max(1, args.inputs * target.share // whole)
        with workplace() as root:
            tally = _fuzz(target, count, args.seed, deadline, root)
        total += tally.inputs
        statuses = ", ".join(f"{s}: {n}" for s, n in sorted(tally.statuses.items(), key=str))
        print(f"{target.name:<14} {tally.inputs:>7} {tally.seconds:>8.0f} {tally.slowest:>8.1f} "
              f"{tally.memory:>5.0f}  {statuses}", flush=True)  # fmt: skip
        if tally.wrong:
            wrong += 1
            print(tally.wrong, flush=True)
        if tally.inputs < count and not tally.wrong:
            print(f"    stopped after {args.minutes:g} minutes: {count} were wanted")
    failed = f"{wrong} of {len(chosen)} targets have one that is wrong"
    print(f"{total} inputs with seed {args.seed}: {failed}")
    return 1 if wrong else 0


def _options():
    parser = argparse.ArgumentParser(
        prog="dev.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--inputs", type=int, default=10_000, metavar="N", help="(default %(default)s)")
    add("--seed", type=int, default=1, metavar="N", help="(default %(default)s)")
    add("--minutes", type=float, default=60, metavar="M", help="at most (default %(default)s)")
    add("--only", metavar="NAMES", help=", ".join(target.name for target in TARGETS))
    return parser


class Tally:
    """What became of the inputs of one target."""

    def __init__(self):
        self.inputs, self.seconds, self.slowest, self.memory = 0, 0.0, 0.0, 0.0
        self.statuses, self.wrong = Counter(), None

    def add(self, outcome):
        self.inputs += 1
        self.seconds += outcome.seconds
        self.slowest = max(self.slowest, outcome.seconds)
        self.memory = max(self.memory, outcome.mebibytes)
        self.statuses["none" if outcome.status is None else outcome.status] += 1


def _fuzz(target, count, number, deadline, root):
    tally, last = Tally(), [None]

    @seed(number)
    @settings(max_examples=count, database=None, deadline=None, print_blob=False,
              phases=(Phase.generate, Phase.shrink),
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(target.inputs)
    def each(value):
        if time.monotonic() > deadline:
            return
        box = Box(root)
        try:
            outcome = run(lambda: target.act(value, box.work), box)
        finally:
            box.remove()
        if last[0] is None:  # what comes after the first that is wrong only reduces it
            tally.add(outcome)
        if problem := judge(outcome, target.memory):
            last[0] = f"    WRONG: {problem}\n    input: {value!r:.2000}\n{_quoted(outcome.output)}"
            raise Wrong(problem)

    try:
        each()
    except Exception:  # also a group of several, or a flaky one
        if last[0] is None:
            raise
    tally.wrong = last[0]
    return tally


def _quoted(text):
    return "\n".join(f"    | {line!r}"[:160] for line in text.splitlines()[-30:])


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main())
