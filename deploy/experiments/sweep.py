"""The loop of an experiment: ask the study, submit to Dask, store what comes, tell the study."""

import time
from collections import Counter
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from queue import Empty, SimpleQueue

from common.errors import SampleError, UsageError
from common.text import figures
from deploy.boards import shown
from deploy.errors import BoardError
from deploy.experiments import workers
from deploy.experiments.finals import Finals
from deploy.experiments.member import STOPPED, Lost
from deploy.experiments.records import Records
from deploy.experiments.study import Study
from deploy.onboard import limits
from tools import engine, space
from tools.child import Outcome
from tools.space import PER_WATT

LOOK = 0.5  # seconds between two looks at the workers
RETRY = 2.0  # seconds until a board that is away is tried again
TICK = 0.2  # seconds between two drawings of the progress
IN_USE = "the board is in use"
_NO_POWER = "no power sensor was readable, or the runs were too short for it"
_NO_METRIC = "the sample's records have no such metric"
_FIRST = 5.0  # seconds for others to join where the first boards refuse the options
_MOST_LOST = 3  # boards that one point may cost


class Kind:
    """The points on one kind of device: those of the study, then the best again.

    `boards` has the names of those that are there by the address of their workers, `busy` the
    addresses of those at a point. `waits`: a board may still bring what the last host had it run;
    `left` has the Outcomes that came so, by key.
    """

    def __init__(self, key, space, runs, seen):
        self.space = space
        run, self.waits = runs.of(key)
        self.records = Records(space.experiment, run)
        self.study, self.finals = Study(space, self.records, seen), None
        self.boards, self.busy, self.best, self.left = {}, set(), {}, {}
        self.lost = Counter()
        about = space.described.device
        self.label = f"{about['name']}, driver {about['driver']}"

    def lines(self):
        """Return what was found: a front of two objectives, what finals say, what no point has."""
        objectives, found = self.space.experiment.objectives, []
        if len(objectives) > 1 and (best := self.study.best()):
            found.append(f"the Pareto front of {' and '.join(objectives)}:")
            found += [f"{self.space.point(candidate).label}: {', '.join(map(figures, values))}"
                      for candidate, values in best]
        found += self.finals.lines()
        for name in self.records.lacking():
            why = _NO_POWER if name.endswith(PER_WATT) else _NO_METRIC
            found.append(f"no point has {name}: {why}")
        return found


