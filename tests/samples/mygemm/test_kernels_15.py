"""Kernel 15 of samples/mygemm, with the instructions of Hopper's GPUs emulated."""

import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from common import bounds, device, gemm
from common.planning import nvidia, plans, steps, tiles
from common.planning.stream import Stream
from common.program import build
from tests.conftest import ROOT, exhaustive_but
from tests.samples.mygemm.conftest import (
    CAPABLE,
    each_adder,
    matrices,
    scales_out_of_range,
    wrong,
)

HERE = ROOT / "tests/samples/mygemm"
KERNELS = ROOT / "samples/mygemm/kernels"
PARTS_OF_14 = {"PART_BITS": 16, "WARP_M": 16, "WARP_N": 16}  # for the emulation that it shares


@pytest.fixture(scope="module")
def programs():
    """What was built, by its defines and text: a build takes seconds."""
    return {}


@pytest.fixture
def multiply(sample, queue, tmp_path, programs):
    """Run kernel 15; gives C. `change` is a part of its source and what takes its place.

    A, B and C of three dimensions are a batch.
    """

    def run(A, B, C, alpha=1.5, beta=-0.5, gap=3, change=None, units=2, **params):
        names = "last", "parts", "rows", "store", "15_split", "15_direct", "15_warpgroups"
        text = "".join((KERNELS / f"{name}.cl").read_text() for name in names)
        if change:
            assert change[0] in text
            text = text.replace(*change)
        limits = device.limits(queue.device)
        limits = replace(limits, extensions=limits.extensions | {nvidia.EXTENSION})
        chip = SimpleNamespace(max_compute_units=units, **CAPABLE)
        size = gemm.Size(*C.shape[-2:], A.shape[-1])
        batch = len(C) if C.ndim == 3 else 1
        strides = size.K + gap, size.N + gap, size.N + gap
        problem = gemm.Problem(size, C.dtype, *strides, batch)
        plan = plans.plan(sample.special.WARPGROUPS, params, problem, limits, chip)
        strides, files = steps.of_batch(plan)
        defines = {**plan.defines, **strides, **PARTS_OF_14}
        key = text, *defines.items()
        if key not in programs:
            path = tmp_path / "15_warpgroups.cl"
            path.write_text(text)
            emulated = HERE / "emulated.cl", HERE / "emulated_hopper.cl"
            # A third of the time to build; and Intel's optimiser drops work-items of the emulation.
            plainly = ["-cl-opt-disable"]
            programs[key] = build(queue.context, path, defines, plainly, (*files, *emulated))
        stream = Stream(queue, problem)  # whose room is full of NaN
        stream.write(A, B, C)
        built = plans.Built(plan, programs[key], 16)
        sample.run.enqueuer(built, alpha, beta, stream)()[-1].wait()
        assert stream.intact()
        return stream.C.read()

    return run


DIRECT = {"DIRECT": 1, "SLICES": 2, "TSN": 32, "SWAPPED": 0}
WIDE = {**DIRECT, "TSN": 64}  # a work-item loads 2 columns of B at once
SWAPPED = {**WIDE, "SWAPPED": 1}
FORMS = {"split": {"KC": 64, "TSN": 128}, "direct": DIRECT, "swapped": SWAPPED}
each_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)


@pytest.mark.parametrize(
    "form", exhaustive_but(
        [FORMS["split"], DIRECT, WIDE, SWAPPED],
        [*({"KC": n, "TSN": 128} for n in (32, 64, 128, 256)), {"KC": 64, "TSN": 64}, DIRECT,
         WIDE, {**WIDE, "SLICES": 4}, *({**SWAPPED, "SLICES": n} for n in (1, 2, 4))],
    )
)
def test_it_is_right_at_every_size(multiply, form):
    for *size, gap in ((1, 1, 7, 0), (33, 17, 40, 3), (1, 140, 40, 0), (130, 2, 300, 0),
                       (129, 130, 40, 2), (30, 68, 70, 4)):
        inputs = matrices(*size)
        assert not wrong(multiply(*inputs, gap=gap, **form), *inputs), size


@each_form
@pytest.mark.parametrize(
    "shared", exhaustive_but([(3, 9), (9, 9)], [(2, 9), (3, 9), (9, 9), (5, 1)])
)
@each_adder
def test_work_groups_share_tiles(multiply, monkeypatch, most, shared, form):
    """All tiles of C, or with one compute unit none: the others are a whole round."""
    monkeypatch.setattr(tiles, "MOST_ADDED", most)
    splits, units = shared
    A, B, C = matrices(140, 20, 200)
    A[-1] *= 1e-12
    first, again = (multiply(A, B, C, units=units, SPLITS=splits, **form) for _ in "12")
    assert not wrong(first, A, B, C)
    assert (first == again).all()


