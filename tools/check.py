"""Run kernels under Oclgrind, a simulator that detects data races and out-of-bounds accesses.

python -m tools check sgemm                                every kernel, small matrices
python -m tools check gemmbench -D ROOM=16 -- -f SGEMM_NN_1x1_local      with a macro
python -m tools check mygemm -- --kernel 6 7 --size 20x21x22

Each point runs with --check-only in a process of its own. A kernel with parameters runs with small
ones.

exit status: 0 nothing found; 1 a finding, or a wrong result; 2 wrong usage; 3 a kernel does not
build, or does not end; 77 Oclgrind is not installed, or supports no kernel.
"""

import argparse
import json
import os
import re
import tempfile
from collections import Counter
from math import log2, prod
from pathlib import Path

from common import constraints, icd, manifest
from common.errors import UsageError
from common.text import printable
from tools import child, command, engine, points
from tools.space import of_kernel

# What Oclgrind calls the kinds of what it finds, as its messages begin.
_KINDS = {
    "data race": re.compile(r"\S* ?data race"),
    "out-of-bounds read": re.compile(r"Invalid read"),
    "out-of-bounds write": re.compile(r"Invalid write"),
    "uninitialised value": re.compile(r"Uninitiali[sz]ed|.*uninitiali[sz]ed value"),
    "divergence": re.compile(r"Work-group divergence"),
}
_DRIVER = {icd.OCLGRIND: "1"}
_NO_MESSAGE = re.compile(r"Oclgrind: \d+ errors generated")
# Oclgrind knows no order between work-groups. Kernels that make one by fences and atomics access
# what they share as volatile.
_ORDERED = re.compile(r"Read-write data race at global [^\0]* volatile [^\0]* volatile ")
_MOST_SHOWN = 3  # places of a point
_GROUP = (4, 64)  # work-items of a group: enough to race, few enough to simulate


def options():
    result = command.parser("check", __doc__, 120)
    result.add_argument("-D", "--define", action="append", default=[], type=_macro,
                        metavar="NAME=VALUE",
                        help="a macro for the kernels, for example to reduce local memory")
    return result


