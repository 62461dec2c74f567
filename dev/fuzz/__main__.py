"""Run the programs of this suite with invalid inputs, and check that each ends as documented.

python -m dev.fuzz                           10,000 inputs, the same for the same --seed
python -m dev.fuzz --inputs 300              a short run, as in CI
python -m dev.fuzz --only archives,records   some targets only

An input fails if a program prints a traceback or reports an unforeseen error, does not end within
its time limit, ends with a status that is not documented, writes outside of its folder, or takes
too much memory. Hypothesis draws the inputs, and reduces those that fail.
"""

import os
import sys
import tempfile
from collections import Counter

# What the programs import, once and before the first fork. None of it opens a device.
import numpy  # noqa: F401
import pyopencl  # noqa: F401
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import FlakyFailure

import common.cli  # noqa: F401
from common import programs
from common.arguments import Parser, count
from common.errors import PASSED, WRONG_RESULT, UsageError
from dev.fuzz.engine import judge, run
from dev.fuzz.targets import TARGETS


def main(argv):
    parser = Parser("dev.fuzz", __doc__, None)
    add = parser.add_argument
    add("--inputs", type=count(1), default=10_000, metavar="N", help="(default %(default)s)")
    add("--seed", type=count(0), default=1, metavar="N", help="(default %(default)s)")
    add("--only", metavar="NAMES", help=", ".join(target.name for target in TARGETS))
    args = parser.parse_args(argv)
    chosen = [t for t in TARGETS if args.only is None or t.name in args.only.split(",")]
    if not chosen:
        raise UsageError(f"no such target: choose from {', '.join(t.name for t in TARGETS)}")
    whole = sum(target.share for target in chosen)
    wrong = total = 0
    print(f"{'target':<14} {'inputs':>7} {'seconds':>8} {'slowest':>8}  exit statuses")
    for target in chosen:
        share = max(1, args.inputs * target.share // whole)
        outcomes, problem = _fuzz(target, share, args.seed)
        total += len(outcomes)
        statuses = Counter("none" if status is None else status for status, _ in outcomes)
        shown = ", ".join(f"{s}: {n}" for s, n in sorted(statuses.items(), key=str))
        seconds = [spent for _, spent in outcomes]
        print(f"{target.name:<14} {len(outcomes):>7} {sum(seconds):>8.0f} "
              f"{max(seconds, default=0):>8.1f}  {shown}", flush=True)
        if problem:
            wrong += 1
            print(problem, flush=True)
    failed = f"{wrong} of {len(chosen)} targets have one that is wrong"
    print(f"{total} inputs with seed {args.seed}: {failed}")
    return WRONG_RESULT if wrong else PASSED


def _fuzz(target, most, number):
    """Return (exit status, seconds) of each input of a target, and what is wrong with one of them,
    the smallest that was found, or None."""
    outcomes = []

    @seed(number)
    @settings(max_examples=most, database=None, deadline=None, print_blob=False,
              report_multiple_bugs=False, suppress_health_check=list(HealthCheck),
              phases=(Phase.generate, Phase.shrink))
    @given(target.inputs)
    def each(value):
        outcome = run(lambda work: target.act(value, work), root)
        outcomes.append((outcome.status, outcome.seconds))
        if problem := judge(outcome):
            said = [f"    | {line!r}"[:160] for line in outcome.output.splitlines()[-30:]]
            lines = f"    WRONG: {problem}", f"    input: {value!r:.2000}", *said
            raise AssertionError("\n".join(lines))

    try:
        with tempfile.TemporaryDirectory(prefix="opencl-fuzz-") as root:
            each()
    except AssertionError as error:
        return outcomes, str(error)
    except FlakyFailure as group:  # wrong, but not when it is tried again
        return outcomes, str(group.exceptions[0])
    return outcomes, None


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(programs.run("dev.fuzz", main, sys.argv[1:]))
