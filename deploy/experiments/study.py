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

    def next(self):
        """Return (number, Point) of the next candidate, or None: the budget is used up."""
        if self._asked >= self.total:
            return None
        return self._take(self._learner.next() if self._learner else self._following())

    def claim(self, keys):
        """Return the (number, Point) of candidates that wait with their results on a board.

        None where nothing is learned: such a search comes to them by itself.
        """
        if not self._learner:
            return []
        points = ((n, self.space.point(self.space.candidates[n])) for n in self._open.nonzero()[0])
        return [self._take(number) for number, point in points if point.key in keys]

    def _following(self):
        return next(number for number in self._order if self._open[number])

    def _take(self, number):
        self._asked += 1
        self._open[number] = False
        return number, self.space.point(self.space.candidates[number])

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
