"""Run the programs of this suite with invalid inputs, and check that each ends as documented.

python -m dev.fuzz                           10,000 inputs, the same for the same --seed
python -m dev.fuzz --inputs 300              a short one, as in CI
python -m dev.fuzz --only archives,records   some targets only

An input is wrong where a program prints a traceback or speaks of something unforeseen, does not end
within its time limit, ends with a status that is not documented, writes outside of its folder, or,
for fab, takes too much memory. Hypothesis draws the inputs, and reduces what is wrong.
"""

import os
import sys
import time
from collections import Counter
from dataclasses import replace

# What the programs import, once and before the first fork. None of it opens a device.
import numpy  # noqa: F401
import pyopencl  # noqa: F401
from hypothesis import HealthCheck, Phase, given, seed, settings

import common.cli  # noqa: F401
from common import programs
from common.arguments import Parser, count, positive
from common.errors import PASSED, WRONG_RESULT, UsageError
from dev.fuzz.engine import Box, judge, run, workplace
from dev.fuzz.targets import TARGETS


def main(argv):
    args = _options().parse_args(argv)
    chosen = [t for t in TARGETS if args.only is None or t.name in args.only.split(",")]
    if not chosen:
        raise UsageError(f"no such target: choose from {', '.join(t.name for t in TARGETS)}")
    whole = sum(target.share for target in chosen)
    deadline = time.monotonic() + 60 * args.minutes
    wrong = total = 0
    print(f"{'target':<14} {'inputs':>7} {'seconds':>8} {'slowest':>8} {'MiB':>5}  exit statuses")
    for target in chosen:
        share = max(1, args.inputs * target.share // whole)
        with workplace() as root:
            outcomes, problem = _fuzz(target, share, args.seed, deadline, root)
        total += len(outcomes)
        statuses = Counter("none" if o.status is None else o.status for o in outcomes)
        shown = ", ".join(f"{s}: {n}" for s, n in sorted(statuses.items(), key=str))
        seconds = [outcome.seconds for outcome in outcomes]
        memory = max((outcome.mebibytes for outcome in outcomes), default=0)
        print(f"{target.name:<14} {len(outcomes):>7} {sum(seconds):>8.0f} "
              f"{max(seconds, default=0):>8.1f} {memory:>5.0f}  {shown}", flush=True)
        if problem:
            wrong += 1
            print(problem, flush=True)
        elif len(outcomes) < share:
            print(f"    stopped after {args.minutes:g} minutes: {share} were wanted")
    failed = f"{wrong} of {len(chosen)} targets have one that is wrong"
    print(f"{total} inputs with seed {args.seed}: {failed}")
    return WRONG_RESULT if wrong else PASSED


def _options():
    parser = Parser("dev.fuzz", __doc__, None)
    add = parser.add_argument
    add("--inputs", type=count(1), default=10_000, metavar="N", help="(default %(default)s)")
    add("--seed", type=count(0), default=1, metavar="N", help="(default %(default)s)")
    add("--minutes", type=positive, default=60, metavar="M", help="at most (default %(default)s)")
    add("--only", metavar="NAMES", help=", ".join(target.name for target in TARGETS))
    return parser


def _fuzz(target, most, number, deadline, root):
    """Return the Outcomes of a target's inputs, and what is wrong with the last one, or None."""
    outcomes, problems = [], []

    @seed(number)
    @settings(max_examples=most, database=None, deadline=None, print_blob=False,
              phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck))
    @given(target.inputs)
    def each(value):
        if time.monotonic() > deadline:
            return
        box = Box(root)
        try:
            outcome = run(lambda: target.act(value, box.work), box)
        finally:
            box.remove()
        if not problems:  # what comes after the first that is wrong only reduces it
            outcomes.append(replace(outcome, output=""))
        if problem := judge(outcome, target.memory):
            said = [f"    | {line!r}"[:160] for line in outcome.output.splitlines()[-30:]]
            lines = f"    WRONG: {problem}", f"    input: {value!r:.2000}", *said
            problems.append("\n".join(lines))
            raise AssertionError(problem)

    try:
        each()
    except Exception:  # also a group of several, or a flaky one
        if not problems:
            raise
    return outcomes, problems[-1] if problems else None


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(programs.run("dev.fuzz", main, sys.argv[1:]))
