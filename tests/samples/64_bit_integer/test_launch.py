"""samples/64_bit_integer/launch.py: whole passes, and instructions of some devices only."""

from dataclasses import replace
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pyopencl as cl
import pytest

from common import device
from common.buffers import GuardedBuffer
from common.errors import Unsupported
from common.program import build
from tests.conftest import sample_module

launch, luma = (sample_module("64_bit_integer", name) for name in ("launch", "luma"))


@pytest.mark.parametrize(("shared", "small", "driver", "watched"), [
    (False, 2**20, None, 0), (True, 2**20, None, 3), (True, 0, None, 0), (True, 2**20, "other", 0),
], ids=["copied", "shared", "a large image", "another driver"])
@pytest.mark.parametrize("name", ["many_vectors", "two_stages"])
def test_a_whole_pass_gives_the_sums_each_time(
        queue, monkeypatch, name, shared, small, driver, watched):
    """Where host and device share no memory, the sums are copied."""
    if shared and not launch.shares_memory(queue.device):
        pytest.skip("the device has no fine-grained shared memory")
    seen = []
    monkeypatch.setattr(launch, "shares_memory", lambda device: shared)
    monkeypatch.setattr(launch, "_SMALL", small)
    monkeypatch.setattr(launch, "_POCL", driver or queue.device.platform.name)
    monkeypatch.setattr(launch, "_watch", lambda *args: seen.append(args))
    image = np.random.default_rng(1).integers(0, 256, 5000).astype(np.uint8)
    flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
    pixels = cl.Buffer(queue.context, flags, hostbuf=image)
    kernel, shape = launch.built(queue, name, launch.Shape(4, 16, False))
    result = GuardedBuffer(queue, (4 if name == "two_stages" else 1, 2), np.uint64)
    kernel.set_args(pixels, np.uint32(image.size), np.uint32(0), result.device)
    reset = name != "two_stages"
    run = launch.whole_pass(queue, kernel, shape, result, image.size, reset=reset)
    assert [run().tolist() for _ in range(3)] == 3 * [luma.exact(image).tolist()]
    assert len(seen) == watched


def test_a_whole_pass_with_wrong_sums_is_not_timed(run_here, monkeypatch):
    """As where a driver wrongly reports that it shares memory with the host."""
    monkeypatch.setattr(launch, "whole_pass", lambda *_, **__: lambda: np.array([1, 2], np.uint64))
    run = sample_module("64_bit_integer", "run")
    args = ("--size", "2x1", "--data", "white", "--kernel", "all", "--repeat", 1)
    status, said, errors = run_here(run.main, *args, options=run.options())
    assert (status, said.count("PASSED")) == (3, len(launch.KERNELS))
    assert errors == ("run.py: error: a whole pass of long_vectors gives "
                      "squares 1 instead of 130050, sum 2 instead of 510\n")
    assert "whole pass " not in said


@pytest.mark.parametrize("name", ["long_vectors", "two_stages"])
def test_nothing_stands_between_two_timed_launches(run_here, monkeypatch, name):
    """Else --duration would not launch a kernel back to back, and host times were too long."""
    run, enqueue, events = sample_module("64_bit_integer", "run"), cl.enqueue_nd_range_kernel, []

    class Buffer(run.GuardedBuffer):
        def write(self, values):
            events.append("write")
            super().write(values)

    def launched(*args):
        events.append("launch")
        return enqueue(*args)

    monkeypatch.setattr(run, "GuardedBuffer", Buffer)
    monkeypatch.setattr(run.cl, "enqueue_nd_range_kernel", launched)
    args = ("--size", "64x9", "--kernel", name, "--repeat", 2)
    status, _, errors = run_here(run.main, *args, options=run.options())
    assert status == 0, errors
    # The pixels are written, and the sums before the first launch, which is checked, and the last.
    assert events[-8:] == ["write", "write", *4 * ["launch"], "write", "launch"]


def test_the_host_watches_a_launch_until_it_is_complete_or_takes_too_long(monkeypatch):
    status, asked = cl.command_execution_status, []

    class Launched:
        @property
        def command_execution_status(self):
            asked.append(1)
            return status.COMPLETE if len(asked) == 3 else status.RUNNING

    queue = SimpleNamespace(flush=lambda: asked.clear())
    monkeypatch.setattr(launch, "_WATCHED", 60)
    launch._watch(queue, Launched())
    assert len(asked) == 3
    monkeypatch.setattr(launch, "_WATCHED", 0)
    launch._watch(queue, Launched())
    assert asked == []


