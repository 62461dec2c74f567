"""A sweep on simulated boards: workers of Dask in one process, whose points only take time."""

import resource
import threading
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace

from distributed.utils import sync

from common import manifest, record
from deploy.experiments import records, workers
from deploy.experiments.file import Experiment
from deploy.experiments.sweep import Sweep
from report import draw
from tools.child import Outcome

SECONDS = 10.0  # that a point takes
LEAST_BUSY = 0.9
MOST_MEMORY = 2000  # MB
DEVICE = {"name": "none", "type": "cpu", "platform": "none", "platform_version": "1",
          "driver": "1", "limits": {}}
SILENT = SimpleNamespace(**dict.fromkeys(("line", "point", "refresh"), lambda *_: None))  # a Show
_at_work = set()  # Members


class Member:
    """A board that takes its time."""

    def __init__(self, name):
        self.board, self.left, self.plan = SimpleNamespace(name=name), {}, {}

    def describe(self, *_):
        return record.Record("crowd", "describe", "passed", device=DEVICE, code="1")

    def run(self, asked):
        _at_work.add(self)
        time.sleep(SECONDS)
        _at_work.remove(self)
        done = record.Record(asked.sample, "none", "passed", device=DEVICE, metrics={"gflops": 1.0})
        return Outcome(0, [done], None, SECONDS)


def measure(folder, boards, points, plot=None):
    """Run so many points on so many boards; tell whether the limits are kept.

    How many boards are at work, and the memory, are drawn over time into the file `plot`, an SVG.
    """
    nothing = [frozenset()] * 4  # options
    found = manifest.Manifest("crowd", folder, "", (), (), *nothing, manifest.Tools(), ())
    axes = {"-n": tuple(map(str, range(points)))}
    experiment = Experiment("crowd", found, axes=axes, objectives=("gflops",))
    with workers.connect() as client:
        sync(client.loop, _begin, client, [Member(f"board{n}") for n in range(boards)])
        runs = records.Runs(folder / "runs", folder)
        ended, seen = threading.Event(), []
        threading.Thread(target=_watch, args=(ended, seen)).start()
        began, used = time.monotonic(), time.process_time()
        try:
            Sweep(experiment, client, [], deque(maxlen=200), runs, SILENT, 60).carry_out()
        finally:
            ended.set()
        spent, used = time.monotonic() - began, time.process_time() - used
    busy = points * SECONDS / spent / boards
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(f"{boards} boards, {points} points of {SECONDS:g} s: {spent:.0f} s")
    print(f"the boards work {busy:.1%} of it (at least {LEAST_BUSY:.0%})")
    print(f"{memory:.0f} MB of memory (at most {MOST_MEMORY})")
    print(f"a point costs {1e3 * used / points:.1f} ms of a processor")
    if plot:
        _draw(plot, boards, seen)
    return busy >= LEAST_BUSY and memory <= MOST_MEMORY


def _watch(ended, seen):
    """Keep (seconds, boards at work, MB of memory) each second until the Event."""
    began, page = time.monotonic(), resource.getpagesize()
    while not ended.is_set():
        memory = int(Path("/proc/self/statm").read_text().split()[1]) * page / 1e6
        seen.append((time.monotonic() - began, len(_at_work), memory))
        ended.wait(1)


def _draw(path, boards, seen):
    times, at_work, memory = zip(*seen)

    def drawn():
        figure, (upper, lower) = draw.canvas(6.4, 4, 2, sharex=True, height_ratios=(3, 1))
        upper.plot(times, at_work, color=draw.SERIES[0])
        upper.axhline(LEAST_BUSY * boards, color=draw.SERIES[1], linestyle="--")
        upper.annotate(f"{LEAST_BUSY:.0%}", (0, LEAST_BUSY * boards), color=draw.SERIES[1],
                       xytext=(4, -12), textcoords="offset points")
        upper.set(ylim=(0, boards * 1.03), ylabel="boards at work")
        lower.plot(times, memory, color=draw.SERIES[2])
        lower.set(ylim=(0, 1.2 * max(memory)), ylabel="memory, MB", xlabel="seconds")
        return figure

    draw.save(draw.Plot("", "", [], drawn), path.with_suffix(""))
    path.with_suffix(".png").unlink()


async def _begin(client, members):
    for member in members:
        await workers.BoardWorker(client, member)
