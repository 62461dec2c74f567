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

NO_CASE = ""
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

    @property
    def label(self):
        return printable(f"{self.board}/{self.name}")

    def sources(self):
        """Return the files of records."""
        return [Source(path, path.stem, self, path.parent.name)
                for path in sorted(self.folder.glob("*/*.jsonl"))]


@dataclass(frozen=True, eq=False)
class Source:
    """One file of records; `run` and `sample` are None for one that lies outside a run."""

    path: Path
    case: str = NO_CASE
    run: Run | None = None
    sample: str | None = None

    @property
    def log(self):
        """The path of what the case printed; None outside a run."""
        return self.path.with_suffix(".log") if self.run else None

    @property
    def of(self):
        """The case of a board that it is of."""
        return self.run.board, self.sample, self.case

    @property
    def rank(self):
        """Orders the runs of a case: last comes the newest that was not given up."""
        # A person stopped the run before this case was through: it says nothing then.
        stopped = object_in(self.run.folder / "ended.json").get("stopped")
        outcome = stopped and object_in(self.path.with_suffix(".outcome.json"))
        given_up = stopped and (not outcome or outcome.get("reason") == "stopped")
        return not given_up, self.run.name


def find(paths, unpack_into, notices, all_runs=False):
    """Return the Sources below the paths; what cannot be read is added to `notices`.

    Archives are unpacked into folders below `unpack_into`. Of runs that were not named themselves
    the newest is kept for each case of a board, unless `all_runs`: one that was stopped counts for
    the cases that it came to. Raises UsageError.
    """
    named, others = {}, {}
    for number, path in enumerate(map(Path, paths)):
        if path.is_dir():
            of_a_run = (path / "plan.json").is_file()
            found = _below(path, notices)
        elif not path.exists():
            raise UsageError(f"{path} does not exist")
        else:
            of_a_run = True
            found = [Source(path)]
            if archive.is_one(path):
                found = _of_archive(path, Path(unpack_into, str(number)), notices)
        for source in found:
            named_here = named if of_a_run or source.run is None else others
            named_here.setdefault(source.path.resolve(), source)
    rest = [source for path, source in others.items() if path not in named]
    newest = {source.of: source.run.name for source in sorted(rest, key=lambda s: s.rank)}
    kept = (source for source in rest if all_runs or source.run.name == newest[source.of])
    return [*named.values(), *kept]


def _below(top, notices):
    for base, folders, names in os.walk(top):
        folder = Path(base)
        others = {REFERENCE} if folder.resolve() == RESULTS else set()
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n not in others)
        if "plan.json" in names:
            folders[:] = []
            where = folder.resolve()
            plan = _plan(folder, notices)
            yield from Run(printable(where.parent.name), where.name, folder, plan).sources()
            continue
        for name in sorted(names):
            if name.endswith(".jsonl") and not name.startswith("."):
                yield Source(folder / name)
            elif name.endswith(".json"):
                notices.append(printable(f"{folder / name}: not named .jsonl; name it itself"))


def _of_archive(path, folder, notices):
    about = archive.unpack(path, folder)
    name = printable(path.name)
    origin = f"{name}: SHA-256 {about['sha256']}; {archive.told(about)}"
    plan = _plan(folder, notices)
    return Run(f"{about['board']} ({name})", about["run"], folder, plan, origin).sources()


def _plan(folder, notices):
    try:
        return json_object(folder / "plan.json")
    except UsageError as error:
        notices.append(str(error))
        return {}