@pytest.mark.parametrize("fill", [None, 255], ids=["noise", "white"])
@pytest.mark.parametrize("defines", [
    {}, {"CPU": 1}, {"CPU": 1, "AMD": 0}, {"CPU": 1, "AMD": 26}, "as chosen",
], ids=str)
def test_sums_of_one_work_item_with_and_without_what_cpus_are_given(queue, defines, fill):
    """Of no line, of a group and more, of exactly one stretch and one line more, of several."""
    if defines == "as chosen":
        defines = launch.instructions(queue.device, 1)
    file = launch.KERNELS["two_stages"].file
    kernel = cl.Kernel(build(queue.context, file, {"WORK_GROUP": 1, **defines}), "two_stages")
    result = GuardedBuffer(queue, (1, 2), np.uint64)
    for lines in (0, 1, 3, 4, 128, 129, 256, 257, 1024, 1025, 2 * 1024 + 7):
        count = 64 * lines + 5
        image = np.random.default_rng(lines).integers(0, 256, count).astype(np.uint8)
        if fill is not None:
            image.fill(fill)
        pixels = GuardedBuffer(queue, (count,), np.uint8)
        pixels.write(image)
        kernel(queue, (1,), (1,), pixels.device, np.uint32(count), np.uint32(1), result.device)
        assert result.read().sum(axis=0).tolist() == luma.exact(image).tolist(), lines


@pytest.mark.parametrize(
    ("kind", "numbers", "extensions", "defines"),
    [
        ("GPU", (6, 1), "cl_nv_device_attribute_query", {"DP4A": 1}),
        ("GPU", (5, 2), "cl_nv_device_attribute_query", {}),
        ("GPU", (9, 0), "cl_khr_fp64", {}),
        ("CPU", (9, 0), "cl_khr_fp64", {"CPU": 1}),
    ],
)
def test_products_of_four_bytes_are_for_nvidias_gpus(
    monkeypatch, kind, numbers, extensions, defines
):
    monkeypatch.setattr(device, "host_cpu", dict)
    major, minor = numbers
    chip = SimpleNamespace(
        type=getattr(cl.device_type, kind), extensions=extensions, vendor="", name="",
        compute_capability_major_nv=major, compute_capability_minor_nv=minor,
    )
    assert launch.instructions(chip, 64) == defines


ZEN4 = {"cpu family": "25", "flags": "fpu avx512bw avx512_vnni"}


@pytest.mark.parametrize(("vendor", "name", "host", "defines"), [
    ("AuthenticAMD", "pthread-znver4", ZEN4, {"CPU": 1, "AMD": 25, "VNNI": 1}),
    ("Intel(R) Corporation", "AMD EPYC 9R14", {}, {"CPU": 1, "AMD": 0}),
    ("GenuineIntel", "pthread-skylake-avx512-Intel(R) Xeon(R) Processor",
     {"cpu family": "6", "flags": "avx512_vnni_x avx_vnni"}, {"CPU": 1}),
    ("ARM", "pthread-cortex-a76", {"Features": "fp asimd", "CPU part": "0xd0b"}, {"CPU": 1}),
])
def test_cpus_are_known_by_what_the_driver_and_linux_say(monkeypatch, vendor, name, host, defines):
    monkeypatch.setattr(device, "host_cpu", lambda: host)
    chip = SimpleNamespace(type=cl.device_type.CPU, vendor=vendor, name=name)
    assert launch.instructions(chip, 1) == defines
    defines.pop("VNNI", None)  # its assembly makes PoCL 6 crash in such a work-group
    assert launch.instructions(chip, 4) == defines


def test_a_work_group_that_a_kernel_does_not_allow_is_halved(queue, monkeypatch):
    sizes, real = [], launch.build

    def build(context, file, defines):
        sizes.append((defines["WORK_GROUP"], defines.get("GROUP_X")))
        return real(context, file, defines)

    limited = SimpleNamespace(get_work_group_info=lambda *_: 32,
                              context=SimpleNamespace(devices=[None]))
    monkeypatch.setattr(launch, "build", build)
    monkeypatch.setattr(launch.cl, "Kernel", lambda *_: limited)
    shape = launch.built(queue, "two_stages", launch.Shape(3, 128, False))[1]
    assert shape == launch.Shape(12, 32, False)
    assert sizes == [(128, None), (64, 64), (32, 32)]


