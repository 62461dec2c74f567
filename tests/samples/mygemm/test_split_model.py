"""The host's model of kernel 14 of samples/mygemm: what it does to numbers."""

import re

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.samples.mygemm import split_model as split

KERNELS = ROOT / "samples" / "mygemm" / "kernels"


def test_the_host_splits_as_the_kernels_do():
    text = (KERNELS / "store.cl").read_text()
    values = dict(re.findall(r"#define (TOP|SMALL_SCALE) ([\d.]+)", text))
    assert float(values["TOP"]) == split.TOP
    assert float(values["SMALL_SCALE"]) == split.SMALL_SCALE
    spans = [int(n) for n in re.findall(r"#define SPAN\(K\) \(?(\d+)", text)]
    assert spans == [split.SPAN[16], split.SPAN[32]]


@pytest.mark.parametrize("bits", [16, 32])
def test_parts_are_what_they_say(bits):
    lines = split.magnitudes(30, (50, 64), np.random.default_rng(2), lines_only=True)
    big, small, exponents, fits = split.split(lines, bits)
    assert fits.all()
    assert (np.abs(big).max(axis=1) <= 2**15).all()
    assert (np.abs(big).max(axis=1) >= 2**14).all()
    again = np.ldexp(big.astype(float) + small / 2048.0, exponents[:, None])
    assert (np.abs(again - lines) <= np.abs(lines) * 2.0**-22).all()
    for part in (big, small):  # they have 11 bits
        assert (np.frexp(part)[0] * 2**11 % 1 == 0).all()


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("spread", [0, 3, 9, 18, 30])
def test_the_error_stays_below_that_of_float32(bits, spread):
    rng = np.random.default_rng(spread)
    for lines_only in (True, False):
        A = split.magnitudes(spread, (40, 512), rng, lines_only)
        B = split.magnitudes(min(spread, 6), (40, 512), rng, lines_only).T
        relative, over_bound = split.errors(A, B, bits)
        assert relative < 3e-7
        assert over_bound < 0.01


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("span", [20, 32, 33, 65, 66, 70, 90])
def test_products_of_the_smallest_elements_are_not_lost(bits, span):
    """The largest elements of both lines meet 0, so only the smallest ones make a product."""
    A, B = (np.zeros((1, 64), np.float32) for _ in "AB")
    A[0, :2], B[0, 1:3] = (2.0 ** (span // 2), 1.1 * 2.0 ** (span // 2 - span)), (1.7, 2.0**span)
    B /= np.float32(2.0 ** (span // 2))
    assert split.errors(A, B.T, bits)[1] < 0.5


def test_less_than_three_products_would_not_do(monkeypatch):
    rng = np.random.default_rng(1)
    A, B = (rng.uniform(-1, 1, (64, 64)).astype(np.float32) for _ in range(2))
    whole = split.errors(A, B)[0]
    real = split.split

    def without_small(lines, bits):
        parts = real(lines, bits)
        return parts._replace(small=0 * parts.small)

    monkeypatch.setattr(split, "split", without_small)
    assert split.errors(A, B)[0] > 1000 * whole


def test_what_fits_into_a_line():
    def fits(*values, bits=16):
        line = np.ones((1, 64), np.float32)
        line[0, : len(values)] = values
        return bool(split.split(line, bits).fits[0])

    assert fits(0, -0.0, 2.0**-32)
    assert not fits(2.0**-33)  # 2^-26 / 64, and once more by half
    assert fits(2.0**-65, bits=32)
    assert not fits(2.0**-66, bits=32)
    assert not fits(np.inf)
    assert not fits(np.nan)
    assert not split.split(np.ones((1, 7), np.float32)).fits[0]
    assert split.split(np.zeros((1, 8), np.float32)).fits[0]
