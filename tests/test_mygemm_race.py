"""samples/mygemm: kernels and libraries that take turns, round after round, in some streams."""

import weakref
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest
from conftest import modules_of

from common import device, isolation
from common.errors import OpenCLFailure
from common.gemm import Size

NAMES = ("checking", "ladder", "launch", "measure", "peers", "run", "runner")


@pytest.fixture(scope="module")
def sample():
    """The sample's modules."""
    with modules_of("mygemm") as module:
        yield SimpleNamespace(**{name: module(name) for name in NAMES})


@pytest.fixture
def make_bar(sample):
    """Return a Bar that has entered one stream, or several: `do(stream)` is a launch."""

    def make(name, do, finish=lambda streams: None, streams=(0,), **more):
        bar = sample.measure.Bar(name, lambda stream: lambda: do(stream), finish, **more)
        for stream in streams:
            bar.enter(stream)
        return bar

    return make


def third_fails(said):
    """Return a launch that says b, and fails when it does so for the third time."""

    def launch(stream):
        said.append("b")
        if said.count("b") == 3:
            raise OpenCLFailure("it is broken")

    return launch


# Rounds.


def test_rounds_take_turns_and_pause(sample, make_bar, monkeypatch):
    said, slept = [], []
    monkeypatch.setattr(sample.measure.time, "sleep", slept.append)
    bars = [
        make_bar("a", lambda stream: said.append("a"), lambda streams: said.append("|")),
        make_bar(
            "b", lambda stream: said.append("b"), lambda streams: said.append("|"), settle=0.15
        ),
    ]
    times = sample.measure.rounds(bars, repeat=2, warmup=1, in_flight=2)
    assert "".join(said) == "aa|aa|bb|bb|" * 3  # short turns twice: the second time counts
    assert slept == [0, 0.15] * 3
    assert len(times["a"].host_s) == len(times["b"].host_s) == 2
    assert times["a"].warmup == 1
    said.clear()
    monkeypatch.setattr(sample.measure, "_SHORT", 0)
    sample.measure.rounds(bars, repeat=1, warmup=0, in_flight=1)
    assert "".join(said) == "a|b|"


def test_a_library_that_spins_on_is_followed_by_a_pause(sample, queue, monkeypatch):
    slept = []
    monkeypatch.setattr(sample.run.time, "sleep", slept.append)
    problem = sample.launch.Problem(Size(4, 5, 6), np.dtype(np.float32), 6, 5, 5)
    expected = sample.checking.Expected(problem, "sdk", 1, 1.0, 0.0)
    stream = sample.runner.Stream(queue, problem)
    (peer,), _ = sample.peers.find(("numpy",), queue.device, problem, expected.inputs)
    peer.settle = 0.3
    args = SimpleNamespace(progress=isolation.Progress())
    result = sample.run.check_peer(problem, expected, peer, stream, args)
    assert (result.status, slept) == ("passed", [0.3])
    sample.measure.rounds([result.bar], repeat=1, warmup=0, in_flight=1)
    assert slept == [0.3, 0.3]


def test_a_bar_that_fails_is_left_out_and_the_others_go_on(sample, make_bar):
    said = []
    bars = [make_bar("a", lambda stream: said.append("a")), make_bar("b", third_fails(said))]
    times = sample.measure.rounds(bars, repeat=4, warmup=0, in_flight=1)
    assert "".join(said) == "aabbaabaaaa"
    assert list(times) == ["a"]
    assert len(times["a"].host_s) == 4
    assert "it is broken" in str(bars[1].error)
    sample.measure.enough_in_flight(bars)
    assert "b" not in said[7:]


def test_a_ratio_compares_within_rounds(sample):
    slow, fast = (SimpleNamespace(host_s=s) for s in ([2.0, 20.0, 4.0], [1.0, 10.0, 1.0]))
    assert sample.measure.ratio(fast, slow) == 2
    assert sample.measure.ratio(slow, fast) == 0.5


def test_what_a_bar_launched_before_it_failed_does_not_run_in_the_next_turn(sample, make_bar):
    said = []
    finish = lambda streams: said.append("|")  # noqa: E731
    bars = [
        make_bar("b", third_fails(said), finish),
        make_bar("a", lambda stream: said.append("a"), finish),
    ]
    times = sample.measure.rounds(bars, repeat=1, warmup=0, in_flight=2)
    assert "".join(said) == "bb|b|aa|aa|"
    assert list(times) == ["a"]


# What a device says.


def event(start=1, end=2, queued=1, submit=1, status=0):
    """Return an event that is done, or that failed with a status below 0."""

    def wait():
        if status < 0:
            raise cl.RuntimeError("it failed")

    stage = SimpleNamespace(queued=queued, submit=submit, start=start, end=end)
    return SimpleNamespace(profile=stage, wait=wait)


