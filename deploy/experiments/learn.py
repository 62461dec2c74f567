"""A search that learns: Optuna's TPE.

Its storage is there for other programs, such as Optuna's dashboard. It is made anew from the
records whenever the search continues.
"""

from math import log2

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState, create_trial

from common.files import writing
from deploy.boards import shown

_FAR = 1000.0  # between two values without an order
_STARTUP = 10  # points before what was learned is used


class Learner(TPESampler):
    """Suggests the open candidate that is nearest to what TPE would try."""

    def __init__(self, space, open_, following, file):
        """Take the Space, an array of what may still be suggested, a function that draws, and the
        file of Optuna's storage.
        """
        experiment = space.experiment
        super().__init__(seed=experiment.seed, multivariate=True, n_startup_trials=_STARTUP)
        self._space, self._open, self._following = space, open_, following
        self._distributions = {n: _distribution(values) for n, values in space.values.items()}
        self._places = np.array([self._place(candidate) for candidate in space.candidates])
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._file = file
        with self._writing():
            file.parent.mkdir(parents=True, exist_ok=True)
            for old in (file, file.with_name(f"{file.name}.lock")):  # a SIGKILL leaves the lock
                old.unlink(missing_ok=True)
            self._study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(str(file))), sampler=self,
                directions=["maximize"] * len(experiment.objectives),
                study_name=f"{experiment.found.name} {experiment.name}",
            )
            self._study.set_user_attr("objectives", list(experiment.objectives))
        self._suggested, self._trials = None, {}

    def next(self):
        """Return the number of the next candidate."""
        with self._writing():
            trial = self._study.ask(self._distributions)
        self._trials[self._suggested] = trial
        return self._suggested

    def tell(self, number, values):
        """Take what came of a candidate: values of the objectives, or None."""
        state = TrialState.COMPLETE if values else TrialState.FAIL
        with self._writing():
            if number in self._trials:
                self._study.tell(self._trials.pop(number), values, state)
            else:
                self._study.add_trial(create_trial(
                    state=state, values=values, params=self._params(number),
                    distributions=self._distributions,
                ))

    def _writing(self):
        return writing(f"cannot write {shown(self._file)}")

    def infer_relative_search_space(self, study, trial):
        """Return all dimensions: they do not depend on each other."""
        return self._distributions

    def sample_relative(self, study, trial, search_space):
        """Return the parameters of the next trial."""
        wish = super().sample_relative(study, trial, search_space)
        self._suggested = self._nearest(wish) if wish else self._following()
        return self._params(self._suggested)

    def _params(self, number):
        return dict(zip(self._space.names, self._space.candidates[number]))

    def _nearest(self, wish):
        place = self._place([wish[name] for name in self._space.names])
        far = np.abs(self._places - place).sum(axis=1)
        return int(np.argmin(np.where(self._open, far, np.inf)))

    def _place(self, candidate):
        """Return a number for each value; their differences are the distances between values."""
        return [log2(value + 1) if isinstance(value, int)
                else _FAR * self._space.values[name].index(value)
                for name, value in zip(self._space.names, candidate)]


def _distribution(values):
    if not all(isinstance(value, int) for value in values):
        return CategoricalDistribution(values)
    low, high = min(values), max(values)
    return IntDistribution(low, high, log=low > 0 and high >= 8 * low)
