"""A sweep on simulated boards: workers of Dask in one process, whose points only take time."""

import resource
import time

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


class Board:
    """The settings of no board."""

    def __init__(self, name):
        self.name = name


class Member:
    """A board that takes its time."""

    busy = 0.0

    def __init__(self, name):
        self.board, self.left, self.plan = Board(name), {}, {}

    def describe(self, *_):
        return record.Record("crowd", "describe", "passed", device=DEVICE, code="1")

    def run(self, asked):
        time.sleep(SECONDS)
        Member.busy += SECONDS
        done = record.Record(asked.sample, "none", "passed", device=DEVICE, metrics={"gflops": 1.0})
        return Outcome(0, [done], None, SECONDS)


class Quiet:
    """Shows nothing."""

    def line(self, text):
        pass

    point = refresh = lambda *_: None


def measure(folder, boards, points):
    """Run so many points on so many boards; tell whether the limits are kept."""
    records.RESULTS = folder
    found = manifest.Manifest("crowd", folder, "", (), (), frozenset(), frozenset(),
                              manifest.Tools(), ())
    axes = {"-n": tuple(map(str, range(points)))}
    experiment = Experiment("crowd", found, axes=axes, objectives=("gflops",))
    with workers.connect() as client:
        sync(client.loop, _begin, client, [Member(f"board{n}") for n in range(boards)])
        runs = records.Runs(folder / "runs")
        began = time.monotonic()
        Sweep(experiment, client, [], runs, Quiet(), 60).carry_out()
        spent = time.monotonic() - began
    busy = Member.busy / spent / boards
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(f"{boards} boards, {points} points of {SECONDS:g} s: {spent:.0f} s")
    print(f"the boards work {busy:.1%} of it (at least {LEAST_BUSY:.0%})")
    print(f"{memory:.0f} MB of memory (at most {MOST_MEMORY})")
    return busy >= LEAST_BUSY and memory <= MOST_MEMORY


async def _begin(client, members):
    for member in members:
        await workers.BoardWorker(client, member)
