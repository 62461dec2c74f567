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

from common import files
from common.errors import UsageError
from common.text import printable
from report import archive
from report.disk import object_in, require_object
from report.errors import ReportError

NO_CASE = ""
RESULTS = Path(__file__).resolve().parents[1] / "results"
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


def find(paths, unpack_into, notices, all_runs=False):
    """Return the Sources below the paths; what cannot be read is added to `notices`.

    Archives are unpacked into folders below `unpack_into`. Of runs that were not named themselves
    the newest is kept for each case of a board, unless `all_runs`: one that was stopped counts for
    the cases that it came to. Raises ReportError.
    """
    sources, named = {}, set()
    for number, path in enumerate(map(Path, paths)):
        if path.is_dir():
            found = list(_sources_below(path, notices))
        elif path.is_file() and archive.is_one(path):
            found = list(_of_archive(path, Path(unpack_into, str(number)), notices))
        elif path.is_file():
            found = [Source(path)]
        else:
            files.regular(path) if path.exists() else None
            raise ReportError(f"{path} does not exist")
        for source in found:
            sources.setdefault(source.path.resolve(), source)
        if path.is_file() or (path / "plan.json").is_file():
            named |= {source.path.resolve() for source in found}
    if not all_runs:
        newest = _newest(sources, named)
        sources = {
            path: source for path, source in sources.items()
            if path in named or source.run is None or source.run.name == newest[_case(source)]
        }  # fmt: skip
    return list(sources.values())


def _sources_below(top, notices):
    for base, folders, names in os.walk(top):
        folder = Path(base)
        others = {REFERENCE} if folder.resolve() == RESULTS else set()
        folders[:] = sorted(n for n in folders if not n.startswith(".") and n not in others)
        if "plan.json" in names:
            folders[:] = []
            where = folder.resolve()
            plan = _plan(folder, notices)
            yield from _of_run(Run(printable(where.parent.name), where.name, folder, plan))
        else:
            yield from (Source(folder / n) for n in sorted(names) if _is_records(n))
            other = [n for n in sorted(names) if n.endswith(".json")]
            notices += [printable(f"{folder / n}: not named .jsonl; name it itself") for n in other]


def _of_archive(path, folder, notices):
    about = archive.unpack(path, folder)
    name = printable(path.name)
    origin = f"{name}: SHA-256 {about['sha256']}, licence of the data {about['licence']}"
    run = Run(f"{about['board']} ({name})", about["run"], folder, _plan(folder, notices), origin)
    yield from _of_run(run)


def _of_run(run):
    for path in sorted(run.folder.glob("*/*.jsonl")):
        yield Source(path, path.stem, run, path.parent.name)


def _is_records(name):
    return name.endswith(".jsonl") and not name.startswith(".")


def _plan(folder, notices):
    try:
        return require_object(folder / "plan.json")
    except UsageError as error:
        notices.append(str(error))
        return {}


def _case(source):
    return source.run.board, source.sample, source.case


def _newest(sources, named):
    """Return the name of the newest run of each case of a board."""
    newest = {}
    for path, source in sources.items():
        if source.run and path not in named:
            rank = not _given_up(source), source.run.name
            newest[_case(source)] = max(newest.get(_case(source), rank), rank)
    return {case: name for case, (_, name) in newest.items()}


def _given_up(source):
    """Tell whether a person stopped the run before this case was through: it says nothing then."""
    if not object_in(source.run.folder / "ended.json").get("stopped"):
        return False
    outcome = object_in(source.path.with_suffix(".outcome.json"))
    return not outcome or outcome.get("reason") == "stopped"
