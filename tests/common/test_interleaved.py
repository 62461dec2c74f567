"""Kernels and libraries that are timed in rounds, one sample each, in one stream or several."""

import weakref
from types import SimpleNamespace

import pyopencl as cl
import pytest

from common import interleaved
from common.errors import OpenCLFailure
from common.interleaved import Contender


def contender(name, do, finish=lambda streams: None, streams=(0,), **more):
    """Return a Contender that has entered one stream, or several: `do(stream)` is a launch."""
    made = Contender(name, lambda stream: lambda: do(stream), finish, **more)
    for stream in streams:
        made.enter(stream)
    return made


def third_fails(said):
    """Return a launch that says b, and fails when it does so for the third time."""

    def launch(stream):
        said.append("b")
        if said.count("b") == 3:
            raise OpenCLFailure("it is broken")

    return launch


# Rounds.


def test_rounds_are_interleaved_and_pause(monkeypatch):
    said, rests = [], []
    monkeypatch.setattr(interleaved, "settle", lambda: rests.append(said[-1]))
    contenders = [
        contender("a", lambda stream: said.append("a"), lambda streams: said.append("|")),
        contender(
            "b", lambda stream: said.append("b"), lambda streams: said.append("|"), queued=False
        ),
    ]
    times = interleaved.rounds(contenders, repeat=2, warmup=1, in_flight=2)
    assert "".join(said) == "aa|aa|bb|bb|" * 3  # short samples twice: the second time counts
    assert len(rests) == 3  # after each sample of b
    assert len(times["a"].host_s) == len(times["b"].host_s) == 2
    assert times["a"].warmup == 1
    said.clear()
    # What follows b has threads that slept: it is launched for a while before its time counts.
    clock = iter(range(100))
    monkeypatch.setattr(interleaved.time, "perf_counter", lambda: 0.02 * next(clock))
    interleaved.rounds(contenders, repeat=2, warmup=0, in_flight=1, awake=0.05)
    assert "".join(said) == "a|a|b|b|" + "a|a|a|" + "b|b|"
    said.clear()
    monkeypatch.setattr(interleaved, "SHORT", 0)
    interleaved.rounds(contenders, repeat=1, warmup=0, in_flight=1)
    assert "".join(said) == "a|b|"


def test_a_contender_that_fails_is_left_out_and_the_others_go_on():
    said = []
    contenders = [
        contender("a", lambda stream: said.append("a")),
        contender("b", third_fails(said)),
    ]
    times = interleaved.rounds(contenders, repeat=4, warmup=0, in_flight=1)
    assert "".join(said) == "aabbaabaaaa"
    assert list(times) == ["a"]
    assert len(times["a"].host_s) == 4
    assert "it is broken" in str(contenders[1].error)
    assert interleaved.enough_in_flight(contenders[1]) == 1
    assert "b" not in said[7:]


def test_a_mistake_of_our_own_is_not_taken_for_a_failure_of_the_contender():
    def launch(stream):
        raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"):
        interleaved.rounds([contender("a", launch)], 1, 0, 1)


def test_a_ratio_compares_within_rounds():
    slow, fast = (SimpleNamespace(host_s=s) for s in ([2.0, 20.0, 4.0], [1.0, 10.0, 1.0]))
    assert interleaved.ratio(fast, slow) == 2
    assert interleaved.ratio(slow, fast) == 0.5


def test_what_a_contender_launched_before_it_failed_does_not_run_in_the_next_sample():
    said = []
    finish = lambda streams: said.append("|")  # noqa: E731
    contenders = [
        contender("b", third_fails(said), finish),
        contender("a", lambda stream: said.append("a"), finish),
    ]
    times = interleaved.rounds(contenders, repeat=1, warmup=0, in_flight=2)
    assert "".join(said) == "bb|b|aa|aa|"
    assert list(times) == ["a"]


# What a device says.


def event(start=1, end=2, queued=1, submit=1, status=0):
    """Return an event that is done, or that failed with a status below 0."""

    def wait():
        if status < 0:
            raise cl.RuntimeError("it failed")

    stage = SimpleNamespace(queued=queued, submit=submit, start=start, end=end)
    return SimpleNamespace(profile=stage, wait=wait, command_execution_status=status)


def test_the_steps_of_warm_up_samples_do_not_count():
    one = contender("x", lambda stream: [event()], events=True)
    interleaved.rounds([one], 3, 2, 1)
    assert len(one.steps) == 3


def test_one_stamp_that_is_left_out_leaves_the_hosts_clock():
    launches = iter([[event()], [event()], [event(5, 9)], [event(0, 0)]])
    one = contender("x", lambda stream: next(launches), events=True)
    *by_device, host = one.sample(2)
    assert by_device == [0, 0, 0]
    assert host > 0


def test_a_lone_launch_without_stamps_leaves_the_hosts_clock():
    launches = iter([[event()]] * 4 + [[event(0, 0)]])
    one = contender("x", lambda stream: next(launches), streams="xy", events=True)
    assert one.sample(2)[:3] == (0, 0, 0)
    assert one.steps == []


