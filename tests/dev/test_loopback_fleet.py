"""`fab sweep` on many boards: SSH servers on loopback, or simulated ones. The sample only waits.

FLEET=1 makes the numbers those of docs/experiments.md: 20 boards, or 1,000 simulated ones. See
there for the command.
"""

import os
import random
import resource
import shutil
import subprocess
import time
from collections import Counter, deque
from statistics import mean
from types import SimpleNamespace

import pytest
from distributed.utils import sync

from common import manifest, record
from deploy.experiments import records, workers
from deploy.experiments.file import Experiment
from deploy.experiments.sweep import Sweep
from tests.conftest import FAB
from tools.child import Outcome

WHOLE = "FLEET" in os.environ
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(3600)]
LATE = 600  # seconds without enough new records: the sweep hangs
MOST_COST = 0.2  # seconds of a point beyond its sample's own
LEAST_PACE = 17 / 20  # of what as many boards as there are would do without any loss
# Of a crowd: the seconds that a point takes, the part of the time that boards work, MB of memory.
POINT, LEAST_BUSY, MOST_MEMORY = (10.0, 0.9, 2000) if WHOLE else (0.1, 0, 2000)
DEVICE = {"name": "none", "type": "cpu", "platform": "none", "platform_version": "1",
          "driver": "1", "limits": {}}
SAMPLE = f"""import os, sys, time
sys.path.insert(0, sys.path[0] + "/../..")
from common.record import Record, append
argv = sys.argv[1:]
given = dict(zip(argv[::2], argv[1::2]))
record = Record("wait", "describe", "passed", device={DEVICE}, argv=argv, code="1")
if "--describe" not in argv:
    with open(os.environ["STARTS"], "a") as starts:
        starts.write(given["-n"] + "\\n")
    time.sleep(float(given["--seconds"]))
    record.variant, record.metrics["gflops"] = "wait", 1.0
    record.params["n"] = int(given["-n"])
append(argv[argv.index("--json") + 1], record)
"""
MANIFEST = """\
description = "waits"
files = ["run.py"]
[options]
values = ["-n", "--seconds"]
[cases.only]
args = ["-n", "1", "--seconds", "0"]
timeout = 60
"""


class Fleet:
    """Boards on loopback, and a copy of the project with the sample that waits."""

    def __init__(self, folder, project, boards):
        self.folder, self.project, self.boards = folder, project, boards
        self.starts = folder / "starts"
        shutil.rmtree(project / "samples")
        sample = project / "samples" / "wait"
        sample.mkdir(parents=True)
        (sample / "run.py").write_text(SAMPLE)
        (sample / "sample.toml").write_text(MANIFEST)
        config = "".join(board.host_block(name) for name, board in boards.items())
        (folder / "ssh_config").write_text(config)
        toml = "".join(f'[{name}.env]\nSTARTS = "{self.starts}"\n' for name in boards)
        (project / "boards.toml").write_text(toml)

    def start(self, points, seconds, boards=None):
        """Start a sweep of so many points, each of so many seconds; return the process."""
        (self.folder / f"points{points}.toml").write_text(
            f'sample = "wait"\noptions = ["--seconds", "{seconds}"]\n'
            f'[axes]\n"-n" = [{", ".join(map(str, range(points)))}]\n'
        )
        hosts = ",".join(boards or self.boards)
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(
                [FAB, "-S", self.folder / "ssh_config", "-H", hosts, "sweep",
                 self.folder / f"points{points}.toml"],
                cwd=self.project, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            )

    def records(self):
        """Return every record of the points so far."""
        paths = self.project.glob("results/*/*/wait/points*.jsonl")
        return [item for path in paths for item in record.sort(record.scan(path))[0]]

    def wait_for(self, count, process):
        """Wait until there are so many records, or the sweep has ended."""
        deadline = time.monotonic() + LATE
        while len(self.records()) < count and process.poll() is None:
            assert time.monotonic() < deadline, "no record comes"
            time.sleep(0.05)

    def rate(self, points, boards):
        """Return how many points the boards do in a second, once all are at work."""
        before = len(self.records())
        process = self.start(points, 1, boards)
        self.wait_for(before + len(boards), process)
        began = time.monotonic()
        self.end(process)
        return (points - len(boards)) / (time.monotonic() - began)

    def end(self, process):
        """Wait for the end of a sweep that nobody disturbs."""
        assert process.wait(LATE) == 0, (self.folder / "log").read_text()[-2000:]


