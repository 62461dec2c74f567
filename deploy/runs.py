"""Run cases on a board and bring their records home.

What comes home lies in results/<board>/<run>/<sample>/: <case>.jsonl with the records and
<case>.log with the output. Every case that was planned has a record there, whatever happened to it.
"""

import io
import json
import re
import shutil
import tarfile
import tempfile
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from common import record
from common.record import Record
from deploy import printed, samples
from deploy.boards import ROOT
from deploy.errors import BoardError
from deploy.onboard.cases import RECORDS_LIMIT
from deploy.progress import Brief
from deploy.table import shortened

RESULTS = ROOT / "results"
LARGEST_RUN = 512 * 1024**2  # bytes, unpacked
_RUN_NAME = re.compile(r"\d{8}T\d{6}\.\d{3}Z")  # as name_run gives it
_WRONG = {
    "inputs_sha256": "the inputs are not those of expected.json",
    "output_sha256": "the output is not that of expected.json",
}


@dataclass(frozen=True)
class Row:
    """One record with the case that it belongs to."""

    board: str
    case: str
    record: Record


def name_run():
    """Return the name of a run that starts now: UTC by the host's clock, since boards forget."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"


def run(board, cases, name, judge=True, arrays=False, view=Brief):
    """Run the cases on the board, and return the Rows of their records.

    With `judge`, a record that differs from its sample's expected.json has failed, and so has a
    case that does not print its text of expected/. With `arrays`, what the kernels put out comes
    home as <sample>/<case>.npz. What the user sees meanwhile is up to `view`, a class of
    progress.py.
    """
    mine = board.settings
    plan = [
        {
            "sample": case.sample,
            "case": case.name,
            "args": [*case.args, *mine.device_options()],
            "timeout": mine.time_limit or case.timeout,
            "arrays": arrays,
        }
        for case in cases
    ]
    manifest = samples.hashes(samples.shipped(samples.load()))
    names = [(case.sample, case.name) for case in cases]
    board.view = view(board, names, shown(RESULTS / board.name / name))
    board.fetched, board.broken = [], None
    session = board.start("remote", do="run", run=name, cases=plan, manifest=manifest)
    try:
        return _follow(board, session, judge)
    except BoardError as error:
        collect = f"`fab collect --host {board.name}` fetches what the board has by then"
        raise BoardError(f"{error}. {collect}") if board.running else error from error
    finally:
        board.view.close()


def _follow(board, session, judge):
    rows = []
    while (event := session.event(beats=True))["event"] != "done":
        try:
            rows += _EVENTS[event["event"]](board, session, event, judge) or []
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            sent = shortened(str(event))
            raise BoardError(f"it sends what makes no sense: {sent} ({error})") from error
    board.running = False
    return rows


def _tree(board, _session, event, _judge):
    board.running = True
    if event["differ"]:
        board.say("note: the board's copy differs from this checkout: deploy again")


def _start(board, _session, event, _judge):
    board.view.start(event)


def _lines(board, _session, event, _judge):
    board.view.lines(event["text"])


def _beat(board, _session, _event, _judge):
    board.view.beat()


def _end(board, _session, event, judge):
    board.view.end(event, _sent(event, judge))


def _sent(event, judge):
    """Return the records that came with the end of a case: to be shown, no more."""
    sample, name = _plain(event["sample"]), _plain(event["case"])
    if sum(map(len, event["records"])) > RECORDS_LIMIT:
        raise ValueError("more records than a case may send")
    records, errors = record.sort(record.parse(event["records"], f"{name}.jsonl"))
    # Where some of them are missing, they cannot explain the exit status.
    reason = _problem(event, records, errors, "") if event["whole"] else event["reason"]
    if reason:
        records.append(Record(sample, None, "error", reason))
    known = samples.load() if judge else {}
    expected = known[sample].expected.get(name, {}) if sample in known else {}
    return [_judge(item, expected) for item in records]


def _broken(board, _session, event, _judge):
    board.broken = str(event["reason"])
    board.view.broken(board.broken)


def collect(board, view=Brief):
    """Fetch every run whose results are still on the board; return the Rows of their records."""
    board.view, board.fetched, board.broken = view(board), [], None
    rows = _follow(board, board.start("remote", do="fetch"), judge=True)
    if not board.fetched:
        board.say("nothing to collect")
    return rows


def _archive(board, session, event, judge):
    """Put an archive from the board into results/, complete it, and let the board forget it."""
    data = session.read(event["bytes"])
    folder = RESULTS / board.name / _run_folder(event["run"])
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".incoming-") as incoming:
            unpacked = Path(incoming, "run")
            _unpack(data, unpacked)
            _note_way(board, unpacked / "plan.json")
            rows = _complete(board, unpacked, event["complete"], judge)
            if folder.exists():  # fetched before, while it was still going on
                shutil.rmtree(folder)
            unpacked.rename(folder)
    except OSError as error:
        kept = "the records stay on the board"
        raise BoardError(f"cannot write {shown(folder)} here: {error.strerror}; {kept}") from error
    session.send(b"stored\n")
    board.fetched.append(shown(folder))
    _show_home(board, folder, event["complete"])
    return rows


def _show_home(board, folder, complete):
    """Show the cases of a run that came home; `_complete` has checked their names."""
    plan = _json(folder / "plan.json").get("cases", [])
    cases = [(case["sample"], case["case"]) for case in plan]
    board.view.home(cases, shown(folder), complete)
    for sample, name in cases:
        base = folder / sample / name
        outcome = _json(base.with_suffix(".outcome.json"))
        if outcome or complete:
            records = record.read_lenient(base.with_suffix(".jsonl"))[0]
            board.view.came(sample, name, records, outcome.get("seconds"), base.with_suffix(".log"))


_EVENTS = {
    "tree": _tree,
    "start": _start,
    "lines": _lines,
    "beat": _beat,
    "end": _end,
    "broken": _broken,
    "archive": _archive,
    "noise": lambda *_: None,
}


def was_stopped(folder):
    """Tell whether a person stopped the run that came home into a folder."""
    return bool(_json(folder / "ended.json").get("stopped"))


def _run_folder(name):
    if not _RUN_NAME.fullmatch(name):
        raise BoardError(f"the board names a run {name!r}")
    return name


def shown(folder):
    return folder.relative_to(ROOT) if folder.is_relative_to(ROOT) else folder


def _unpack(data, target):
    """Unpack <sample>/<case>.<kind> and the run's own files; nothing else is looked at."""
    target.mkdir()
    room = LARGEST_RUN
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            for member in archive:
                path = Path(member.name)
                if not member.isfile() or len(path.parts) > 2 or ".." in path.parts:
                    continue
                room -= member.size
                if path.is_absolute() or room < 0:
                    continue
                (target / path).parent.mkdir(exist_ok=True)
                (target / path).write_bytes(archive.extractfile(member).read())
    except (tarfile.TarError, zlib.error, EOFError) as error:
        raise BoardError(f"the results that came are broken: {error}") from error


