"""samples/mygemm: kernels and libraries that take turns, round after round, in one lane or more."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import modules_of

from common import device
from common.errors import OpenCLFailure
from common.gemm import Size

NAMES = ("checking", "ladder", "launch", "measure", "peers", "runner")


@pytest.fixture(scope="module")
def sample():
    """The sample's modules."""
    with modules_of("mygemm") as module:
        yield SimpleNamespace(**{name: module(name) for name in NAMES})


@pytest.fixture
def make_bar(sample):
    """Return a Bar that has entered one lane, or several: `do(lane)` is a launch."""

    def make(name, do, finish=lambda lanes: None, lanes=(0,), **more):
        bar = sample.measure.Bar(name, lambda lane: lambda: do(lane), finish, **more)
        for lane in lanes:
            bar.enter(lane)
        return bar

    return make


# Rounds.


def test_rounds_take_turns_and_pause(sample, make_bar, monkeypatch):
    said, slept = [], []
    monkeypatch.setattr(sample.measure.time, "sleep", slept.append)
    bars = [
        make_bar("a", lambda lane: said.append("a"), lambda lanes: said.append("|")),
        make_bar("b", lambda lane: said.append("b"), lambda lanes: said.append("|"), settle=0.15),
    ]
    times = sample.measure.rounds(bars, repeat=2, warmup=1, in_flight=2)
    assert "".join(said) == "aa|aa|bb|bb|" * 3  # short ones twice: the second time counts
    assert slept == [0, 0.15] * 3
    assert len(times["a"].host_s) == len(times["b"].host_s) == 2
    assert times["a"].warmup == 1
    said.clear()
    sample.measure.rounds(bars, repeat=1, warmup=0, in_flight=1)
    assert "".join(said) == "a|b|"


def test_a_bar_that_fails_is_left_out_and_the_others_go_on(sample, make_bar):
    said = []

    def fail(lane):
        said.append("b")
        if said.count("b") == 2:
            raise OpenCLFailure("it is broken")

    bars = [make_bar("a", lambda lane: said.append("a")), make_bar("b", fail)]
    times = sample.measure.rounds(bars, repeat=4, warmup=0, in_flight=1)
    assert "".join(said) == "ababaa"
    assert list(times) == ["a"]
    assert len(times["a"].host_s) == 4
    assert "it is broken" in str(bars[1].error)
    assert sample.measure.enough_in_flight(bars) >= 1


def test_a_library_that_fails_is_a_failure_of_it_alone(sample):
    def fail(*lane):
        raise RuntimeError("CUDA out of\n memory")

    peer = sample.peers.Peer("cublas", "1", lambda lane: fail, fail, fail)
    for call in (peer.launcher(0), lambda: peer.finish([0]), lambda: peer.result(0)):
        with pytest.raises(OpenCLFailure, match="cublas: CUDA out of memory"):
            call()


def test_a_ratio_compares_within_rounds(sample):
    slow, fast = (SimpleNamespace(host_s=s) for s in ([2.0, 20.0, 4.0], [1.0, 10.0, 1.0]))
    assert sample.measure.ratio(fast, slow) == 2
    assert sample.measure.ratio(slow, fast) == 0.5


def test_the_steps_of_warm_up_turns_do_not_count(sample, make_bar):
    def stage(at):
        return SimpleNamespace(queued=at, submit=at, start=at, end=at + 1)

    events = [SimpleNamespace(profile=stage(0))]
    bar = make_bar("x", lambda lane: events, events=True)
    sample.measure.rounds([bar], 3, 2, 1)
    assert len(bar.steps) == 3


# Lanes.


def test_launches_are_spread_over_the_lanes(make_bar):
    said, ends = [], []
    bar = make_bar("a", said.append, ends.append, lanes="xyz")
    bar.take(5)
    assert "".join(said) == "xyzxy" * 2
    assert ends == [["x", "y", "z"]] * 2
    said.clear()
    bar.take(1)
    assert said == ["x"]
    bar.leave()
    with pytest.raises(ZeroDivisionError):  # not a time of nothing
        bar.take(1)


