"""A study continues in another process, whatever ended the last one."""

from math import log2
from statistics import median

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from stub_board import Bench

from common.errors import UsageError
from common.record import Record
from deploy.experiments import file, study
from deploy.experiments.records import Records
from tools import engine, space
from tools.child import Outcome


@pytest.fixture
def opened(tmp_path, monkeypatch, capsys):
    """Open a study of the stub's kernel anew each time, as another process would."""
    bench = Bench(tmp_path, monkeypatch, capsys)
    device = {
        "name": "a device", "type": "cpu", "platform": "p", "platform_version": "1", "driver": "1",
        "limits": {"local_mem_size": 1024, "max_work_group_size": 64,
                   "max_work_item_sizes": [64, 64, 64]},
    }
    values = {"TS": [2, 4, 8, 16], "WPT": [1, 2]}
    kernel = {"name": "01_k", "options": ["--kernel", "1"], "space": {
        "defaults": {"TS": 4, "WPT": 1}, "values": values, "constraints": ["TS % WPT == 0"],
        "local": ["TS", "TS"], "local_bytes": "0"}}

    def new(text='kernel = "1"\n', code="1", **more):
        path = bench.root / "x.toml"
        path.write_text(f'sample = "stub"\n{text}')
        described = Record("stub", "describe", "passed", None, {"kernels": [kernel]}, device,
                           code=code)
        return Opened(space.Space(file.read(str(path), **more), described))

    return new


class Opened(study.Study):
    """A Study with its Records."""

    def __init__(self, space):
        self.records, self.known = Records(space.experiment, "run"), []
        super().__init__(space, self.records, lambda *pair: self.known.append(pair))

    def ran(self, point, value=1.0, status=0):
        """Write a record of a point, and tell its value."""
        status_of = ("passed", None) if value else ("failed", "wrong")
        item = Record("stub", "k", *status_of, metrics={"gflops": value} if value else {})
        made = engine.result(self.space.experiment.found, point, Outcome(status, [item]), 60)
        self.records.add("board", made)
        self.end("board", point, True, self.records.values(point.key))


def every(of):
    found = []
    while point := of.next():
        found.append(point)
    return found


def test_optunas_storage_has_what_the_records_have(opened):
    text = 'kernel = "1"\nsearch = "learn"\n'
    first = opened(text)
    first.ran(first.next(), 3.0)
    first.ran(first.next(), None, 1)
    first.shown.with_name(f"{first.shown.name}.lock").touch()  # as a SIGKILL leaves it
    second = opened(text)
    second.ran(second.next(), 4.0)
    storage = JournalStorage(JournalFileBackend(str(second.shown)))
    (shown,) = optuna.get_all_study_summaries(storage)
    trials = optuna.load_study(study_name=shown.study_name, storage=storage).trials
    assert sorted((trial.state.name, trial.values) for trial in trials) == [
        ("COMPLETE", [3.0]), ("COMPLETE", [4.0]), ("FAIL", None)]
    assert all(set(trial.params) == {"TS", "WPT"} for trial in trials)


def test_each_legal_choice_comes_once_and_the_default_first(opened):
    points = every(opened())
    assert points[0].label == "--TS 4 --WPT 1"
    assert len({point.key for point in points}) == len(points) == 6


@pytest.mark.parametrize("search", ["all", "random", "learn"])
def test_it_continues(opened, search):
    text = f'kernel = "1"\nsearch = "{search}"\n'
    first = opened(text)
    done = [first.next(), first.next()]
    first.ran(done[0], 3.0)
    first.ran(done[1], None, 1)
    second = opened(text)
    assert (second.done, second.total) == (2, 6)
    assert [(p.key, s.ended, s.metric) for p, s in sorted(second.known, key=lambda k: k[1].ended)] \
        == [(done[1].key, "failed", None), (done[0].key, "passed", 3.0)]
    assert [values for _, values in second.best()] == [[3.0]]
    rest = [each.key for each in every(second)]
    assert len(set(rest) - {point.key for point in done}) == len(rest) == 4


def test_a_larger_budget_goes_on(opened):
    small = opened('kernel = "1"\nbudget = 2\n')
    for point in every(small):
        small.ran(point)
    assert small.done == small.total == 2
    assert len(every(opened('kernel = "1"\nbudget = 5\n'))) == 3


def test_so_does_another_value(opened):
    """The points that there were are not run again."""
    small = opened('kernel = "1"\n[parameters]\nTS = [2, 4]\n')
    for point in every(small):
        small.ran(point)
    assert len(every(opened())) == 6 - small.total


def test_an_axis_of_a_parameter_has_its_values(opened):
    labels = [point.label for point in every(opened('kernel = "1"\n[axes]\n"--TS" = [4, 8]\n'))]
    assert sorted(labels) == [f"--TS {ts} --WPT {wpt}" for ts in (4, 8) for wpt in (1, 2)]
    with pytest.raises(UsageError, match="--TS 4 x: give whole numbers"):
        opened('kernel = "1"\n[axes]\n"--TS" = [4, "x"]\n')


def test_more_time_is_for_points_that_had_too_little(opened):
    short = opened()
    short.ran(short.next(), None, status=None)
    assert opened().done == 1
    assert opened(limit=61).done == 0


def test_other_code_makes_other_points(opened):
    before = opened()
    before.ran(before.next())
    assert (opened().done, opened(code="2").done) == (1, 0)


def test_results_that_wait_on_a_board_are_taken_by_a_search_that_learns(opened):
    text = 'kernel = "1"\nsearch = "learn"\nbudget = 4\n'
    waits = {opened().space.point(opened().space.candidates[-1]).key}
    learns = opened(text)
    for _ in range(2):  # two boards may have it
        learns.claim(waits)
    point = learns.next()
    assert {point.key} == waits
    learns.ran(point)
    assert len(every(learns)) == 3


def test_a_search_that_learns_goes_where_it_is_fast(opened):
    text = ('kernel = "1"\nsearch = "learn"\nbudget = 100\n[axes]\n"--size" = '
            f"{list(range(1, 401))}\n")
    learns, far = opened(text), []
    for count in range(60):
        point = learns.next()
        size = int(point.options[point.options.index("--size") + 1])
        far.append(abs(log2(size / 300)))
        learns.ran(point, 10 - far[-1])
        if count == 20:  # what it learned is in the records
            learns = opened(text)
    assert median(far[30:]) < 1.2  # one that draws: 3
    assert learns.best(1)[0][1] == [10 - min(far)]


def test_two_objectives_have_a_front(opened):
    both = opened('kernel = "1"\nobjectives = ["gflops", "gbytes_per_s"]\n')
    for values in ([1, 9], [5, 5], [4, 4], [8, 1], None, [8, 0]):
        both.end("board", both.next(), True, values)
    assert [values for _, values in both.best()] == [[8, 1], [5, 5], [1, 9]]
