"""Search for the best parameters of a kernel, and store them for the sample.

python -m tools tune mygemm --kernel 6                  every legal combination
python -m tools tune mygemm --kernel 6 --budget 50      50 of them
python -m tools tune mygemm --kernel 12 -- --size 512 --precision double --KC 64     KC is given
python -m tools tune mygemm --kernel 6 --axis --TSM 32 64 --axis --PAD 0     these values only
python -m tools tune gemm_intel --kernel nt -- -s 1024
python -m tools tune mygemm --kernel 24 --gpu mali-g52                   for a GPU that is not here

Each combination is a point, as in a sweep: it runs in a process of its own, is checked, then timed,
and recorded in the journal. So the same command continues after a stop. Then the best five and the
default are run again, interleaved. The one with the best ratio to the default wins.
With --gpu each combination is built for a Mali GPU by Mesa's compiler, on an emulated board. The
one wins that takes the fewest cycles for a multiply-add, by the compiler's static model.
"""

import random
from dataclasses import replace
from itertools import islice
from pathlib import Path
from statistics import median

from common import constraints, manifest, record, table, tuned
from common.arguments import count, positive
from common.errors import PASSED, OpenCLFailure, UsageError
from tools import child, command, engine, gpus, points, sweep
from tools.journal import Journal
from tools.progress import Progress

_FINALISTS = 5
_LIMIT = 60  # seconds for a point
_MOST = 1_000_000  # choices of parameters


def options():
    """Return the parser."""
    result = command.parser("tune", __doc__)
    command.add_sample(result)
    command.add_axis(result, "each parameter of the kernel, and the values that it names")
    add = result.add_argument
    add("--kernel", metavar="NAME", help="name of the kernel, or the value that its option takes")
    add("--budget", type=count(1), metavar="N",
        help="number of combinations to try, drawn by --seed (default: all)")
    add("--seed", type=count(0), default=0, help="seed of --budget (default %(default)s)")
    add("--rounds", type=count(1), default=5, metavar="N",
        help="interleaved rounds of the best at the end (default %(default)s)")
    add("--tuned", type=Path, metavar="FOLDER", help="where to store the best (default: where the "
        "sample looks for it)")
    add("--gpu", metavar="GPU", help="choose by the compiler's model of this GPU: mali-g52, ...")
    sweep.add_journal(result)
    add("--limit", type=positive, metavar="S",
        help=f"time limit of a point in seconds (default {_LIMIT}; with --gpu {gpus.LIMIT})")
    return result


def main(argv):
    """Search, run the best again, store the winner; return the exit status."""
    line = command.parse(options(), argv)
    args, found = line.args, manifest.read(line.args.sample)
    args.limit = args.limit or (gpus.LIMIT if args.gpu else _LIMIT)
    if args.gpu:
        return _by_model(found, line)
    given = (*sweep.usual(found, line.options), *line.options)
    described = child.describe(found.name, given, args.limit)
    search = Search(found, described, line, given)
    journal = Journal(args.journal or Path(f"{found.name}.jsonl"))
    plan = search.plan(args.budget, args.seed)
    where = f"{search.name} on {described.device['name']}"
    print(f"{where}: {len(plan)} combinations of its parameters", flush=True)
    results = []
    with Progress(len(plan)) as progress:
        for point, result in engine.run(found, plan, args.limit, journal):
            progress.step(f"{point.label}: {engine.line(found, result)}")
            if result.state.metric is not None:
                results.append((result.state.metric, point))
    print(f"{len(results)} of {len(plan)} combinations passed: records in {journal.path}")
    if not results:
        raise OpenCLFailure(f"{search.name}: no combination passed")
    results.sort(key=lambda pair: -pair[0])
    best = [point for _, point in results[:_FINALISTS]]
    finalists = list(dict.fromkeys([plan[0], *best, *search.sample_choice()]))
    contest = Contest(found, finalists, args.rounds, args.limit)
    print("\n" + "\n".join(contest.lines()))
    return _winner(found, search, described, contest, args)


