"""samples/mygemm: kernels right with any parameters, and a check that fails wrong ones.

In one process, with the sample's own modules: a run of the program for each would take minutes.
"""

import re
from dataclasses import replace

import numpy as np
import pyopencl as cl
import pytest

from common import device, gemm
from common.bounds import Expected
from common.errors import UsageError
from common.interleaved import finish
from common.planning import plans
from common.planning.stream import Stream
from tests.conftest import ROOT, broken_kernels, exhaustive_but, sample_module

FOLDER = ROOT / "samples" / "mygemm"


@pytest.fixture
def run(sample, queue):
    """Run a kernel by its number; gives the Check and what was Built."""

    def run_kernel(number, size, *, dtype=np.float32, alpha=1.5, beta=-0.5, data="sdk",
                   strides=None, profile=None, folder=None, **params):
        size = gemm.Size(*size)
        problem = gemm.Problem(size, np.dtype(dtype), *(strides or (size.K, size.N, size.N)))
        kernel, limits = sample.special.KERNELS[number - 1], device.limits(queue.device, profile)
        kernel = replace(kernel, folder=folder or kernel.folder)
        built = plans.build_kernel(queue, limits, kernel, params, problem)
        expected = Expected(size, problem.dtype, data, 1, alpha, beta)
        stream = Stream(queue, problem)
        return sample.run.check(built, alpha, stream, expected)[0], built

    return run_kernel


PARAMETERS = [
    (1, {"TS": 7}),
    (2, {"TS": 1}),
    (2, {"TS": 13}),
    (3, {"TS": 12, "WPT": 3}),
    (3, {"TS": 16, "WPT": 16}),
    (5, {"TS": 24, "WPT": 4, "TSDK": 18, "PAD": 0}),
    (5, {"TS": 8, "WPT": 8, "TSDK": 5, "PAD": 1}),
    (6, {"TSM": 32, "TSN": 16, "TSK": 4, "WPTM": 4, "WPTN": 2, "PAD": 0}),
    (6, {"TSM": 12, "TSN": 20, "TSK": 15, "WPTM": 3, "WPTN": 4, "PAD": 3}),
    (7, {"TSM": 16, "TSN": 64, "TSK": 8, "WPTM": 2, "WPTN": 8, "WIDTH": 2}),
    (9, {"TSM": 64, "TSN": 16, "TSK": 8, "WPTM": 8, "WPTN": 4, "WIDTH": 4}),
    (10, {"TSM": 24, "TSN": 16, "TSK": 16, "WPTM": 3, "WPTN": 4, "WIDTH": 4, "PAD": 0}),
    (10, {"TSM": 16, "TSN": 16, "TSK": 4, "WPTM": 4, "WPTN": 4, "WIDTH": 2, "PAD": 1}),
    (11, {"RX": 2, "RY": 3, "RK": 16, "THREADSX": 5, "THREADSY": 3}),
    (11, {"RX": 16, "RY": 1, "RK": 1, "THREADSX": 1, "THREADSY": 7}),
]


@pytest.mark.parametrize("given", exhaustive_but(PARAMETERS[::6], PARAMETERS), ids=str)
def test_any_parameters_that_keep_the_constraints(run, given):
    number, params = given
    check, built = run(number, (50, 37, 29), **params)
    assert check.reason is None
    assert built.plan.params == params


@pytest.mark.parametrize("number", [4, 7, 9, 10])
@pytest.mark.parametrize("width", exhaustive_but([2], [1, 2, 4, 8, 16]))
def test_every_width(run, number, width):
    # The reference stores nothing at all for some: an odd size shows that edges are stored.
    tile = {"TSM": 32, "TSN": 64, "TSK": 16, "WPTM": 4, "WPTN": max(width, 4)}
    check, built = run(number, (35, 70, 19), WIDTH=width, **(tile if number > 4 else {}))
    assert check.reason is None
    assert built.plan.params["WIDTH"] == width


def test_double_with_wide_vectors(run):
    small = {"TSM": 16, "TSN": 32, "TSK": 16, "WPTM": 4, "WPTN": 8, "WIDTH": 8}
    for number, params in ((4, {"WIDTH": 16}), (10, small), (11, {"RX": 16})):
        check, _ = run(number, (33, 34, 35), dtype=np.float64, **params)
        assert check.reason is None, number


