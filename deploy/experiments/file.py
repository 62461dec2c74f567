"""Read an experiment: a TOML file, or a sample with the axes of its sample.toml."""

from pathlib import Path

from common import manifest
from common.errors import UsageError
from common.files import parsed, toml
from common.manifest import MOST_SECONDS, NAME, strings
from deploy import samples
from tools import points
from tools.command import REFUSED
from tools.space import MOST, PER_WATT, Experiment

MOST_BYTES = 64 * 1024  # of the file
SEARCHES = ("all", "random", "learn")
_WHOLE = {"budget": (1, MOST), "seed": (0, MOST), "limit": (1, MOST_SECONDS), "rounds": (0, 1000)}


def read(name, words=(), kernel=None, **numbers):
    """Return the Experiment of a file, of SAMPLE/NAME in samples/, or of a sample.

    `words` are further options of each point: they replace axes of the same option. One with
    several values is an axis. `kernel` and `numbers`, such as the budget, replace the file's unless
    they are None. Raises UsageError.
    """
    path = Path(name)
    sample, slash, short = str(name).partition("/")
    if sample in manifest.names() and not path.suffix:
        path = manifest.ROOT / "samples" / sample / "experiments" / f"{short}.toml"
        table = parsed(path, MOST_BYTES, toml) if slash else {"sample": sample}
    elif path.suffix or path.exists():
        table = parsed(path, MOST_BYTES, toml)
    else:
        raise UsageError(f"no sample {sample!r}: choose from {', '.join(manifest.names())}")
    title = path.stem if slash or path.suffix else sample
    if kernel is not None:
        if not NAME.fullmatch(kernel):
            raise UsageError(f"--kernel takes one kernel, such as 6 or row4, not {kernel!r}")
        title = f"{title}-{kernel}"
        table = {**table, "kernel": kernel, "parameters": {}}
    table |= {key: value for key, value in numbers.items() if value is not None}
    options, axes = points.apart(words)
    try:
        return _experiment(title, table, options, axes)
    except (UsageError, KeyError, TypeError) as error:
        why = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        where = "" if why.startswith(f"{name}: ") else f"{name}: "
        raise UsageError(f"{where}{why}") from error


def each_value(axes):
    """Return the words of all axes: each option with each of its values."""
    return [word for option, values in axes.items() for value in values for word in (option, value)]


def _experiment(name, table, words, more):
    known = {"description", "sample", *Experiment.__dataclass_fields__} - {"name", "found"}
    manifest.only(table, known)
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name: small letters, digits, - and _")
    found = manifest.read(str(table["sample"]))
    options = strings(table.get("options", []), "options")
    samples.require_once(options)
    options = (*options, *words)
    given = points.named(options)
    if refused := sorted(given & REFUSED):
        raise UsageError(f"{refused[0]} cannot be used: the sweep sets it")
    if not set(found.tools.point) & given:
        options = (*found.tools.point, *options)
    axes = {} if "kernel" in table else {n: list(values) for n, values in found.tools.axes}
    axes |= _table(table.get("axes", {}), "axes") | more
    axes = {option: _values(option, values) for option, values in axes.items()
            if option not in given}
    asked = samples.asked(found.name, [*options, *each_value(axes)])  # that the sample has them
    parameters = _table(table.get("parameters", {}), "parameters")
    for key, values in parameters.items():
        if not isinstance(values, list) or not values or any(type(v) is not int for v in values):
            raise UsageError(f"parameters: {key} must be a list of whole numbers")
    search = table.get("search", "random" if "budget" in table else Experiment.search)
    if search not in SEARCHES:
        raise UsageError(f"search must be one of {', '.join(SEARCHES)}")
    objectives = strings(table.get("objectives", [found.tools.metric]), "objectives")
    if len(objectives) not in (1, 2):
        raise UsageError("objectives must be one or two metrics of a record")
    if any(name.endswith(PER_WATT) for name in objectives) and "--energy" not in options:
        raise UsageError(f"objectives: rates {PER_WATT.strip('_')} need --energy among the options")
    kernel = str(table["kernel"]) if "kernel" in table else None
    if kernel is None and parameters:
        raise UsageError("parameters need a kernel")
    numbers = {}
    for key, (least, most) in _WHOLE.items():
        numbers[key] = value = table.get(key, getattr(Experiment, key))
        if key in table and (type(value) is not int or not least <= value <= most):
            raise UsageError(f"{key} must be a whole number from {least} to {most}")
    numbers["limit"] += asked.longer
    return Experiment(
        name, found, options, axes, kernel, parameters, search,
        objectives=objectives, sensors=strings(table.get("sensors", []), "sensors"), **numbers,
    )


def _table(value, what):
    if not isinstance(value, dict):
        raise UsageError(f"{what} must be a table")
    return value


def _values(option, values):
    is_list = isinstance(values, (list, tuple))
    values = [str(value) if type(value) is int else value for value in values] if is_list else []
    if not option.startswith("-") or not strings(values, f"axes: {option}"):
        raise UsageError(f"axes: {option} must be an option with a list of values")
    return tuple(dict.fromkeys(values))
