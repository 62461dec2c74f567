"""Blocks and shares of a packed GEMM for a CPU: they follow its registers, caches and cores."""

from dataclasses import replace
from math import prod

import numpy as np
import pyopencl as cl
import pytest

from common import device
from common.gemm import Problem, Size
from common.planning import blocking, plans
from tests.conftest import sample_module

FLOAT, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
MIB = 2**20


class Cpu:
    """A device as a plan asks for it."""

    type, name = cl.device_type.CPU, ""

    def __init__(self, vector_bytes, cores=2, vendor="AuthenticAMD"):
        self.max_compute_units, self.vendor = cores, vendor
        self.native_vector_width_float = vector_bytes // 4
        self.native_vector_width_double = vector_bytes // 8


@pytest.fixture
def plan(monkeypatch, queue):
    """Plan for a device that need not be here; gives the Plan."""
    limits, packed = device.limits(queue.device), sample_module("mygemm", "special").PACKED

    def make(size, what, dtype=FLOAT, machine="x86_64", l1=2**15, l2=MIB, local=MIB, speeds=None,
             **params):
        even = (1.0,) * what.max_compute_units
        monkeypatch.setattr(blocking, "speeds", lambda: speeds or even)
        monkeypatch.setattr(blocking.platform, "machine", lambda: machine)
        monkeypatch.setattr(blocking, "cache_bytes", lambda level: (l1, l2)[level - 1])
        problem = Problem(size, dtype, size.K, size.N, size.N)
        lower = replace(limits, local_mem_size=local)
        return plans.plan(packed, params, problem, lower, what)

    return make


LARGE = Size(2048, 2048, 2048)


@pytest.mark.parametrize(
    ("vector", "machine", "dtype", "tile"),
    [
        (64, "x86_64", FLOAT, (16, 12, 32)),  # AVX-512: 32 registers
        (64, "x86_64", DOUBLE, (8, 12, 16)),
        (32, "x86_64", FLOAT, (8, 6, 16)),  # AVX2: 16 registers
        (32, "x86_64", DOUBLE, (4, 6, 8)),
        (16, "aarch64", FLOAT, (4, 12, 8)),  # NEON: 32 registers
        (16, "aarch64", DOUBLE, (2, 12, 4)),
        (16, "armv7l", FLOAT, (4, 6, 8)),  # NEON: 16 registers
        (8, "armv7l", DOUBLE, (2, 6, 4)),  # no vectors of double: two, for as many loads
    ],
)
def test_the_tile_follows_the_registers(plan, vector, machine, dtype, tile):
    defines = plan(LARGE, Cpu(vector), dtype, machine).defines
    assert tuple(defines[name] for name in ("WIDTH", "MR", "NR")) == tile
    registers = 32 if vector == 64 or machine == "aarch64" else 16
    width, rows, columns = tile
    assert (rows + 1) * columns // width < registers


def test_a_xeon_has_tiles_of_13_rows(plan):
    for M, vector, rows in ((256, 64, 13), (100, 64, 13), (96, 64, 12), (2048, 32, 6)):
        defines = plan(Size(M, 2048, 2048), Cpu(vector, vendor="GenuineIntel")).defines
        assert (defines["MR"], defines["NR"]) == (rows, vector // 2)


@pytest.mark.parametrize(("size", "tile"), [
    ((100000, 7, 7), (4, 12, 8)), ((100000, 8, 8), (8, 12, 8)), ((1000, 3, 1000), (16, 12, 16)),
    ((8, 8, 1000), (8, 8, 8)), ((3, 8, 1000), (8, 3, 8)), ((8, 9, 1000), (16, 8, 16)),
])
def test_vectors_are_no_longer_than_all_rows(plan, size, tile):
    defines = plan(Size(*size), Cpu(64)).defines
    assert tuple(defines[name] for name in ("WIDTH", "MR", "NR")) == tile


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE], ids=str)
@pytest.mark.parametrize("l2", [2**17, 2**18, 2**19, 2**20, 2**21])
def test_the_block_follows_the_cache(plan, dtype, l2):
    made = plan(LARGE, Cpu(32), dtype, l2=l2, local=64 * MIB)
    block = made.defines["KC"] * made.defines["NC"] * dtype.itemsize
    assert l2 * 0.45 < block < made.local_bytes <= l2 * 5 / 8