def test_what_is_launched_when(sample, run, queue):
    def steps(number, size, beta=-0.5, **more):
        _, built = run(number, size, beta=beta, **more)
        return sample.run.enqueuer(built, 1.5, beta, Stream(queue, built.plan.problem)).steps

    for number in (1, 2, 3, 4, 10, 11):
        assert steps(number, (128, 128, 128)) == ["gemm"], number
    assert steps(2, (32, 32, 33)) == ["pad A", "pad B", "gemm"]
    assert steps(2, (32, 33, 32)) == ["pad B", "pad C", "gemm", "unpad C"]
    assert steps(2, (32, 33, 32), beta=0) == ["pad B", "gemm", "unpad C"]
    assert steps(6, (128, 128, 16)) == ["transpose A", "gemm"]
    assert steps(4, (32, 32, 32), strides=(33, 32, 32)) == ["pad A", "gemm"]
    assert steps(4, (32, 32, 32), strides=(36, 40, 44)) == ["gemm"]
    assert steps(10, (31, 33, 35), strides=(37, 34, 41)) == ["gemm"]


@pytest.mark.parametrize("number", exhaustive_but([3, 10], [n for n in range(1, 12) if n != 8]))
def test_the_limits_of_a_small_mali_are_kept(run, number):
    check, built = run(number, (70, 45, 33), profile="mali-t628")
    assert check.reason is None
    assert np.prod(built.plan.local_size) <= 256
    assert built.plan.local_bytes <= 32 * 1024


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 11])
def test_the_least_that_opencl_asks_of_a_device(run, number):
    check, built = run(number, (5, 4, 3), profile="embedded")
    assert check.reason is None
    assert built.plan.local_size == (1, 1)


def test_what_the_plan_counts_is_what_the_kernel_takes(run, queue):
    """The rule of local memory is worth as much as the number that it looks at."""
    info = cl.kernel_work_group_info.LOCAL_MEM_SIZE
    for number in (n for n in range(2, 12) if n != 8):
        _, built = run(number, (16, 16, 16))
        taken = cl.Kernel(built.program, "gemm").get_work_group_info(info, queue.device)
        # PoCL 6 says 0 for local memory of a fixed size; NVIDIA's driver keeps a few bytes.
        assert taken == 0 or 0 <= taken - built.plan.local_bytes <= 64, number


@pytest.mark.parametrize(("tile", "taken"), [
    # What C goes through is the largest, then the sums that slices pass on, then the tiles.
    ({"TSM": 32, "TSN": 64, "TSK": 4, "WPTM": 4, "WPTN": 16, "SLICES": 1}, 3200),
    ({"TSM": 64, "TSN": 32, "TSK": 4, "WPTM": 8, "WPTN": 8, "SLICES": 4}, 12800),
    ({"TSM": 64, "TSN": 64, "TSK": 8, "WPTM": 8, "WPTN": 4, "SLICES": 2}, 16896),
])
def test_what_is_counted_for_kernel_13(run, queue, tile, taken):
    info = cl.kernel_work_group_info.LOCAL_MEM_SIZE
    _, built = run(13, (16, 16, 16), **tile)
    assert built.plan.local_bytes == taken
    found = cl.Kernel(built.program, "gemm").get_work_group_info(info, queue.device)
    assert found in (0, taken), "PoCL 6 says 0"


def test_a_kernel_that_can_have_fewer_work_items_gets_fewer(run, sample, monkeypatch):
    monkeypatch.setattr(plans, "group_limits", lambda *_: (64, 1))
    check, built = run(3, (40, 40, 40))
    assert check.reason is None
    assert np.prod(built.plan.local_size) <= 64
    assert "a work-group has at most 64" in built.plan.why


# Kernels broken on purpose must fail. Sizes: a tile and a bit in each direction.

