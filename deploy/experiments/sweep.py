"""The loop of an experiment: ask the study, submit to Dask, store what comes, tell the study."""

import time
from collections import Counter
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from queue import Empty, SimpleQueue

from common.errors import SampleError
from common.text import figures
from deploy.boards import shown
from deploy.errors import BoardError
from deploy.experiments import workers
from deploy.experiments.finals import Finals
from deploy.experiments.member import STOPPED, Asked, Lost
from deploy.experiments.records import Records
from deploy.experiments.study import Study
from deploy.onboard import limits
from tools import engine, space
from tools.child import Outcome
from tools.space import PER_WATT

LOOK = 0.5  # seconds between two looks at the workers
TICK = 0.2  # seconds between two drawings of the progress
_NO_POWER = "no power sensor was readable, or the runs were too short for it"
_NO_METRIC = "the sample's records have no such metric"
_MOST_LOST = 3  # boards that one point may cost


class Kind:
    """The points on one kind of device: those of the study, then the best again.

    `run` is the name of its folder in results/. `boards` has the names of those that are there by
    the address of their workers, `busy` the addresses of those at a point. `waits`: a board may
    still bring what the last host had it run; `left` has the Outcomes that came so, by key.
    """

    def __init__(self, key, space, runs, seen):
        self.space = space
        self.run, self.waits = runs.of(key)
        self.records = Records(space.experiment, self.run, runs.results)
        self.study = Study(space, self.records, seen)
        self.boards, self.busy, self.best, self.left = {}, set(), {}, {}
        self.again, self.lost = [], Counter()
        self.finals = None
        about = space.described.device
        self.label = f"{about['name']}, driver {about['driver']}"

    @property
    def searched(self):
        """Tell whether every point of the study has ended."""
        return self.study.done >= self.study.total

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

    def take(self, board):
        """Return (Point, what is told its end) of what a board is to run next, or None.

        The latter takes whether it ended, and the values of the objectives or None.
        """
        if self.finals:
            point = self.finals.next(board)
            return point and (point, partial(self.finals.add, board))
        taken = self.again.pop() if self.again else self.study.next()
        return taken and (taken[1], partial(self._tell, taken))

    def _tell(self, taken, ended, values):
        if ended:
            self.study.tell(taken[0], values)
        else:
            self.again.append(taken)


class Sweep:
    """One Experiment on the boards of `attendants`, or of the workers of a scheduler elsewhere.

    `stored` gets the keys of points that boards need not keep any more. `show` is told of what
    happens: see show.py.
    """

    def __init__(self, experiment, client, attendants, stored, runs, show, wait_s):
        self.experiment, self.kinds = experiment, {}
        self.summary, self._refused = engine.Summary(experiment.found), None
        self._client, self._attendants, self._stored, self._runs = client, attendants, stored, runs
        self._show, self._wait = show, wait_s
        self._elsewhere = not attendants
        self._came, self._open, self._told = SimpleQueue(), {}, []
        self._known = {}  # the board's name, or None while it joins, by the worker's address
        self._start = self._last = time.monotonic()
        self._next_look, self._all_decided = 0.0, False

    def carry_out(self):
        """Run all points.

        Raises BoardError where no board is left to run them, UsageError where none takes the
        options.
        """
        while not self._finished():
            self._look()
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
        self._require_boards()
        ended = all(kind.finals and kind.finals.done for kind in self.kinds.values())
        return bool(self.kinds) and not self._joining() and ended

    def _joining(self):
        return any(name is None for name in self._known.values())

    def _held(self):
        """Tell whether a board may still bring what the last host had it run."""
        late = time.monotonic() > self._start + self.experiment.limit + limits.CASE_MARGIN
        return self._joining() or not (late or self._all_decided)

    def _require_boards(self):
        there = any(each.why is None for each in self._attendants)
        if there or self._known or self._open or self._held():
            self._last = time.monotonic()
        elif time.monotonic() - self._last > (self._wait if self.kinds or self._elsewhere else 0):
            refused = [each.refused for each in self._attendants]
            if refused and all(refused):
                raise refused[0]
            raise BoardError("no board is left; repeat the command to continue")

    def _look(self):
        """Let new workers join, and forget those that are gone."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + LOOK
        # Before the workers: the worker of a board that is decided is among them.
        self._all_decided = all(each.decided for each in self._attendants)
        # A task is unrunnable whose worker is gone.
        there, stuck = self._client.run_on_scheduler(lambda dask_scheduler: (
            set(dask_scheduler.workers), {task.key for task in dask_scheduler.unrunnable}
        ))
        for key in stuck & set(self._open):
            self._open[key][0].cancel()
        for address in set(self._known) - there:
            self._known.pop(address)
            for kind in self.kinds.values():
                kind.boards.pop(address, None)
        for address in there - set(self._known):
            self._known[address] = None
            what = self.experiment
            self._submit(partial(self._joined, address), address, "join", what.found.name,
                         what.options, what.limit)

    def _submit(self, then, address, method, *args):
        future = self._client.submit(workers.call, method, *args, pure=False, workers=[address])
        self._open[future.key] = future, then
        future.add_done_callback(lambda future: self._came.put(future.key))

    def _receive(self):
        """Handle what has ended, or wait a TICK for it."""
        ended = []
        with suppress(Empty):
            ended.append(self._open.pop(self._came.get(timeout=TICK)))
            while True:
                ended.append(self._open.pop(self._came.get_nowait()))
        good = [future for future, _ in ended if future.status == "finished"]
        results = dict(zip(good, self._client.gather(good)))
        for future, then in ended:
            then(results[future] if future in results else _error(future))
        for kind in self.kinds.values():
            kind.records.sync()
        for tell in self._told:
            tell()
        self._told.clear()

    def _joined(self, address, result):
        if isinstance(result, Exception) or address not in self._known:
            if self._elsewhere:  # else its Attendant says why
                self._show.line(f"cannot join: {result}")
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
        kind.again += kind.study.claim(left)
        self._known[address] = kind.boards[address] = board
        self._show.line(f"{board} joins: {kind.label}")

    def _fill(self, kind):
        """Give every free board of a kind a point."""
        kind.waits = kind.waits and self._held()
        if kind.waits:
            return
        if kind.searched and not kind.finals and not self._joining():
            kind.finals = Finals(kind)
        # Among all boards of a kind Dask would look for one at each point: with 1,000 boards that
        # takes longer than all else.
        for address, board in kind.boards.items():
            while address not in kind.busy and (taken := kind.take(board)):
                kind.busy.add(address)
                self._run(kind, address, *taken)

    def _run(self, kind, address, point, then):
        """Run a point unless its record is here, or its result came with a board that joined."""
        end = partial(self._end, kind, address, then)
        if kind.records.state(point.key):  # of the best, run again
            end(True, kind.records.values(point.key))
        elif point.key in kind.left:
            board, outcome = kind.left.pop(point.key)
            self._store(kind, board, point, end, outcome)
        else:
            what = self.experiment
            asked = Asked(point.key, what.found.name, point.options, what.limit, [*self._stored])
            store = partial(self._store, kind, kind.boards[address], point, end)
            self._submit(store, address, "run", asked)

    def _end(self, kind, address, then, ended, values):
        kind.busy.remove(address)
        then(ended, values)

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
