"""Kernel 12 of samples/mygemm, for CPUs: right at every size, and with every parameter."""

import re
import shutil
from dataclasses import replace
from functools import partial
from math import prod
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import device
from common.bounds import Expected
from common.errors import UsageError
from common.gemm import Problem, Size
from common.planning import plans
from common.planning.stream import Stream
from tests.conftest import exhaustive_but, sample_module

FLOAT = np.dtype(np.float32)


@pytest.fixture(scope="module")
def sample_modules():
    """The modules special and run of the sample."""
    names = ("special", "run")
    return SimpleNamespace(**{name: sample_module("mygemm", name) for name in names})


@pytest.fixture
def sample(recorded):
    """Run kernel 12; gives the finished process and its records."""
    return partial(recorded, "mygemm", "--kernel", 12, "--check-only")


def passed(done, items):
    assert done.returncode == 0, done.stdout + done.stderr
    assert items
    assert all(item.status == "passed" for item in items)
    return [item.params for item in items]


# Right for every size, stride, type and parameter.

# Below, at and above a tile, a vector, and the blocks that SMALL makes.
SIZES = (
    "1,2,7,8,9,16,17,31x33x35,64,1x500x90,500x1x90,90x100x1,1x1x400,96x96x96,97x97x97,150x200x99"
)
SMALL = ("--KC", 32, "--NC", 64)
ENDS = "1x1x1,3x5x7,17x19x5,5x1x33,1x5x33,13x49x2,7x47x1"  # no whole vectors at the ends of rows
OUTSIDE = (*SMALL, "--GLOBAL", 1)


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize(
    "blocks", exhaustive_but([SMALL, OUTSIDE], [(), SMALL, OUTSIDE]), ids=str
)
def test_any_size(sample, precision, blocks):
    done, items = sample("--size", SIZES, "--precision", precision, "--data", "integer",
                         "--alpha", 2, "--beta", -3, *blocks)
    assert len(passed(done, items)) == len(SIZES.split(","))


@pytest.mark.parametrize(
    "factors", exhaustive_but([(1.5, -0.3)], [(1, 0), (0, 2), (-0.7, 1), (1.5, -0.3)]), ids=str
)
def test_any_alpha_and_beta(sample, factors):
    alpha, beta = factors
    passed(*sample("--size", "70x90x110,64", "--alpha", alpha, "--beta", beta, *SMALL))


def test_rows_may_be_longer_than_the_matrix(sample):
    (params,) = passed(*sample("--size", "61x83x101", "--beta", 1, "--lda", 128, "--ldb", 97,
                               "--ldc", 100, *SMALL))
    assert (params["lda"], params["ldb"], params["ldc"]) == (128, 97, 100)


@pytest.mark.parametrize("width", exhaustive_but([8], [1, 2, 4, 8, 16]))
def test_any_width(sample, width):
    done, items = sample("--size", "67x45x129", "--beta", 2, "--WIDTH", width)
    (params,) = passed(done, items)
    assert params["WIDTH"] == width
    assert params["NR"] in (2 * width, 3 * width)


@pytest.mark.parametrize(
    "tile", exhaustive_but([(3, 32)], [(1, 16), (3, 32), (5, 48), (13, 32)]), ids=str
)
def test_any_tile(sample, tile):
    rows, columns = tile
    passed(*sample("--size", "67x45x129,48", "--beta", 2, "--WIDTH", 16,
                   "--MR", rows, "--NR", columns, "--KC", 64, "--NC", 2 * columns))


def test_many_groups(sample):
    for outside in 0, 1:
        passed(*sample("--size", "300x400x200,1000x9x900,9x1000x900", "--GROUPS", 8, "--beta", 1,
                       "--GLOBAL", outside))


@pytest.mark.parametrize(
    "more", [("--GLOBAL", 0), ("--GLOBAL", 1, "--GROUPS", 3), ("--batch", 3, "--GROUPS", 6)],
    ids=str)
def test_work_groups_take_over_work(sample, more):
    """Also from shares that are empty, narrow or low, and that nobody has begun."""
    passed(*sample("--size", f"{SIZES},300x400x200,1000x9x900,9x1000x900", "--data", "integer",
                   "--alpha", 2, "--beta", -3, "--STEAL", 1, "--KC", 32, *more))


