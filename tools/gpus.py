"""inspect --gpu and tune --gpu: what Mesa's compiler makes of kernels for GPUs that are not here.

Each GPU is an emulated board that compiles and runs nothing: see dev/emulate.
"""

import os
import tempfile
from functools import partial
from pathlib import Path

from common import files, manifest, table
from common.errors import UsageError
from common.profiles import PROFILES
from common.text import printable
from tools import child, command, engine, mali, points

LIMIT = 1800  # seconds for a run: emulated, on a machine that may be busy
_NAMED = ("instructions", "registers", "threads", "spills", "fills")
_HEAD = ("", "GPU", *_NAMED, "cycles", "of memory", "instr.", "bound by")
_TITLE = """
From the static model of Mesa's compiler, not of Arm's: these are not times. Per multiply-add of the
hot loop: cycles, cycles of memory divided by those of arithmetic, instructions."""


def require(gpus):
    """Raise UsageError for a GPU that cannot be emulated, or where boards.toml cannot be read."""
    boards = files.parsed(manifest.ROOT / "boards.toml", files.LARGEST_OBJECT, files.toml)
    known = [gpu for names, board in boards.items()
             if isinstance(board, dict) and board.get("build_only")
             for gpu in map(str.strip, names.split(","))]
    if unknown := [gpu for gpu in gpus if gpu not in known]:
        raise UsageError(f"{unknown[0]}: no such GPU: choose from {', '.join(known)}")


def options(gpu):
    """Return the options of a run for a GPU, with its limits where they are known."""
    limits = ("--limits", gpu) if gpu in PROFILES else ()
    return (*limits, "--build-only")


def report(built):
    """Return the lines of the table of [(label, GPU, Result, costs of build())], and notes."""
    rows, notes = [], []
    for label, gpu, result, costs in built:
        rows += [_row(f"{item.variant} {label}".rstrip(), gpu, item, cost) for item, cost in costs]
        if costs and not any(item.metrics.get("compiler") for item, _ in costs):
            notes.append(f"{gpu}: Mesa gives no figures for this GPU: a kernel builds, or not")
        notes += [f"{item.variant}: {gpu}: {item.status}: {item.reason}"
                  for item in result.records if item.status != "built" and item.variant]
    rows.sort(key=lambda row: row[0])
    return [_TITLE, *table.lines(_HEAD, rows), *map(printable, dict.fromkeys(notes))]


def compare(found, gpu, plan, limit_s):
    """Build each Point for a GPU; return [(Point, Record, Cost)], the cheapest first, and print it.

    The cheapest spills nothing, and takes the fewest cycles for a multiply-add. Of equal ones it
    leaves room for the most threads, then takes the fewest instructions.
    """
    built = []

    def one(point):
        return build(found, gpu, point.options, limit_s, Path(folder, point.key))

    # The emulated compiler keeps one core busy.
    with tempfile.TemporaryDirectory() as folder, child.pool(os.cpu_count()) as pool:
        results = child.in_order(pool, one, plan)
        for point, (result, costs) in command.shown(zip(plan, results), len(plan)):
            print(f"{point.label}: {engine.line(found, result)}", flush=True)
            built += [(point, item, cost) for item, cost in costs if cost]

    def order(entry):
        figures, cost = entry[1].metrics["compiler"], entry[2]
        return (spilled(figures) > 0, round(cost.most, 4), -figures.get("threads", 0),
                cost.instructions)

    built.sort(key=order)
    rows = [_row(point.label, gpu, item, cost) for point, item, cost in built]
    print(_TITLE, *table.lines(_HEAD, rows), sep="\n")
    return built


def spilled(figures):
    """Return how often registers are spilled and filled, by Mesa's figures of a kernel."""
    return figures.get("spills", 0) + figures.get("fills", 0)


def build(found, gpu, chosen, limit_s, folder):
    """Build kernels of a sample, with the options `chosen`, for a GPU; the files are left in the
    folder.

    Return a Result, and [(Record, mali.Cost or None)] of the kernels that were built.
    """
    with tempfile.TemporaryDirectory(dir=child.shared_folder()) as shared:
        keep = ("--keep", child.on_board(shared))
        point = points.Point((*options(gpu), *chosen, *keep))
        result = engine.run(found, point, limit_s, run=partial(child.run, board=gpu))
        built = [item for item in result.records if item.status == "built"]
        command.copy(shared, folder)
    costs = []
    for item in built:
        figures = item.metrics.get("compiler")
        text = figures and (folder / figures["listing"]).read_text(encoding="utf-8")
        costs.append((item, mali.cost(text, figures) if figures else None))
    return result, costs


def _row(label, gpu, item, cost):
    """Return a row of the table, from a Record and its Cost."""
    figures, told = item.metrics.get("compiler", {}), ["-"] * 4
    if cost:
        told = [f"{cost.most:.4f}", f"{cost.memory_over_arithmetic:.2f}",
                f"{cost.instructions:.2f}", cost.binds]
    return [label, gpu, *(figures.get(name, "-") for name in _NAMED), *told]
