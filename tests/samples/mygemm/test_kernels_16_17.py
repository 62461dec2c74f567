"""samples/mygemm: kernels 16 and 17, for one column of B or one row of A."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import device, gemm
from common.bounds import Expected
from common.errors import Unsupported, UsageError
from common.planning import plans, steps
from common.planning.stream import Stream
from tests.conftest import broken_kernels, exhaustive_but


@pytest.fixture(scope="module", params=["portable", "intel"])
def queue(request):
    """A queue on the device of that platform."""
    try:
        return device.open_queue(device.choose(platform=request.param))
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
def run(sample, queue):
    """Run a kernel at several sizes, and check it; gives the reasons of those that are wrong."""

    def run_kernel(number, sizes, precision="single", alpha=1.5, beta=-0.5, gaps=(3, 2, 1),
                   data="sdk", folder=None, **params):
        kernel = next(each for each in sample.special.KERNELS if each.number == number)
        kernel = replace(kernel, folder=folder or kernel.folder)
        limits, dtype, wrong = device.limits(queue.device), gemm.PRECISIONS[precision], []
        try:
            gemm.require_precision(precision, limits)
        except Unsupported as error:
            pytest.skip(f"the device has no such precision: {error}")
        for size in (gemm.Size(*each) for each in sizes):
            strides = (least + gap for least, gap in zip((size.K, size.N, size.N), gaps))
            problem = gemm.Problem(size, np.dtype(dtype), *strides)
            built = plans.build_kernel(queue, limits, kernel, params, problem)
            expected = Expected(size, dtype, data, 1, alpha, beta)
            stream = Stream(queue, problem)
            check, C = sample.run.check(built, alpha, stream, expected)
            again = sample.run.check(built, alpha, Stream(queue, problem), expected)[1]
            if check.reason or (again != C).any() or (counters(stream) != -1).any():
                wrong.append((size, check.reason))
        return wrong

    return run_kernel


def counters(stream):
    """Return the counters of the work-groups that share; nothing where none do."""
    found = np.empty(0, np.int32)
    if held := stream.held.get("counters"):
        found = np.empty(held.size // 4, np.int32)
        cl.enqueue_copy(stream.queue, found, held)
    return found


SIZES = [(1, 1, 1), (1, 1, 300), (2, 3, 5), (70, 1, 33), (1, 70, 33), (5, 1, 64), (1, 64, 5),
         (9, 10, 21), (1, 300, 1), (300, 1, 1), (67, 1, 129), (1, 131, 67)]
# As on a GPU, and what only a given parameter makes.
CHOICES = [
    *((16, each) for each in ({}, {"LANES": 1, "WIDTH": 4, "ROWS": 3},
                              {"LANES": 1, "WIDTH": 2, "ROWS": 8, "SPLITS": 2},
                              {"LANES": 16, "WIDTH": 4}, {"LANES": 64, "WIDTH": 1, "ROWS": 3},
                              {"LANES": 2, "WIDTH": 16, "ROWS": 1},
                              {"LANES": 32, "WIDTH": 1, "ROWS": 1, "SPLITS": 3},
                              {"LANES": 1, "WIDTH": 4, "ROWS": 4, "TEAMS": 2, "SPLITS": 33},
                              {"LANES": 4, "WIDTH": 2, "ROWS": 2, "TEAMS": 3, "SPLITS": 5},
                              {"LANES": 1, "WIDTH": 8, "ROWS": 4},
                              {"LANES": 1, "WIDTH": 16, "ROWS": 8})),
    *((17, each) for each in ({}, {"LANES": 8, "SLICES": 4, "WIDTH": 1, "NC": 8},
                              {"LANES": 4, "SLICES": 3, "WIDTH": 2, "NC": 32, "UNROLL": 2},
                              {"LANES": 1, "SLICES": 16, "WIDTH": 4, "NC": 4, "UNROLL": 16},
                              {"LANES": 1, "SLICES": 1, "WIDTH": 4, "NC": 16, "UNROLL": 7},
                              {"LANES": 1, "SLICES": 1, "WIDTH": 4, "NC": 16, "UNROLL": 12},
                              {"LANES": 32, "SLICES": 8, "WIDTH": 1, "NC": 32, "SPLITS": 4},
                              {"LANES": 2, "SLICES": 1, "WIDTH": 4, "NC": 16, "SPLITS": 33},
                              {"LANES": 4, "SLICES": 2, "WIDTH": 2, "NC": 8, "SPLITS": 7})),
]


@pytest.mark.parametrize("choice", exhaustive_but(CHOICES[6::7], CHOICES), ids=str)
def test_any_size_and_parameters(run, choice):
    number, given = choice
    assert run(number, SIZES, **given) == []


@pytest.mark.parametrize("number", [16, 17])
@pytest.mark.parametrize("precision", exhaustive_but(["half"], ["double", "half"]))
def test_other_precisions(run, number, precision):
    assert run(number, [(70, 1, 33), (1, 70, 33), (9, 10, 21)], precision) == []


@pytest.mark.parametrize("number", [16, 17])
@pytest.mark.parametrize(
    "factors", exhaustive_but([(1, 0)], [(1, 0), (0, 2), (-2, 1)]), ids=str
)
def test_rows_without_gaps_and_any_factors(run, number, factors):
    alpha, beta = factors
    sizes = [(70, 1, 33), (1, 70, 33), (9, 10, 21)]
    assert run(number, sizes, gaps=(0, 0, 0), data="integer", alpha=alpha, beta=beta) == []


def test_more_columns_than_a_block_and_more_rows_than_a_group(run):
    assert run(17, [(1, 4500, 9), (2, 2100, 3)]) == []
    assert run(16, [(4500, 1, 9), (700, 2, 1030)]) == []


MUTANTS = {
    "16 leaves out the end of K": (16, "k = whole + lane", "k = K + lane"),
    "16 counts elements at the end twice": (16, "end - WIDTH + n >= whole", "n >= 0"),
    "16 takes b as if in a row": (16, "if (ldb == 1)", "if (ldb > 0)"),
    "16 stores beyond the share": (16, "min(ROWS, count)", "ROWS"),
    "16 loses a lane": (16, "lanes > 0; lanes /= 2) {", "lanes > 1; lanes /= 2) {"),
    "16 reads C at beta 0": (16, "beta == 0 ? alpha * sums[r] : ", ""),
    "16 gives all teams the same rows": (16, "top + team * ROWS", "top"),
    "16 adds up a part twice": (16, "(split + 1) / SPLITS", "(split + 2) / SPLITS"),
    "16 stores all parts in one": (16, "parts[((size_t)split * M", "parts[((size_t)0 * M"),
    "16 takes every work-group for the last": (16, "SPLITS, &before);", "SPLITS, &before) | 1;"),
    "16 leaves out a part": (16, "s < SPLITS; s += LANES", "s < SPLITS - 1; s += LANES"),
    "16 counts all columns together": (16, "counters[get_group_id(1) * N + j]", "counters[0]"),
    "16 loads vectors at odd addresses": (16, "rows[r] + k)", "rows[r] + k + 1)"),
    "17 leaves out the end of K": (17, "k < end; k += SLICES", "k < end - 1; k += SLICES"),
    "17 takes a slice twice": (17, "int s = 1; s < SLICES", "int s = 0; s < SLICES"),
    "17 stores beyond the row": (17, "n < min(count, WIDTH)", "n < WIDTH"),
    "17 reads beyond the row": ("vector", "n < count ? from[n] : 0", "from[n + 1]"),
    "17 mixes up a vector of A": (17, "a[r + 1] = four.s1", "a[r + 1] = four.s2"),
    "17 begins each part at 0": (17, "units * split /", "units * 0 /"),
    "17 stores all parts in one": (17, "of_tile[(split * VECTORS", "of_tile[(0 * VECTORS"),
    "17 takes every work-group for the last": (17, "&before) ? SPLITS : 0", "&before) | 1 ? 2 : 0"),
    "the last one leaves its counter": ("last", "atomic_xchg(counter, -1);", ";"),
    "the last one but one is taken for the last": ("last", "*before == sharing - 1;",
                                                   "*before == sharing - 2;"),
    "17 forgets a group": (17, "get_group_id(0) * NC", "get_group_id(0) / 2 * NC"),
}
MUTANTS_IN_FOURS = {
    "stores sums of rows that do not exist": ("count >= ROWS && ldc", "ldc"),
    "forgets the end of K": ("vload4(0, found + r) + four", "four"),
    "mixes up two rows": ("a.odd, b.odd", "b.odd, a.odd"),
    "stores the first four sums twice": ("vload4(0, sums + r)", "vload4(0, sums)"),
}


@pytest.mark.parametrize("queue", ["portable"], indirect=True)
@pytest.mark.parametrize("mutant", exhaustive_but(list(MUTANTS)[::4], MUTANTS))
def test_a_kernel_broken_on_purpose_fails(run, tmp_path, mutant):
    number, right, wrong = MUTANTS[mutant]
    kernels = broken_kernels(tmp_path, [f"{number}*"], right, wrong)
    number = number if isinstance(number, int) else 17
    lanes = 1 if "end twice" in mutant else 4
    given = {"LANES": lanes, "WIDTH": 4, "SPLITS": 1 if "beyond" in mutant else 2}
    more = {"TEAMS": 2, "ROWS": 2}, {"SLICES": 2, "NC": 16, "UNROLL": 4}
    given.update(more[number - 16])
    sizes, beta = [(7, 3, 70), (2, 50, 21)], 0 if "beta 0" in mutant else -0.5
    assert run(number, sizes, beta=beta, folder=kernels, **given)


@pytest.mark.parametrize("queue", ["portable"], indirect=True)
@pytest.mark.parametrize("mutant", [None, *MUTANTS_IN_FOURS])
def test_sums_of_four_rows(run, tmp_path, mutant):
    """Kernel 16 on a CPU, as it is or broken on purpose; K has a part of a vector, or more."""
    right_and_wrong = MUTANTS_IN_FOURS.get(mutant)
    folder = broken_kernels(tmp_path, ["16*"], *right_and_wrong) if mutant else None
    given = {"LANES": 1, "WIDTH": 4, "ROWS": 8, "beta": 0, "gaps": (0, 0, 0)}
    assert bool(run(16, [(29, 1, 3), (29, 1, 7)], folder=folder, **given)) == bool(mutant)


def test_inf_in_elements_that_are_read_twice_stays_inf(sample, queue):
    size = gemm.Size(9, 1, 22)  # the last 4 of a row begin at 18, the last whole vector at 16
    problem = gemm.Problem(size, np.dtype(np.float32), size.K, 1, 1)
    kernel, limits = sample.special.DOT_PRODUCTS, device.limits(queue.device)
    built = plans.build_kernel(queue, limits, kernel, {"LANES": 1, "WIDTH": 4}, problem)
    A, B = np.ones((9, 22), np.float32), np.ones((22, 1), np.float32)
    A[2, 18], A[3, 21], A[4, 19], A[5, 18:20] = np.inf, -np.inf, np.nan, (np.inf, -np.inf)
    stream = Stream(queue, problem)
    stream.write(A, B, np.float32(0))
    sample.run.enqueuer(built, 1, 0, stream)()[-1].wait()
    with np.errstate(invalid="ignore"):
        assert np.array_equal(stream.C.read(), A @ B, equal_nan=True)


@pytest.mark.parametrize("number", [16, 17])
def test_launches_in_flight_do_not_share_counters(sample, queue, number):
    """Streams overlap; in a stream kernels with more and fewer counters follow one another."""
    size = gemm.Size(40, 1, 3000) if number == 16 else gemm.Size(1, 90, 3000)
    problem = gemm.Problem(size, np.dtype(np.float32), size.K, size.N, size.N)
    kernel = next(each for each in sample.special.KERNELS if each.number == number)
    limits, expected = device.limits(queue.device), Expected(size, np.float32, "integer", 1, 1, 1)
    given = {"LANES": 4, "WIDTH": 1, "SPLITS": 6}
    given.update({"NC": 8, "SLICES": 2} if number == 17 else {})
    built = [plans.build_kernel(queue, limits, kernel, {**given, **more}, problem)
             for more in ({}, {"ROWS": 1} if number == 16 else {"NC": 4})]
    first = Stream(queue, problem)
    streams = [first, first.beside(), first.beside()]
    for stream in streams:
        stream.write(*expected.inputs)
    launches = [sample.run.enqueuer(each, 1, 1, stream) for stream in streams for each in built]
    for _ in range(20):
        for launch in launches:
            launch()
    A, B, C = (each.astype(np.float64) for each in expected.inputs)
    for stream in streams:
        stream.queue.finish()
        assert (stream.C.read() == C + 40 * (A @ B)).all()
        assert (counters(stream) == -1).all()
    assert len({stream.held["counters"].int_ptr for stream in streams}) == 3


def test_a_launch_that_broke_off_does_not_spoil_the_next_check(sample, queue):
    size = gemm.Size(1, 9, 300)
    problem = gemm.Problem(size, np.dtype(np.float32), size.K, size.N, size.N)
    given = {"LANES": 4, "WIDTH": 1, "NC": 12, "SPLITS": 3}
    limits, kernel = device.limits(queue.device), sample.special.ROW_SUMS
    built = plans.build_kernel(queue, limits, kernel, given, problem)
    stream, expected = Stream(queue, problem), Expected(size, np.float32, "integer", 1, 1, 1)
    left = np.int32([7])
    cl.enqueue_copy(queue, stream.room("counters", 4), left)
    assert sample.run.check(built, 1, stream, expected)[0].reason is None
    stream.write(*expected.inputs)
    cl.enqueue_copy(queue, stream.room("counters", 4), left)
    sample.run.enqueuer(built, 1, 1, stream)()[-1].wait()
    assert (stream.C.read() == expected.inputs[2]).all()  # nobody came last


def test_what_is_given_to_a_kernel_that_adds_up_its_parts(sample, queue):
    limits, found = device.limits(queue.device), []
    for number, size, given in (
        (16, gemm.Size(9, 3, 99), {"LANES": 2, "ROWS": 2, "TEAMS": 2}),
        (17, gemm.Size(2, 30, 99), {"LANES": 2, "WIDTH": 2, "SLICES": 2, "NC": 8}),
    ):
        problem = gemm.Problem(size, np.dtype(np.float32), size.K, size.N, size.N, 2)
        kernel = next(each for each in sample.special.KERNELS if each.number == number)
        made = plans.plan(kernel, {**given, "SPLITS": 5}, problem, limits, queue.device)
        found.append((made.room, made.shared, list(steps.others(
            SimpleNamespace(plan=made)))))
        alone = plans.plan(kernel, {**given, "SPLITS": 1}, problem, limits, queue.device)
        assert alone.room == {}
    groups = found[0][0]["counters"] // (4 * 2 * 3)  # of 2 products with 3 columns
    assert 1 <= groups <= 3  # on a CPU as many as there are cores
    assert found[0] == ({"parts": 2 * 5 * 27 * 4, "counters": 2 * 3 * groups * 4}, 0, [])
    assert found[1] == ({"parts": 2 * 5 * 2 * 32 * 4, "counters": 2 * 2 * 4 * 4}, 0, [])


def test_a_is_loaded_in_vectors_if_its_rows_begin_at_multiples_of_them(sample, queue):
    limits, found = device.limits(queue.device), []
    for size, lda in (((9, 1, 20), 20), ((9, 1, 20), 21), ((1, 9, 21), 21), ((3, 9, 21), 21)):
        size = gemm.Size(*size)
        problem = gemm.Problem(size, np.dtype(np.float32), lda, size.N, size.N)
        kernel = sample.special.DOT_PRODUCTS if size.N == 1 else sample.special.ROW_SUMS
        given = {"WIDTH": 4} if size.N == 1 else {"UNROLL": 8}
        made = plans.plan(kernel, given, problem, limits, queue.device)
        found.append(made.defines["WIDTH_A"])
    assert found == [4, 1, 4, 1]


@pytest.mark.parametrize(("size", "at_work"), [
    ("1x64x100000", "all"), ("1x64x100", 1), ("1x1x1000000", "all"), ("10x1x100000", "all"),
    ("1000x1x1000", "all"), ("3x1x100", 1)])
def test_cores_share_the_ks_of_a_small_c(sample, queue, size, at_work):
    size = gemm.parse_size(size)
    problem = gemm.Problem(size, np.dtype(np.float32), size.K, size.N, size.N)
    kernel = sample.special.ROW_SUMS if size.M == 1 < size.N else sample.special.DOT_PRODUCTS
    made = plans.plan(kernel, {}, problem, device.limits(queue.device), queue.device)
    cores = min(queue.device.max_compute_units, 1 + size.K * max(size.M, size.N) // 2**18)
    assert np.prod(made.global_size) == (cores if at_work == "all" else 1)
    assert made.params["SPLITS"] == (cores if size.M < 1000 and at_work == "all" else 1)


@pytest.mark.parametrize("size", ["1x3x64", "1x10x32", "1x17x32", "1x40x24"])
@pytest.mark.parametrize("given", [(), ("--SPLITS", 2)])
def test_a_vector_beyond_its_row_stays_in_the_matrix(run_sample, size, given):
    done = run_sample("mygemm", "--kernel", 17, "--size", size, "--UNROLL", 8,
                      *given, "--guards", "pages", "--check-only")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_vector_beyond_its_matrix_is_found(run_sample, project):
    path = project / "samples/mygemm/kernels/17_row_sums.cl"
    text = path.read_text()
    assert "k + UNROLL + behind <= K" in text
    path.write_text(text.replace("k + UNROLL + behind <= K", "k + UNROLL <= K"))
    done = run_sample("mygemm", "--kernel", 17, "--size", "1x10x32",
                      "--UNROLL", 8, "--guards", "pages", "--check-only", root=project)
    assert "touched a guard page" in done.stderr
    assert done.returncode == 1
