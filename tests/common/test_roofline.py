"""The ceiling of a device: what a peak is, and what is refused as one."""

import numpy as np
import pyopencl as cl
import pytest

from common import device, roofline
from common.gemm import Size

FLOAT = np.dtype(np.float32)
SIZE = Size(64, 64, 64)


def test_the_ceiling_is_the_lower_of_two():
    def ceiling(size, beta=0.0, gbytes=10.0):
        peak = roofline.Peak(100.0, 5.0, gbytes, "fma, vectors of 4 x float")
        return peak.ceiling(Size(*size), FLOAT, beta)

    assert ceiling((1024, 1024, 1024)) == (100, "compute")
    thin = ceiling((1000, 1000, 1))  # 5e6 operations, 4008000 bytes
    assert thin == (pytest.approx(5e6 / 4008000 * 10), "memory")
    assert ceiling((1000, 1000, 1), beta=1.0) < thin


@pytest.mark.exhaustive
def test_the_peak_is_measured_and_can_only_rise(queue):
    roof = roofline.Roofline(queue, device.limits(queue.device), FLOAT)
    peak, why = roof.peak(SIZE)
    assert why is None
    assert peak.gflops > 1
    assert peak.near_gbytes_per_s >= peak.gbytes_per_s > 0.1
    # It can only rise: what others do on the machine never makes a peak.
    assert roof.peak(SIZE)[0].gflops >= peak.gflops


def test_what_a_peak_says():
    assert str(roofline.Peak(100.0, 5.0, 5.0, "fma")) == "100 GFLOPS (fma), 5 GB/s from main memory"
    near = str(roofline.Peak(100.0, 5.0, 10.0, "fma"))
    assert near.endswith("from main memory, 10 GB/s for as many bytes as these matrices have")


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_work_groups_that_read(queue, monkeypatch, kind):
    """With several work-groups for each core, only a part of the data is in use at a time."""
    real, launched = cl.enqueue_nd_range_kernel, []
    monkeypatch.setattr(roofline.cl, "enqueue_nd_range_kernel",
                        lambda *args: launched.append(args[1:3]) or real(*args))
    monkeypatch.setattr(roofline, "_LONG", 0)
    monkeypatch.setattr(roofline.devices, "type_of", lambda device: kind)
    roof = roofline.Roofline(queue, device.limits(queue.device), FLOAT)
    peak = roof.peak(Size(512, 512, 512))[0]
    reads = {total for kernel, (total,) in launched if kernel.function_name == "read_all"}
    if kind == "cpu":
        assert reads == {queue.device.max_compute_units}
    else:
        assert len(reads) == 1  # from main memory only
        assert reads.pop() > queue.device.max_compute_units
        assert peak.near_gbytes_per_s == peak.gbytes_per_s


@pytest.mark.parametrize(("run", "host", "seconds"), [(2.0, 3.0, 2), (0.0, 3.0, 3), (5.0, 3.0, 3)])
def test_the_time_is_the_devices_unless_it_has_none_or_more_than_the_host_waited(
        monkeypatch, run, host, seconds):
    monkeypatch.setattr(roofline, "launch", lambda enqueue: (*enqueue(), 0, run, host))
    assert roofline._seconds(lambda count: [count], 7) == seconds


def test_the_fastest_of_samples_that_are_long_enough_counts(queue, monkeypatch):
    counts, times = [], iter([0.002, 0.004, 0.019, 0.021, 0.05, 0.02, 0.018, 0.03, 0.04, 0.001])
    monkeypatch.setattr(roofline, "_seconds", lambda _, count: counts.append(count) or next(times))
    roof = roofline.Roofline(queue, device.limits(queue.device), FLOAT)
    assert roof._fastest(None, 3) == (24, 0.018)
    assert counts == [3, 6, 12, 24, 24, 24, 24, 24, 24]


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_the_peaks_are_what_the_kernels_do_in_a_second(queue, monkeypatch, kind):
    """Of samples that take a second by this clock: all operations, and all bytes of the source."""
    did, sizes, real = {"multiply_add": [], "read_all": []}, [], cl.enqueue_nd_range_kernel
    make = roofline.GuardedBuffer

    def enqueue(queue, kernel, total, local):
        did[kernel.function_name].append(total[0])
        return real(queue, kernel, total, local)

    def buffer(*about):
        sizes.append(make(*about))
        return sizes[-1]

    def seconds(enqueue, count):
        for event in enqueue(count):
            event.wait()
        return 1.0

    monkeypatch.setattr(roofline.cl, "enqueue_nd_range_kernel", enqueue)
    monkeypatch.setattr(roofline, "GuardedBuffer", buffer)
    monkeypatch.setattr(roofline, "_seconds", seconds)
    monkeypatch.setattr(roofline, "_FAR", 2**24)
    monkeypatch.setattr(roofline.devices, "type_of", lambda device: kind)
    roof = roofline.Roofline(queue, device.limits(queue.device), FLOAT)
    peak = roof.peak(Size(700, 500, 600), batch=2)[0]
    lanes = sizes[0].shape[1]  # of a vector of multiply_add
    steps = roofline.SOURCE.read_text().partition("read_all(")[0].count("= OP(")
    assert peak.gflops == pytest.approx(did["multiply_add"][0] * lanes * steps * 2 * 256 / 1e9)
    sources = [each.nbytes for each in sizes if each.nbytes > 1e6]
    assert peak.gbytes_per_s == pytest.approx(sources[0] / 1e9)
    assert sources[0] == pytest.approx(2**24, rel=0.01)
    matrices = 2 * 4 * (700 * 600 + 600 * 500 + 700 * 500)
    near = [matrices] if kind == "cpu" else []
    assert sources[1:] == pytest.approx(near, rel=0.01)
    assert peak.near_gbytes_per_s == peak.gbytes_per_s  # of which there is more in a second here


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("        j = OP(j, by, plus);\n", "", "multiply_add"),
        ("v < each; v += 8", "v < each / 2; v += 8", "read_all"),
    ],
)
def test_a_peak_of_a_kernel_that_does_less_is_refused(
    queue, monkeypatch, tmp_path, right, wrong, name
):
    text = roofline.SOURCE.read_text()
    assert right in text
    broken = tmp_path / "roofline.cl"
    broken.write_text(text.replace(right, wrong))
    monkeypatch.setattr(roofline, "SOURCE", broken)
    roof = roofline.Roofline(queue, device.limits(queue.device), FLOAT)
    peak, why = roof.peak(SIZE)
    assert peak is None
    assert why == f"the peak is unknown: {name} of roofline.cl gives a wrong result"
