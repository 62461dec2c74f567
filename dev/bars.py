"""Compare the cycles of the kernels for Mali, by Mesa's compiler, with their targets.

python -m dev.bars                      every GPU
python -m dev.bars mali-g52,mali-g57    some of them

A target limits the cycles per multiply-add of the hot loop, or per pixel, and for some kernels the
instructions. No kernel may spill. The exit status is 1 if one spills or misses a target.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from common import manifest, programs, table
from common.arguments import Parser
from common.errors import PASSED, WRONG_RESULT
from tools import child, gpus
from tools.progress import shown

_BIFROST_OR_VALHALL = ("mali-g52", "mali-g57", "mali-g610")
_T860 = "mali-t860"


class Bar(NamedTuple):
    """The most that a kernel may take on each GPU: cycles, and instructions, or 0 for any."""

    sample: str
    options: str
    variant: str
    most: dict
    threads: int = 1


BARS = (
    Bar("mygemm", "--kernel 21", "21_mali_registers",
        dict.fromkeys(_BIFROST_OR_VALHALL, (0.13, 2.5))),
    Bar("mygemm", "--kernel 21 --M0 3", "21_mali_registers", {_T860: (0.23, 0)}),
    Bar("mygemm", "--kernel 22 --UNROLL 16", "22_mali_packed", {_T860: (0.16, 0)}),
    Bar("mygemm", "--kernel 23", "23_mali_image", {
        "mali-g52": (0.065, 1.6), "mali-g57": (0.065, 1.9), "mali-g610": (0.065, 1.9),
    }, threads=2),
    Bar("mygemm", "--kernel 23", "23_mali_image", {_T860: (0.28, 0)}),
    Bar("mygemm", "--kernel 24 --M0 8", "24_mali_images", {"mali-g52": (0.05, 0)}),
    Bar("mygemm", "--kernel 24", "24_mali_images", {
        "mali-g57": (0.032, 0), "mali-g610": (0.016, 0),
    }),
    Bar("mygemm", "--kernel 25 --precision half", "25_mali_half", {
        "mali-g52": (0.032, 0), "mali-g57": (0.016, 0), "mali-g610": (0.016, 0),
    }),
    Bar("mygemm", "--kernel 26 --precision int8", "26_mali_int8", {"mali-g57": (0.016, 0)}),
    Bar("64_bit_integer", "--kernel two_stages", "two_stages", {
        "mali-g52": (0.14, 0), "mali-g57": (0.24, 0), "mali-g610": (0.12, 0),
    }),
)


def main(argv):
    """Build every kernel that has a bar for one of the GPUs; return the exit status."""
    parser = Parser("python -m dev.bars", __doc__, None)
    parser.add_argument("gpus", nargs="?", metavar="GPU,GPU", help="(default: all with targets)")
    having = [*_BIFROST_OR_VALHALL, _T860]
    wanted = parser.parse_args(argv).gpus
    wanted = wanted.split(",") if wanted else having
    gpus.require(wanted)
    if without := [gpu for gpu in wanted if gpu not in having]:
        print(f"no targets: {', '.join(without)}", flush=True)
    plan = [(bar, gpu) for gpu in wanted for bar in BARS if gpu in bar.most]
    rows, missed = [], False
    # The emulated compiler keeps one core busy.
    with child.pool(os.cpu_count()) as pool:
        every = zip(plan, pool.map(measured, *zip(*plan)))
        for (bar, gpu), (cells, within) in shown(every, len(plan)):
            rows.append([" ".join((bar.sample, bar.options)), gpu, *cells])
            print(f"{gpu} {bar.options}: {cells[0]} cycles, at most {cells[1]}", flush=True)
            missed |= not within
    head = ["", "GPU", "cycles", "at most", "instructions", "at most", "threads", "spills", ""]
    print("\n".join(table.lines(head, rows)))
    return WRONG_RESULT if missed else PASSED


def measured(bar, gpu):
    """Return the cells of a row, and whether the kernel meets its bar."""
    with tempfile.TemporaryDirectory() as folder:
        result, costs = gpus.build(
            manifest.read(bar.sample), gpu, tuple(bar.options.split()), gpus.LIMIT,
            Path(folder, "kept"),
        )
    found = {item.variant: (item.metrics["compiler"], cost) for item, cost in costs}
    figures, cost = found.get(bar.variant, (None, None))
    cycles, instructions = bar.most[gpu]
    if cost is None:
        return ["-", cycles, "-", instructions or "-", "-", "-", result.reason or "no loop"], False
    spilled = gpus.spilled(figures)
    within = (cost.most <= cycles and cost.instructions <= (instructions or cost.instructions)
              and figures["threads"] >= bar.threads and not spilled)
    cells = [f"{cost.most:.4f}", cycles, f"{cost.instructions:.2f}", instructions or "-",
             figures["threads"], spilled, "" if within else "misses its bar"]
    return cells, within


if __name__ == "__main__":
    sys.exit(programs.run("dev.bars", main, sys.argv[1:]))
