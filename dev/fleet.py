"""Measure `fab sweep` on SSH servers on loopback, or on simulated boards; the sample only waits.

python -m dev.fleet loss     500 points on 20 boards: 5 boards and 20 times the host are killed
python -m dev.fleet pace     the cost of a point beyond its sample's own time; 20 boards or one
python -m dev.fleet crowd    1,000 workers of Dask in one process, 50,000 points of 10 s

--boards and --points make a run shorter. Exit status 1: a limit is exceeded.
"""

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from contextlib import closing
from pathlib import Path
from statistics import mean
from types import SimpleNamespace

from distributed.utils import sync

from common import manifest, programs, record
from common.arguments import Parser, count
from common.errors import PASSED, WRONG_RESULT, OpenCLFailure
from deploy.experiments import records, workers
from deploy.experiments.file import Experiment
from deploy.experiments.sweep import Sweep
from dev.loopback import SshServer
from tools.child import Outcome

ROOT = Path(__file__).resolve().parents[1]
FAB = Path(sys.executable).parent / "fab"
PARTS = ("common", "deploy", "report", "tools", "fabfile.py", "fabric.yaml")
LATE = 600  # seconds without enough new records: the sweep hangs
MOST_COST = 0.2  # seconds
LEAST_PACE = 17 / 20  # of what as many boards as there are would do without any loss
# Of a crowd: the seconds that a point takes, the part of the time that boards work, MB of memory.
POINT, LEAST_BUSY, MOST_MEMORY = 10.0, 0.9, 2000
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

    def __init__(self, folder, count):
        self.folder, self.project = folder, folder / "project"
        self.starts = folder / "starts"
        self.project.mkdir()
        subprocess.run(["cp", "-r", *(ROOT / part for part in PARTS), self.project], check=True)
        sample = self.project / "samples" / "wait"
        sample.mkdir(parents=True)
        (sample / "run.py").write_text(SAMPLE)
        (sample / "sample.toml").write_text(MANIFEST)
        self.boards = {f"board{n}": SshServer(folder / f"board{n}") for n in range(count)}
        config = "".join(board.host_block(name) for name, board in self.boards.items())
        (folder / "ssh_config").write_text(config)
        toml = "".join(f'[{name}.env]\nSTARTS = "{self.starts}"\n' for name in self.boards)
        (self.project / "boards.toml").write_text(toml)

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
                env={**os.environ, "BOARDS_TOML": ""},
            )

    def records(self):
        """Return every record of the points so far."""
        paths = self.project.glob("results/*/*/wait/points*.jsonl")
        return [item for path in paths for item in record.sort(record.scan(path))[0]]

    def wait_for(self, count, process):
        """Wait until there are so many records, or the sweep has ended."""
        deadline = time.monotonic() + LATE
        while len(self.records()) < count and process.poll() is None:
            if time.monotonic() > deadline:
                raise OpenCLFailure("no record comes")
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
        status = process.wait(LATE)
        if status:
            log = (self.folder / "log").read_text()
            raise OpenCLFailure(f"the sweep ended with status {status}: {log[-2000:]}")

    def close(self):
        """End the servers, and what they run."""
        for board in self.boards.values():
            board.power_off()


def loss(fleet, points):
    """Kill boards and the host on the way; every point must have one record."""
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
        print(f"{len(fleet.records())} records: {event}", flush=True)
    fleet.end(process)
    count = Counter(item.params["n"] for item in fleet.records())
    again = len(fleet.starts.read_text().splitlines()) - points
    print(f"{len(count)} points, at most {max(count.values())} record each; {again} were run "
          f"again, 5 boards and 20 times the host killed")
    return len(count) == points and max(count.values()) == 1 and again <= 25


def pace(fleet, points):
    """Time points that wait a second, on one board and on all; tell whether each costs little
    enough, and whether the boards scale."""
    one = fleet.rate(points, list(fleet.boards)[:1])
    own = mean(item.params["point"]["seconds"] for item in fleet.records())
    each = 1 / one - own
    print(f"a point costs {each:.3f} s beyond its sample's {own:.3f} s (at most {MOST_COST})")
    rate = fleet.rate(points * len(fleet.boards), list(fleet.boards))
    ratio, least = rate / one, LEAST_PACE * len(fleet.boards)
    print(f"{len(fleet.boards)} boards do {rate:.2f} points a second, one does {one:.2f}: "
          f"{ratio:.1f} times (at least {least:.1f})")
    return each <= MOST_COST and ratio >= least


class Member:
    """A board of a crowd: its points only take time."""

    def __init__(self, name):
        self.board = SimpleNamespace(name=name)

    def join(self, *_):
        about = record.Record("crowd", "describe", "passed", device=DEVICE, code="1")
        return self.board.name, {}, about, {}

    def run(self, asked):
        time.sleep(POINT)
        done = record.Record(asked.sample, "none", "passed", device=DEVICE, metrics={"gflops": 1.0})
        return Outcome(0, [done], None, POINT)


async def _begin(client, members):
    for member in members:
        await workers.BoardWorker(client, member)


def crowd(folder, boards, points):
    """Run so many points on so many Members, workers of Dask in this process; tell whether the
    limits are kept."""
    silent = SimpleNamespace(**dict.fromkeys(("line", "point", "refresh"), lambda *_: None))
    found = manifest.Manifest("crowd", folder, "", (), (), {}, manifest.Tools(), ())
    axes = {"-n": tuple(map(str, range(points)))}
    experiment = Experiment("crowd", found, axes=axes, objectives=("gflops",))
    with workers.connect() as client:
        sync(client.loop, _begin, client, [Member(f"board{n}") for n in range(boards)])
        runs = records.Runs(folder / "runs", folder)
        began, used = time.monotonic(), time.process_time()
        Sweep(experiment, client, [], deque(maxlen=200), runs, silent, 60).carry_out()
        spent, used = time.monotonic() - began, time.process_time() - used
    busy = points * POINT / spent / boards
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    print(f"{boards} boards, {points} points of {POINT:g} s: {spent:.0f} s")
    print(f"the boards work {busy:.1%} of it (at least {LEAST_BUSY:.0%})")
    print(f"{memory:.0f} MB of memory (at most {MOST_MEMORY})")
    print(f"a point costs {1e3 * used / points:.1f} ms of a processor")
    return busy >= LEAST_BUSY and memory <= MOST_MEMORY


NEEDS = {"loss": (20, 500), "pace": (20, 15), "crowd": (1000, 50_000)}


def main(argv):
    parser = Parser("dev.fleet", __doc__, None)
    parser.add_argument("what", choices=NEEDS)
    parser.add_argument("--boards", type=count(1))
    parser.add_argument("--points", type=count(1))
    args = parser.parse_args(argv)
    boards, points = NEEDS[args.what]
    boards, points = args.boards or boards, args.points or points
    with tempfile.TemporaryDirectory() as folder:
        if args.what == "crowd":
            good = crowd(Path(folder), boards, points)
        else:
            with closing(Fleet(Path(folder), boards)) as fleet:
                good = {"loss": loss, "pace": pace}[args.what](fleet, points)
    return PASSED if good else WRONG_RESULT


if __name__ == "__main__":
    sys.exit(programs.run("dev.fleet", main, sys.argv[1:]))
