"""Constraints on the parameters of a kernel, stated as data: texts such as "TSM % WPTM == 0".

A constraint is an expression of whole numbers; max() may be called. Its names are parameters of
the kernel, and facts about the device and the element type, which facts() gives. The same text
refuses what a command line gives, chooses what it leaves open, and bounds the search of a tuner.
Standard library only.
"""

import ast
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import log2, prod

from common.errors import Unsupported, UsageError

VECTORS = (1, 2, 4, 8, 16)  # elements of a vector in OpenCL C; 1 is a scalar

_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.BinOp, ast.Add, ast.Sub, ast.Mult,
    ast.FloorDiv, ast.Mod, ast.Compare, ast.Eq, ast.LtE, ast.GtE, ast.Lt, ast.Gt, ast.In,
    ast.Tuple, ast.Name, ast.Load, ast.Constant, ast.Call,
)  # fmt: skip
_FUNCTIONS = {"max": max}
_GLOBALS = {"__builtins__": {}, **_FUNCTIONS}
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
    """Parameters that keep the constraints. `why` says what was wrong with the defaults, or is
    None."""

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
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    called = [getattr(call.func, "id", None) for call in calls]
    used = [node.id for node in nodes if isinstance(node, ast.Name)]
    if any(call.keywords or len(call.args) < 2 for call in calls) or sorted(
        name for name in used if name in _FUNCTIONS
    ) != sorted(map(str, called)):
        raise ValueError(f"{text!r}: only max(a, b) may be called in a constraint")
    names = dict.fromkeys(name for name in used if name not in _FUNCTIONS)
    return compile(tree, "<constraint>", "eval"), tuple(names)


def evaluate(text, values):
    """Return the value of an expression; `values` has a number for each of its names.

    Raises ValueError for an expression that is not one of ours, or has a name without a value, and
    ZeroDivisionError.
    """
    code, names = _compiled(text)
    if missing := [name for name in names if name not in values]:
        raise ValueError(f"{text!r}: {missing[0]} is unknown")
    return eval(code, _GLOBALS, dict(values))


@lru_cache(100)
def _conjunction(constraints, local, local_bytes):
    """Return the code of an expression that tells whether all of a Space is kept."""
    sides = [f"({side}) <= max_work_items_{n}" for n, side in enumerate(local)]
    items = " * ".join(f"({side})" for side in local) or "1"
    fits = (*sides, f"{items} <= max_work_group_size", f"({local_bytes}) <= local_mem_size")
    for text in (*constraints, *local, local_bytes):
        _compiled(text)  # it is one of ours
    joined = " and ".join(f"({text})" for text in (*constraints, *fits))
    return compile(joined, "<constraints>", "eval")


def is_legal(space, params, known):
    """Tell whether the parameters break nothing: broken(), but fast. `known` is of facts()."""
    code = _conjunction(tuple(space.constraints), tuple(space.local), space.local_bytes)
    try:
        return bool(eval(code, _GLOBALS, {**known, **params}))
    except ZeroDivisionError:
        return False
    except NameError as error:
        raise ValueError(f"{error.name} is unknown") from error


def local_size(space, params):
    """Return the local size that the parameters give; dimensions as in the NDRange."""
    return tuple(evaluate(text, params) for text in space.local)


def local_bytes(space, params, known):
    """Return the bytes of local memory of a work-group. `known` is of facts()."""
    return evaluate(space.local_bytes, {**known, **params})


def broken(space, params, known):
    """Return a message for each constraint that the parameters break. `known` is of facts()."""
    values = {**known, **params}
    messages = [m for text in space.constraints if (m := _broken(text, params, values))]
    return messages or _fits(space, params, values)


def _broken(text, params, values):
    try:
        if evaluate(text, values):
            return None
    except ZeroDivisionError:
        pass
    return f"{options(params, *_names((text,), params))}: {explain(text, values)}"