def _by_model(found, line):
    """Build each combination for the GPU of --gpu, store the cheapest; return the exit status."""
    args = line.args
    gpus.require([args.gpu])
    asked = *gpus.options(args.gpu), *line.options
    described = child.describe(found.name, asked, args.limit, board=args.gpu)
    search = Search(found, described, line, line.options)
    plan = search.plan(args.budget, args.seed)
    print(f"{search.name} for {args.gpu}: {len(plan)} combinations of its parameters", flush=True)
    built, lines = gpus.search(found, args.gpu, plan, args.limit)
    print(*lines, f"{len(built)} of {len(plan)} combinations can be compared", sep="\n")
    if not built:
        raise OpenCLFailure(f"{search.name}: no combination has figures of the compiler")
    winner, item, _ = built[0]
    if gpus.spilled(item.metrics["compiler"]):
        print("each combination spills registers")
    _store(found, search, described, args, winner, item, gflops=None, slower_than=None)
    return PASSED


class Search:
    """One kernel of a sample, and the choices of its parameters on a device."""

    def __init__(self, found, described, line, given):
        """Take the Manifest, the record of --describe, the Line, and the options of each point."""
        self._found, self._given = found, given
        self.kernel = pick(described.params.get("kernels"), line.args.kernel)
        self.name = self.kernel["name"]
        space, self._flags, self._known = command.described_space(self.kernel, described)
        self._space = replace(space, values={**space.values, **self._values_of(line.axes)})
        self._identity = points.Identity(found.name, described)
        self._fixed = self._values_given()
        self.params = {}  # by Point

    def _values_of(self, axes):
        """Return the values to try, by parameter, of (option, values)."""
        by_flag = {flag: name for name, flag in self._flags.items()}
        for flag, _ in axes:
            if flag not in by_flag:
                raise UsageError(f"--axis {flag}: {self.name} has {', '.join(by_flag)}")
        return {by_flag[flag]: [_whole(flag, value) for value in values] for flag, values in axes}

    def _values_given(self):
        """Return the parameters that the command line sets."""
        by_flag = {flag: name for name, flag in self._flags.items()}
        fixed, left = {}, iter(self._given)
        for word in left:
            flag, joined, value = word.partition("=")
            if flag in by_flag:
                fixed[by_flag[flag]] = _whole(flag, value if joined else next(left, ""))
        return fixed

    def plan(self, budget, seed):
        """Return the Points to try: the default first. `budget` of them are drawn, if given."""
        legal = list(islice(constraints.legal(self._space, self._known, self._fixed), _MOST + 1))
        if len(legal) > _MOST:
            why = f"{self.name} has more than {_MOST} combinations"
            raise UsageError(f"{why}: fix a parameter after --")
        first = constraints.choose(self._space, self._fixed, self._known, self.name).params
        rest = [params for params in legal if params != first]
        if budget is not None and budget - 1 < len(rest):
            rest = random.Random(seed).sample(rest, budget - 1)
        return [self._point(params) for params in (first, *rest)]

    def _point(self, params):
        words = [w for name, n in params.items() if name not in self._fixed
                 for w in (self._flags[name], str(n))]
        label = " ".join(f"{self._flags[name]} {n}" for name, n in params.items())
        point = self._identity.point((*self.kernel["options"], *self._given, *words), label)
        self.params[point] = params
        return point

    def sample_choice(self):
        """Return the Point of what the sample itself takes as the best, in a list; maybe none."""
        best = self._found.tools.best
        if not best or self._fixed:
            return []
        return [self._identity.point((*best, *self._given), " ".join(best))]


def _whole(flag, value):
    """Return the value of an option as a whole number. Raises UsageError."""
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise UsageError(f"{flag} {value}: give a whole number")
    return int(value)


