"""Fetch the files of a run from a board: enforce limits, complete the records, store them."""

import filecmp
import os
import shutil
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import replace
from statistics import median
from typing import NamedTuple

from common import files, record
from common.manifest import NAME
from common.record import Record
from common.text import one_line, size_text
from deploy import printed
from deploy.boards import shown
from deploy.errors import BoardError
from deploy.link import sense
from deploy.onboard import limits
from deploy.screen import shortened

NONE = "-"  # for a sample and a case, where nothing says which
_INCOMING = ".incoming-"
_LEFT = 24 * 3600  # seconds after which such a folder was left: no run takes as long to fetch
_WRONG = {
    "inputs_sha256": "the inputs differ from expected.json",
    "output_sha256": "the output is not that of expected.json",
}
_PARSING = threading.Lock()  # records are large in memory: of one board at a time


class Case(NamedTuple):
    """A case that came home: its records as a summary needs them, and how long it took.

    `seconds` is None where it never ran.
    """

    sample: str
    name: str
    records: list
    seconds: float | None


def incoming(beside):
    """Return a TemporaryDirectory for incomplete files in the folder `beside`. Raises OSError.

    Those that a fab left there a day ago, since it was killed, are deleted.
    """
    for path in beside.glob(f"{_INCOMING}*"):
        with suppress(FileNotFoundError):
            if time.time() - path.lstat().st_mtime > _LEFT:
                shutil.rmtree(path, ignore_errors=True)
    return tempfile.TemporaryDirectory(dir=beside, prefix=_INCOMING)


def checked(name, pattern=NAME, what="a sample or case"):
    """Return the name that a board gives to something, if it can be one. Raises BoardError."""
    if not pattern.fullmatch(name):
        raise BoardError(f"it sends an invalid name of {what}, {shortened(repr(name))}")
    return name


def receive(session, target, made=False):
    """Write the files of a run as they come into a folder; return what is left, or None.

    That is a text on what was too large. `made`: they are those that a tool asks for. Raises
    BoardError for a file that there cannot be.
    """
    target.mkdir(exist_ok=True)
    allowed = (limits.MADE, limits.MADE_KINDS) if made else (limits.FILE, limits.KINDS)
    room, seen = limits.LARGEST_RUN, set()
    while (event := session.event())["event"] != "whole":
        with sense(event):
            path, size = announced(event, room, seen, *allowed)
        room -= size
        seen.add(path)
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        with open(target / path, "wb") as file:
            for piece in session.pieces(size):
                file.write(piece)
    with sense(event):
        count, size = int(event["files"]), size_text(int(event["bytes"]))
        names = [shortened(str(path)) for path in event["left"][:3]]
        names += ["..."] if count > len(names) else []
        files = "1 file" if count == 1 else f"{count} files"
        return f"{files} of {size} ({', '.join(names)})" if count else None


def announced(event, room, seen, name=limits.FILE, kinds=limits.KINDS):
    """Return the path and the size of a file that comes. Raises BoardError where it is none."""
    if event["event"] != "file":
        raise ValueError("a file of the run must come")
    path, size = event["path"], event["bytes"]
    if not name.fullmatch(path) or path in seen:
        raise BoardError(f"it sends {shortened(repr(path))}, which is not a file of a run")
    largest = next(bound for ending, bound in kinds if path.endswith(ending))
    if type(size) is not int or not 0 <= size <= min(largest, room):
        raise BoardError(f"it sends {path} with an invalid size: {shortened(str(size))}")
    # A case has four files; the run two of its own.
    if len(seen) > 4 * limits.MOST_CASES + 2:
        raise BoardError(f"it sends more than {len(seen)} files of one run")
    return path, size


def complete(board, session, folder, known, left, room=limits.MOST_RECORDS):
    """Give every planned case of a run a record; return its Cases.

    The records are held against what the samples that are `known` expect. The Cases hold no more
    than `room` records. Raises BoardError where the run makes no sense.
    """
    plan = files.object_in(folder / "plan.json")
    if "cases" not in plan:
        lost = Record(NONE, None, "error", "the run has no plan, so its cases are unknown")
        return [Case(NONE, NONE, [lost], None)]
    with sense(plan["cases"]):
        names = dict.fromkeys(
            (checked(case["sample"]), checked(case["case"])) for case in plan["cases"]
        )
    if len(names) > limits.MOST_CASES:
        raise BoardError(f"its plan has {len(names)} cases, more than {limits.MOST_CASES}")
    ended = files.object_in(folder / "ended.json")
    broken = "the run was stopped" if ended else "the run was interrupted"
    cases, more = [], 0
    for sample, name in names:
        session.left()
        base = folder / sample / name
        outcome = files.object_in(base.with_suffix(".outcome.json"))
        started = base.with_suffix(".log").exists()
        not_run = f"{broken} while it ran" if started else f"not run: {broken}"
        not_run += f": {board.broken}" if board.broken else ""
        with _PARSING, sense(outcome):
            seconds = outcome.get("seconds")
            f"{0 if seconds is None else seconds:.1f}"  # it is a number that can be shown
            records = _records(base, outcome, not_run, left)
            records = judged(records, known, sample, name)
            records += misprinted(records, known, base)
            base.parent.mkdir(exist_ok=True)
            lines = "".join(item.to_line() + "\n" for item in records)
            base.with_suffix(".jsonl").write_text(lines, encoding="utf-8")
            cases.append(Case(sample, name, [brief(item) for item in records[:room]], seconds))
            room -= len(cases[-1].records)
            more += len(records) - len(cases[-1].records)
    if more:
        reason = f"{more} more records are in its files"
        cases.append(Case(NONE, NONE, [Record(NONE, None, "error", reason)], None))
    return cases