def test_the_steps_of_warm_up_turns_do_not_count(sample, make_bar):
    bar = make_bar("x", lambda stream: [event()], events=True)
    sample.measure.rounds([bar], 3, 2, 1)
    assert len(bar.steps) == 3


def test_one_stamp_that_is_left_out_leaves_the_hosts_clock(make_bar):
    launches = iter([[event()], [event()], [event(5, 9)], [event(0, 0)]])
    bar = make_bar("x", lambda stream: next(launches), events=True)
    *by_device, host = bar.take(2)
    assert by_device == [0, 0, 0]
    assert host > 0


def test_a_launch_that_fails_behind_the_hosts_back_ends_its_turns(sample, make_bar):
    launches = iter([[event()], [event()], [event()], [event(status=-5)]])
    bar = make_bar("x", lambda stream: next(launches), events=True)
    assert sample.measure.rounds([bar], 3, 0, 1) == {}
    assert "it failed" in str(bar.error)


# Streams.


def test_launches_are_spread_over_the_streams(make_bar):
    said, ends = [], []
    bar = make_bar("a", said.append, ends.append, streams="xyz")
    bar.take(5)
    assert "".join(said) == "xyzxy" * 2
    assert ends == [["x", "y", "z"]] * 2
    said.clear()
    bar.take(1)
    assert said == ["x", "x"]


def test_a_bar_that_leaves_keeps_no_buffers(make_bar):
    class Stream:
        pass

    stream = Stream()
    bar, kept = make_bar("a", lambda stream: None, streams=[stream]), weakref.ref(stream)
    del stream
    assert kept() is not None
    bar.leave()
    assert kept() is None


def test_the_time_of_launches_that_overlap_is_from_the_first_start_to_the_last_end(make_bar):
    overlapping = [[event(50, 70, 1, 2)], [event(10, 90, 1, 2)]]
    alone = [[event(100, 104), event(104, 105)]]
    launches = iter([[event()], [event()], *overlapping, *alone])
    bar = make_bar("a", lambda stream: next(launches), streams="xy", events=True)
    queued, wait, run, _ = bar.take(2)
    assert (queued, wait, run) == pytest.approx((1e-9, 8e-9, 40e-9))
    assert bar.steps == [pytest.approx([4e-9, 1e-9])]  # not those that overlap


class Stream:
    """A stream that counts those beside it, on a device with a memory of 1000 bytes."""

    def __init__(self, kind="CPU", cores=4, own=1, most=99):
        self.made, self._own, self._most = 1, own, most
        kind = getattr(cl.device_type, kind)
        one = SimpleNamespace(type=kind, max_compute_units=cores, global_mem_size=1000)
        self.queue = SimpleNamespace(device=one)

    def own_bytes(self):
        return self._own

    def beside(self):
        if self.made == self._most:
            raise cl.MemoryError("no room for it")
        self.made += 1
        return self


def options(in_flight=20, queues=None):
    return SimpleNamespace(in_flight=in_flight, queues=queues, repeat=1, warmup=0)


@pytest.mark.parametrize(
    ("about", "args", "queues"),
    [
        ({"kind": "CPU"}, options(), 4),
        ({"kind": "CPU", "cores": 64}, options(), 8),
        ({"kind": "CPU"}, options(3), 3),
        ({"kind": "CPU"}, options(1), 1),
        ({"kind": "CPU"}, options(1, 4), 1),
        ({"kind": "CPU"}, options(20, 1), 1),
        ({"kind": "GPU", "cores": 64}, options(), 1),
        ({"kind": "GPU", "cores": 64}, options(20, 3), 3),
        ({"kind": "GPU", "cores": 64}, options(2, 3), 2),
        ({"own": 250}, options(), 2),  # half of the memory
        ({"own": 600}, options(), 1),
        ({"most": 3}, options(), 3),
    ],
)
def test_how_many_queues(sample, make_bar, about, args, queues):
    stream, used = Stream(**about), []
    bar = make_bar("a", lambda stream: None, lambda streams: used.append(len(streams)), streams=())
    times, turns = sample.measure.race([bar], stream, args)
    assert turns == {"a": (args.in_flight, queues)}
    assert stream.made == used[-1] == queues
    assert len(times["a"].host_s) == 1


def test_what_is_not_in_queues_has_one_turn_after_the_other(sample, make_bar):
    bars = [make_bar(name, lambda stream: None, streams=(), queued=name == "a") for name in "ab"]
    _, turns = sample.measure.race(bars, Stream(), options())
    assert turns == {"a": (20, 4), "b": (20, 1)}


