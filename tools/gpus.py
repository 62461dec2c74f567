"""inspect --gpu: what Mesa's compiler makes of the kernels for GPUs that are not here.

Each GPU is an emulated board that compiles and runs nothing: see dev/emulate.
"""

import re
import shutil
import tomllib

from common import manifest, table
from common.errors import UsageError
from common.text import printable
from tools import child, command, engine, mali, points
from tools.progress import Progress

_NAMED = ("instructions", "registers", "threads", "spills", "fills")
_HEAD = ("", "GPU", *_NAMED, "cycles", "of memory", "instr.", "bound by", "what would help")
_TITLE = """
A static model by Mesa's compiler: no times, and not Arm's compiler. For a multiply-add of the hot
loop: cycles, cycles of memory over those of arithmetic, instructions."""


def inspect(line, found, folder):
    """Build the kernels for each GPU of --gpu; print and keep what Mesa says; return the status."""
    boards = tomllib.loads((manifest.ROOT / "boards.toml").read_text(encoding="utf-8"))
    known = [gpu for names, board in boards.items() if board.get("build_only")
             for gpu in names.split(",")]
    if unknown := [gpu for gpu in line.args.gpu if gpu not in known]:
        raise UsageError(f"--gpu {unknown[0]}: no such GPU; there are: {', '.join(known)}")
    axes = dict(line.axes)
    given = {word.partition("=")[0] for word in line.options}
    whole = () if {*found.tools.all} & {*given, *axes} else found.tools.all
    if not (axes or whole):
        axes = command.all_axes(found, line)
    plan = [(gpu, points.words(points.pair(axes, number)))
            for gpu in line.args.gpu for number in range(points.size(axes))]
    summary, rows, notes, listings = engine.Summary(found), [], [], []
    with Progress(len(plan)) as progress:
        for gpu, words in plan:
            label = " ".join((gpu, *words))
            files = folder / re.sub(r"[^A-Za-z0-9.,]+", "-", label)[:100]
            options = (*whole, *line.options, *words)
            result, costs = build(found, gpu, options, line.args.limit, files)
            progress.step(f"{label}: {engine.line(found, result)}")
            summary.add(points.Point(options, "", label), result.state)
            rows += [_row(item, cost, gpu, axes) for item, cost in costs]
            for item in result.records:
                if item.status != "built" and item.variant:
                    notes.append(f"{item.variant}: {gpu}: {item.status}: {item.reason}")
            listings += sorted(files.glob("*.isa")) if line.args.listing else []
    for path in listings:
        print(f"\n{path}\n{path.read_text(encoding='utf-8')}", end="")
    print(_TITLE, *table.lines(_HEAD, sorted(rows, key=lambda row: row[0])), sep="\n")
    print(*map(printable, notes), f"{summary.lines()[0]}; files in {folder}", sep="\n")
    return summary.status()


def build(found, gpu, options, limit_s, folder):
    """Build kernels of a sample for a GPU, and leave the files in the folder.

    Return a Result, and [(Record, mali.Cost or None)] of the kernels that were built.
    """
    with child.shared_folder() as shared:
        keep = ("--build-only", "--keep", child.on_board(shared))
        point = points.Point(("--limits", gpu, *options, *keep), "0" * 32, gpu)
        ((_, result),) = engine.run(found, [point], limit_s, board=gpu)
        built = [item for item in result.records if item.status == "built"]
        if built:  # what a run before left stays where this one leaves nothing
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(shared, folder)
    return result, [(item, _cost(item.metrics.get("compiler"), folder)) for item in built]


def _cost(figures, folder):
    if not figures:
        return None
    return mali.cost((folder / figures["listing"]).read_text(encoding="utf-8"), figures)


def _row(item, cost, gpu, axes):
    """Return a row of the table, from a Record and its Cost; parameters on axes are named."""
    figures, told = item.metrics.get("compiler", {}), ["-"] * 5
    if cost:
        told = [f"{cost.most:.4f}", f"{cost.memory_over_arithmetic:.2f}",
                f"{cost.instructions:.2f}", cost.binds, cost.advice(figures)]
    chosen = [f"{axis} {item.params[name]}" for axis in axes
              if (name := axis.strip("-")) in item.params]
    label = " ".join((item.variant, *chosen))
    return [label, gpu, *(figures.get(name, "-") for name in _NAMED), *told]