@pytest.fixture
def fleet(tmp_path, project, ssh_server):
    """Return a function that makes a Fleet of so many boards, which ends with the test."""
    made = []

    def make(count):
        boards = {f"board{n}": ssh_server(f"board{n}") for n in range(count)}
        made.append(Fleet(tmp_path, project, boards))
        return made[-1]

    yield make
    for one in made:
        for board in one.boards.values():
            board.power_off()


def test_nothing_is_lost_when_boards_and_the_host_are_killed(fleet):
    points, fleet = (500, fleet(20)) if WHOLE else (100, fleet(8))
    draw = random.Random(1)
    events = ["host"] * 20 + ["off"] * 5 + ["on"] * 2
    draw.shuffle(events)
    off, process = [], fleet.start(points, 0.5)
    for number, event in enumerate(events, 1):
        fleet.wait_for(points * number / (len(events) + 1), process)
        if event == "host":
            process.kill()
            process.wait()
            process = fleet.start(points, 0.5)
        elif event == "off":
            off.append(draw.choice([name for name in fleet.boards if name not in off]))
            fleet.boards[off[-1]].power_off()
        elif off:
            fleet.boards[off.pop(0)].start()
    fleet.end(process)
    count = Counter(item.params["n"] for item in fleet.records())
    assert (len(count), max(count.values())) == (points, 1)
    assert len(fleet.starts.read_text().splitlines()) - points <= 25  # were run again


def test_a_point_costs_little_and_boards_scale(fleet):
    points, fleet = (15, fleet(20)) if WHOLE else (5, fleet(2))
    one = fleet.rate(points, list(fleet.boards)[:1])
    own = mean(item.params["point"]["seconds"] for item in fleet.records())
    each, boards = 1 / one - own, len(fleet.boards)
    print(f"a point costs {each:.3f} s beyond its sample's {own:.3f} s")
    ratio = fleet.rate(points * boards, list(fleet.boards)) / one
    print(f"{boards} boards do {ratio:.1f} times as many points as one")
    assert each <= MOST_COST
    assert ratio >= LEAST_PACE * boards


class Member:
    """A board of a crowd: its points only take time."""

    def __init__(self, name):
        self.board = SimpleNamespace(name=name, prefix="")

    def join(self, *_):
        about = record.Record("crowd", "describe", "passed", device=DEVICE, code="1")
        return self.board.name, {}, about, {}

    def run(self, key, sample, *_):
        time.sleep(POINT)
        done = record.Record(sample, "none", "passed", device=DEVICE, metrics={"gflops": 1.0})
        return Outcome(0, [done], None, POINT)


async def _begin(client, members):
    for member in members:
        await workers.BoardWorker(client, member)


def test_a_crowd_of_simulated_boards_is_busy(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    boards, points = (1000, 50_000) if WHOLE else (5, 20)
    silent = SimpleNamespace(**dict.fromkeys(("line", "point", "refresh"), lambda *_: None))
    found = manifest.Manifest("crowd", tmp_path, "", (), (), {}, manifest.Tools(), ())
    axes = {"-n": tuple(map(str, range(points)))}
    experiment = Experiment("crowd", found, axes=axes, objectives=("gflops",))
    with workers.connect() as client:
        sync(client.loop, _begin, client, [Member(f"board{n}") for n in range(boards)])
        runs = records.Runs(tmp_path / "runs")
        began, used = time.monotonic(), time.process_time()
        Sweep(experiment, client, deque(maxlen=200), runs, silent, 60).carry_out()
        spent, used = time.monotonic() - began, time.process_time() - used
    busy = points * POINT / spent / boards
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(f"{boards} boards, {points} points of {POINT:g} s: busy {busy:.1%} of {spent:.0f} s, "
          f"{memory:.0f} MB, {1e3 * used / points:.1f} ms of a processor for a point")
    assert busy >= LEAST_BUSY
    assert memory <= MOST_MEMORY