def lines_of_all_kinds():
    """Return A, B, C with lines of any magnitude, and with wide ranges."""
    A, B, C = matrices(40, 37, 200)
    A[3], A[4], A[5], A[6] = A[3] * 1e-30, A[4] * 1e15, 0, A[6] * 1e-41
    B[:, 3], B[:, 4], B[:, 5], B[:, 6] = B[:, 3] * 1e-30, B[:, 4] * 1e15, 0, B[:, 6] * 1e-41
    A[20, ::2] *= 1e-12  # beyond the range of a line
    B[::2, 17], B[1::2, 17] = 1e12, 1e-12
    B[:100, 18] *= 1e-12  # beyond that of a row of A, not that of a column in KC
    return A, B, C


def tiles_of_all_kinds():
    """The same for the direct forms: a line that does not fit has its tile computed plainly."""
    A, B, C = matrices(130, 70, 200)
    A[3], A[4], A[5], A[6] = A[3] * 1e-30, A[4] * 1e15, 0, A[6] * 1e-41
    A[70], A[75], B[:, 3], B[:, 4] = A[70] * 1e3, A[75] * 1e-4, B[:, 3] * 1e-3, B[:, 4] * 1e4
    A[20, ::2] *= 1e-12
    B[::2, 66], B[1::2, 66] = 1e12, 1e-12
    return A, B, C


MUTANTS = {  # of the form that splits first, and of the direct ones
    "makes one product only": ("MULTIPLY(low, a + 4, b, 1);", ""),
    "mixes up chunks": ("MULTIPLY(high, a + 2, b + 2, 1)", "MULTIPLY(high, a + 2, b, 1)"),
    "forgets a scale": ("* (s % 2 ? both.s1 : both.s0)", "* both.s0"),
    "takes any line": ("SPAN(K) (26", "SPAN(K) (90"),
    "does not see what does not fit": (
        "fits &= (as_uint(sums[s]) & 0x7f800000) != 0x7f800000;",
        "",
    ),
    "stores beyond C": ("if (i + 8 * m < M)", "if (i + 8 * m < M + 1)"),
    "stores beyond the row": ("if (!at_once && left > 1)", "if (!at_once && left > 0)"),
    "leaves out lines": ("depth = line < (of_a ? M : N)", "depth = line < (of_a ? M / 2 : N)"),
    "mixes up stages": ("matrix b = MATRIX(ring, stage * STAGE +", "matrix b = MATRIX(ring,"),
}
DIRECT_MUTANTS = {
    "makes one product only": ("MULTIPLY_ROWS(low, OF_X(s4, s5), lines, 1);", ""),
    "mixes up the order of k": ("share_b / 2 * 16 + share_b % 2 * 2", "share_b * 8"),
    "forgets a scale": ("* scale_x[s / 2 % 2])", "* scale_x[0])"),
    "takes any line": ("SPAN(K) (26", "SPAN(K) (200"),
    "computes no slab that does not fit": ("unfit[stage] == n", "0"),
    "sees a chunk for a line X": ("range.lo = max(range.lo, shuffle_xor(range.lo, 2));", ""),
    "sees a chunk for a line Y": ("range.lo = max(range.lo, shuffle_xor(range.lo, 16));", ""),
    "stores beyond C": ("i + ROW_OF(s) < M)", "i + ROW_OF(s) < M + 1)"),
    "mixes up stages": ("MATRIX(ring, stage * UNIT_COLUMNS * LINE)", "MATRIX(ring, 0)"),
}


@pytest.mark.parametrize("broken", exhaustive_but(
    [(form, mutant) for form in FORMS for mutant in (None, "forgets a scale")],
    [*(("split", each) for each in (None, *MUTANTS)),
     *((form, each) for form in ("direct", "swapped") for each in (None, *DIRECT_MUTANTS))],
))
def test_a_kernel_broken_on_purpose_fails(multiply, broken):
    form, mutant = broken
    A, B, C = lines_of_all_kinds() if form == "split" else tiles_of_all_kinds()
    change = (MUTANTS if form == "split" else DIRECT_MUTANTS).get(mutant)
    try:
        got = multiply(A, B, C, change=change, **FORMS[form])
    except AssertionError:
        assert "stores" in str(mutant)
        return
    exact, bound = bounds.worst_case(1.5, A, B, -0.5, C)
    right = bounds.check(got, exact, bound / 20).reason is None
    assert right == (mutant is None)


@pytest.mark.parametrize("form", [DIRECT, SWAPPED], ids=["direct", "swapped"])
@pytest.mark.parametrize("what", ["largest", "smallest"])
def test_where_scales_are_out_of_range(multiply, what, form):
    assert scales_out_of_range(partial(multiply, **form), what) == [True, False]


