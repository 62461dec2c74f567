"""The kernels and parameters that a command line selects.

Each is a Kernel of common/planning/plans.py, with a `number`, a `name`, a `label` such as
06_registers, and a `space` of parameters.
"""

import re
from argparse import ArgumentTypeError
from contextlib import suppress
from functools import partial

from common.arguments import count
from common.errors import UsageError


def add_options(parser, kernels, default):
    """Add --kernel, and an option for each parameter of the kernels."""
    text = f"numbers (6,21-24) or names comma-separated, all, or best (default {default})"
    parser.add_argument("--kernel", type=partial(parse, kernels), default=default, help=text)
    group = parser.add_argument_group(
        "parameters of the kernels",
        "'default 8 in 3 5' means: in kernels 3 and 5. For a default of 0 a value is\n"
        "chosen for the device and the size.")
    stated = [(each, _meanings(each)) for each in kernels]
    for name in parameters(kernels):
        said = {}  # by the meaning: the numbers of the kernels, by the default
        for each, meanings in stated:
            if name in each.space.defaults:
                numbers = said.setdefault(meanings.get(name, ""), {})
                numbers.setdefault(each.space.defaults[name], []).append(str(each.number))
        texts = (f"{meaning} (default {_defaults(numbers)})" for meaning, numbers in said.items())
        text = "; ".join(texts).strip().replace("%", "%%")
        group.add_argument(f"--{name}", type=count(0), metavar="N", help=text)


def _meanings(kernel):
    """Return what a kernel's sources say of parameters, in the comment behind each default."""
    found = {}
    for path in (kernel.file, *map(kernel.path, kernel.before)):
        with suppress(OSError):  # it is an error of the build, if it is built
            text = path.read_text(encoding="utf-8", errors="replace")
            pairs = re.findall(r"#define (\w+) \w+ +/\* (.*) \*/", text)
            found = {**dict(pairs), **found}
    return found


def _defaults(numbers):
    return ", ".join(f"{default} in {' '.join(of)}" for default, of in numbers.items())


def parameters(kernels):
    """Return the names of all parameters."""
    return tuple(dict.fromkeys(name for each in kernels for name in each.space.defaults))


def parse(kernels, text):
    """Return the kernels that `text` names, or the text `best`: an argparse type."""
    if text == "best":
        return text
    if text == "all":
        return list(kernels)
    chosen = []
    for word in text.split(","):
        if numbers := re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", word, re.ASCII):
            first, last = int(numbers[1]), int(numbers[2] or numbers[1])
            named = [each for each in kernels if first <= each.number <= last]
        else:
            named = [each for each in kernels if word in (each.name, each.label)]
        if word in ("all", "best"):
            raise ArgumentTypeError(f"'{word}' cannot be combined with other kernels")
        if not named:
            have = ", ".join(f"{each.number} {each.name}" for each in kernels)
            raise ArgumentTypeError(f"'{word}' is not a kernel: give all, best, or some of {have}")
        chosen += named
    return list(dict.fromkeys(chosen))


def named(args, kernels):
    """Return the (kernel, parameters given for it) to run; nothing where the best is wanted.

    Raises UsageError for a parameter that none of them has, except to describe the kernels.
    """
    values = {name: getattr(args, name) for name in parameters(kernels)}
    given = {name: value for name, value in values.items() if value is not None}
    if args.kernel == "best":
        if given and not args.describe:
            raise UsageError(f"--{min(given)} is a parameter of only some kernels: select one with "
                             "--kernel")
        return []
    for name in given:
        if not any(name in each.space.defaults for each in args.kernel):
            have = ", ".join(f"--{key}" for each in args.kernel for key in each.space.defaults)
            labels = ", ".join(each.label for each in args.kernel)
            raise UsageError(f"--{name} is not a parameter of {labels}, which has {have}")
    return [
        (each, {n: v for n, v in given.items() if n in each.space.defaults}) for each in args.kernel
    ]
