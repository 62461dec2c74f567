"""The size of a GEMM: its text, its operations, its elements."""

import pytest

from common.sizes import Size, parsed


def test_the_flop_convention():
    assert Size(2, 3, 5).flop() == 2 * 2 * 3 * 5 + 3 * 2 * 3


def test_elements_of_the_matrices():
    assert Size(2, 3, 5).moved() == 2 * 5 + 5 * 3 + 2 * 3
    assert Size(2, 3, 5).moved(beta=0.5) == 2 * 5 + 5 * 3 + 2 * 2 * 3


@pytest.mark.parametrize(("text", "size"), [("8", (8, 8, 8)), ("640x48x1000", (640, 48, 1000))])
def test_a_text(text, size):
    assert parsed(text) == size
    assert parsed(str(parsed(text))) == size


@pytest.mark.parametrize("text", ["", "-1", "4x4", "1x2x3x4", "4X4X4", "4.0", "\u0663", "9" * 5000])
def test_what_is_no_size(text):
    assert parsed(text) is None