@pytest.mark.parametrize("local", [2**10, 2**14, 2**15, 2**18, 2**20])
def test_the_block_fits_local_memory(plan, local):
    made = plan(LARGE, Cpu(64), local=local, GLOBAL=0)
    assert local / 3 < made.local_bytes <= local
    assert made.defines["NC"] * 4 >= made.defines["KC"]


def test_panels_are_in_global_memory_if_a_large_b_needs_it(plan):
    """Panels take a part of the L2 cache, though a driver has less local memory."""
    made = plan(LARGE, Cpu(64, cores=3), l2=2 * MIB, local=2**18)
    roomy = plan(LARGE, Cpu(64, cores=3), l2=2 * MIB, local=64 * MIB)
    assert (made.params["GLOBAL"], roomy.params["GLOBAL"]) == (1, 0)
    assert (made.params["KC"], made.params["NC"]) == (roomy.params["KC"], roomy.params["NC"])
    assert (made.local_bytes, made.room["work"]) == (0, 3 * roomy.local_bytes)
    assert "work" not in roomy.room
    assert plan(Size(256, 256, 256), Cpu(64), l2=2 * MIB, local=2**18).params["GLOBAL"] == 0


def test_gpus_are_not_asked_to_prefetch(plan):
    gpu = Cpu(4)
    assert "PREFETCH" in plan(LARGE, gpu).defines
    gpu.type = cl.device_type.GPU
    made = plan(LARGE, gpu, local=48 * 1024)
    assert "PREFETCH" not in made.defines
    assert made.defines["WIDTH"] == 4


@pytest.mark.parametrize(
    ("size", "cores", "groups", "shape"),
    [
        (Size(64, 64, 64), 8, 1, (1, 1)),  # not worth waking another core for
        (Size(128, 128, 128), 8, 1, (2, 1)),
        (Size(2048, 2048, 2048), 1, 1, (1, 1)),
        (Size(10000, 40, 500), 4, 1, (1, 4)),  # long in one direction: divided across it
        (Size(40, 10000, 500), 4, 1, (4, 1)),
        (Size(2048, 2048, 2048), 2, 1, (2, 1)),  # B is what costs more to copy
        (Size(2048, 2048, 2048), 4, 4, (8, 2)),  # ... and those as wide as a block of B
    ],
    ids=str,
)
def test_the_shares_follow_the_cores(plan, size, cores, groups, shape):
    assert plan(size, Cpu(64, cores), GROUPS=groups).global_size == shape


@pytest.mark.parametrize(
    ("size", "cores", "splits", "shape"),
    [
        (Size(2, 2, 10**6), 8, 8, (1, 8)),  # one tile: all that the cores can share is K
        (Size(2, 2, 10**6), 1, 1, (1, 1)),
        (Size(2, 2, 500), 8, 1, (1, 1)),  # not worth waking another core for
        (Size(64, 64, 10**5), 2, 2, (1, 2)),  # half of C each would pack A or B twice
        (Size(24, 24, 10**4), 4, 4, (1, 4)),
        (Size(2048, 2048, 2048), 8, 1, (4, 2)),
        (Size(512, 512, 10**4), 2, 1, (2, 1)),
    ],
    ids=str,
)
def test_cores_share_the_ks_where_c_is_small(plan, size, cores, splits, shape):
    made = plan(size, Cpu(64, cores), l2=2 * MIB, local=4 * MIB)
    assert (made.params["SPLITS"], made.global_size) == (splits, shape)
    room = {"parts": splits * size.M * size.N * 4, "counters": 4} if splits > 1 else {}
    steals = {"counters": 24 * prod(shape) + 4}  # a Group for each work-group, and who left
    assert made.room == (steals if made.params["STEAL"] else room)


