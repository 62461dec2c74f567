"""Run a sample at every point of the axes; write the records to a journal.

python -m tools sweep sgemm                                      every kernel in sample.toml
python -m tools sweep sgemm --axis --size 64 256 1024 -- --repeat 9
python -m tools sweep gemmbench --axis -f SGEMM_NN_4x1 SGEMM_NT_4x1 --axis -lws 4,4 8,8
python -m tools sweep mygemm --axis --size 256 512 --random 20 --seed 7      20 points of them

You can stop it at any time, even with SIGKILL: the same command continues. A point is run again if
its options, the sample's code, the device or the driver changed.
"""

from array import array
from pathlib import Path

from common import manifest
from common.arguments import count
from tools import child, command, engine, points
from tools.journal import Journal
from tools.progress import Progress


def options():
    """Return the parser."""
    result = command.parser("sweep", __doc__)
    command.add_sample(result)
    command.add_axis(result)
    add = result.add_argument
    add("--random", type=count(1), metavar="N", help="only N of the points, drawn by --seed")
    add("--seed", type=count(0), default=0, help="seed of --random (default %(default)s)")
    add_journal(result)
    command.add_limit(result, 60)
    return result


def add_journal(result):
    """Add the option that names the journal."""
    result.add_argument(
        "--journal", type=Path, metavar="FILE",
        help="file of records; its points are not run again (default SAMPLE.jsonl)",
    )


def main(argv):
    """Run the points that the journal does not have yet; return the exit status."""
    line = command.parse(options(), argv)
    args, found = line.args, manifest.read(line.args.sample)
    axes = command.all_axes(found, line)
    journal = Journal(args.journal or Path(f"{found.name}.jsonl"))
    plan = Plan(found, axes, line.options, args)
    summary, left = engine.Summary(found), array("Q")
    for number in plan.numbers:
        point = plan.point(number)
        state = journal.state(point.key)
        if state and state.settled(args.limit):
            summary.add(point, state)
        else:
            left.append(number)
    total = len(plan.numbers)
    there = f"{total - len(left)} of them in {journal.path} already"
    print(f"{total} point{'' if total == 1 else 's'}, {there}", flush=True)
    with Progress(len(left)) as progress:
        for point, result in engine.run(found, map(plan.point, left), args.limit, journal):
            summary.add(point, result.state)
            progress.step(f"{point.label}: {engine.line(found, result)}")
    first, *more = summary.lines()
    print(f"{first}: records in {journal.path}", *more, sep="\n")
    return summary.status()


class Plan:
    """The points of a sweep, made one after the other: there may be millions."""

    def __init__(self, found, axes, fixed, args):
        """Take the Manifest, values by option, and the options of every point."""
        self._found, self._axes, self._limit = found, axes, args.limit
        self._fixed = (*usual(found, fixed), *fixed)
        self._many = not points.DEVICE_OPTIONS.isdisjoint(axes)
        self._identities = {}
        self.numbers = points.chosen(axes, args.random, args.seed)

    def point(self, number):
        """Return the Point of a number."""
        words = points.words(points.pair(self._axes, number))
        return self._identity(words).point((*self._fixed, *words), " ".join(words))

    def _identity(self, words):
        """Return what the points of a device have in common: the sample is asked once for each."""
        chosen = points.apart(words)[0] if self._many else ()
        if chosen not in self._identities:
            described = child.describe(self._found.name, (*self._fixed, *words), self._limit)
            self._identities[chosen] = points.Identity(self._found.name, described)
        return self._identities[chosen]


def usual(found, options):
    """Return the options of every run of a tool, by the Manifest, unless one of them is given."""
    given = {word.partition("=")[0] for word in options}
    return () if set(found.tools.point) & given else found.tools.point