MUTANTS = {
    "01 forgets beta": (1, "+ beta * *c", ""),
    "01 reads C at beta 0": (1, "beta == 0 ? alpha * sum : ", ""),
    "01 leaves out half of C": (1, "if (i >= M", "if (i >= M / 2"),
    "01 goes beyond C": (1, "if (i >= M || j >= N)", "if (i >= M || j > N)"),
    "02 leaves out a product": (2, "int k = 0; k < TS;", "int k = 1; k < TS;"),
    "02 leaves out a tile": (2, "int k0 = 0; k0 < K;", "int k0 = TS; k0 < K;"),
    "02 forgets to wait": (2, "barrier(CLK_LOCAL_MEM_FENCE);", ""),
    "06 forgets to wait": (6, "barrier(CLK_LOCAL_MEM_FENCE);", ""),
    "03 mixes up rows": (3, "a_tile[row + w * ROWS][k]", "a_tile[row][k]"),
    "03 forgets alpha": (3, "alpha * sums[w] + beta", "sums[w] + beta"),
    "04 takes the wrong vector": (4, "b_tile[k][column];", "b_tile[k][0];"),
    "05 packs the rows": (5, "a_tile[x][k] = ", "a_tile[x][TSDK - 1 - k] = "),
    "05 leaves out a row of k": (5, "k < TSDK; k += ROWS", "k < TSDK - 1; k += ROWS"),
    "06 mixes up columns": (6, "b_tile[k][x + n * COLUMNS];", "b_tile[k][x];"),
    "06 leaves out elements": (6, "e < TSK * TSM;", "e < TSK * TSM - 1;"),
    "07 stores half": (7, "WIDTH; n++) {\n            __g", "WIDTH / 2; n++) {\n            __g"),
    "09 uses the tile twice": (9, "k0 / TSK % 2", "0 * k0"),
    "09 leaves out the last tile": (9, "k0 + TSK < K;", "k0 + 2 * TSK < K;"),
    "10 loads beyond the row": (10, "at + w < end ?", "at + w < end + 1 ?"),
    "10 stores beyond C": (10, "if (w < left)", "if (w < left + 1)"),
    "10 drops the edge": (10, "if (w < left)", "if (w + 1 < left)"),
    "10 has no end of M": (10, "if (i >= M)", "if (i > M)"),
    "10 has no end of K": (10, "k < K ? columns : 0", "columns"),
    "11 mixes up k": (11, "a.each[k] * b[k]", "a.each[k] * b[0]"),
    "pad leaves rubbish": (2, "i < P && j < Q ?", "i < P && j <= Q ?", "pad"),
    "unpad copies too much": (2, "i < R && j < S", "i < R && j <= S", "pad"),
    "transpose forgets zeros": (6, "row < P && column < Q ?", "row < P ?", "transpose"),
}


ONE_OF_EACH_FILE = {(number, *other): mutant for mutant, (number, _, _, *other) in MUTANTS.items()}


@pytest.mark.parametrize("mutant", exhaustive_but(ONE_OF_EACH_FILE.values(), MUTANTS))
def test_a_kernel_broken_on_purpose_fails(run, tmp_path, mutant):
    number, right, wrong, *other = MUTANTS[mutant]
    kernels = broken_kernels(tmp_path, other or [f"{number:02}_*"], right, wrong)
    M, N, K = (TILE.get(number, 32) + 3,) * 3
    beta, strides = 0 if "beta 0" in mutant else -0.5, (K + 1, N + 2, N + 3)
    check, _ = run(number, (M, N, K), beta=beta, strides=strides, folder=kernels)
    assert check.reason, f"{check} looks right"
    if "beyond C" in mutant or "too little" in mutant:
        assert "outside of its buffers" in check.reason or "are wrong" in check.reason


TILE = {6: 128, 7: 128, 9: 128, 10: 128}  # the others' is 32 or less


def test_a_write_into_the_gap_behind_a_row_is_seen(run, tmp_path):
    kernels = broken_kernels(tmp_path, ["01_naive"], "*c = beta", "C[N] = 1;\n    *c = beta")
    check, _ = run(1, (8, 8, 8), strides=(8, 8, 9), folder=kernels)
    assert check.reason == "with --beta -0.5, the kernel wrote outside of its buffers"


# What the constraints say.


@pytest.fixture
def choose(sample, queue):
    """Choose the parameters of a kernel by its number; gives the Choice."""

    def choose_for(number, profile="mali-t628", **params):
        problem = gemm.Problem(gemm.Size(64, 64, 64), np.dtype(np.float32), 64, 64, 64)
        kernel, limits = sample.special.KERNELS[number - 1], device.limits(queue.device, profile)
        return plans.choose(kernel, params, problem, limits, queue.device)

    return choose_for


