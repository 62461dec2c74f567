"""The command line of mygemm: its options, and the kernels, parameters and problems they name."""

from pathlib import Path

import checking
import launch
import numpy as np
import peers
import sizes
import tuned
from ladder import RUNGS

from common import cli, gemm
from common.errors import UsageError

PARAMETERS = list(dict.fromkeys(name for rung in RUNGS for name in rung.defaults))
_SIZES = {"run": "1024", "inspect": "256", "tune": "1024"}


def options(description):
    """Return the parser."""
    parser = cli.parser("mygemm", description)
    add = parser.add_argument
    add("do", nargs="?", choices=_SIZES, default="run",
        help="inspect what the driver made of the kernels, or tune their parameters")  # fmt: skip
    add("--kernel", type=sizes.kernels(RUNGS), default="best",
        help="numbers or names between commas, all, or best (default)")  # fmt: skip
    add("--size", type=sizes.parse,
        help="orders, MxNxK, from:to:step, between commas (1024; to inspect: 256)")  # fmt: skip
    add("--precision", choices=launch.PRECISIONS, default="single", help="(default %(default)s)")
    add("--alpha", type=cli.number, default=1.0, help="(default %(default)s)")
    add("--beta", type=cli.number, default=0.0, help="(default %(default)s)")
    for name, least in (("lda", "K"), ("ldb", "N"), ("ldc", "N")):
        add(f"--{name}", type=cli.count(1), metavar="N", help=f"(default {least})")
    add("--data", choices=checking.INPUTS, default="sdk", help="integer: exact results")
    add("--peers", type=sizes.some_of(peers.NAMES), default="all", metavar="NAMES",
        help=f"{', '.join(peers.NAMES)} between commas, all (default) or none")  # fmt: skip
    add("--blas", metavar="FILE",
        help="a further library, with the interface CBLAS: libopenblas.so.0, ...")  # fmt: skip
    add("--in-flight", type=cli.count(1, 10_000), metavar="N",
        help="launches back to back for each time taken (default: several short ones)")  # fmt: skip
    add("--queues", type=cli.count(1, 64), metavar="N",
        help="command queues for these (default: 1, but on a CPU one a core, up to 8)")  # fmt: skip
    add("--tuned", type=Path, default=tuned.FOLDER, metavar="FOLDER",
        help="where tune stores the best parameters, and best finds them")  # fmt: skip
    add("--budget", type=cli.count(1), metavar="N",
        help="configurations that tune tries, drawn by --seed (default: all)")  # fmt: skip
    add("--listings", type=Path, default=Path("mygemm-inspect"), metavar="FOLDER",
        help="where inspect writes (default %(default)s)")  # fmt: skip
    group = parser.add_argument_group("parameters of the kernels; what is not given is chosen")
    for name in PARAMETERS:
        known = ", ".join(f"{r.number}: {r.defaults[name]}" for r in RUNGS if name in r.defaults)
        group.add_argument(f"--{name}", type=cli.count(0), metavar="N", help=f"(default {known})")
    return parser


def rungs(args):
    """Return the (rung, parameters given for it) to run; nothing where the best is wanted.

    Raises UsageError for a parameter that none of them has.
    """
    given = {name: getattr(args, name) for name in PARAMETERS if getattr(args, name) is not None}
    if args.kernel == "best":
        if given:
            raise UsageError(f"--{min(given)} is of some kernels only: name one with --kernel")
        return []
    chosen = args.kernel
    for name in given:
        if not any(name in rung.defaults for rung in chosen):
            have = ", ".join(f"--{key}" for rung in chosen for key in rung.defaults)
            labels = ", ".join(rung.label for rung in chosen)
            raise UsageError(f"--{name} is no parameter of {labels}, which has {have}")
    return [(rung, {n: v for n, v in given.items() if n in rung.defaults}) for rung in chosen]


def best(args, problem, device, about, limits):
    """Return [(rung, parameters)] of the kernel that `--kernel best` means; says which it is."""
    if args.do != "tune" and args.tuned != tuned.FOLDER and not args.tuned.is_dir():
        raise UsageError(f"--tuned {args.tuned}: there is no such folder")
    best = tuned.find(RUNGS, problem, args.precision, device, about, limits, args.tuned)
    print(f"best: {best.rung.label}, {best.why}", flush=True)
    return [(best.rung, best.params)]


def problems(args, limits):
    """Return the Problem of each size. Raises UsageError where one cannot be."""
    dtype = np.dtype(launch.PRECISIONS[args.precision])
    found = []
    for size in args.size or sizes.parse(_SIZES[args.do]):
        strides = []
        for name, least in (("lda", size.K), ("ldb", size.N), ("ldc", size.N)):
            ld = getattr(args, name) or least
            if ld < least:
                text = f"a row of {size} has {least} elements; --{name} {least} would do"
                raise UsageError(f"--{name} {ld}: {text}")
            strides.append(ld)
        gemm.require_fit(size, dtype, limits)
        found.append(launch.Problem(size, dtype, *strides))
        launch.require_memory(found[-1], None, limits)
        checking.require_exact(found[-1], args.data, args.alpha, args.beta)
    return found
