"""Plans for random problems, on devices of several kinds: what holds for all of them."""

import random
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest

from common import constraints, subgroups
from common.errors import Unsupported
from common.gemm import PRECISIONS, Problem, Size
from common.planning import blocking, plans, tiles
from tests.common.planning.test_plans import H200, LIMITS, NVIDIA, SMALL
from tests.conftest import exhaustive_but, sample_module

_COMMON = {
    "version": "OpenCL 3.0", "image_support": True, "image2d_max_width": 2**16,
    "image2d_max_height": 2**16, "name": "", "vendor": "",
    **{f"native_vector_width_{name}": 64 // size
       for name, size in (("float", 4), ("double", 8), ("half", 4), ("char", 4))},
}
DEVICES = {  # and what they need not support
    "H200": (LIMITS, {**_COMMON, **H200}, ()),
    "Mali": (replace(SMALL, extensions=SMALL.extensions - {NVIDIA}),
             {**_COMMON, "type": cl.device_type.GPU, "max_compute_units": 4}, (14, 15)),
    "CPU": (replace(LIMITS, local_mem_size=2**18, max_work_group_size=8192,
                    max_work_item_sizes=(8192,) * 3, extensions=frozenset()),
            {**_COMMON, "type": cl.device_type.CPU, "max_compute_units": 6}, (14, 15)),
}
MOST = (2**31 - 1, 65535, 65535)  # work-groups by dimension that CUDA allows


def problems(seed):
    """Yield problems of any shape, aligned or not, some of them batches."""
    draw = random.Random(seed)
    for _ in range(20):
        size = Size(*(int(2 ** draw.uniform(0, 14)) for _ in "MNK"))
        _, N, K = size
        precision = draw.choice([*PRECISIONS, "single", "single"])
        gaps = [draw.choice((0, 0, 1, 4, 12)) for _ in "ABC"]
        leading = (least + gap for least, gap in zip((K, N, N), gaps))
        yield Problem(size, np.dtype(PRECISIONS[precision]), *leading, draw.choice((1, 1, 7, 500)))


@pytest.mark.parametrize("kind", DEVICES)
@pytest.mark.parametrize("seed", exhaustive_but([2], range(1, 20)))
def test_a_plan_keeps_the_constraints_and_covers_c(monkeypatch, kind, seed):
    monkeypatch.setattr(subgroups, "require", lambda *_: ({"SHUFFLE": 3}, ()))
    limits, about, lacks = DEVICES[kind]
    monkeypatch.setattr(blocking, "speeds", lambda: (1.0,) * about["max_compute_units"])
    chip = SimpleNamespace(**about)
    for problem in problems(seed):
        for kernel in sample_module("mygemm", "special").KERNELS:
            images = any(each.channel for each in kernel.passes)
            if problem.precision not in kernel.precisions or (images and problem.batch > 1):
                continue
            what = kernel.label, problem
            try:
                made = plans.plan(kernel, {}, problem, limits, chip)
            except Unsupported:
                assert kernel.number in lacks, what
                continue
            known = plans.facts_of(kernel, problem, limits)
            assert constraints.broken(kernel.space, made.params, known) == [], what
            groups = [total // own for total, own in zip(made.global_size, made.local_size)]
            assert [n * own for n, own in zip(groups, made.local_size)] == [*made.global_size], what
            assert all(1 <= n <= most for n, most in zip(groups, MOST)), what
            for need in made.room.values():
                assert not isinstance(need, int) or (need > 0 and need % problem.batch == 0), what
            covers_c(made, groups, chip.max_compute_units)


def covers_c(made, groups, units):
    """Assert that each tile of C has a work-group, and SPLITS of them if it is shared."""
    size, defines = made.size, made.defines
    if made.kernel.number in (13, 14) or defines.get("DIRECT"):
        shared = tiles.shared(size, defines, units)
        assert groups == [tiles.count(size, defines) + (defines["SPLITS"] - 1) * shared]
    elif not made.kernel.groups:
        columns, rows = (constraints.evaluate(each, made.params) for each in made.kernel.per_item)
        assert made.global_size[0] * columns >= size.N
        assert made.global_size[1] * rows >= size.M
    assert size.M >= made.problem.size.M
