"""The best points of a study again, in interleaved rounds on every board; the winner is stored."""

from statistics import median

from common import table
from common.errors import UsageError
from common.stats import spread
from deploy.boards import shown
from tools import engine
from tools.space import STORED

_BEST = 5


class Finals:
    """The rounds of a Kind. A ratio is that to the default in the same round on the same board.

    Experiments without a kernel, and those with two objectives, have none.
    """

    def __init__(self, kind):
        self._kind, space = kind, kind.space
        experiment, tools = space.experiment, space.experiment.found.tools
        self._candidates = {}  # by Point; None: the sample chooses
        self._order = []
        best = [candidate for candidate, _ in kind.study.best(_BEST)]
        if space.kernel and len(experiment.objectives) == 1 and best:
            chosen = dict.fromkeys([space.candidates[0], *best])
            self._candidates = {space.point(candidate): candidate for candidate in chosen}
            if tools.best and not space.fixed:
                self._candidates[space.other(tools.best)] = None
            once = list(self._candidates)
            self._order = [(n, point) for n in range(experiment.rounds)
                           for point in once[:: 1 if n % 2 == 0 else -1]]
        self._among = " ".join(point.key for point in self._candidates)
        self._left = {}  # by board
        self._rates = {}  # by board, Point, and number of the round

    @property
    def done(self):
        """Tell whether every board that is there has run all of its rounds."""
        boards = self._kind.boards.values()
        return not self._order or (bool(boards) and all(self._left.get(b) == [] for b in boards))

    @property
    def counts(self):
        """How many of their runs have ended, and how many there are, on the boards so far."""
        total = len(self._order) * len(self._left)
        return total - sum(map(len, self._left.values())), total

    @property
    def decided(self):
        """Tell whether they say which point is the best."""
        return any(map(self._ratios, self._candidates))

    def next(self, board):
        """Return the next Point of a board, or None: it has run all."""
        left = self._left.setdefault(board, self._order[::-1])
        if not left:
            return None
        number, point = left[-1]
        return self._kind.space.again(point, f"{board} {number} {self._among}")

    def end(self, board, point, ended, values):
        """Take what came of the last next(): nothing, where it has not `ended`."""
        if not ended:
            return
        number, point = self._left[board].pop()
        rates = self._rates.setdefault(board, {}).setdefault(point, {})
        if values:
            rates[number] = values[0]

    def _ratios(self, point):
        """Return the ratios of a point in every round of every board that has both."""
        first = next(iter(self._candidates))
        return [rates[point][n] / rates[first][n] for rates in self._rates.values()
                for n in rates.get(point, ()) if n in rates.get(first, ())]

    def lines(self):
        """Return a table for each board, the best point first, and where the winner is stored."""
        ratios = {p: median(each) for p in self._candidates if (each := self._ratios(p))}
        order = sorted(ratios, key=ratios.get, reverse=True)
        if not order:
            return []
        found, texts = self._kind.space.experiment.found, []
        fastest = self._kind.records.newest(order[0])
        for board, rates in self._rates.items():
            rows = []
            for point in (p for p in order if rates.get(p)):
                of = spread(list(rates[point].values()))
                its = (engine.amount(found, v, [fastest]) for v in (of.median, of.low, of.high))
                rows.append([point.label, *its, f"{ratios[point]:.3f}"])
            head = [f"{board}: interleaved", "median", "10 %", "90 %", "to the default"]
            texts += table.lines(head, rows)
        winner = next(point for point in order if self._candidates[point] is not None)
        if winner is order[0]:
            return [*texts, *self._store(winner, None)]
        faster = f"{order[0].label} is faster; it ran kernel {fastest.variant}"
        return [*texts, *self._store(winner, fastest.variant), faster]

    def _store(self, winner, slower_than):
        """Store the best choice of the kernel's parameters where the sample reads it."""
        of = spread([rate for each in self._rates.values()
                     for rate in each.get(winner, {}).values()])
        try:
            path = self._kind.space.store(
                self._candidates[winner], self._kind.records.newest(winner).params,
                gflops=of.median, spread=[of.low, of.high], slower_than=slower_than,
            )
            use = f"the sample does not use it, because {slower_than} is faster"
            stored = [f"stored in {shown(path)}: {use if slower_than else STORED}"] if path else []
        except UsageError as error:
            stored = [str(error)]
        return [f"best of these rounds: {winner.label}", *stored]