@pytest.mark.parametrize(
    ("form", "change"),
    [(WIDE, ("place = chunk ^ line % 8", "place = lane / 8 ^ line % 8")),
     (SWAPPED, ("SWAPPED ? s + 2 : s + 1", "s + 1"))],
    ids=["direct", "swapped"],
)
def test_columns_that_are_loaded_together_and_mixed_up_are_seen(multiply, form, change):
    A, B, C = matrices(30, 68, 70)
    assert wrong(multiply(A, B, C, gap=0, change=change, **form), A, B, C)


@pytest.mark.parametrize("form", [DIRECT, SWAPPED], ids=["direct", "swapped"])
def test_each_sum_is_compensated_once(multiply, form):
    """With 2^16 units of 2^-23 in place of those that truncation takes."""
    A, B, C = matrices(40, 70, 100)
    change = "#define LOST(n) ", "#define LOST(n) 65536 + 0 * "
    got = multiply(A, B, C, beta=0, change=change, **form) / (1 + 2.0**-7)
    assert not wrong(got, A, B, C, beta=0)


@each_form
def test_inf_and_nan_come_through_and_c_is_not_read_where_beta_is_0(multiply, form):
    A, B, C = matrices(40, 36, 200)
    A[3, 5], B[2, 7], B[0, 30] = np.inf, np.nan, -np.inf
    A[-1, -1] = B[-1, -1] = np.inf  # beyond them a kernel may read, if it takes it as 0
    for gap in (0, 2):
        got = multiply(A, B, np.full_like(C, np.nan), beta=0, gap=gap, **form)
        with np.errstate(invalid="ignore"):
            expected = 1.5 * (A.astype(float) @ B)
        finite = np.isfinite(expected)
        np.testing.assert_array_equal(got[~finite], expected[~finite])
        np.testing.assert_allclose(got[finite], expected[finite], atol=1e-4)


@each_form
def test_small_whole_numbers_stay_exact(multiply, form):
    A, B, C = (np.random.default_rng(n).integers(-4, 5, shape).astype(np.float32)
               for n, shape in enumerate(((40, 200), (200, 36), (40, 36))))
    np.testing.assert_array_equal(multiply(A, B, C, alpha=2, beta=-3, **form), 2 * A @ B - 3 * C)


@each_form
def test_a_batch(multiply, form):
    products = [matrices(9, 130, 200, seed=n) for n in range(3)]
    got = multiply(*map(np.stack, zip(*products)), **form)
    assert not any(wrong(each, *inputs) for each, inputs in zip(got, products))


def test_an_instruction_names_its_operands_in_order():
    """What emulation replaces is compiled by NVIDIA's compiler only."""
    text = (KERNELS / "hopper.cl").read_text()
    lists = {}
    for count in (32, 64, 128):  # each begins with the one before
        names = re.search(rf"#define REGISTERS_{count} \\\n((?:.*\\\n)*.*)", text)[1]
        own = [int(n) for n in re.findall(r"%(\d+)", names)]
        lists[count] = lists.get(count // 2, []) + own
        assert lists[count] == list(range(count // 2))
        behind = text[text.index(f"m64n{count}k16"):]
        for operand, add, operands in (("MATRICES", "ADD", 3), ("ROWS", "ADD_ROWS", 6)):
            if (count, add) != (128, "ADD_ROWS"):  # which no form of the kernel needs
                named = re.search(rf'{operand} "(.*?)".*\n.*{add} "(.*?)"', behind).groups()
                numbers = [int(n) for n in re.findall(r"\d+", " ".join(named))]
                assert numbers == list(range(count // 2, count // 2 + operands))
    for mnemonic in ("wgmma", "setmaxnreg"):  # all behind the mark that common/ptx.py opens
        assert text.count(f'"//@ {mnemonic}.') + text.count(f"\\n//@ {mnemonic}.") == len(
            re.findall(rf"{mnemonic}\.\w", text)
        )


@pytest.mark.parametrize("stages", [2, 3, 4, 6])
@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_no_scales_are_overwritten_that_may_be_in_use(stages, depth):
    """Before a slab is filled, the one `stages` before it is free, and no more is known."""
    text = (KERNELS / "15_warpgroups.cl").read_text()
    slots = eval(re.search(r"#define SLOTS \((.*?)\)", text)[1], {"STAGES": stages})
    jobs = [slabs for slabs in range(1, 2 * depth + 2) for _ in range(stages + 2)]
    group_of = []  # by slab: which group of `depth` it is in, counted over all jobs
    for slabs in jobs:
        first = group_of[-1] + 1 if group_of else 0
        group_of += [first + slab // depth for slab in range(slabs)]
    for slab in range(len(group_of)):
        in_use = set(group_of[max(0, slab - stages):slab + 1])
        assert len({each % slots for each in in_use}) == len(in_use)
