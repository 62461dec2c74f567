"""What all plots have in common."""

from report import draw


def test_the_order_of_a_product_that_is_not_square_is_shown_as_a_whole_number():
    axes = draw.canvas(height=3)[1]
    draw.powers_of_2(axes, [64, 332.8, 6.694])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["333", "64", "6.694"]
    draw.powers_of_2(axes, [1024, 1025])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1025"]
