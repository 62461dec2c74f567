"""What all plots have in common."""

import pytest

from report import draw


def test_the_order_of_a_product_that_is_not_square_is_shown_as_a_whole_number():
    axes = draw.canvas(height=3)[1]
    draw.powers_of_2(axes, [64, 332.8, 6.694])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["333", "64", "6.694"]
    draw.powers_of_2(axes, [1024, 1025])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1025"]


def test_a_short_logarithmic_axis_has_more_numbers():
    axes = draw.canvas(height=3)[1]
    axes.set(xscale="log", yscale="log", xlim=(4, 60), ylim=(0.05, 600))
    draw.numbers(axes)
    across, up = ([at for at in axis.get_majorticklocs() if low <= at <= high]
                  for axis in (axes.xaxis, axes.yaxis) for low, high in [axis.get_view_interval()])
    assert across == pytest.approx([5, 10, 20, 50])
    assert up == pytest.approx([0.1, 1, 10, 100])
    assert axes.xaxis.get_major_formatter()(20) == "20"


def test_a_bar_chart_has_no_empty_rows():
    axes = draw.canvas(height=9)[1]
    axes.barh(range(30), range(30))
    draw.rows(axes, list(map(str, range(30))))
    assert axes.get_ylim() == (29.6, -0.6)
