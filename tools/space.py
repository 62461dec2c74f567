"""The points of an experiment on one kind of device: its axes, and the parameters of a kernel."""

import re
from dataclasses import dataclass, field, replace
from itertools import islice, product
from types import SimpleNamespace

from common import constraints, manifest, record, tuned
from common.errors import UsageError
from tools import points

# What is said of the file that a search leaves in the folder of a sample.
STORED = "the sample reads it from now on; commit it for others, or delete it"
PER_WATT = "_per_watt"  # ends the name of an objective
MOST = 10**6  # points


@dataclass(frozen=True)
class Experiment:
    """What an experiment's file says; each key is explained in docs/experiments.md.

    `axes` has values (text) by option, `parameters` has values (whole numbers) by the name of a
    parameter of `kernel`. `budget` None is every point. `limit` is in seconds.
    """

    name: str
    found: manifest.Manifest
    options: tuple = ()
    axes: dict = field(default_factory=dict)
    kernel: str | None = None
    parameters: dict = field(default_factory=dict)
    search: str = "all"
    budget: int | None = None
    seed: int = 0
    objectives: tuple = ()
    sensors: tuple = ()
    limit: int = 60
    rounds: int = 5


class Space:
    """Every legal combination of an Experiment, as a sample describes itself on a device.

    `names` are its dimensions: options, then parameters of the kernel. `candidates` are tuples of
    their values, the default first. `fixed` are the parameters that the options set.
    """

    def __init__(self, experiment, described):
        """Take the record of --describe. Raises UsageError where nothing can be run."""
        self.experiment, self.described = experiment, described
        self._common = points.identity(experiment.found.name, described)
        self.kernel, self.fixed, self._flags = None, {}, {}
        axes = {name: _numbers(values) for name, values in experiment.axes.items()}
        parameters, choices, first = {}, [()], ()
        if experiment.kernel is not None:
            parameters, choices, first = self._choices(axes)
        self.names = (*axes, *parameters)
        self.values = {**axes, **parameters}
        default = (*(values[0] for values in axes.values()), *first)
        every = (axis + choice for choice in choices for axis in product(*axes.values()))
        found = list(islice(every, MOST + 1))
        if len(found) > MOST:
            raise UsageError(f"{experiment.name} has more than {MOST} points: fix a parameter")
        self.candidates = [default, *(each for each in found if each != default)]

    def _choices(self, axes):
        """Return the open parameters with their values, the legal choices, and the default.

        An axis of a parameter's option has the values to try: it is taken out of `axes`.
        """
        kernels = self.described.params.get("kernels")
        kernel = self.kernel = _pick(self.experiment.found.name, kernels, self.experiment.kernel)
        space, self._flags, known = of_kernel(kernel, self.described)
        wanted = {name: axes.pop(flag) for name, flag in self._flags.items() if flag in axes}
        for name, values in wanted.items():
            if not all(isinstance(value, int) for value in values):
                raise UsageError(f"{self._flags[name]} {' '.join(values)}: give whole numbers")
        wanted = {**self.experiment.parameters, **wanted}
        if unknown := set(wanted) - set(space.defaults):
            raise UsageError(f"{kernel['name']} has no parameter {min(unknown)}")
        self.fixed = self._given()
        space = replace(space, values={**space.values, **wanted})
        default = constraints.choose(space, self.fixed, known, kernel["name"]).params
        names = [name for name in space.defaults if name not in self.fixed]
        found = islice(constraints.legal(space, known, self.fixed), MOST + 1)
        choices = [tuple(params[name] for name in names) for params in found]
        values = {name: sorted({*space.values[name], default[name]}) for name in names}
        return values, choices, tuple(default[name] for name in names)

    def _given(self):
        """Return the parameters that the options set."""
        words = [part for word in self.experiment.options for part in word.split("=", 1)]
        given, fixed = dict(zip(words, [*words[1:], ""])), {}
        for name, flag in self._flags.items():
            if flag in given:
                if not re.fullmatch("[0-9]{1,9}", given[flag]):
                    raise UsageError(f"{flag} {given[flag]}: give a whole number")
                fixed[name] = int(given[flag])
        return fixed

    def store(self, candidate, params, folder=None, **judged):
        """Store a candidate where the sample looks for it, or in a folder; return the path, or None
        for a sample that looks nowhere.

        `params` are those of its record, `judged` is what the entry says beside them. Raises
        UsageError.
        """
        found, device = self.experiment.found, self.described.device
        folder = folder or (found.folder / found.tools.tuned if found.tools.tuned else None)
        of_batch = {"batch": params["batch"]} if "batch" in params else {}
        return folder and tuned.store(folder, tuned.identity(device), {
            "kernel": self.kernel["name"], "precision": params.get("precision", "single"),
            "size": str(params.get("size")), "params": self.params(candidate),
            "driver": device["driver"], "when": record.now(), **of_batch, **judged,
        })

    def params(self, candidate):
        """Return the parameters of the kernel in a candidate."""
        chosen = dict(zip(self.names, candidate))
        return {name: chosen.get(name, self.fixed.get(name)) for name in self._flags}

    def point(self, candidate):
        """Return the Point of a candidate."""
        pairs = [(self._flags.get(name, name), str(value))
                 for name, value in zip(self.names, candidate)]
        words = points.words(pairs)
        kernel = self.kernel["options"] if self.kernel else ()
        options = (*kernel, *self.experiment.options, *words)
        return points.point(self._common, options, " ".join(words))

    def other(self, words):
        """Return the Point of other words before the options, such as what the sample chooses."""
        return points.point(self._common, (*words, *self.experiment.options), " ".join(words))

    def again(self, point, number):
        """Return the Point of a further round: the same options, a key of its own."""
        key = points.point(self._common, (*point.options, f"#{number}")).key
        return point._replace(key=key)


def of_kernel(kernel, described):
    """Return (Space, {parameter: its option}, facts()) of a kernel by a record of --describe."""
    space, flags = constraints.Space(**kernel["space"]), kernel.get("flags", {})
    limits = SimpleNamespace(**described.device["limits"])
    known = constraints.facts(limits, kernel.get("itemsize", 4))
    return space, {name: flags.get(name, f"--{name}") for name in space.defaults}, known


def kind(experiment, described):
    """Return what is equal for equal code, device and driver, by a record of --describe."""
    return points.point(points.identity(experiment.found.name, described), ()).key


def _numbers(values):
    """Return the values of an axis, as whole numbers where all are: they have an order."""
    whole = all(re.fullmatch("0|[1-9][0-9]{0,8}", value) for value in values)
    return tuple(map(int, values)) if whole else values


def _pick(sample, kernels, wanted):
    """Return the described kernel that a name or an option's value means; "" is the only one.

    Raises UsageError, also where no kernel of the sample has parameters.
    """
    tunable = [k for k in kernels if k.get("space")] if isinstance(kernels, list) else []
    if not tunable:
        raise UsageError(f"{sample}'s kernels have no parameters")
    named = [k for k in tunable if wanted in ("", k["name"], *k["options"][1:])]
    if len(named) != 1:
        have = ", ".join(kernel["name"] for kernel in tunable)
        raise UsageError(f"kernel {wanted or 'NAME'}: name one that has parameters: {have}")
    return named[0]
