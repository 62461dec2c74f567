"""Find the runs and the files of records that a report is made of.

results/                       every board; of each case the newest run that has it. Its folder
                               reference/ is of others, and read only where it is named
results/<board>/               one board
results/<board>/<run>/         one run (a folder with plan.json), however old it is
FILE.jsonl                     records that a sample wrote with --json, whatever the file is called
FILE.zip                       a run that somebody shared: see archive.py
"""

import os
from dataclasses import dataclass
from pathlib import Path

from common.errors import UsageError
from common.files import json_object, object_in
from common.manifest import ROOT
from common.text import printable
from report import archive

RESULTS = ROOT / "results"
REFERENCE = "reference"  # in it: runs that came with the samples


@dataclass(frozen=True, eq=False)
class Run:
    """A folder of results as `fab` leaves it. `origin` tells of the archive that it came in."""

    board: str
    name: str
    folder: Path
    plan: dict
    origin: str | None = None


@dataclass(frozen=True, eq=False)
class Source:
    """One file of records; `run` and `sample` are None for one that lies outside a run."""

    path: Path
    case: str = ""
    run: Run | None = None
    sample: str | None = None

    @property
    def outcome(self):
        """What `fab` wrote about the case, an empty object where there is nothing."""
        return object_in(self.path.with_suffix(".outcome.json")) if self.run else {}

    @property
    def rank(self):
        """Orders the runs of a case: last comes the newest that was not given up."""
        # A person stopped the run before this case was through: it says nothing then.
        stopped = object_in(self.run.folder / "ended.json").get("stopped")
        given_up = stopped and self.outcome.get("reason", "stopped") == "stopped"
        return not given_up, self.run.name


def find(paths, unpack_into, notices, all_runs=False):
    """Return the Sources below the paths; what cannot be read is added to `notices`.

    Archives are unpacked into folders below `unpack_into`. Of runs that were not named themselves
    the newest is kept for each case of a board, unless `all_runs`: one that was stopped counts for
    the cases that it came to. Raises UsageError.
    """
    named, others = {}, {}
    once = {os.path.realpath(path): Path(path) for path in paths}
    for number, path in enumerate(once.values()):
        if not path.exists():
            raise UsageError(f"{path} does not exist")
        if path.is_dir():
            found = _below(path, notices)
        elif archive.is_one(path):
            found = _of_archive(path, Path(unpack_into, str(number)), notices)
        else:
            found = [Source(path)]
        is_results = path.is_dir() and not (path / "plan.json").is_file()
        for source in found:
            kept = others if is_results and source.run else named
            kept.setdefault(source.path.resolve(), source)
    rest = [source for path, source in others.items() if path not in named]
    newest = {_case(source): source.run.name for source in sorted(rest, key=lambda s: s.rank)}
    return [*named.values(), *(s for s in rest if all_runs or s.run.name == newest[_case(s)])]


def _case(source):
    return source.run.board, source.sample, source.case


def _below(top, notices):
    for base, folders, names in os.walk(top):
        folder = Path(base)
        others = {REFERENCE} if folder.resolve() == RESULTS else set()
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n not in others)
        if "plan.json" in names:
            folders[:] = []
            where = folder.resolve()
            yield from _of_run(where.parent.name, where.name, folder, notices)
            continue
        for name in sorted(names):
            if name.endswith(".jsonl") and not name.startswith("."):
                yield Source(folder / name)
            elif name.endswith(".json"):
                notices.append(printable(f"{folder / name}: not named .jsonl; name it itself"))


def _of_archive(path, folder, notices):
    about, name = archive.unpack(path, folder), printable(path.name)
    origin = f"{name}: SHA-256 {about['sha256']}; {archive.told(about)}"
    return _of_run(f"{about['board']} ({name})", about["run"], folder / "run", notices, origin)


def _of_run(board, name, folder, notices, origin=None):
    try:
        plan = json_object(folder / "plan.json")
    except UsageError as error:
        notices.append(str(error))
        plan = {}
    run = Run(printable(board), printable(name), folder, plan, origin)
    return [Source(path, path.stem, run, path.parent.name)
            for path in sorted(folder.glob("*/*.jsonl"))]