def test_the_time_of_launches_in_lanes_is_from_the_first_start_to_the_last_end(make_bar):
    def event(start, end):
        return [SimpleNamespace(profile=SimpleNamespace(queued=1, submit=2, start=start, end=end))]

    launches = iter([event(0, 0), event(0, 0), event(50, 70), event(10, 90)])
    bar = make_bar("a", lambda lane: next(launches), lanes="xy", events=True)
    queued, wait, run, _ = bar.take(2)
    assert (queued, wait, run) == pytest.approx((1e-9, 8e-9, 40e-9))


class Lane:
    """A lane that counts those beside it."""

    def __init__(self, kind, cores=4):
        self.made = 1
        kind = getattr(device.cl.device_type, kind)
        one = SimpleNamespace(type=kind, max_compute_units=cores)
        self.queue = SimpleNamespace(device=one)

    def beside(self):
        self.made += 1
        return self


@pytest.mark.parametrize(
    ("kind", "cores", "in_flight", "queues", "lanes"),
    [
        ("CPU", 4, 20, None, 4),
        ("CPU", 64, 20, None, 8),
        ("CPU", 4, 3, None, 3),
        ("CPU", 4, 1, None, 1),
        ("CPU", 4, 20, 1, 1),
        ("GPU", 64, 20, None, 1),
        ("GPU", 64, 20, 3, 3),
        ("GPU", 64, 2, 3, 2),
    ],
)
def test_how_many_lanes(sample, make_bar, kind, cores, in_flight, queues, lanes):
    lane, used = Lane(kind, cores), []
    args = SimpleNamespace(in_flight=in_flight, queues=queues, repeat=1, warmup=0)
    bar = make_bar("a", lambda lane: None, lambda lanes: used.append(len(lanes)), lanes=())
    times, rounds = sample.measure.race([bar], lane, args)
    assert rounds == (in_flight, lanes)
    assert lane.made == used[-1] == lanes
    assert len(times["a"].host_s) == 1


def test_a_kernel_that_cannot_enter_a_lane_is_left_out(sample, make_bar):
    def launcher(lane):
        raise OpenCLFailure("no room for it")

    broken = sample.measure.Bar("b", launcher, lambda lanes: None)
    args = SimpleNamespace(in_flight=2, queues=None, repeat=2, warmup=0)
    bars = [make_bar("a", lambda lane: None, lanes=()), broken]
    times, _ = sample.measure.race(bars, Lane("CPU"), args)
    assert list(times) == ["a"]
    assert "no room" in str(broken.error)


@pytest.mark.parametrize("number", [2, 12])
def test_what_runs_in_two_lanes_at_once_is_right_in_both(sample, queue, number):
    """Kernel 2 makes copies at this size, which the lanes must not share either."""
    problem = sample.launch.Problem(Size(70, 45, 33), np.dtype(np.float32), 33, 45, 45)
    rung = next(r for r in sample.ladder.RUNGS if r.number == number)
    gemm = sample.runner.prepare(queue, device.limits(queue.device), rung, {}, problem)
    expected = sample.checking.Expected(problem, "integer", 1, 1.0, 0.0)
    lanes = [sample.runner.Lane(queue, problem)]
    lanes.append(lanes[0].beside())
    for n in range(2):
        lanes[0].matrices.write(n, expected.inputs[n])
    assert lanes[1].matrices.buffers[:2] == lanes[0].matrices.buffers[:2]

    def launch(beta):
        lanes[0].matrices.write(2, 7)
        launches = [gemm.set_up(lane, alpha, beta) for alpha, lane in zip((2, 1), lanes)]
        for each in launches * 5 if beta == 0 else launches:
            each.enqueue()
        sample.runner.finish(lanes)

    check, product = expected.check(launch, lanes[1].matrices)
    assert check.reason is None
    doubled, clean = lanes[0].matrices.result()
    assert clean
    assert (doubled == 2 * product + 7).all()  # of the check with beta 1, the last


# Libraries.