def _fits(space, params, values):
    """Return messages where the work-group, or its local memory, is more than the device has."""
    local = local_size(space, params)
    shape = _names(space.local, params)
    for side, count in enumerate(local):
        if count > (most := values[f"max_work_items_{side}"]):
            return [f"{options(params, *shape)}: {count} work-items in dimension {side}, but the "
                    f"device takes at most {most}"]  # fmt: skip
    if prod(local) > (most := values["max_work_group_size"]):
        return [f"{options(params, *shape)}: {prod(local)} work-items, but a work-group has at "
                f"most {most}"]  # fmt: skip
    need, have = evaluate(space.local_bytes, values), values["local_mem_size"]
    if need > have:
        named = _names((space.local_bytes,), params)
        return [f"{options(params, *named)}: {need} bytes of local memory, but the device has "
                f"{have} for a work-group"]  # fmt: skip
    return []


def _names(texts, params):
    """Return the parameters that stand in the expressions."""
    found = {name for text in texts for name in _compiled(text)[1]}
    return [name for name in params if name in found]


def explain(text, values):
    """Return in words what a constraint demands: "TSM % WPTM == 0" becomes "WPTM must divide
    TSM"."""
    node = ast.parse(text, mode="eval").body
    if isinstance(node, ast.BoolOp):
        return " or ".join(explain(ast.unparse(part), values) for part in node.values)
    if not isinstance(node, ast.Compare) or len(node.ops) > 1:
        return f"{text} must hold"
    left, (operation,), (right,) = node.left, node.ops, node.comparators
    what, limit = ast.unparse(left), ast.unparse(right)
    remainder = isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod)
    if remainder and isinstance(operation, ast.Eq) and limit == "0":
        return f"{_shown(left.right, values)} must divide {_shown(left.left, values)}"
    if isinstance(operation, ast.In):
        return f"{what} must be one of {limit.strip('()')}"
    words = {ast.LtE: "at most", ast.GtE: "at least", ast.Lt: "below", ast.Gt: "above"}
    if type(operation) in words:
        return f"{_shown(left, values)} must be {words[type(operation)]} {_shown(right, values)}"
    return f"{text} must hold"


def _shown(node, values):
    """Return an expression as text, with its value where that is no plain name or number."""
    text = ast.unparse(node)
    if isinstance(node, ast.Constant) or (text in values and not text.islower()):
        return text
    try:
        return f"{text} = {evaluate(text, values)}"
    except ZeroDivisionError:
        return text


def options(params, *names):
    """Return the named parameters, all without names, as the options that give them."""
    return " ".join(f"--{name} {params[name]}" for name in names or params)


def legal(space, known, fixed=()):
    """Yield every choice of the values of a space that keeps the constraints.

    `fixed` has values by name that are not to be changed.
    """
    values = {**space.values, **{name: (value,) for name, value in dict(fixed).items()}}
    for candidate in product(*(values[name] for name in space.defaults)):
        params = dict(zip(space.defaults, candidate))
        if is_legal(space, params, known):
            yield params


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
        raise Unsupported(f"{name}: no choice of its parameters is legal here; {problems[0]}")
    # The defaults of the others may be at fault as well: name a constraint of the given ones.
    named = [p for p in problems if any(f"--{key} " in p for key in given)] or problems
    other = {key: found[key] for key in given if found[key] != given[key]}
    raise UsageError(f"{name}: {named[0]}; {options(other)} would do")


def _nearest(space, wish, known, fixed):
    """Return the legal parameters that are nearest to `wish`, or None.

    The distance is the sum of the factors between them, as powers of 2.
    """

    names = list(space.defaults)
    values = {**space.values, **{name: (value,) for name, value in fixed.items()}}

    def distance(candidate):
        return sum(abs(log2((v + 1) / (wish[n] + 1))) for n, v in zip(names, candidate))

    # Sorted first: a space may be large, and the nearest that is legal is often one of the first.
    for candidate in sorted(product(*(values[name] for name in names)), key=distance):
        params = dict(zip(names, candidate))
        if is_legal(space, params, known):
            return params
    return None


def require(space, params, known, name="the kernel"):
    """Raise UsageError for the first constraint that the parameters break."""
    if problems := broken(space, params, known):
        raise UsageError(f"{name}: {problems[0]}")
