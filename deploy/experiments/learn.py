"""A search that learns: Optuna's TPE.

Its storage is a copy for other programs, such as Optuna's dashboard. It is made anew from the
records whenever the search continues.
"""

import numpy as np
import optuna
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.samplers import TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState, create_trial

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
        self._names, self._candidates = space.names, space.candidates
        self._open, self._following = open_, following
        self._distributions = {n: _distribution(values) for n, values in space.values.items()}
        self._places = np.array([_places(column) for column in zip(*space.candidates)])
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        directions = ["maximize"] * len(experiment.objectives)
        self._study = optuna.create_study(sampler=self, directions=directions)
        self._suggested, self._trials = None, {}
        file.parent.mkdir(parents=True, exist_ok=True)
        for old in (file, file.with_name(f"{file.name}.lock")):  # a SIGKILL leaves the lock
            old.unlink(missing_ok=True)
        self._shown = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(file))), directions=directions,
            study_name=f"{experiment.found.name} {experiment.name}",
        )
        self._shown.set_user_attr("objectives", list(experiment.objectives))

    def next(self):
        """Return the number of the next candidate."""
        trial = self._study.ask(self._distributions)
        self._trials[self._suggested] = trial
        return self._suggested

    def tell(self, number, values):
        """Take what came of a candidate: values of the objectives, or None."""
        state = TrialState.COMPLETE if values else TrialState.FAIL
        ended = create_trial(
            state=state, values=values, params=self._params(number),
            distributions=self._distributions,
        )
        self._shown.add_trial(ended)
        if number in self._trials:
            self._study.tell(self._trials.pop(number), values, state)
        else:
            self._study.add_trial(ended)

    def infer_relative_search_space(self, study, trial):
        """Return all dimensions: they do not depend on each other."""
        return self._distributions

    def sample_relative(self, study, trial, search_space):
        """Return the parameters of the next trial."""
        wish = super().sample_relative(study, trial, search_space)
        self._suggested = self._nearest(wish) if wish else self._following()
        return self._params(self._suggested)

    def _params(self, number):
        return dict(zip(self._names, self._candidates[number]))

    def _nearest(self, wish):
        far = np.zeros(len(self._candidates))
        for name, places in zip(self._names, self._places):
            if isinstance(self._distributions[name], IntDistribution):
                far += np.abs(places - np.log2(wish[name] + 1))
            else:
                far += _FAR * (places != hash(wish[name]))
        return int(np.argmin(np.where(self._open, far, np.inf)))


def _distribution(values):
    if not all(isinstance(value, int) and value >= 0 for value in values):
        return CategoricalDistribution(values)
    low, high = min(values), max(values)
    return IntDistribution(low, high, log=low > 0 and high >= 8 * low)


def _places(column):
    """Return numbers whose differences are the distances between the values of a dimension."""
    if all(isinstance(value, int) for value in column):
        return np.log2(np.array(column) + 1.0)
    return np.array([hash(value) for value in column])