def _note_way(board, path):
    """Keep in the plan which file says how to reach the board: ours to say, not the board's."""
    if plan := _json(path):
        file = board.link.ssh_file
        plan["ssh_config"] = file and str(shown(Path(file)))
        path.write_text(json.dumps(plan), encoding="utf-8")


def _complete(board, folder, complete, judge):
    """Give every planned case a record; with `judge`, hold it against what its sample expects."""
    plan = _json(folder / "plan.json")
    if "cases" not in plan:
        lost = Record("-", None, "error", "the run has no plan: what it was to do is lost")
        return [Row(board.name, "-", lost)]
    known = samples.load()
    cut = "the run was stopped" if _json(folder / "ended.json") else "the run was cut off"
    why = f": {board.broken}" if board.broken else ""
    rows = []
    for case in plan["cases"]:
        sample, name = _plain(case["sample"]), _plain(case["case"])
        base = folder / sample / name
        outcome = _json(base.with_suffix(".outcome.json"))
        if not outcome and not complete:
            continue  # its turn is still to come
        path = base.with_suffix(".jsonl")
        records, errors = record.read_lenient(path) if path.exists() else ([], [])
        errors = [text.replace(f"{path.parent}/", "") for text in errors]
        if errors:
            shutil.copy(path, base.with_suffix(".unreadable"))
        not_run = f"{cut} while it ran" if base.with_suffix(".log").exists() else f"not run: {cut}"
        if reason := _problem(outcome, records, errors, not_run + why):
            records.append(Record(sample, None, "error", reason, argv=outcome.get("argv", [])))
        if judge and sample in known:
            expected = known[sample].expected.get(name, {})
            records = [_judge(item, expected) for item in records]
            records += _misprinted(records, known[sample].texts.get(name), base)
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(item.to_line() + "\n" for item in records), encoding="utf-8")
        rows += [Row(board.name, name, item) for item in records]
    return rows


def _plain(name):
    if not samples.NAME.fullmatch(name):
        raise BoardError(f"it names a sample or case {name!r}")
    return name


def _problem(outcome, records, errors, not_run):
    """Return what is wrong with a case beyond what its records say, or None."""
    status = outcome.get("exit_status")
    if not outcome:
        return not_run
    if outcome["reason"]:
        return outcome["reason"]
    if errors:
        return f"a record cannot be read: {errors[0]}"
    if not records:
        return f"ended with status {status} and left no record"
    if (status == 0) != all(item.status == "passed" for item in records):
        return f"ended with status {status}, which its records do not explain"
    return None


def _judge(item, expected):
    """Return the record, failed if its digests are not those of expected.json."""
    for key, reason in _WRONG.items():
        came = item.check.get(key)
        if item.status == "passed" and came != expected.get(key, came):
            item = replace(item, status="failed", reason=reason)
    return item


def _misprinted(records, text, base):
    """Return a failed record of the case where its log differs from expected/<case>.txt.

    It is of no kernel: a log does not say which one printed what. Where not all records have passed
    the text need not be there, and they say why.
    """
    if text is None or any(item.status != "passed" for item in records):
        return []
    reason = printed.difference(text, printed.read_log(base.with_suffix(".log")))
    if reason is None:
        return []
    reason = f"expected/{base.name}.txt: {reason}"
    none = {"timing": {}, "metrics": {}, "check": {}}
    return [replace(records[-1], variant=None, status="failed", reason=reason, **none)]


def _json(path):
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