def test_a_failure_keeps_no_buffers():
    class Matrix:
        pass

    kept = []

    def launch(stream):
        matrix = Matrix()
        kept.append(weakref.ref(matrix))
        try:
            raise MemoryError("no room for it")
        except MemoryError as error:
            raise OpenCLFailure("it is broken") from error

    one, told = contender("x", launch), []
    one.failed = lambda error: told.append(str(error))
    assert one.attempt(one.sample, 1) is None
    assert [str(one.error)] == told == ["it is broken"]
    assert kept[0]() is None


def test_a_launch_that_fails_behind_the_hosts_back_ends_its_samples():
    launches = iter([[event()], [event()], [event()], [event(status=-5)]])
    one = contender("x", lambda stream: next(launches), events=True)
    assert interleaved.rounds([one], 3, 0, 1) == {}
    assert "it failed" in str(one.error)


def test_a_queue_that_is_finished_too_early_ends_its_samples():
    one = contender("x", lambda stream: [event(status=1)], events=True)
    assert interleaved.rounds([one], 3, 0, 1) == {}
    assert "returns before the launch is complete" in str(one.error)


def test_the_hosts_time_is_that_of_launches_without_profiling():
    said = []
    made = interleaved.Contender(
        "x", lambda stream: lambda: said.append(stream.name) or [event()], lambda streams: None,
        events=True, bare=True,
    )
    made.enter(SimpleNamespace(name="timed", bare=lambda: SimpleNamespace(name="bare")))
    made.sample(2)
    assert said == ["timed"] * 4 + ["bare"] * 2
    made.finish = lambda streams: said.extend(f"{stream.name}|" for stream in streams)
    made.attempt(third_fails(["b", "b"]), None)
    assert said[6:] == ["timed|", "bare|"]


def test_the_run_time_is_the_hosts_where_taking_times_delayed_the_launches():
    slow = event(10**9, 3 * 10**9)  # 2 s, where the host waits for microseconds
    for bare in (True, False):
        made = interleaved.Contender(
            "x", lambda stream: lambda: [slow], lambda streams: None, events=True, bare=bare)
        made.enter(SimpleNamespace(bare=lambda: SimpleNamespace()))
        *_, run, host = made.sample(1)
        assert run == (host if bare else 2)


# Streams.


def test_launches_are_spread_over_the_streams():
    said, ends = [], []
    one = contender("a", said.append, ends.append, streams="xyz")
    one.sample(5)
    assert "".join(said) == "xyzxy" * 2
    assert ends == [["x", "y", "z"]] * 2
    said.clear()
    one.sample(1)
    assert said == ["x", "x"]


def test_a_contender_that_leaves_keeps_no_buffers():
    class Stream:
        pass

    stream = Stream()
    one, kept = contender("a", lambda stream: None, streams=[stream]), weakref.ref(stream)
    del stream
    assert kept() is not None
    one.leave()
    assert kept() is None


def test_the_time_of_launches_that_overlap_is_from_the_first_start_to_the_last_end():
    overlapping = [[event(50, 70, 1, 2)], [event(10, 90, 1, 2)]]
    alone = [[event(100, 104), event(104, 105)]]
    launches = iter([[event()], [event()], *overlapping, *alone])
    one = contender("a", lambda stream: next(launches), streams="xy", events=True)
    queued, wait, run, _ = one.sample(2)
    assert (queued, wait, run) == pytest.approx((1e-9, 8e-9, 40e-9))
    assert one.steps == [pytest.approx([4e-9, 1e-9])]  # not those that overlap


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
    return {"in_flight": in_flight, "queues": queues, "repeat": 1, "warmup": 0}


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
def test_how_many_queues(monkeypatch, about, args, queues):
    monkeypatch.setattr(Contender, "choose_queues", lambda self, in_flight: None)
    stream, used = Stream(**about), []
    one = contender("a", lambda stream: None, lambda streams: used.append(len(streams)), streams=())
    times, batches = interleaved.measure([one], stream, **args)
    assert batches == {"a": (args["in_flight"], queues)}
    assert stream.made == used[-1] == queues
    assert len(times["a"].host_s) == 1


@pytest.mark.parametrize(
    ("slow", "asked", "queues"), [(1, None, 4), (4, None, 1), (4, 3, 3), (1, 1, 1)],
)
def test_launches_overlap_unless_that_is_slower(monkeypatch, slow, asked, queues):
    clock = [0.0]

    def pause(streams):
        """Let time pass: with 4 queues `slow` times as much as with one."""
        used = len(streams)
        clock[0] += 1e-3 * (slow if used == 4 else 2 if used == 1 else 3)

    monkeypatch.setattr(interleaved.time, "perf_counter", lambda: clock[0])
    one = contender("a", lambda stream: None, pause, streams=())
    _, batches = interleaved.measure([one], Stream(), **options(20, asked))
    assert batches == {"a": (20, queues)}


