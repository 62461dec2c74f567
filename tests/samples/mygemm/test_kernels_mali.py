"""The kernels for Mali: right at any size, whatever the matrices' edges, alpha, beta and strides.

What they are on a Mali's compiler is not for tests.
"""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from common import bounds, device, gemm
from common.bounds import Expected
from common.errors import Unsupported, UsageError
from common.planning import plans
from common.planning.stream import Stream
from common.program import build
from tests.conftest import ROOT, broken_kernels, exhaustive_but

FOLDER = ROOT / "samples" / "mygemm"
SIZES = [(1, 1, 1), (3, 3, 3), (17, 17, 17), (4, 64, 4), (67, 45, 129), (5, 130, 66)]


@pytest.fixture(scope="module", params=["Portable", "Intel"])
def queue(request):
    """A queue on the device of that platform."""
    try:
        return device.open_queue(device.choose(platform=request.param))
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
def run(sample, queue):
    """Run a kernel, and check it; gives the Check and C. Each set of parameters is built once."""
    programs = {}

    def run_kernel(number, size, precision=None, alpha=1.5, beta=-0.5, gaps=(3, 2, 1),
                   plain=False, folder=None, **params):
        kernel = next(each for each in sample.special.KERNELS if each.number == number)
        kernel = replace(kernel, folder=folder or kernel.folder)
        precision, limits = precision or kernel.precisions[0], device.limits(queue.device)
        size, dtype = gemm.Size(*size), np.dtype(gemm.PRECISIONS[precision])
        try:
            gemm.require_precision(precision, limits)
            strides = (least + gap for least, gap in zip((size.K, size.N, size.N), gaps))
            problem = gemm.Problem(size, dtype, *strides)
            plan = plans.plan(kernel, params, problem, limits, queue.device)
        except Unsupported as error:
            pytest.skip(f"the device has no such precision: {error}")
        options = () if plain else plan.options
        key = number, options, *plan.defines.items()
        if key not in programs:
            before = [kernel.path(name) for name in kernel.before]
            programs[key] = build(queue.context, kernel.file, plan.defines, options, before)
        built = plans.Built(plan, programs[key], 16)
        data = "integer" if precision == "int8" else "sdk"
        expected = Expected(size, dtype, data, 1, alpha, beta)
        return sample.run.check(built, alpha, Stream(queue, problem), expected)

    return run_kernel


TILES = [{}, {"M0": 8}, {"N0": 8}, {"M0": 8, "N0": 8, "UNROLL": 1}, {"M0": 8, "UNROLL": 16}]
CHOICES = [
    *((21, tile) for tile in ({}, {"M0": 2}, {"M0": 3, "N0": 8}, {"M0": 1, "precision": "double"})),
    *((number, tile) for number in (22, 23, 24) for tile in TILES),
    (22, {"precision": "double"}),
    (22, {"precision": "half"}),
    *((25, given) for given in ({}, {"UNROLL": 16}, {"CHAIN": 0}, {"CHAIN": 8, "UNROLL": 2})),
    *((26, given) for given in ({}, {"plain": True}, {"M0": 8, "UNROLL": 16})),
]


QUICK = [each for each in CHOICES if each[0] > 24 or "M0" in each[1]]


@pytest.mark.parametrize("choice", exhaustive_but(QUICK, CHOICES), ids=str)
def test_any_size_and_parameters(run, choice):
    number, given = choice
    whole = {} if number != 26 else {"alpha": -3, "beta": 2}
    for size in SIZES:
        for factors in (whole, {"alpha": 1, "beta": 0}):
            check, _ = run(number, size, **given, **factors)
            assert check.reason is None, (size, factors)


@pytest.mark.parametrize("number", [22, 24, 26])
@pytest.mark.parametrize("group", [{"LANES": 1, "ROWS": 1}, {"LANES": 8, "ROWS": 16}], ids=str)
def test_any_work_group(run, number, group):
    whole = {"alpha": 2, "beta": 3}
    assert run(number, (37, 70, 21), **group, **whole)[0].reason is None


@pytest.mark.parametrize("chain", [0, 8, 64])
def test_half_rounds_once_for_each_chain(run, chain):
    size = 67, 45, 129
    check, C = run(25, size, CHAIN=chain)
    assert check.error_over_bound <= max(chain, 16) / size[2]
    if chain == 0:
        inputs = gemm.sdk_inputs(gemm.Size(*size), 1, np.float16)
        wanted = bounds.worst_case(1.5, *inputs[:2], -0.5, inputs[2], arithmetic=np.float32)
        assert bounds.check(C, *wanted).reason is None


