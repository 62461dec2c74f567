"""Constraints on the parameters of a kernel, stated as data: texts such as "TSM % WPTM == 0".

A constraint is an expression of whole numbers; max() may be called. Its names are parameters of
the kernel, and facts about the device and the element type, which facts() gives. The same text
refuses what a command line gives, chooses what it leaves open, and bounds the search of a tuner.
Standard library only.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache, partial
from math import log2

from common.errors import Unsupported, UsageError

VECTORS = (1, 2, 4, 8, 16)  # elements of a vector in OpenCL C; 1 is a scalar

_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.BinOp, ast.Add, ast.Sub, ast.Mult,
    ast.FloorDiv, ast.Mod, ast.Compare, ast.Eq, ast.LtE, ast.GtE, ast.Lt, ast.Gt, ast.In,
    ast.Tuple, ast.Name, ast.Load, ast.Constant, ast.Call,
)
_GLOBALS = {"__builtins__": {}, "max": max}
_WORDS = {ast.LtE: "at most", ast.GtE: "at least", ast.Lt: "below", ast.Gt: "above"}
_LONGEST = 1000  # characters of an expression: none of ours comes near


@dataclass(frozen=True)
class Space:
    """The parameters of a kernel, and what each choice of them means for its launch.

    `defaults` has a value for each parameter, `values` those that a search tries. `constraints` are
    texts. `local` has the local size by dimension and `local_bytes` the local memory of a
    work-group, as texts as well; that both fit the device is a constraint of every kernel.
    """

    defaults: dict
    values: dict
    constraints: tuple = ()
    local: tuple = ()
    local_bytes: str = "0"


@dataclass(frozen=True)
class Choice:
    """Parameters that keep the constraints, and `why` not the defaults, or None."""

    params: dict
    why: str | None


def facts(limits, itemsize):
    """Return the names that constraints may use beside the parameters: limits of the device.

    `limits` are common.device.Limits, `itemsize` is the size of an element in bytes.
    """
    return {
        "itemsize": itemsize,
        "local_mem_size": limits.local_mem_size,
        "max_work_group_size": limits.max_work_group_size,
        **{f"max_work_items_{n}": most for n, most in enumerate(limits.max_work_item_sizes)},
    }


@lru_cache(10_000)
def _compiled(text):
    """Return (code, names) of an expression. Raises ValueError for what is not one of ours."""
    if len(text) > _LONGEST:
        raise ValueError(f"an expression of {len(text)} characters")
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{text!r} is not an expression") from error
    nodes = list(ast.walk(tree))
    for node in nodes:
        if not isinstance(node, _ALLOWED):
            raise ValueError(f"{text!r}: {type(node).__name__} may not stand in a constraint")
        if isinstance(node, ast.Constant) and type(node.value) is not int:
            raise ValueError(f"{text!r}: {node.value!r} is not a whole number")
        if isinstance(node, ast.Call) and (
            getattr(node.func, "id", "") != "max" or len(node.args) < 2
        ):
            raise ValueError(f"{text!r}: only max(a, b) may be called in a constraint")
    functions = [node.func for node in nodes if isinstance(node, ast.Call)]
    names = [node.id for node in nodes if isinstance(node, ast.Name) and node not in functions]
    return compile(tree, "<constraint>", "eval"), tuple(dict.fromkeys(names))


def evaluate(text, values):
    """Return the value of an expression; `values` has a number for each of its names.

    Raises ValueError for an expression that is not one of ours, or has a name without a value, and
    ZeroDivisionError.
    """
    code, names = _compiled(text)
    if missing := [name for name in names if name not in values]:
        raise ValueError(f"{text!r}: {missing[0]} is unknown")
    return eval(code, _GLOBALS, dict(values))


def _device_rules(space):
    """Return (expression, the limit of the device that it may not exceed, a message) of a Space."""
    items = " * ".join(f"({side})" for side in space.local) or "1"
    return (
        *((side, f"max_work_items_{n}",
           f"{{}} work-items in dimension {n}, but the device takes at most {{}}")
          for n, side in enumerate(space.local)),
        (items, "max_work_group_size", "{} work-items, but a work-group has at most {}"),
        (space.local_bytes, "local_mem_size",
         "{} bytes of local memory, but the device has {} for a work-group"),
    )


def is_legal(space, params, known):
    """Tell whether the parameters break nothing. `known` is of facts()."""
    values = {**known, **params}
    return all(_holds(text, values) for text in space.constraints) and all(
        evaluate(text, values) <= values[limit] for text, limit, _ in _device_rules(space)
    )


def local_size(space, params):
    """Return the local size that the parameters give; dimensions as in the NDRange."""
    return tuple(evaluate(text, params) for text in space.local)


def local_bytes(space, params, known):
    """Return the bytes of local memory of a work-group. `known` is of facts()."""
    return evaluate(space.local_bytes, {**known, **params})


def broken(space, params, known):
    """Return a message for each constraint that the parameters break. `known` is of facts()."""
    values = {**known, **params}
    messages = [
        _options_in(text, params) + explain(text, values)
        for text in space.constraints
        if not _holds(text, values)
    ]
    if messages:
        return messages
    for text, limit, message in _device_rules(space):
        if (need := evaluate(text, values)) > (most := values[limit]):
            return [_options_in(text, params) + message.format(need, most)]
    return []


def _holds(text, values):
    try:
        return evaluate(text, values)
    except ZeroDivisionError:
        return False


def _options_in(text, params):
    """Return the options that give the parameters of an expression, if any, and a colon."""
    found = options({name: params[name] for name in params if name in _compiled(text)[1]})
    return found and f"{found}: "


def explain(text, values):
    """Return in words what a constraint demands: "M % W == 0" becomes "W must divide M"."""
    node, source = ast.parse(text, mode="eval").body, partial(ast.get_source_segment, text)

    def shown(part):
        """Return a part as text, with its value where that is no plain name or number."""
        name = source(part)
        if isinstance(part, ast.Constant) or (name in values and not name.islower()):
            return name
        try:
            return f"{name} = {evaluate(name, values)}"
        except ZeroDivisionError:
            return name

    if isinstance(node, ast.BoolOp):
        return " or ".join(explain(source(part), values) for part in node.values)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        left, relation, right = node.left, type(node.ops[0]), node.comparators[0]
        remainder = isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod)
        if remainder and relation is ast.Eq and source(right) == "0":
            return f"{shown(left.right)} must divide {shown(left.left)}"
        if relation is ast.In:
            return f"{source(left)} must be one of {source(right).strip('()')}"
        if relation in _WORDS:
            return f"{shown(left)} must be {_WORDS[relation]} {shown(right)}"
    return f"{text} must hold"


def options(params):
    """Return parameters as the options that give them."""
    return " ".join(f"--{name} {value}" for name, value in params.items())


def legal(space, known, fixed=()):
    """Yield each choice of the values of a space that keeps the constraints and those `fixed`.

    A constraint is tested when its last parameter has a value: what it forbids is not continued.
    """
    values = {**space.values, **{name: (value,) for name, value in dict(fixed).items()}}
    names, fits = tuple(space.defaults), [f"({t}) <= {most}" for t, most, _ in _device_rules(space)]
    due = [[] for _ in range(len(names) + 1)]  # by how many parameters have values
    for text in (*space.constraints, *fits):
        used = _compiled(text)[1]
        due[max((n for n, name in enumerate(names, 1) if name in used), default=0)].append(text)

    def continued(params):
        together = {**known, **params}
        if all(_holds(text, together) for text in due[len(params)]):
            if len(params) == len(names):
                yield params
            else:
                name = names[len(params)]
                for value in values[name]:
                    yield from continued({**params, name: value})

    return continued({})


def choose(space, given, known, name="the kernel"):
    """Return the Choice for the parameters `given` (maybe none); the others are made to fit.

    They are as near to the defaults as the constraints allow. Raises UsageError for a given value
    that no choice of the others makes legal: the message names a value that would do. Raises
    Unsupported where no choice at all is legal on the device. `name` is the kernel's in messages.
    """
    wish = {**space.defaults, **given}
    problems = broken(space, wish, known)
    if not problems:
        return Choice(wish, None)
    if found := _nearest(space, wish, known, given):
        return Choice(found, problems[0])
    found = _nearest(space, wish, known, {})
    if found is None and is_legal(space, space.defaults, known):
        found = space.defaults
    if found is None:
        raise Unsupported(f"{name}: no combination of its parameters is legal on this device; "
                          f"{problems[0]}")
    # The defaults of the others may be at fault as well: name a constraint of the given ones.
    named = [p for p in problems if any(f"--{key} " in p for key in given)] or problems
    other = {key: found[key] for key in given if found[key] != given[key]}
    raise UsageError(f"{name}: {named[0]}; try {options(other)}")


def _nearest(space, wish, known, fixed):
    """Return the legal parameters nearest to `wish`, by the factors between them; or None."""

    def distance(params):
        return sum(abs(log2((value + 1) / (wish[name] + 1))) for name, value in params.items())

    return min(legal(space, known, fixed), key=distance, default=None)