def _records(base, outcome, not_run, left):
    """Return the records of a case, with one of what else is wrong with it."""
    path = base.with_suffix(".jsonl")
    records, errors = _read(path) if path.exists() else ([], [])
    if errors:
        shutil.copy(path, base.with_suffix(".unreadable"))
    reason = problem(outcome, records, errors, not_run, "" if records else _last_line(base))
    if reason and left and outcome and not path.exists():
        reason = f"{reason}; files that were too large stay on the board"
    if reason:
        argv = outcome.get("argv", [])
        records.append(Record(base.parent.name, None, "error", reason, argv=argv))
    return records


def _read(path):
    """Return the records of a file, and what is wrong with some of its other lines."""
    records, errors = [], []
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = files.lines(file, limits.LONGEST_RECORD)  # what is longer is no record
        for _, item in record.settled(enumerate(record.parse(lines, path.name), 1)):
            if isinstance(item, str):
                errors.append(shortened(item))
            else:
                records.append(item)
            if len(errors) > limits.MOST_BAD:
                break
    return records, errors


def _last_line(base):
    """Return what a case printed last, such as why it could not begin; "" where there is none."""
    log = printed.read_log(base.with_suffix(".log")).rstrip()
    return shortened(one_line(log[log.rfind("\n") + 1 :].removeprefix("run.py: error: ")))


def problem(outcome, records, errors, not_run, said=""):
    """Return what is wrong with a case beyond what its records say, or None.

    `said` is the last line that it printed, which tells most where there is no record.
    """
    status = outcome.get("exit_status")
    if not outcome:
        return not_run
    if outcome["reason"]:
        return outcome["reason"]
    if errors:
        return f"a record cannot be read: {errors[0]}"
    if not records:
        left = f"ended with status {status} and left no record"
        return f"{left}: {said}" if said else left
    if (status == 0) != all(item.status in record.GOOD for item in records):
        return f"ended with status {status}, but its records have no such failure"
    return None


def judged(records, known, sample, case):
    """Return the records of a case, failed if their digests are not those of expected.json."""
    expected = known[sample].expected.get(case, {}) if sample in known else {}
    keys, judged = [key for key in _WRONG if key in expected], []
    for item in records:
        wrong = [_WRONG[key] for key in keys if item.check.get(key) != expected[key]]
        if item.status == "passed" and wrong:
            item = replace(item, status="failed", reason=wrong[0])
        judged.append(item)
    return judged


def misprinted(records, known, base):
    """Return a failed record of the case where its log differs from expected/<case>.txt.

    It is of no kernel: a log does not say which one printed what. Where not all records have passed
    the text need not be there, and they say why.
    """
    sample = known.get(base.parent.name)
    text = sample and sample.texts.get(base.name)
    if text is None or any(item.status != "passed" for item in records):
        return []
    reason = printed.difference(text, printed.read_log(base.with_suffix(".log")))
    if reason is None:
        return []
    reason = f"expected/{base.name}.txt: {reason}"
    none = {"timing": {}, "metrics": {}, "check": {}}
    return [replace(records[-1], variant=None, status="failed", reason=reason, **none)]


def brief(item):
    """Return a record with what summaries show of it, and no more: a board may send much."""
    times, metrics = item.times(), _chosen(item.metrics, *record.RATES)
    if long := item.metrics.get("sustained"):
        metrics["sustained"] = _chosen(long, "verdict", "why")
    if item.metrics.get("energy") == {}:
        metrics["energy"] = {}
    device, skipped = _chosen(item.device, "name", "type"), item.device.get("skipped")
    if isinstance(skipped, list):
        device["skipped"] = [shortened(str(text)) for text in skipped[:10]]
    return replace(
        item, sample=shortened(item.sample),
        variant=_clipped(item.variant), reason=_clipped(item.reason),
        params=_chosen(item.params, "seed", "precision", *record.LIBRARY),
        device=device, environment={}, argv=[],
        timing={"run_s": [median(times)]} if times else {},
        metrics=metrics, check=_chosen(item.check, *item.check),
    )


def _chosen(table, *keys):
    return {key: _clipped(table[key]) for key in keys if key in table}


def _clipped(value):
    if isinstance(value, (list, dict)):
        return None
    return value[: limits.LONGEST_TEXT] if isinstance(value, str) else value


def store(run, folder):
    """Put a run that came home where `folder` says, on the disk for good.

    Raises BoardError where another run of this name is there: it is not replaced.
    """
    for path in (*run.rglob("*"), run):
        _sync(path)
    if not folder.exists():
        run.rename(folder)
    elif not _same(run, folder):
        raise BoardError(f"{shown(folder)} is already here and differs: move it elsewhere")
    for parent in list(folder.parents)[:3]:
        _sync(parent)


def _same(run, other):
    ours, theirs = (
        {path.relative_to(top) for path in top.rglob("*") if path.is_file()} for top in (run, other)
    )
    return ours == theirs and not any(filecmp.cmpfiles(run, other, ours, shallow=False)[1:])


def _sync(path):
    """Have a file, or the names in a folder, written to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