def test_int8_is_exact(run):
    """Against int64, which the reference in float64 is not."""
    size = 33, 70, 301
    _, C = run(26, size, alpha=-3, beta=2)
    A, B, before = (x.astype(np.int64) for x in gemm.integer_inputs(gemm.Size(*size), 1, np.int8))
    assert (A.min(), A.max()) == (-128, 127)
    assert C.dtype == np.int32
    assert (-3 * A @ B + 2 * before == C).all()


MUTANTS = {
    "21 mixes up k": (21, "ELEMENT(a[m], k) * b", "ELEMENT(a[m], 0) * b"),
    "22 leaves rubbish behind A": (22, "k < K ? M - i : 0", "M - i"),
    "22 leaves rubbish behind B": (22, "k < K ? N - j : 0", "N - j"),
    "22 does not fill up k": (22, "if (k >= depth ||", "if (k >= K ||"),
    "22 stores beyond the row": (22, "if (left > 1)", "if (left > 0)"),
    "22 stores beyond C": (22, "if (i + m < M)", "if (i + m <= M)"),
    "23 reads C at beta 0": (23, "beta == 0 ? product.s0 : ", ""),
    "23 takes the wrong pixel": (23, "x + n * LANES, k0 + k", "x, k0 + k + n"),
    "24 does not fill the image": (24, "|| k >= UP(K, UNROLL)", "|| k >= K"),
    "24 forgets beta": (24, " + beta * c[2]", ""),
    "25 takes one k of two": (25, "ADD(sums, a1, b1)", "ADD(sums, a0, b1)"),
    "25 forgets a chain": (25, "sums[m] += convert", "sums[m] = convert"),
    "26 takes bytes as unsigned": (26, "as_char4(a)", "as_uchar4(a)"),
    "26 reads beyond K": (26, "min(count, 4)", "4"),
}


@pytest.mark.parametrize("mutant", exhaustive_but(list(MUTANTS)[::4], MUTANTS))
def test_a_kernel_broken_on_purpose_fails(run, tmp_path, mutant):
    number, right, wrong = MUTANTS[mutant]
    kernels = broken_kernels(tmp_path, [f"{number}_*", "mali"], right, wrong)
    factors = {"alpha": 1, "beta": 0 if "beta 0" in mutant else 2}
    more = {"N0": 8} if "pixel" in mutant else {}
    check, _ = run(number, (35, 101, 70), **factors, **more, plain=True, folder=kernels)
    assert check.reason, f"{check} looks right"


REFUSED = [
    ("--kernel 25", Unsupported, "25_mali_half is for --precision half"),
    ("--kernel 1 --precision int8", Unsupported, "is for --precision single, double, half"),
    ("--precision int8 --alpha 0.5", UsageError, "needs whole --alpha and --beta: --alpha 0.5"),
    ("--kernel 26 --precision int8 --size 1x1x131072", UsageError, "sums of at most 2147483647"),
    ("--kernel 22 --UNROLL 3", UsageError, "UNROLL must be one of 1, 2, 4, 8, 16; try --UNROLL 4"),
    ("--kernel 21 --N0 2", UsageError, "4 must divide N0; try --N0 4"),
    ("--kernel 25 --precision half --UNROLL 8 --CHAIN 12", UsageError, "UNROLL must divide CHAIN"),
    ("--kernel 24 --size 4x4x3000000", Unsupported, "3000000 pixels, but the device takes at most"),
]


@pytest.mark.parametrize(("words", "error", "message"), REFUSED)
def test_what_is_refused_and_why(sample, queue, words, error, message):
    args, limits = sample.run.options().parse_args(words.split()), device.limits(queue.device)

    def look():
        (problem,) = gemm.problems(args, limits)
        ((kernel, given),) = sample.special.named(args)
        plans.plan(kernel, given, problem, limits, queue.device)

    with pytest.raises(error, match=message):
        look()


def test_all_are_those_of_the_precision(recorded):
    done, items = recorded("mygemm", "--kernel", "all", "--precision", "int8", "--size", "9x5x70",
                           "--alpha", 2, "--beta", -1, "--repeat", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [(item.variant, item.status) for item in items] == [("26_mali_int8", "passed")]
    assert items[0].params["data"] == "integer"
    assert "numpy was not measured: it does not multiply int8" in done.stdout
    assert "the ceiling was not measured: it is measured for floating-point" in done.stdout


def test_kernels_without_images_do_not_ask_for_them(sample, queue):
    problem = gemm.Problem(gemm.Size(8, 8, 8), np.dtype(np.float32), 8, 8, 8)
    limits, chip = device.limits(queue.device), SimpleNamespace(image_support=False)
    by_number = {each.number: each for each in sample.special.KERNELS}
    for number in (21, 22):
        assert plans.plan(by_number[number], {}, problem, limits, chip).local_size == (16, 4)
    with pytest.raises(Unsupported, match="24_mali_images needs images"):
        plans.plan(by_number[24], {}, problem, limits, chip)
