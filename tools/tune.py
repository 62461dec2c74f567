"""Search for a kernel's parameters for a GPU that you do not have, and store the best.

python -m tools tune mygemm --kernel 24 --gpu mali-g52
python -m tools tune mygemm --kernel 24 --gpu mali-g52 -- --N0 4 --M0 4 8    these values

Each combination is built for a Mali GPU by Mesa's compiler, on an emulated board. The
combination with the fewest cycles per multiply-add, by the compiler's static model, is stored. To
search on a real device, use `fab sweep mygemm --kernel 24`: see docs/experiments.md.
"""

import random

from common import manifest
from common.arguments import a_path, count
from common.errors import PASSED, OpenCLFailure
from tools import child, command, gpus, points
from tools.space import STORED, Experiment, Space


def options():
    result = command.parser("tune", __doc__, gpus.LIMIT)
    add = result.add_argument
    add("--kernel", metavar="NAME", default="",
        help="name of the kernel, or the value that selects it; default: the only one")
    add("--gpu", metavar="GPU", required=True, help="the GPU: mali-g52, ...")
    add("--budget", type=count(1), metavar="N",
        help="number of combinations to try, drawn by --seed (default: all)")
    add("--seed", type=count(0), default=0, help="seed of --budget (default %(default)s)")
    add("--tuned", type=a_path, metavar="FOLDER", help="where to store the best (default: where "
        "the sample looks for it)")
    return result


def main(argv):
    """Build each combination, store the cheapest; return the exit status."""
    args, words = command.parse(options(), argv)
    found = manifest.read(args.sample)
    gpus.require([args.gpu])
    fixed, axes = points.apart(words)
    asked = (*gpus.options(args.gpu), *fixed, "--describe")
    done = child.run(found.name, asked, args.limit, board=args.gpu)
    described = child.described(found.name, done)
    space = Space(Experiment(found.name, found, tuple(fixed), axes, args.kernel), described)
    default, *rest = space.candidates
    if args.budget and args.budget <= len(rest):
        rest = random.Random(args.seed).sample(rest, args.budget - 1)
    plan = {space.point(candidate): candidate for candidate in (default, *rest)}
    name = space.kernel["name"]
    print(f"{name} for {args.gpu}: {len(plan)} combinations of its parameters", flush=True)
    built = gpus.compare(found, args.gpu, list(plan), args.limit)
    print(f"{len(built)} of {len(plan)} combinations can be compared")
    if not built:
        raise OpenCLFailure(f"{name}: no combination has figures of the compiler")
    winner, item, _ = built[0]
    if gpus.spilled(item.metrics["compiler"]):
        print("every combination spills registers")
    print(f"best: {winner.label}")
    if path := space.store(plan[winner], item.params, args.tuned, gflops=None, slower_than=None):
        print(f"stored in {path}{'' if args.tuned else f': {STORED}'}")
    return PASSED
