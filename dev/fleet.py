"""Measure `fab sweep` on a fleet of SSH servers on loopback, with a sample that only waits.

python -m dev.fleet loss     500 points on 20 boards: 5 boards and 20 times the host are killed
python -m dev.fleet cost     what a point costs beyond its sample's own time
python -m dev.fleet pace     20 boards against one
python -m dev.fleet crowd    1,000 workers of Dask in one process, 50,000 points of 10 s

--boards and --points make a shorter one; with --plot, crowd draws a plot, as docs/experiments.md
shows one. Exit status 1: a limit is missed.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import mean

from common import programs, record
from common.arguments import Parser, count
from common.errors import PASSED, WRONG_RESULT, OpenCLFailure
from dev import crowd
from dev.loopback import SshServer

ROOT = Path(__file__).resolve().parents[1]
FAB = Path(sys.executable).parent / "fab"
PARTS = ("common", "deploy", "report", "tools", "fabfile.py", "fabric.yaml")
LATE = 600  # seconds without enough new records: the sweep hangs
MOST_COST = 0.2  # seconds
LEAST_PACE = 17 / 20  # of what as many boards as there are would do without any loss

# It takes as little of the processor as can be: boards have their own, these share this machine's.
SAMPLE = r"""import json, os, sys, time
argv = sys.argv[1:]
given = dict(zip(argv[::2], argv[1::2]))
record = {"sample": "wait", "variant": "wait", "status": "passed", "reason": None, "schema": 1,
          "device": {"name": "none", "type": "cpu", "platform": "none", "platform_version": "1",
                     "driver": "1", "limits": {}},
          "params": {}, "environment": {}, "timing": {}, "metrics": {}, "check": {}, "argv": argv,
          "started": "", "code": "1"}
if "--describe" in argv:
    record["variant"] = "describe"
else:
    with open(os.environ["STARTS"], "a") as starts:
        starts.write(given["-n"] + "\n")
    time.sleep(float(given["--seconds"]))
    record["params"]["n"], record["metrics"]["gflops"] = int(given["-n"]), 1.0
with open(argv[argv.index("--json") + 1], "a") as file:
    file.write(json.dumps(record, sort_keys=True) + "\n")
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


def cost(fleet, points):
    """Run points that do not wait on one board; tell whether each costs little enough."""
    board, spent = next(iter(fleet.boards)), []
    for number in (1, points):  # the first has what each sweep costs: to start, to connect
        began = time.monotonic()
        fleet.end(fleet.start(number, 0, [board]))
        spent.append(time.monotonic() - began)
    own = mean(item.params["point"]["seconds"] for item in fleet.records())
    each = (spent[1] - spent[0]) / (points - 1) - own
    print(f"a point costs {each:.3f} s beyond its sample's {own:.3f} s (at most {MOST_COST})")
    return each <= MOST_COST


def pace(fleet, points):
    """Compare all boards with one, on points that wait a second; tell whether they scale."""
    rates = []
    for boards in (list(fleet.boards)[:1], list(fleet.boards)):
        before, count = len(fleet.records()), points * len(boards)
        process = fleet.start(count, 1, boards)
        fleet.wait_for(before + len(boards), process)  # each is at work
        began = time.monotonic()
        fleet.end(process)
        rates.append((count - len(boards)) / (time.monotonic() - began))
    ratio, least = rates[1] / rates[0], LEAST_PACE * len(fleet.boards)
    print(f"{len(fleet.boards)} boards do {rates[1]:.2f} points a second, one does {rates[0]:.2f}: "
          f"{ratio:.1f} times (at least {least:.1f})")
    return ratio >= least


NEEDS = {"loss": (20, 500), "cost": (1, 50), "pace": (20, 15), "crowd": (1000, 50_000)}


def main(argv):
    parser = Parser("dev.fleet", __doc__, None)
    parser.add_argument("what", choices=NEEDS)
    parser.add_argument("--boards", type=count(1))
    parser.add_argument("--points", type=count(1))
    parser.add_argument("--plot", type=Path, metavar="FILE.svg")
    args = parser.parse_args(argv)
    boards, points = NEEDS[args.what]
    boards, points = args.boards or boards, args.points or points
    with tempfile.TemporaryDirectory() as folder:
        if args.what == "crowd":
            good = crowd.measure(Path(folder), boards, points, args.plot)
        else:
            fleet = Fleet(Path(folder), boards)
            try:
                good = {"loss": loss, "cost": cost, "pace": pace}[args.what](fleet, points)
            finally:
                fleet.close()
    return PASSED if good else WRONG_RESULT


if __name__ == "__main__":
    sys.exit(programs.run("dev.fleet", main, sys.argv[1:]))