@pytest.mark.parametrize(
    ("size", "speeds", "most"),
    [
        (LARGE, (1.0,), 1),  # --cores: the device has more
        (LARGE, (1.0,) * 2, 1),
        (Size(2, 2, 10**6), (1.0,) * 2, 2),
        (Size(64, 64, 10**5), (1.0,) * 4 + (0.4,) * 4, 32),
        (LARGE, (1.0,) * 4 + (0.4,) * 4, 1),
    ],
    ids=str,
)
def test_only_the_cores_at_work_share_ks(plan, size, speeds, most):
    splits = plan(size, Cpu(64, 64), speeds=speeds).params["SPLITS"]
    assert (splits > 1) == (most > 1)
    assert splits <= most


def test_no_more_cores_share_ks_than_are_worth_it(plan):
    """64 x 64 x 4096 is 33.5 MFLOP."""
    for cores in 64, 128:
        columns, rows = plan(Size(64, 64, 4096), Cpu(64, cores)).global_size
        assert 4 <= columns * rows <= 32
    assert plan(LARGE, Cpu(64, 64), GROUPS=1000).global_size > (1, 1)


def test_the_rows_that_are_given_fit_the_registers(plan):
    for given, tile in (({}, (8, 48)), ({"MR": 14}, (14, 32)), ({"NR": 32}, (12, 32)),
                        ({"NR": 48}, (8, 48)), ({"MR": 4}, (4, 48))):
        defines = plan(Size(4096, 48, 64), Cpu(64), **given).defines
        assert (defines["MR"], defines["NR"]) == tile


def test_a_gpu_and_a_batch_share_no_ks(plan):
    gpu = Cpu(4, cores=8)
    gpu.type = cl.device_type.GPU
    assert plan(Size(2, 2, 10**6), gpu, local=48 * 1024).params["SPLITS"] == 1
    problem = Problem(Size(2, 2, 10**6), FLOAT, 10**6, 2, 2, 3)
    params = plan(Size(2, 2, 10**6), Cpu(64, 8)).params
    assert blocking.splits(problem, params, Cpu(64, 8)) == 1


@pytest.mark.parametrize(
    ("size", "cores", "speeds", "steal"),
    [
        (LARGE, 2, None, 1),
        (Size(256, 256, 256), 2, None, 1),
        (Size(128, 2048, 2048), 2, None, 0),  # a share has few rows
        (Size(512, 512, 512), 16, None, 0),
        (Size(1500, 1500, 1500), 16, None, 1),
        (Size(4096, 16, 4096), 2, None, 1),
        (LARGE, 1, None, 0),
        (Size(64, 64, 64), 8, None, 0),  # not worth waking another core for
        (Size(64, 64, 10**5), 2, None, 0),  # work-groups share the k's
        (LARGE, 8, (1.0,) * 4 + (0.4,) * 4, 1),
        (Size(256, 256, 256), 8, (1.0,) * 4 + (0.4,) * 4, 1),
    ],
    ids=str,
)
def test_cores_that_are_done_take_over_work(plan, size, cores, speeds, steal):
    made = plan(size, Cpu(64, cores), l2=2 * MIB, local=4 * MIB, speeds=speeds)
    assert made.params["STEAL"] == steal
    assert prod(made.global_size) <= cores * made.params["SPLITS"]


def test_without_stealing_on_request_big_cores_have_several_shares(plan):
    speeds = (1.0,) * 4 + (0.4,) * 4
    made = plan(LARGE, Cpu(64, 8), speeds=speeds, STEAL=0)
    assert made.params["STEAL"] == 0
    assert prod(made.global_size) > 8


def test_the_tile_is_that_for_equal_shares_if_they_are_requested(plan):
    little = (1.0,) * 4 + (0.2,) * 4
    for steal, tile in ((1, (12, 32)), (0, (8, 48))):
        made = plan(Size(300, 300, 300), Cpu(64, 8), l2=2 * MIB, local=4 * MIB, speeds=little,
                    STEAL=steal)
        assert (made.params["MR"], made.params["NR"]) == tile


def test_with_stealing_on_request_no_ks_are_shared(plan):
    for size in Size(64, 64, 10**5), Size(2, 2, 10**6):
        equal, steals = (plan(size, Cpu(64, 2), STEAL=number) for number in (0, 1))
        assert equal.params["SPLITS"] == 2
        assert steals.params == {**equal.params, "SPLITS": 1, "STEAL": 1}


