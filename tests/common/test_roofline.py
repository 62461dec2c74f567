"""The ceiling of a device: what a peak is, and what is refused as one."""

import numpy as np
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