def test_what_is_not_in_queues_runs_back_to_back(monkeypatch):
    monkeypatch.setattr(Contender, "choose_queues", lambda self, in_flight: None)
    contenders = [
        contender(name, lambda stream: None, streams=(), queued=name == "a") for name in "ab"
    ]
    _, batches = interleaved.measure(contenders, Stream(), **options())
    assert batches == {"a": (20, 4), "b": (20, 1)}


def test_a_sample_of_the_fastest_is_long_enough(monkeypatch):
    clock, said = [0.0], []
    monkeypatch.setattr(interleaved.time, "perf_counter", lambda: clock[0])

    def launching(name, seconds, first):
        """A launch after a wait takes `first` seconds more, as a core that slept does."""

        def do(stream):
            said.append(name)
            clock[0] += seconds + (first if said[-2:-1] != [name] else 0)

        return do

    slow = contender("s", launching("s", 0.5, 0))
    assert interleaved.enough_in_flight(slow) == 1
    assert len(said) == 1  # not twice: it is long
    fast = contender("f", launching("f", 1e-4, 1e-3), lambda streams: said.append("|"))
    assert interleaved.enough_in_flight(fast) == 30  # 1e-3 + 30 * 1e-4 seconds
    late = iter([0, 0, 0, 1e-3] + 99 * [0])  # the second of two samples is disturbed
    steps = launching("y", 1e-4, 0)
    disturbed = contender("y", steps, lambda streams: clock.__setitem__(0, clock[0] + next(late)))
    assert interleaved.enough_in_flight(disturbed) == 40
    fastest = contender("z", launching("z", 1e-9, 0))
    assert interleaved.enough_in_flight(fastest) == 200


def test_launches_of_a_sample_that_is_not_asked_for_are_as_many_in_each_queue(monkeypatch):
    monkeypatch.setattr(Contender, "choose_queues", lambda self, in_flight: None)
    clock = [0.0]
    monkeypatch.setattr(interleaved.time, "perf_counter", lambda: clock[0])

    def launch(stream):
        clock[0] += 5e-4

    one = contender("a", launch, streams=())
    _, batches = interleaved.measure([one], Stream(cores=3), **options(None))
    assert batches == {"a": (24, 3)}
    _, batches = interleaved.measure([one], Stream(cores=7), **options(None))
    assert batches == {"a": (56, 7)}
    # As many as the fastest needs, and no more than 200.
    slow = contender("s", lambda stream: launch(stream) or launch(stream), streams=())
    _, batches = interleaved.measure([slow, one], Stream(cores=1), **options(None))
    assert batches == {"s": (8, 1), "a": (8, 1)}
    fast = contender("f", lambda s: clock.__setitem__(0, clock[0] + 1e-4), streams=())
    _, batches = interleaved.measure([fast], Stream(cores=7), **options(None))
    assert batches == {"f": (196, 7)}


def test_a_kernel_that_cannot_enter_the_first_stream_is_left_out():
    def launcher(stream):
        raise OpenCLFailure("no room for it")

    broken = Contender("b", launcher, lambda streams: None)
    contenders = [contender("a", lambda stream: None, streams=()), broken]
    times, _ = interleaved.measure(contenders, Stream(), **options())
    assert list(times) == ["a"]
    assert "no room" in str(broken.error)


def test_a_further_stream_that_one_cannot_enter_is_left_out_by_all(monkeypatch):
    monkeypatch.setattr(Contender, "choose_queues", lambda self, in_flight: None)
    made = []

    def launcher(stream):
        made.append(stream)
        if len(made) == 3:
            raise OpenCLFailure("no room for it")
        return lambda: None

    contenders = [contender("a", lambda stream: None, streams=()),
            Contender("b", launcher, lambda streams: None)]
    times, batches = interleaved.measure(contenders, Stream(), **options())
    assert batches == {"a": (20, 2), "b": (20, 2)}
    assert list(times) == ["a", "b"]


def test_flushed_caches_are_flushed_before_every_sample_of_one_launch(monkeypatch):
    said = []
    monkeypatch.setattr(interleaved, "flusher", lambda queue, caches: lambda: said.append(caches))
    monkeypatch.setattr(interleaved, "settle", lambda: said.append("rest"))
    both = [contender(name, lambda stream: said.append("launch"), streams=(), queued=name == "a")
            for name in "ab"]
    args = {**options(None), "repeat": 2, "caches": "flushed"}
    _, batches = interleaved.measure(both, Stream(), **args)
    assert batches == {"a": (1, 1), "b": (1, 1)}
    # Short samples twice. The device's threads may not be in the way of those of a library, nor
    # these in that of the next sample.
    assert said == [*["flushed", "launch"] * 2, *["flushed", "rest", "launch"] * 2, "rest"] * 2
    said.clear()
    interleaved.measure(both, Stream(), **options(1, 1))
    assert "rest" in said
    assert "warm rest" not in " ".join(said)
