"""Run cases on a board and bring their records home.

What comes home lies in results/<board>/<run>/<sample>/: <case>.jsonl with the records and
<case>.log with the output. Every case that was planned has a record there, whatever happened to it.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from common import record
from common.record import Record
from deploy import home, samples
from deploy.boards import ROOT, shown
from deploy.errors import BoardError
from deploy.link import sense
from deploy.onboard import limits
from deploy.onboard.folder import RUN_NAME
from deploy.progress import View
from deploy.screen import shortened

RESULTS = ROOT / "results"


@dataclass(frozen=True)
class Row:
    """One record with the case that it belongs to, and the folder of its run, if that came home."""

    board: str
    case: str
    record: Record
    folder: Path | None = None


def name_run():
    """Return the name of a run that starts now: UTC by the host's clock, since boards forget."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"


def run(board, cases, name, judge=True, arrays=False, verbose=False):
    """Run the cases on the board, and return the Rows of their records.

    With `judge`, a record that differs from its sample's expected.json has failed, and so has a
    case that does not print its text of expected/. With `arrays`, what the kernels put out comes
    home as <sample>/<case>.npz. `verbose` shows all that the cases print.
    """
    mine, loaded = board.settings, samples.load()
    plan = [
        {"sample": case.sample, "case": case.name, "args": [*case.args, *mine.device_options()],
         "timeout": (mine.time_limit or case.timeout) + case.longer, "arrays": arrays}
        for case in cases
    ]
    manifest = samples.hashes(samples.shipped(loaded))
    names = [(case.sample, case.name) for case in cases]
    seconds = sum(each["timeout"] + limits.CASE_MARGIN for each in plan) + limits.FETCH
    session = board.start("run", seconds, run=name, cases=plan, manifest=manifest)
    view = View(board, names, RESULTS / board.name / name, verbose)
    talk = _Talk(view, session, loaded if judge else {}, names, name)
    try:
        return talk.follow()
    except BoardError as error:
        if not talk.running:
            raise
        collect = f"`fab collect --host {board.name}` fetches the results so far"
        raise BoardError(f"{error}. {collect}") from error
    finally:
        view.close()


class _Talk:
    """What a board says about a run, or about all that wait there: held to what it may say.

    `known` are the samples that say what is expected. `cases` are those that are to run, as
    (sample, case), and `run` is that run's name; None: the board says which runs it has. `view`
    shows what comes, and `running` tells that the run began.
    """

    def __init__(self, view, session, known, cases=(), run=None):
        self.view, self.board, self.session, self.known = view, view.board, session, known
        self.run, self.runs, self.rows, self.running = run, 0, [], False
        self.board.broken = None
        # What may still come once: a board must not print without end.
        self.open = {(what, *case) for case in cases for what in ("start", "end")}
        self.open |= {(what, None, None) for what in ("tree", "broken") if cases}

    def follow(self):
        """Show what comes until the board is done; return the Rows of what came home."""
        while (event := self.session.event(beats=True))["event"] != "done":
            with sense(event):
                self._take(event)
        return self.rows

    def _take(self, event):
        board, what = self.board, event["event"]
        if what in ("tree", "start", "end", "broken"):
            once = (what, event.get("sample"), event.get("case"))
            if once not in self.open:
                raise ValueError("it was not asked for")
            self.open.remove(once)
        match what:
            case "tree":
                self.running = True
                if event["differ"]:
                    board.say("note: the board's copy differs from this checkout; deploy again")
            case "start":
                self.view.start(event)
            case "lines":
                self.view.lines(event["text"])
            case "beat":
                self.view.beat()
            case "end":
                self.view.end(event, sent(event, self.known))
            case "broken":
                board.broken = shortened(str(event["reason"]))
                board.say(f"the board cannot continue: {board.broken}")
            case "running":
                board.say(f"run {self._name(event)} is still running: collect again")
            case "run":
                self._run(self._name(event))
            case _:
                raise ValueError("no such event")

    def _name(self, event):
        """Return the name of a run of which the board tells."""
        name = home.checked(event["run"], RUN_NAME, "a run")
        self.runs += 1
        if self.run not in (None, name) or self.runs > (1 if self.run else limits.MOST_RUNS):
            raise ValueError("it was not asked for")
        return name

    def _run(self, name):
        """Put a run from the board into results/, complete it, and let the board forget it.

        One that cannot be understood stays there; those behind it are still fetched.
        """
        folder = RESULTS / self.board.name / name
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with home.incoming(folder.parent) as new:
                came = Path(new, "run")
                left = home.receive(self.session, came)
                room = max(0, limits.MOST_RECORDS - len(self.rows))
                try:
                    cases = home.complete(self.board, self.session, came, self.known, left, room)
                    home.store(came, folder)
                except BoardError as error:
                    self.session.send(b"kept %s\n" % name.encode())
                    reason = f"run {name}: {error}. It stays on the board"
                    lost = Record(home.NONE, None, "error", reason)
                    self.rows.append(Row(self.board.name, home.NONE, lost))
                    return
        except OSError as error:
            why = f"{error.strerror or error}; the records stay on the board"
            raise BoardError(f"cannot write {shown(folder)} here: {why}") from error
        self.session.send(b"stored %s\n" % name.encode())
        if left:
            self.board.say(f"too large, stays on the board: {left}, in results/ of its folder")
        self.view.home([each for each in cases if each.sample != home.NONE], folder)
        self.rows += [Row(self.board.name, each.name, item, shown(folder))
                      for each in cases for item in each.records]


def sent(event, known):
    """Return the records that came with the end of a case: to be shown, no more.

    `known` are the samples that say what is expected.
    """
    sample, name = event["sample"], event["case"]
    if sum(map(len, event["records"])) > limits.FIRST_RECORDS:
        raise ValueError("more records than a case may have")
    records, errors = record.sort(record.parse(event["records"], f"{name}.jsonl"))
    # Where some of them are missing, they cannot explain the exit status.
    reason = home.problem(event, records, errors, "") if event["whole"] else event["reason"]
    if reason:
        records.append(Record(sample, None, "error", reason))
    return home.judged(records, known, sample, name)


def collect(board, verbose=False):
    """Fetch every run whose results are still on the board; return the Rows of their records."""
    session = board.start("fetch", limits.FETCH)
    talk = _Talk(View(board, verbose=verbose), session, samples.load())
    rows = talk.follow()
    if not talk.runs:
        board.say("nothing to collect")
    return rows
