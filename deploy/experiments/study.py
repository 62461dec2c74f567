"""What to try next on one kind of device, and what came of it."""

import numpy as np


class Study:
    """The candidates of a Space: which have run, and the values of their objectives.

    `done` of `total` have ended. `shown` is the file of Optuna's storage, where one learns.
    """

    def __init__(self, space, records, seen):
        """Take the points that Records has: `seen(point, state)` is called for each."""
        self.space, experiment = space, space.experiment
        count = len(space.candidates)
        self._open = np.ones(count, bool)
        self._values = np.full((count, len(experiment.objectives)), np.nan)
        order = np.arange(count)
        if experiment.search != "all":
            np.random.default_rng(experiment.seed).shuffle(order[1:])
        self._order = map(int, order)
        self._learner = self.shown = None
        self._numbers, self._again = {}, []  # of the points that have not ended; those due again
        if experiment.search == "learn":
            from deploy.experiments.learn import Learner  # Optuna takes half a second to import

            self.shown = records.optuna()
            self._learner = Learner(space, self._open, self._following, self.shown)
        self.done = 0
        for number, candidate in enumerate(space.candidates):
            point = space.point(candidate)
            if state := records.state(point.key):
                self._open[number] = False
                self.tell(number, records.values(point.key))
                seen(point, state)
        self.total = max(min(count, experiment.budget or count), self.done)
        self._asked = self.done

    def next(self, board=None):
        """Return the Point of the next candidate, or None: the budget is used up."""
        if not self._again and self._asked < self.total:
            self._take(self._learner.next() if self._learner else self._following())
        return self._again.pop() if self._again else None

    def end(self, board, point, ended, values):
        """Take the values of a point that has ended, or None; one that has not is due again."""
        if ended:
            self.tell(self._numbers.pop(point), values)
        else:
            self._again.append(point)

    def claim(self, keys):
        """Let the candidates that wait with their results on a board be the next.

        Where nothing is learned, the search comes to them by itself.
        """
        for number in self._open.nonzero()[0] if self._learner and keys else ():
            if self._point(number).key in keys:
                self._take(number)

    def _following(self):
        return next(number for number in self._order if self._open[number])

    def _point(self, number):
        return self.space.point(self.space.candidates[number])

    def _take(self, number):
        self._asked += 1
        self._open[number] = False
        self._again.append(point := self._point(number))
        self._numbers[point] = number

    def tell(self, number, values):
        """End a candidate with the values of the objectives, or None where it did not pass."""
        self.done += 1
        if values:
            self._values[number] = values
        if self._learner:
            self._learner.tell(number, values)

    def best(self, count=None):
        """Return [(candidate, values)] of the best, the best first; of two objectives the Pareto
        front."""
        ordered = np.lexsort(-self._values.T[::-1])
        found, most = [], -np.inf
        for number in ordered[~np.isnan(self._values[ordered, 0])][:count].tolist():
            values = self._values[number].tolist()
            if len(values) == 1 or values[1] > most:
                found.append((self.space.candidates[number], values))
                most = values[-1]
        return found