class Sweep:
    """One Experiment on the boards whose workers a Client finds.

    `stored` gets the keys of points that boards need not keep any more. `show` is told of what
    happens: see show.py.
    """

    def __init__(self, experiment, client, stored, runs, show, wait_s):
        self.experiment, self.kinds = experiment, {}
        self.summary, self._refused = engine.Summary(experiment.found), None
        self._client, self._stored, self._runs = client, stored, runs
        self._show, self._wait, self._elsewhere = show, wait_s, not client.cluster
        self._came, self._open, self._told = SimpleQueue(), {}, []
        # By the address of a worker: the Kind of its board, or why that is away, or None until one
        # of them is known; and when to try again one that is away.
        self._known, self._again, self._asked = {}, {}, {}
        self._start = self._last = time.monotonic()
        self._next_look = 0.0

    def carry_out(self):
        """Run all points.

        Raises BoardError where no board is left to run them, UsageError where none takes the
        options.
        """
        while not self._finished():
            for kind in self.kinds.values():
                self._fill(kind)
            self._receive()
            self._show.refresh(self.kinds.values())

    def refused(self):
        """Return which point a sample first refused, and why, as text; None where none was."""
        if self._refused is None:
            return None
        found = (kind.records.newest(self._refused, "refused") for kind in self.kinds.values())
        why = next(item.reason for item in found if item)
        return f"refused: {self._refused.label}: {why}"

    def _count(self, point, state, records=()):
        if state.ended == "refused":
            self._refused = self._refused or point
        self.summary.add(point, state, records)

    def _finished(self):
        self._look()
        self._require_boards()
        ended = all(kind.finals and kind.finals.done for kind in self.kinds.values())
        return bool(self.kinds) and not self._joining() and ended

    def _joining(self):
        """Tell whether a board is about to join: one that takes very long is not waited for."""
        late = time.monotonic() - self.experiment.limit - limits.CASE_MARGIN
        return any(each is None and self._asked.get(address, late + 1) > late
                   for address, each in self._known.items())

    def _held(self):
        """Tell whether a board may still bring what the last host had it run."""
        late = time.monotonic() > self._start + self.experiment.limit + limits.CASE_MARGIN
        in_use = any(IN_USE in str(each) for each in self._known.values())
        return self._joining() or (in_use and not late)

    def _require_boards(self):
        if self._held() or any(isinstance(each, Kind) for each in self._known.values()):
            self._last = time.monotonic()
            return
        away, wait = list(self._known.values()), self._wait if self.kinds or self._elsewhere else 0
        refused = bool(away) and all(isinstance(error, UsageError) for error in away)
        if time.monotonic() - self._last > (min(wait, _FIRST) if refused else wait):
            if refused:
                raise away[0]
            raise BoardError("no board is left; repeat the command to continue")

    def _look(self):
        """Let boards join that are new, or were away, and forget the workers that are gone."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK
        # A task is unrunnable whose worker is gone.
        there, stuck = self._client.run_on_scheduler(lambda dask_scheduler: (
            set(dask_scheduler.workers), {task.key for task in dask_scheduler.unrunnable}
        ))
        for future in [future for future in self._open if future.key in stuck]:
            future.cancel()
        for address in set(self._known) - there:
            self._leave(address)
            self._known.pop(address)
            self._again.pop(address, None)
        for address in there - set(self._known):
            self._known[address], self._again[address] = None, 0.0
        for address, when in list(self._again.items()):
            if when < time.monotonic():
                self._again.pop(address)
                self._asked[address] = time.monotonic()
                what = self.experiment
                self._submit(partial(self._joined, address), address, "join", what.found.name,
                             what.options, what.limit)

    def _leave(self, address, error=None):
        """Take a board out of its kind. It is tried again, unless it cannot run the sample."""
        if isinstance(kind := self._known.get(address), Kind):
            kind.boards.pop(address, None)
        if address in self._known:
            self._known[address] = error
            if isinstance(error, BoardError):
                self._again[address] = time.monotonic() + RETRY

    def _submit(self, then, address, method, *args):
        future = self._client.submit(workers.call, method, *args, pure=False, workers=[address])
        self._open[future] = then
        future.add_done_callback(self._came.put)

    def _receive(self):
        """Handle what has ended, or wait a TICK for it."""
        ended = []
        with suppress(Empty):
            ended.append(self._came.get(timeout=TICK))
            while True:
                ended.append(self._came.get_nowait())
        good = [future for future in ended if future.status == "finished"]
        results = dict(zip(good, self._client.gather(good)))
        for future in ended:
            self._open.pop(future)(results[future] if future in results else _error(future))
        for kind in self.kinds.values():
            kind.records.sync()
        for tell in self._told:
            tell()
        self._told.clear()

    def _joined(self, address, result):
        if isinstance(result, Exception) or address not in self._known:
            if self._elsewhere and str(result) != str(self._known.get(address)):
                self._show.line(f"cannot join: {result}")  # else its worker says so
            self._leave(address, result)
            return
        board, plan, described, left = result
        key = space.kind(self.experiment, described)
        if key not in self.kinds:
            made = Kind(key, space.Space(self.experiment, described), self._runs, self._count)
            self.kinds[key] = made
            total = made.study.total
            there = f"{made.study.done} of them in results/ already"
            self._show.line(f"{made.label}: {total} point{'s' * (total != 1)}, {there}")
            if made.study.shown and find_spec("optuna_dashboard"):
                self._show.line(f"the search: optuna-dashboard {shown(made.study.shown)}")
        kind = self.kinds[key]
        kind.records.plans[board] = plan
        self._stored.extend(key for key in left if kind.records.state(key))
        kind.left.update((key, (board, outcome)) for key, outcome in left.items())
        kind.study.claim(left)
        self._known[address], kind.boards[address] = kind, board
        self._show.line(f"{board} joins: {kind.label}")

    def _fill(self, kind):
        """Give every free board of a kind a point."""
        kind.waits = kind.waits and self._held()
        if kind.waits:
            return
        if kind.study.done >= kind.study.total and not kind.finals and not self._joining():
            kind.finals = Finals(kind)
        of = kind.finals or kind.study
        # Among all boards of a kind Dask would look for one at each point: with 1,000 boards that
        # takes longer than all else.
        for address, board in kind.boards.items():
            while address not in kind.busy and (point := of.next(board)):
                kind.busy.add(address)
                self._run(kind, address, board, point, partial(of.end, board, point))

    def _run(self, kind, address, board, point, then):
        """Run a point unless its record is here, or its result came with a board that joined."""
        def end(ended, values):
            kind.busy.remove(address)
            then(ended, values)

        def came(result):
            if isinstance(result, Exception):
                self._leave(address, result)
            self._store(kind, board, point, end, result)

        what = self.experiment
        if kind.records.state(point.key):  # of the best, run again
            end(True, kind.records.values(point.key))
        elif point.key in kind.left:
            board, outcome = kind.left.pop(point.key)
            self._store(kind, board, point, end, outcome)
        else:
            self._submit(came, address, "run", point.key, what.found.name, point.options,
                         what.limit, [*self._stored])

    def _store(self, kind, board, point, end, result):
        """Write what came of a point; it ends when that is on the disk."""
        if isinstance(result, Exception):
            kind.lost[point.key] += isinstance(result, Lost)
            if kind.lost[point.key] == _MOST_LOST:
                why = f"{_MOST_LOST} boards were lost at it: {result}"
                board, result = "lost", Outcome(None, [], why)
        if isinstance(result, Exception) or result.reason == STOPPED:
            end(False, None)
            return
        made = engine.result(self.experiment.found, point, result, self.experiment.limit)
        kind.records.add(board, made)
        self._told.append(partial(self._written, kind, board, point, end, made))

    def _written(self, kind, board, point, end, made):
        self._stored.append(point.key)
        values = kind.records.values(point.key)
        self._count(point, made.state, made.records)
        if values and values[0] > kind.best.get(board, (0.0,))[0]:
            kind.best[board] = values
        end(True, values)
        text = engine.line(self.experiment.found, made)
        self._show.point(self.kinds.values(), board, point, text)


def _error(future):
    """Return why a task has no result."""
    error = future.exception() if future.status == "error" else BoardError("its worker is gone")
    if isinstance(error, SampleError):
        return error
    raise error