@pytest.mark.parametrize("more", [("--SPLITS", 2), ("--GLOBAL", 1)], ids=str)
def test_a_batch_with_panels_is_not_read_in_place(sample, more):
    passed(*sample("--size", "64,32x32x48", "--batch", 3, *more, "--beta", 1))


BLOCKS = exhaustive_but([()], [
    (), ("--WIDTH", 16, "--NR", 48, "--KC", 32, "--NC", 96, "--SPLITS", 8), ("--GLOBAL", 1),
    ("--WIDTH", 1, "--NR", 8),
])


@pytest.mark.parametrize("blocks", BLOCKS, ids=str)
def test_a_vector_beyond_its_row_stays_in_the_matrix(run_sample, blocks):
    done = run_sample("mygemm", "--kernel", 12, "--size", ENDS, *blocks, "--guards", "pages",
                      "--check-only")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_tile_that_is_read_in_place_stays_in_the_matrix(run_sample):
    """Two work-groups share 240 columns: the tiles of both are whole, although each has 48."""
    done = run_sample("mygemm", "--kernel", 12, "--size", "40x240x230", "--batch", 2, "--GROUPS", 2,
                      "--WIDTH", 16, "--NR", 48, "--MR", 8, "--guards", "pages", "--check-only")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("whole", exhaustive_but(
    ["whole_rows(K - k0, jb1 - jb, NR, ldb)"],
    ["whole_rows(K - k0, jb1 - jb, NR, ldb)", "whole_rows(M - i, kc, WIDTH, lda)"]))
def test_a_vector_beyond_its_matrix_is_found(run_sample, project, whole):
    path = project / "samples/mygemm/kernels/12_packed.cl"
    text = path.read_text()
    assert whole in text
    path.write_text(text.replace(whole, "1 << 30"))
    done = run_sample("mygemm", "--kernel", 12, "--size", ENDS, "--guards", "pages",
                      "--check-only", root=project)
    assert "touched a guard page" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize("precision", exhaustive_but(["single"], ["single", "double"]))
@pytest.mark.parametrize("splits", exhaustive_but([3], [2, 3, 8, 33]))
@pytest.mark.parametrize(
    "more", [("--GLOBAL", 0), ("--GLOBAL", 1, "--GROUPS", 3), ("--batch", 3)], ids=str)
def test_work_groups_share_the_ks(sample, precision, splits, more):
    """Also where there are more of them than vectors of K, and with several shares of C."""
    passed(*sample("--size", SIZES, "--precision", precision, "--data", "integer", "--alpha", 2,
                   "--beta", -3, "--SPLITS", splits, "--KC", 32, *more))