REFUSED = [
    (2, {"TS": 32}, "--TS 32: 1024 work-items, but a work-group has at most 256; try --TS 16"),
    (1, {"TS": 300}, "--TS 300: 300 work-items in dimension 0, but the device takes at most 256"),
    (1, {"TS": 0}, "--TS 0: TS must be at least 1; try --TS 1"),
    (3, {"TS": 32, "WPT": 5}, "--TS 32 --WPT 5: WPT must divide TS; try --WPT 4"),
    (4, {"WIDTH": 3}, "--WIDTH 3: WIDTH must be one of 1, 2, 4, 8, 16; try --WIDTH 4"),
    (5, {"TS": 32, "WPT": 8, "TSDK": 6},
     "--TS 32 --WPT 8 --TSDK 6: TS // WPT = 4 must divide TSDK"),
    (9, {"TSM": 128, "TSN": 128, "TSK": 32},
     "65536 bytes of local memory, but the device has 32768 for a work-group; try --TSK 16"),
    (7, {"TSM": 128, "WPTM": 3}, "--TSM 128 --WPTM 3: WPTM must divide TSM; try --WPTM 8"),
    (7, {"TSK": 32, "WPTM": 16, "WPTN": 32}, "TSK * WPTM * WPTN = 16384 must be at most 8192"),
    (11, {"RX": 3}, "--RX 3: RX must be one of"),
    (11, {"RX": 8, "RK": 4, "RY": 257}, "RX * RY * RK = 8224 must be at most 8192"),
    (12, {"MR": 129, "NR": 16}, "4 * MR * NR = 8256 must be at most 8192"),
    (16, {"WIDTH": 8, "ROWS": 1025}, "ROWS * WIDTH = 8200 must be at most 8192"),
    (17, {"WIDTH": 8, "UNROLL": 1025}, "UNROLL * WIDTH = 8200 must be at most 8192"),
    (17, {"LANES": 1, "NC": 10**8}, "NC // LANES = 100000000 must be at most 8192"),
    (11, {"THREADSX": 32, "THREADSY": 16}, "512 work-items, but a work-group has at most 256"),
]


@pytest.mark.parametrize(("number", "params", "message"), REFUSED)
def test_what_is_refused_and_why_and_what_would_do(choose, number, params, message):
    with pytest.raises(UsageError) as caught:
        choose(number, **params)
    text = str(caught.value)
    assert message in text
    assert "; try --" in text
    words = text.rpartition("; try ")[2].split()
    better = {name[2:]: int(value) for name, value in zip(words[::2], words[1::2])}
    assert better.items() <= choose(number, **{**params, **better}).params.items()


def test_what_is_given_stays_and_the_rest_is_made_to_fit(choose):
    choice = choose(10, WIDTH=16)
    assert choice.params["WIDTH"] == 16
    assert choice.params["WPTN"] % 16 == 0
    assert "WIDTH must divide WPTN" in choice.why


def test_the_original_tiles_fill_a_small_malis_local_memory_to_the_byte(choose):
    assert choose(9).why is None


# What is launched at the same time.


@pytest.mark.parametrize("number", [2, 12])
def test_what_runs_in_two_streams_at_once_is_right_in_both(sample, queue, number):
    """Kernel 2 makes copies at this size, which the streams must not share either."""
    size, limits = gemm.Size(70, 45, 33), device.limits(queue.device)
    problem = gemm.Problem(size, np.dtype(np.float32), 33, 45, 45)
    kernel = sample.special.KERNELS[number - 1]
    built = plans.build_kernel(queue, limits, kernel, {}, problem)
    expected = Expected(size, problem.dtype, "integer", 1, 1.0, 0.0)
    first = Stream(queue, problem)
    second = first.beside()
    assert (first.A, first.B) == (second.A, second.B)
    A, B, C = expected.inputs
    first.write(A, B, 7)
    for case in expected.cases:
        beta = case.beta
        second.C.write(C if beta else np.nan)
        enqueue = [
            sample.run.enqueuer(built, alpha, beta, stream)
            for alpha, stream in ((2, first), (1, second))
        ]
        own = [set(map(id, stream.held.values())) for stream in (first, second)]
        assert not own[0] & own[1]
        assert all(own) == (number == 2)
        for each in enqueue * 5 if beta == 0 else enqueue:
            each()
        finish([first, second])
        assert case.check(second.C.read(), size.K, second.intact()).reason is None
    product = expected.product().result
    assert (first.C.read() == 2 * product + 2 * product).all()  # once with beta 0, once with 1


def test_peers_is_hidden_and_still_taken():
    options = sample_module("mygemm", "run").options()
    assert "--peers" not in options.format_help()
    assert options.parse_args(["--peers", "numpy"]).libraries == ("numpy",)
    assert options.parse_args([]).libraries == options.parse_args(["--libraries", "all"]).libraries


def test_the_help_says_what_each_parameter_means():
    text = " ".join(sample_module("mygemm", "run").options().format_help().split())
    assert not re.findall(r"--(\w+) N \(default", text)
    assert "--THREADSX N work-items of a work-group along a row of C (default 8 in 11)" in text
