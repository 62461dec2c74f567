"""One board of an experiment: its program, and the points that it runs one after another."""

import json
import re
import time
from pathlib import Path
from threading import Lock

from common import icd, record
from common.manifest import MOST_SECONDS
from common.text import printable
from deploy import home, ship
from deploy.errors import BoardError
from deploy.link import sense
from deploy.onboard import limits
from tools import child
from tools.child import Outcome

_KEY = re.compile("[0-9a-f]{32}")  # of a point; once() has none
STOPPED = "stopped"  # the reason of a point that did not end: it has no result


class Lost(BoardError):
    """A board was lost while it ran a point."""


class Member:
    """A Board with its session.

    `left` has the Outcomes by key that the last host did not get. `plan` is for plan.json: `env`
    are the variables that samples have there beside those of the board itself, `ssh_file` is that
    of fab's -S.
    """

    def __init__(self, board):
        self.board, self.session, self.left, self.plan = board, None, {}, {}
        self._at_once = Lock()

    def connect(self):
        """Bring the board's copy up to date and start the program. Raises BoardError."""
        ship.deploy(self.board)
        session = self.board.start("points", MOST_SECONDS)
        ends = self._ends(session, "ready", limits.COPY)
        self.left = {key: outcome for key, outcome in ends if _KEY.fullmatch(key)}
        self.session = session

    def join(self, sample, options, limit_s):
        """Connect, if need be; return (the board's name, `plan`, the record of --describe, `left`).

        `left` is then empty. Raises SampleError where there is no such record: UsageError if the
        options are wrong.
        """
        if self.session is None:
            self.connect()
        described = child.described(sample, self.once(sample, (*options, "--describe"), limit_s))
        left, self.left = self.left, {}
        return self.board.name, self.plan, described, left

    def once(self, sample, options, limit_s, env=None, files=None):
        """Run a sample for what is no point of an experiment; return the Outcome as run() does."""
        with self._at_once:  # a tool may have several threads
            return self.run("once", sample, options, limit_s, ["once"], env, files)

    def run(self, key, sample, options, limit_s, stored, env=None, files=None):
        """Run a point; return its Outcome. `stored` are keys that the board need not keep.

        `env` are further variables. `files` is a folder here: what the sample writes there, by that
        name in `options` and `env`, comes back. Raises Lost, and BoardError where the board was
        lost before.
        """
        if self.session is None:
            raise BoardError("it cannot be reached")
        settings, env = self.board.settings, env or {}
        limit_s = settings.time_limit or limit_s
        device = () if icd.OCLGRIND in env else settings.device_options()
        self.session.send(json.dumps({
            "key": key, "sample": sample, "args": [*options, *device], "timeout": limit_s,
            "stored": stored, "env": env, "files": files,
        }).encode() + b"\n")
        try:
            for came, outcome in self._ends(self.session, key, limit_s + limits.CASE_MARGIN):
                if came == key:
                    return self._with_files(outcome, files)
            raise BoardError("it ended without a result")
        except BoardError as error:
            self.session = None
            self.board.close()
            raise Lost(str(error)) from error

    def _with_files(self, outcome, folder):
        """Bring back what the sample wrote in a folder, if any; return its Outcome."""
        try:
            left = folder and home.receive(self.session, Path(folder), made=True)
        except OSError as error:
            raise BoardError(f"cannot write {folder} here: {error.strerror}") from error
        if left:
            outcome.reason = outcome.reason or f"its files are too large: {left}"
        return outcome

    def forget(self, stored):
        """Tell the board at the end which results it need not keep, and end its program."""
        if self.session is not None:
            self.session.send(json.dumps({"stored": list(stored)}).encode() + b"\nstop\n")

    def _ends(self, session, last, seconds):
        """Yield (key, Outcome) of each point that ends, until the event or the key `last` came."""
        deadline, said = time.monotonic() + seconds, ""
        while True:
            event = session.event(beats=True)
            with sense(event):
                if event["event"] == "ready":
                    env = {str(name): str(value) for name, value in event["env"].items()}
                    self.plan = {"env": env, "ssh_file": self.board.link.ssh_file}
                if event["event"] == "lines" and event["text"]:
                    said = printable(event["text"][-1])
                if event["event"] == "end":
                    yield str(event["key"]), _outcome(event, said)
                if last in (event["event"], event.get("key")):
                    return
            if time.monotonic() > deadline:
                raise BoardError(f"it did not finish within {seconds:.0f} s")


def _outcome(event, said):
    """Return the Outcome of a point by its event; `said` is the last line that it printed."""
    records, errors = record.sort(record.parse(event["records"], "its records"))
    if not event["whole"]:
        errors.append("there are too many")
    reason, status = home.problem(event, records, errors, STOPPED), event.get("exit_status")
    if reason == "timeout":
        status = None
        reason = f"killed: it did not end within {event['seconds']:.0f} s"
    elif reason and said and reason != STOPPED:
        reason = f"{reason}: {said.removeprefix('run.py: error: ')}"
    return Outcome(status, records, reason, float(event.get("seconds", 0.0)))