@pytest.mark.parametrize(
    ("limit", "most", "local"),
    [
        ("local_mem_size", 1000, 32),
        ("max_work_group_size", 100, 64),
        ("max_work_item_sizes", (16, 16, 16), 16),
    ],
)
def test_a_work_group_is_as_large_as_the_device_allows(queue, limit, most, local):
    limits = replace(device.limits(queue.device), **{limit: most})
    assert launch.choose("two_stages", queue.device, limits, 10**6, 1024).local == local
    assert launch.choose("two_stages", queue.device, limits, 10**6, 8).local == 8


def test_a_device_without_local_memory_for_one_work_item(queue):
    limits = replace(device.limits(queue.device), local_mem_size=8)
    with pytest.raises(Unsupported, match="16 bytes of local memory, but the device has 8"):
        launch.choose("two_stages", queue.device, limits, 10**6, 1)


@pytest.mark.parametrize(
    ("name", "kind", "usual"),
    [("Mali-G52", "GPU", 64), ("GeForce", "GPU", 128), ("Xeon", "CPU", 1)],
)
def test_a_description_starts_with_the_usual_work_group(name, kind, usual):
    chip = SimpleNamespace(name=name, type=getattr(cl.device_type, kind))
    first, *others = launch.kernels(chip)
    assert (first["name"], first["space"]) == ("long_vectors", None)
    assert [kernel["space"]["defaults"] for kernel in others] == 3 * [{"work_group": usual}]


def test_every_kernel_has_the_same_arguments(queue):
    for name, about in launch.KERNELS.items():
        assert cl.Kernel(build(queue.context, about.file), name).num_args == 4


@pytest.mark.parametrize(("kind", "each"), [("CPU", 4), ("GPU", 16)])
def test_as_many_work_groups_as_the_device_can_use_and_the_pixels_fill(queue, kind, each):
    chip = SimpleNamespace(name="a chip", type=getattr(cl.device_type, kind), max_compute_units=10,
                           max_work_group_size=1024)
    limits = device.limits(queue.device)

    def shape(name, count, **more):
        return tuple(launch.choose(name, chip, limits, count, **more))

    cpu = kind == "CPU"
    assert shape("two_stages", 10**9, local=2) == (10 * each, 2, cpu)
    assert shape("two_stages", 64 * 6 + 1, local=2) == (4, 2, cpu)
    assert shape("two_stages", 1, local=2) == (1, 2, cpu)
    for access in ("contiguous", "interleaved"):
        assert shape("two_stages", 1, local=2, access=access) == (1, 2, access == "contiguous")
    assert shape("long_vectors", 8 * 64 * 3 + 1) == (4, 64, None)


def test_the_table_of_whole_passes(monkeypatch):
    seconds = {"two_stages": 0.5, "long_vectors": 2.0, "plain read": 0.25}
    beside = MagicMock()
    monkeypatch.setattr(launch.cores, "beside_workers", beside)

    def rounds(contenders, repeat, warmup, in_flight):
        beside().__enter__.assert_called_once()
        beside().__exit__.assert_not_called()
        names = (each.name for each in contenders)
        return {n: SimpleNamespace(host_s=[seconds[n] * k for k in (9, 1, 0.5)]) for n in names}

    monkeypatch.setattr(launch.interleaved, "rounds", rounds)
    passes = dict.fromkeys(seconds, lambda: [4, 2])
    head, *rows, _ = launch.side_by_side(passes, [4, 2], 3 * 10**9, 3, 1)
    assert head.split("  ")[-2:] == ["to long_vectors", "to plain read"]
    assert [row.split()[-5:] for row in rows] == [
        ["500", "ms", "6", "4.00", "0.50"], ["2000", "ms", "1.5", "1.00", "0.12"],
        ["250", "ms", "12", "8.00", "1.00"]]


@pytest.mark.parametrize("value", [0, 1, 15, 16, 127, 128, 254, 255])
def test_the_square_sums_of_a_stretch_come_back_from_16_bits(value):
    """The arithmetic of sum_stretch: 256 squares in one lane, from their sum modulo 2^16."""
    wrapped, high = 256 * value**2 % 2**16, 256 * (value**2 >> 8)
    assert high < 2**16
    assert 256 * high + (wrapped - 256 * high) % 2**16 == 256 * value**2
    # With 257 of the worst value (low byte 255: none squares to it, so take the bound) it breaks.
    assert 256 * 255 < 2**16 < 258 * 255