def pick(kernels, wanted):
    """Return the described kernel that a name or an option's value means. Raises UsageError."""
    if not isinstance(kernels, list):
        raise UsageError("the sample does not describe its kernels")
    tunable = [kernel for kernel in kernels if kernel.get("space")]
    named = [k for k in kernels if wanted in (k["name"], *k["options"][1:])]
    if wanted is None and len(tunable) == 1:
        named = tunable
    if len(named) != 1 or named[0] not in tunable:
        have = ", ".join(kernel["name"] for kernel in tunable) or "none"
        if wanted is not None and not named:
            raise UsageError(f"--kernel {wanted}: not among the kernels that the sample describes "
                             f"with these options: {have}")
        raise UsageError(f"--kernel {wanted or 'NAME'}: name one that has parameters: {have}")
    return named[0]


class Contest:
    """Points that are run again in interleaved rounds; ratios are to the first of them."""

    def __init__(self, found, finalists, rounds, limit_s):
        """Run them. Raises OpenCLFailure where none can be compared with the first."""
        self._found, self.first = found, finalists[0]
        self.rates = {point: [] for point in finalists}
        self.records = {}
        with Progress(rounds * len(finalists)) as progress:
            for number in range(rounds):
                order = finalists if number % 2 == 0 else finalists[::-1]
                for point, result in engine.run(found, order, limit_s):
                    self._add(point, result)
                    progress.step(f"{point.label}: {engine.line(found, result)}")
        self.rates = {p: rates for p, rates in self.rates.items() if len(rates) == rounds}
        if not self.rates:
            raise OpenCLFailure("none of the best could be timed again")
        if self.first not in self.rates:
            self.first = next(iter(self.rates))

    def _add(self, point, result):
        if result.state.metric is not None:
            self.rates[point].append(result.state.metric)
            self.records[point] = result.records[-1]

    def ratio(self, point):
        """Return the median over the rounds of a rate to that of the first in the same round."""
        return median(a / b for a, b in zip(self.rates[point], self.rates[self.first]))

    def order(self):
        """Return the points, the best first."""
        return sorted(self.rates, key=self.ratio, reverse=True)

    def lines(self):
        """Return a table."""
        rows = [[p.label, engine.amount(self._found, median(self.rates[p])),
                 engine.amount(self._found, max(self.rates[p])), f"{self.ratio(p):.3f}"]
                for p in self.order()]
        return table.lines(["run again, interleaved", "median", "best", "to the default"], rows)


def _winner(found, search, described, contest, args):
    """Store the best of the kernel's choices, where the sample reads it; return the exit status."""
    order = contest.order()
    winner = next((point for point in order if point in search.params), None)
    if winner is None:
        raise OpenCLFailure(f"{search.name}: no combination could be timed again")
    item, ahead = contest.records[winner], contest.records[order[0]]
    same = ahead.variant == item.variant and all(
        ahead.params.get(name) == n for name, n in search.params[winner].items())
    faster = order[0] is not winner and not same
    stored = _store(found, search, described, args, winner, item,
                    gflops=median(contest.rates[winner]),
                    slower_than=ahead.variant if faster else None)
    if stored and faster:
        print(f"the sample's own choice ({order[0].label}) is faster: {ahead.variant}; it is kept")
    return PASSED


def _store(found, search, described, args, winner, item, **judged):
    """Store the parameters of the Point that won, where the sample reads them, if it does.

    `item` is its Record, and `judged` is what the entry says beside it. Returns the path.
    """
    print(f"best: {winner.label}")
    folder = args.tuned or (found.tools.tuned and found.folder / found.tools.tuned)
    if not folder:
        return None
    path = tuned.store(folder, tuned.identity(described.device), {
        "kernel": search.name, "precision": item.params.get("precision", "single"),
        "size": str(item.params.get("size")), "params": search.params[winner],
        "driver": described.device["driver"], "when": record.now(), **judged,
    })
    print(f"stored in {path}")
    return path
