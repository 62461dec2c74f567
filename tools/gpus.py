"""inspect --gpu: what Mesa's compiler makes of the kernels for GPUs that are not here.

Each GPU is an emulated board that compiles and runs nothing: see dev/emulate.
"""

import shutil
import tempfile
from pathlib import Path

from common import table
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
    axes = dict(line.axes)
    given = {word.partition("=")[0] for word in line.options}
    whole = () if axes or {*found.tools.all} & given else found.tools.all
    if not (axes or whole):
        axes = command.all_axes(found, line)
    plan = [(gpu, points.words(points.pair(tuple(axes.items()), number)))
            for gpu in line.args.gpu for number in range(points.size(axes))]  # fmt: skip
    summary, rows, notes, listings = engine.Summary(found), [], [], []
    with Progress(len(plan)) as progress, child.shared_folder() as shared:
        for gpu, words in plan:
            keep = Path(tempfile.mkdtemp(dir=shared))
            asked = (*whole, *line.options, *words)
            options = (*asked, "--build-only", "--keep", child.on_board(keep))
            label = " ".join((gpu, *words))
            ((point, result),) = engine.run(found, [points.Point(options, "0" * 32, label)],
                                            line.args.limit, board=gpu)  # fmt: skip
            progress.step(f"{label}: {engine.line(found, result)}")
            summary.add(point, result.state)
            for item in result.records:
                if item.status == "built":
                    rows.append(_row(item, gpu, keep, axes))
                elif item.variant or len(result.records) == 1:
                    notes.append(f"{item.variant or label}: {gpu}: {item.status}: {item.reason}")
            shutil.copytree(keep, folder / gpu, dirs_exist_ok=True)
            if line.args.listing:
                listings += sorted((folder / gpu).glob("*.isa"))
    for path in listings:
        print(f"\n{path}\n{path.read_text(encoding='utf-8')}", end="")
    print(_TITLE, *table.lines(_HEAD, sorted(rows, key=lambda row: row[0])), sep="\n")
    print(*map(printable, notes), f"{summary.lines()[0]}; files in {folder}", sep="\n")
    return summary.status()


def _row(item, gpu, keep, axes):
    """Return a row of the table, from a Record and its files; parameters on axes are named."""
    figures = item.metrics.get("compiler", {})
    cost = figures and mali.cost((keep / figures["listing"]).read_text(encoding="utf-8"), figures)
    told = ["-"] * 5
    if cost:
        told = [f"{cost.most:.4f}", f"{cost.memory_over_arithmetic:.2f}",
                f"{cost.instructions:.2f}", cost.binds, cost.advice(figures)]  # fmt: skip
    chosen = [f"{axis} {item.params[name]}" for axis in axes
              if (name := axis.strip("-")) in item.params]  # fmt: skip
    label = " ".join((item.variant, *chosen))
    return [label, gpu, *(figures.get(name, "-") for name in _NAMED), *told]
