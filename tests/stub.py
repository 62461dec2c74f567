"""Tools with a stub sample in place of the real ones: no OpenCL, quick, and it fails as asked."""

import shutil
import subprocess
import sys

from common import manifest, record
from tests.conftest import ROOT
from tools import engine, points
from tools.__main__ import run

TOML = """\
description = "a stub"
files = ["run.py"]
[options]
values = [
    "--kernel", "--do", "--alpha", "--TS", "--WPT", "--size", "--repeat", "--wait", "-p", "-d",
]
words = ["--check-only", "--energy"]
[tools]
metric = "gflops"
small = ["--size", "8"]
tuned = "tuned"
[tools.axes]
"--kernel" = ["1", "2"]
[cases.only]
args = []
timeout = 60
"""
START = """\
import sys
from pathlib import Path
from common import manifest
manifest.ROOT = Path(sys.argv[1])
from tools.__main__ import run
sys.exit(run(sys.argv[2:]))
"""


class Stub:
    """A folder with the stub sample, and the tools that see no other sample."""

    def __init__(self, folder, monkeypatch, capsys):
        self.root, self.folder, self._capsys = folder, folder / "samples" / "stub", capsys
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests" / "stub_sample.py", self.folder / "run.py")
        (self.folder / "sample.toml").write_text(TOML)
        self.journal, self._runs = folder / "journal.jsonl", folder / "runs"
        monkeypatch.setattr(manifest, "ROOT", folder)
        monkeypatch.setenv("STUB_ROOT", str(ROOT))
        monkeypatch.setenv("STUB_RUNS", str(self._runs))

    def __call__(self, *argv):
        """Run a tool in this process; return (exit status, stdout, stderr)."""
        status = run(list(map(str, argv)))
        said = self._capsys.readouterr()
        return status, said.out, said.err

    def point(self, *options):
        """Run a point into the journal."""
        result = engine.run(manifest.read("stub"), points.Point(tuple(map(str, options))), 60)
        for item in result.records:
            record.append(self.journal, item)

    def command(self, *argv):
        """Return the command that runs a tool as a process of its own, in the folder ROOT."""
        return list(map(str, [sys.executable, "-c", START, self.root, *argv]))

    def start(self, *argv):
        """Start a tool as a process of its own."""
        return subprocess.Popen(
            self.command(*argv), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, start_new_session=True,
        )

    def runs(self):
        """Return the options of every run so far."""
        return self._runs.read_text().splitlines() if self._runs.exists() else []

    def records(self):
        """Return the records of the journal."""
        return record.read(self.journal) if self.journal.exists() else []