def test_a_turn_of_the_fastest_is_long_enough(sample, make_bar, monkeypatch):
    clock, said = [0.0], []
    monkeypatch.setattr(sample.measure.time, "perf_counter", lambda: clock[0])

    def launching(name, seconds, first):
        """A launch after a wait takes `first` seconds more, as a core that slept does."""

        def do(stream):
            said.append(name)
            clock[0] += seconds + (first if said[-2:-1] != [name] else 0)

        return do

    slow = make_bar("s", launching("s", 0.5, 0))
    assert sample.measure.enough_in_flight([slow]) == 1
    assert len(said) == 1  # not twice: it is long
    fast = make_bar("f", launching("f", 1e-4, 1e-3), lambda streams: said.append("|"))
    assert sample.measure.enough_in_flight([slow, fast]) == 30  # 1e-3 + 30 * 1e-4 seconds
    late = iter([0, 0, 0, 1e-3] + 99 * [0])  # the second of two turns is disturbed
    steps = launching("y", 1e-4, 0)
    disturbed = make_bar("y", steps, lambda streams: clock.__setitem__(0, clock[0] + next(late)))
    assert sample.measure.enough_in_flight([disturbed]) == 40
    fastest = make_bar("z", launching("z", 1e-9, 0))
    assert sample.measure.enough_in_flight([fastest]) == 200


def test_launches_of_a_turn_that_is_not_asked_for_are_as_many_in_each_queue(
    sample, make_bar, monkeypatch
):
    clock = [0.0]
    monkeypatch.setattr(sample.measure.time, "perf_counter", lambda: clock[0])

    def launch(stream):
        clock[0] += 5e-4

    bar = make_bar("a", launch, streams=())
    _, turns = sample.measure.race([bar], Stream(cores=3), options(None))
    assert turns == {"a": (24, 3)}
    _, turns = sample.measure.race([bar], Stream(cores=7), options(None))
    assert turns == {"a": (56, 7)}
    like = sample.measure.Turn(7, 2)
    assert sample.measure.race([bar], Stream(), options(None), like)[1] == {"a": like}


def test_a_kernel_that_cannot_enter_the_first_stream_is_left_out(sample, make_bar):
    def launcher(stream):
        raise OpenCLFailure("no room for it")

    broken = sample.measure.Bar("b", launcher, lambda streams: None)
    bars = [make_bar("a", lambda stream: None, streams=()), broken]
    times, _ = sample.measure.race(bars, Stream(), options())
    assert list(times) == ["a"]
    assert "no room" in str(broken.error)


def test_a_further_stream_that_one_cannot_enter_is_left_out_by_all(sample, make_bar):
    made = []

    def launcher(stream):
        made.append(stream)
        if len(made) == 3:
            raise OpenCLFailure("no room for it")
        return lambda: None

    bars = [make_bar("a", lambda stream: None, streams=()),
            sample.measure.Bar("b", launcher, lambda streams: None)]  # fmt: skip
    times, turns = sample.measure.race(bars, Stream(), options())
    assert turns == {"a": (20, 2), "b": (20, 2)}
    assert list(times) == ["a", "b"]


@pytest.mark.parametrize("number", [2, 12])
def test_what_runs_in_two_streams_at_once_is_right_in_both(sample, queue, number):
    """Kernel 2 makes copies at this size, which the streams must not share either."""
    problem = sample.launch.Problem(Size(70, 45, 33), np.dtype(np.float32), 33, 45, 45)
    rung = next(r for r in sample.ladder.RUNGS if r.number == number)
    gemm = sample.runner.prepare(queue, device.limits(queue.device), rung, {}, problem)
    expected = sample.checking.Expected(problem, "integer", 1, 1.0, 0.0)
    streams = [sample.runner.Stream(queue, problem)]
    streams.append(streams[0].beside())
    for n in range(2):
        streams[0].matrices.write(n, expected.inputs[n])
    assert streams[1].matrices.buffers[:2] == streams[0].matrices.buffers[:2]

    def launch(beta):
        streams[0].matrices.write(2, 7)
        launches = [gemm.set_up(stream, alpha, beta) for alpha, stream in zip((2, 1), streams)]
        own = [set(map(id, stream.scratch._buffers.values())) for stream in streams]
        assert not own[0] & own[1]
        assert all(own) == (number == 2)
        for each in launches * 5 if beta == 0 else launches:
            each.enqueue()
        sample.runner.finish(streams)

    check, product = expected.check(launch, streams[1].matrices)
    assert check.reason is None
    doubled, clean = streams[0].matrices.result()
    assert clean
    assert (doubled == 2 * product + 7).all()  # of the check with beta 1, the last