def _macro(text):
    if not re.fullmatch(r"[A-Za-z_]\w*(=[\w.+-]*)?", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME or NAME=VALUE")
    return text


def main(argv, starter=None):
    """Check every point; print a line each; return the exit status.

    `starter(folder)` gives a function that runs a sample elsewhere, as child.run(), and brings
    back what that leaves in the folder.
    """
    args, words = command.parse(options(), argv)
    if "--build-only" in words:
        raise UsageError("check runs the kernels: omit --build-only")
    found = manifest.read(args.sample)
    with tempfile.TemporaryDirectory(prefix="tools-check-") as folder:
        run = starter(folder) if starter else child.run
        plan = _plan(found, words, folder, args.limit, run)
        width = max(len(point.label) for point in plan)
        outcomes = Counter()

        def one(point):
            env = environment(folder, point, args.define)
            return engine.run(found, point, args.limit, env, run)

        with child.pool(os.cpu_count()) as pool:
            for point, result in zip(plan, child.in_order(pool, one, plan)):
                problems = {each: n for each, n in findings(folder, point).items()
                            if each[0] not in found.tools.ignored}
                outcomes["failed" if problems else result.state.ended] += 1
                print(f"{point.label:<{width}}  {_said(problems, result)}", flush=True)
                for _, text in list(problems)[:_MOST_SHOWN]:
                    print(f"    {printable(text)}", flush=True)
    words = {"passed": "clean"}
    print(", ".join(f"{n} {words.get(name, name)}" for name, n in outcomes.items()))
    return engine.exit_status(outcomes)


def _said(problems, result):
    """Return what came of a point: how often which kind was found, or why it did not pass."""
    kinds = Counter()
    for (kind, _), count in problems.items():
        kinds[kind] += count
    said = [", ".join(f"{n} x {kind}" for kind, n in kinds.items())] if kinds else []
    if result.reason:
        said.append(printable(f"{result.state.ended}: {result.reason}"))
    return "; ".join(said) or "clean"


def _plan(found, asked, folder, limit_s, run):
    """Return the points: the axes, small options, and small parameters of kernels that have some.
    """
    fixed, every = command.plan(found, asked)
    done = run(found.name, (*fixed, "--describe"), limit_s, _DRIVER)
    described, plan = child.described(found.name, done), []
    for number, words in enumerate(every):
        sizes = small_parameters(described, words, points.named((*fixed, *words)))
        label = " ".join((*words, *sizes)) or "default"
        keep = str(Path(folder, str(number)))  # there is the name of a kernel's file
        options = (*fixed, *words, *sizes, "--check-only", "--keep", keep)
        plan.append(points.Point(options, str(number), label))
    return plan


def small_parameters(described, words, given):
    """Return options with small parameters for the kernel that the words choose, or ().

    The work-group has some work-items, for races; the rest is as near to 2 as can be, so that loops
    run and vectors have elements. Parameters that are `given` stay as they are.
    """
    kernel = next((each for each in described.params.get("kernels", ())
                   if each["options"] == list(words) and each["space"]), None)
    if not kernel:
        return ()
    space, flags, known = of_kernel(kernel, described)
    if given & set(flags.values()):
        return ()

    def far(params):
        fits = _GROUP[0] <= prod(constraints.local_size(space, params)) <= _GROUP[1]
        near = sum(abs(log2((n + 1) / 3)) for n in params.values())
        return not fits, sum(n < 2 for n in params.values()), near

    best = min(constraints.legal(space, known), key=far, default={})
    return tuple(w for name, n in best.items() for w in (flags[name], str(n)))


def environment(folder, point, defines):
    """Return the variables of the process of a point, whose only driver is Oclgrind.

    The log goes to the folder. `defines` are macros, as NAME=VALUE.
    """
    return {
        **_DRIVER, "OCLGRIND_LOG": str(Path(folder, f"{point.key}.log")),
        "OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNINITIALIZED": "1",
        "OCLGRIND_MAX_ERRORS": "1000000",
        # Optimised, a read whose value is dropped would be gone; and version 21.10 crashes on
        # sums over lanes that the compiler has made one instruction of.
        "OCLGRIND_BUILD_OPTIONS": " ".join(["-cl-opt-disable", *(f"-D{text}" for text in defines)]),
    }


def findings(folder, point):
    """Return what messages() found of a point that has run."""
    log = Path(folder, f"{point.key}.log")
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    files, images = {}, False
    for path in sorted(Path(folder, point.key).glob("*.json")):
        about = json.loads(path.read_text(encoding="utf-8"))
        files.update(dict.fromkeys(about["kernels"], Path(about["file"]).name))
        images = images or about["images"]
    # Oclgrind takes all that is read from an image for uninitialised.
    wrong = "uninitialised value" if images else None
    return {each: n for each, n in messages(text, files).items() if each[0] != wrong}


def messages(log, files):
    """Return how often a log has each (a key of _KINDS or `other`, what was found and where).

    The first line of a message begins at the left, the others with a tab. `files` has the file of
    each kernel.
    """
    found = Counter()
    for block in re.split(r"\n(?=\S)", log):
        message = block.strip()
        if not message or _NO_MESSAGE.match(message) or _ORDERED.match(message):
            continue
        kind = next((kind for kind, sign in _KINDS.items() if sign.match(message)), "other")
        found[kind, _brief(message, files)] += 1
    return found


def _brief(message, files):
    """Return a message in a line: what was found, in which kernel, and the lines of its source.

    Addresses are left out: what is found in every work-item is one message.
    """
    kernel = re.search(r"^\tKernel: +(\S+)", message, re.M)
    name = kernel[1] if kernel else "?"
    places = re.findall(r"At line (\d+).*\n\s*(.*)", message)
    file = files.get(name, "its source")
    where = " and ".join(f"{file}:{number}: {code}" for number, code in dict.fromkeys(places))
    what = re.sub(r" (?:at|to|from)?\s*\w* ?memory address 0x[0-9a-f]+| of size \d+", "",
                  message.splitlines()[0])
    return f"{what} in {name}" + (f", {where}" if where else "")