@pytest.fixture
def shared(sample_modules, queue, tmp_path):
    """Compute in SPLITS parts, or with STEAL, several times; gives each C, and the counters.

    `changes` are replaced in the kernel's sources. With STEAL all groups are slow, and every other
    one very slow. No block is too small to be taken over, a pass has 20 steps at most, and only the
    first `passes` can be taken over.
    """

    def multiply(size, splits=3, changes=(), beta=-0.5, steal=0, passes=65535, **more):
        special, run = sample_modules.special, sample_modules.run
        folder = shutil.copytree(special.PACKED.folder, tmp_path / "kernels", dirs_exist_ok=True)
        kernel = replace(special.PACKED, folder=folder)
        files = {path.name: path.read_text() for path in special.PACKED.folder.glob("12_*.cl")}
        for right in dict(changes):
            assert any(right in text for text in files.values())
        for name, text in files.items():
            for right, wrong in dict(changes).items():
                text = text.replace(right, wrong)
            for name_of, value in ("PACKING", 0), ("STEPS", 20), ("CLOSED", passes):
                text = re.sub(rf"(#define {name_of}) .*", rf"\1 {value}", text)
            text = text.replace("pack_A(kc", SLOW)
            (folder / name).write_text(text if steal else text.replace(SLOW, "pack_A(kc"))
        _, N, K = size
        problem, limits = Problem(size, FLOAT, K + 1, N + 2, N + 3), device.limits(queue.device)
        given = {"SPLITS": splits, "KC": 32, "STEAL": steal, **({"GROUPS": 6} | more)}
        built = plans.build_kernel(queue, limits, kernel, given, problem)
        assert not steal or prod(built.plan.global_size) > 1
        expected, found = Expected(size, FLOAT, "sdk", 1, 1.5, beta), []
        for _ in "123":
            stream = Stream(queue, problem)
            check, C = run.check(built, 1.5, stream, expected)
            found.append((check.reason, C))
            for _ in "12":  # with the counters that the launch before left
                stream.C.write(expected.inputs[2])
                run.enqueuer(built, 1.5, beta, stream)()[-1].wait()
                found.append((None, stream.C.read()))
        counters = stream.room("counters", 4)  # or new ones, for equal shares
        left = np.empty(counters.size // 4, np.int32)
        cl.enqueue_copy(queue, left, counters)
        return [reason for reason, _ in found], [C for _, C in found], left

    return multiply


FEW = {"WIDTH": 4, "NR": 8, "NC": 16, "MR": 4}  # several blocks of columns
SLOW = "for (volatile int n = number % 2 ? 20000 : 2000; n; n--);\n pack_A(kc"


@pytest.mark.parametrize(("size", "splits"), [
    (Size(5, 7, 3000), 3), (Size(40, 50, 2000), 3), (Size(300, 400, 90), 1),
    (Size(6000, 16, 300), 1), (Size(16, 1000, 300), 1),
], ids=str)
@pytest.mark.parametrize("groups", [2, 6])
def test_results_are_repeatable(shared, size, splits, groups):
    """Parts are added up in the same order; blocks are the same, whoever computes them."""
    reasons, results, left = shared(size, splits, steal=int(splits == 1), GROUPS=groups)
    expected = results[0] if splits > 1 else shared(size, 1, GROUPS=groups)[1][0]
    assert not any(reasons)
    assert len(results) == 9
    assert all(np.array_equal(C, expected) for C in results)
    assert (left == -1).all()


@pytest.mark.parametrize("check", ["PASS_OF(state) == CLOSED", "0"])
def test_passes_beyond_the_last_number_are_not_taken_over(shared, check):
    """Also by a thief that would not tell the owner what it takes."""
    thief = {"PASS_OF(state) == CLOSED": check, "seen, seen - steps)": "seen, seen)"}
    found = [shared(Size(300, 100, 90), 1, thief, steal=1, passes=1, GROUPS=2, **FEW)
             for _ in "12345"]
    assert any(map(broken, found)) == (check == "0")


MUTANTS = {
    "leaves out a part": ("s < SPLITS; s++", "s < SPLITS - 1; s++"),
    "stores all parts in one": ("parts + split * (size_t)M * N", "parts"),
    "takes every work-group for the last": ("SPLITS, &before);", "SPLITS, &before) | 1;"),
    "begins each part at 0": ("min(K, split * length)", "0"),
    "counts all shares together": ("is_last(&counters[number]", "is_last(&counters[0]"),
    "scales each part": ("of_product = 1,", "of_product = alpha,"),
    "leaves a part without k's as it was": ("k0 == begin || k0 < end", "k0 < end"),
    "reads C at beta 0": ("beta == 0 ? alpha * sum : ", ""),
    "leaves out a vector that C has": ("columns > NR - WIDTH ?", "columns > NR ?"),
    "packs a vector too few": ("for(columns - p * NR)", "for(columns - (p + 1) * NR)"),
    "stores whole vectors beyond C": ("j + WIDTH <= columns; j", "j < columns; j"),
}
THIEVES = {
    "begins a share that has begun": ("&group->state, -1, 0) == -1", "&group->state, -1, 0) < 2"),
    "begins the share of another": ("share_of(g, of)", "share_of(0, of)"),
    "takes rows that the owner keeps": ("seen, seen - steps)", "seen, seen)"),
    "leaves the first row": ("- steps) * height", "- steps) * height + 1"),
    "takes rows that others have": ("min(block->i1, block->i0 + END_OF(seen)",
                                    "max(block->i1, block->i0 + END_OF(seen)"),
    "keeps rows that others have": ("block->i1 = min(block->i1, block->i0 + END_OF(state)",
                                    "block->i1 = max(block->i1, block->i0 + END_OF(state)"),
    "takes a step that has begun": ("max(1, STEP_OF(state))", "max(1, STEP_OF(state) - 1)"),
    "leaves out a block of K": ("READ(group->k0)}", "READ(group->k0) + of->depth}"),
    "adds a block of K twice": ("READ(group->k0)}", "max(0, READ(group->k0) - of->depth)}"),
    "takes one block of columns": ("(own->j1, left.j1)", "(own->j1, min(left.j1, left.j0 + NC))"),
    "leaves k's out of all columns": ("own.k0 = begin; /*", "/*"),
    "is not the last to leave": ("count - 1)", "count)"),
    "leaves too early": ("+ 1 == count - 1)", "+ 1 >= count - 2)"),
}


def broken(found):
    """Tell whether a kernel's results or counters are wrong."""
    reasons, results, left = found
    same = all(np.array_equal(C, results[0]) for C in results)
    return any(reasons) or not same or (left != -1).any()


@pytest.mark.parametrize("mutant", exhaustive_but(list(MUTANTS)[::4], MUTANTS))
def test_a_kernel_broken_on_purpose_fails(shared, mutant):
    beta = 0 if "beta 0" in mutant else -0.5
    sizes = Size(50, 60, 10), Size(50, 60, 3000)
    assert any(broken(shared(size, 3, [MUTANTS[mutant]], beta=beta)) for size in sizes)


@pytest.mark.parametrize("mutant", exhaustive_but(list(THIEVES)[::4], THIEVES))
def test_a_thief_broken_on_purpose_fails(shared, mutant):
    """So work is in fact taken over: in a pass and after it, once and again."""
    divisions = [(Size(300, 100, 90), 2), (Size(600, 300, 100), 6)] * 5  # 2 shares, and many
    assert any(broken(shared(size, 1, [THIEVES[mutant]], steal=1, GROUPS=groups, **FEW))
               for size, groups in divisions)


@pytest.mark.parametrize("limits", ["mali-t628", "embedded"])
def test_on_a_smaller_device(sample, limits):
    done, items = sample("--size", "150x200x99", "--limits", limits, "--beta", 1, "--GLOBAL", 0)
    (params,) = passed(done, items)
    most = items[0].device["limits"]["local_mem_size"]
    assert params["KC"] * params["NC"] * 4 < most


def test_no_fp64_no_double(sample):
    done, _ = sample("--precision", "double", "--limits", "embedded")
    assert done.returncode == 77


def test_nan_stays_in_its_row_and_column(sample_modules, queue):
    """What fills up a panel is thrown away: a NaN at an edge of A or B goes where it belongs."""
    M, N, K = size = Size(13, 37, 29)
    problem, limits = Problem(size, FLOAT, K, N, N), device.limits(queue.device)
    kernel = sample_modules.special.PACKED
    built = plans.build_kernel(queue, limits, kernel, {}, problem)
    A, B = np.ones((M, K), np.float32), np.ones((K, N), np.float32)
    A[M - 1, K - 1], B[K - 1, N - 1] = np.nan, np.inf
    stream = Stream(queue, problem)
    stream.write(A, B, 0)
    sample_modules.run.enqueuer(built, 1, 0, stream)()[-1].wait()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(stream.C.read(), A @ B)
    assert stream.intact()


# What is refused.

REFUSED = {
    "stealing": (("--STEAL", 2), "--STEAL 2: STEAL must be at most 1"),
    "stealing k's": (("--STEAL", 1, "--SPLITS", 2), "--SPLITS 2 --STEAL 1:"),
    "width": (("--WIDTH", 3), "--WIDTH 3: WIDTH must be one of 1, 2, 4, 8, 16; try --WIDTH"),
    "columns": (("--WIDTH", 16, "--NR", 20), "--WIDTH 16 --NR 20: WIDTH must divide NR"),
    "depth": (("--WIDTH", 8, "--KC", 100), "--WIDTH 8 --KC 100: WIDTH must divide KC"),
    "block": (("--NR", 32, "--NC", 100), "--NR 32 --NC 100: NR must divide NC"),
    "groups": (("--GROUPS", 0), "--GROUPS 0: GROUPS must be at least 1; try --GROUPS 1"),
    "local memory": (("--NC", 10**7, "--GLOBAL", 0), "bytes of local memory, but the device has"),
}


@pytest.mark.parametrize(("args", "message"), REFUSED.values(), ids=REFUSED)
def test_refused(sample_modules, queue, args, message):
    words = ["--kernel", "12", *map(str, args)]
    ((kernel, given),) = sample_modules.special.named(
        sample_modules.run.options().parse_args(words)
    )
    problem, limits = Problem(Size(64, 64, 64), FLOAT, 64, 64, 64), device.limits(queue.device)
    with pytest.raises(UsageError) as caught:
        plans.choose(kernel, given, problem, limits, queue.device)
    assert message in str(caught.value)
