"""A sweep on simulated boards: workers of Dask in one process, whose points only take time."""

import resource
import time
from collections import deque
from types import SimpleNamespace

from distributed.utils import sync

from common import manifest, record
from deploy.experiments import records, workers
from deploy.experiments.file import Experiment
from deploy.experiments.sweep import Sweep
from tools.child import Outcome

SECONDS = 10.0  # that a point takes
LEAST_BUSY = 0.9
MOST_MEMORY = 2000  # MB
DEVICE = {"name": "none", "type": "cpu", "platform": "none", "platform_version": "1",
          "driver": "1", "limits": {}}
SILENT = SimpleNamespace(**dict.fromkeys(("line", "point", "refresh"), lambda *_: None))  # a Show


class Member:
    """A board that takes its time."""

    def __init__(self, name):
        self.board, self.left, self.plan = SimpleNamespace(name=name), {}, {}

    def describe(self, *_):
        return record.Record("crowd", "describe", "passed", device=DEVICE, code="1")

    def run(self, asked):
        time.sleep(SECONDS)
        done = record.Record(asked.sample, "none", "passed", device=DEVICE, metrics={"gflops": 1.0})
        return Outcome(0, [done], None, SECONDS)


def measure(folder, boards, points):
    """Run so many points on so many boards; tell whether the limits are kept."""
    nothing = [frozenset()] * 4  # options
    found = manifest.Manifest("crowd", folder, "", (), (), *nothing, manifest.Tools(), ())
    axes = {"-n": tuple(map(str, range(points)))}
    experiment = Experiment("crowd", found, axes=axes, objectives=("gflops",))
    with workers.connect() as client:
        sync(client.loop, _begin, client, [Member(f"board{n}") for n in range(boards)])
        runs = records.Runs(folder / "runs", folder)
        began, used = time.monotonic(), time.process_time()
        Sweep(experiment, client, [], deque(maxlen=200), runs, SILENT, 60).carry_out()
        spent, used = time.monotonic() - began, time.process_time() - used
    busy = points * SECONDS / spent / boards
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(f"{boards} boards, {points} points of {SECONDS:g} s: {spent:.0f} s")
    print(f"the boards work {busy:.1%} of it (at least {LEAST_BUSY:.0%})")
    print(f"{memory:.0f} MB of memory (at most {MOST_MEMORY})")
    print(f"a point costs {1e3 * used / points:.1f} ms of a processor")
    return busy >= LEAST_BUSY and memory <= MOST_MEMORY


async def _begin(client, members):
    for member in members:
        await workers.BoardWorker(client, member)