def test_a_gpu_and_a_batch_take_over_no_work(plan):
    gpu = Cpu(4, 8)
    gpu.type = cl.device_type.GPU
    assert plan(LARGE, gpu, local=48 * 1024).params["STEAL"] == 0
    many = Problem(LARGE, FLOAT, 2048, 2048, 2048, 3)
    params = {**plan(LARGE, Cpu(64, 8)).params, "SPLITS": 1}
    del params["STEAL"]
    assert blocking.steal(many, params, Cpu(64, 8)) == 0


@pytest.mark.parametrize(
    ("speeds", "least", "most"),
    [
        ((1.0,) * 4 + (0.4,) * 4, 14, 32),  # in 8 shares big cores would wait for little ones
        ((1.0,) * 2 + (0.5,) * 4, 8, 24),
        ((1.0,) * 6, 6, 6),
        ((1.0,) * 4, 4, 4),  # --cores: the device has more
    ],
)
def test_of_equal_shares_big_cores_have_several(plan, speeds, least, most):
    params = plan(LARGE, Cpu(16, 8), machine="aarch64", speeds=speeds).params
    batch = Problem(LARGE, FLOAT, 2048, 2048, 2048, 2)
    count = 2 * prod(blocking.groups(batch, params, Cpu(16, 8)))
    assert least <= count <= most
    # The last core ends within a tenth of the time of a division that no share could improve.
    assert blocking.last_end(count, speeds) / count * sum(speeds) < 1.1


def test_when_the_last_share_ends():
    assert blocking.last_end(2, (1.0, 1.0)) == 1
    assert blocking.last_end(3, (1.0, 0.5)) == 2  # the fast core makes two of them
    assert blocking.last_end(1, (1.0, 0.5)) == 2  # it may be the slow core's
    assert blocking.last_end(8, (1.0,) * 4 + (0.4,) * 4) == 2.5


def test_every_core_has_a_share(plan):
    for cores in (2, 3, 6, 8, 64):
        columns, rows = plan(LARGE, Cpu(64, cores)).global_size
        assert cores * 0.75 <= columns * rows <= cores


@pytest.mark.parametrize(("size", "tile"), [
    (Size(16, 4096, 4096), (8, 32)), (Size(13, 33, 500), (7, 48)), (Size(5, 64, 64), (5, 32)),
    (Size(4096, 16, 4096), (12, 16)), (Size(4096, 17, 4096), (12, 32)), (Size(1, 1, 9), (1, 4)),
    (Size(4096, 48, 64), (8, 48)), (Size(4096, 49, 64), (12, 32)), (Size(4096, 144, 64), (8, 48)),
    (Size(4096, 240, 64), (12, 32))])
def test_the_tile_of_a_small_c_has_few_rows_and_columns_beyond_it(plan, size, tile):
    defines = plan(size, Cpu(64)).defines
    assert (defines["MR"], defines["NR"]) == tile


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE], ids=str)
@pytest.mark.parametrize("l1", [2**15, 3 * 2**14, 2**17])
def test_a_panel_of_a_takes_half_of_the_first_cache(plan, dtype, l1):
    defines = plan(LARGE, Cpu(64), dtype, l1=l1, l2=4 * MIB, local=4 * MIB).defines
    assert l1 * 0.4 < defines["MR"] * defines["KC"] * dtype.itemsize <= l1 / 2


@pytest.mark.parametrize(("columns", "NR", "shape", "counted"), [
    (96, 32, (2, 1), 32 + 1.4 * 16), (96, 32, (1, 1), 96), (17, 32, (1, 1), 32),
    (80, 48, (1, 1), 48 + 1.4 * 32), (7, 8, (1, 1), 8), (50, 64, (1, 1), 64),
])
def test_shares_are_whole_vectors_and_a_tile_may_leave_out_its_last(columns, NR, shape, counted):
    params = {"WIDTH": 16 if NR > 8 else 1, "MR": 10, "NR": NR, "NC": 2 * NR}
    assert blocking._work(Size(10, columns, 9), params, shape)[0] == int(10 * counted)