def test_a_library_that_is_not_there_is_said(sample, queue, monkeypatch):
    monkeypatch.setattr(sample.peers.ctypes.util, "find_library", lambda name: None)
    problem = sample.launch.Problem(Size(4, 4, 4), np.dtype(np.float16), 4, 4, 4)
    inputs = [np.ones((4, 4), np.float16)] * 3
    found, reasons = sample.peers.find(sample.peers.NAMES, queue.device, problem, inputs)
    assert found == []
    assert reasons["numpy"] == "numpy has no BLAS for half precision"
    assert reasons["clblast"] == "libclblast is not installed (Debian: libclblast1)"
    assert "cuBLAS" in reasons["cublas"]


def test_numpys_matrices_begin_on_cache_lines(sample, queue):
    problem = sample.launch.Problem(Size(5, 7, 3), np.dtype(np.float64), 3, 7, 7)
    rng = np.random.default_rng(1)
    inputs = [rng.random(shape) for shape in ((5, 3), (3, 7), (5, 7))]
    for copies in zip(*(map(sample.peers._on_cache_lines, inputs) for _ in range(9))):
        assert {copy.ctypes.data % 64 for copy in copies} == {0}
    (peer,), _ = sample.peers.find(("numpy",), queue.device, problem, inputs)
    peer.launcher(None)()
    assert peer.result(None) == pytest.approx(inputs[0] @ inputs[1])
    assert (inputs[2] < 1).all()  # left as it was


class Torch(SimpleNamespace):
    """As much of PyTorch as is used, on the host."""

    def __init__(self, available, gpus):
        class Tensor(np.ndarray):
            device = "cuda"

            def cuda(self):
                assert available, "Torch not compiled with CUDA enabled"
                return self

            def cpu(self):
                return self

            def numpy(self):
                return np.asarray(self)

        super().__init__(
            __version__="2.0",
            version=SimpleNamespace(cuda="13.0"),
            backends=SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace())),
            cuda=SimpleNamespace(
                is_available=lambda: available,
                device_count=lambda: gpus,
                synchronize=lambda: None,
            ),
            from_numpy=lambda matrix: matrix.view(Tensor),
            empty=lambda shape, dtype, device: np.empty(shape, dtype).view(Tensor),
            mm=lambda A, B, out: np.matmul(A, B, out=out),
        )


@pytest.mark.parametrize(
    ("available", "gpus", "reason"),
    [
        (True, 1, None),
        (True, 2, "CUDA sees 2 GPUs: leave one with CUDA_VISIBLE_DEVICES"),
        (False, 0, "PyTorch is built without CUDA, or finds no GPU"),
    ],
)
def test_cublas_through_a_stand_in_for_pytorch(sample, monkeypatch, available, gpus, reason):
    gpu = SimpleNamespace(vendor="NVIDIA Corporation")
    problem = sample.launch.Problem(Size(4, 4, 4), np.dtype(np.float32), 4, 4, 4)
    inputs = [np.full((4, 4), 2, np.float32)] * 3
    torch = Torch(available, gpus)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "cupy", None)
    found, reasons = sample.peers.find(("cublas",), gpu, problem, inputs)
    if reason:
        assert reasons["cublas"] == f"CUDA does not work here: {reason}"
        return
    assert found[0].version == "cuBLAS of CUDA 13.0 through PyTorch 2.0"
    assert torch.backends.cuda.matmul.allow_tf32 is False
    found[0].launcher(None)()
    found[0].finish([])
    assert (found[0].result(None) == 16).all()


def test_cublas_is_asked_for_on_nvidias_gpus_only(sample, queue, monkeypatch):
    gpu = SimpleNamespace(vendor="NVIDIA Corporation")
    problem = sample.launch.Problem(Size(4, 4, 4), np.dtype(np.float32), 4, 4, 4)
    inputs = [np.full((4, 4), 2, np.float32)] * 3
    for name in ("torch", "cupy"):
        monkeypatch.setitem(sys.modules, name, None)
    _, reasons = sample.peers.find(("cublas",), gpu, problem, inputs)
    assert reasons["cublas"] == "cuBLAS needs PyTorch or CuPy, which are not installed"
    _, reasons = sample.peers.find(("cublas",), queue.device, problem, inputs)
    assert reasons["cublas"] == "cuBLAS is for NVIDIA's GPUs"
