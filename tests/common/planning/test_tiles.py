"""Tiles of a GEMM on a GPU: which is chosen, and which are shared."""

import pytest

from common.gemm import parse_size
from common.planning import tiles

UNITS = 132  # of an H200


def best(size, **more):
    size = parse_size(size)
    aligned = size.N % 4 == size.K % 4 == 0
    return tiles.best(size, tiles.single(1, aligned), UNITS, 4, **more)


@pytest.mark.parametrize(
    ("size", "tile", "splits", "shared"),
    [
        ("4096", (128, 128), 1, 0),
        ("1500", (64, 128), 5, 24),  # 288 tiles are a round of 264, and 24
        ("4097", (128, 128), 8, 33),  # 1089 tiles are 4 rounds of 264, and 33
        ("100000x64x64", (128, 64), 1, 0),
        ("64x64x100000", (64, 64), 264, 1),
        ("96x96x30000", (96, 48), 132, 2),
        ("10584x48x3920", (192, 48), 9, 56),  # 504 work-groups; a round of 4 in each unit is 528
        ("2375x1763x284", (32, 64), 1, 0),
        ("512", (32, 64), 1, 0),
        ("1x1x1", None, 1, 0),
    ],
)
def test_the_best_tile(size, tile, splits, shared):
    _, params = best(size)
    assert tile in (None, (params["TSM"], params["TSN"]))
    assert params["SPLITS"] == splits
    assert tiles.shared(parse_size(size), params, UNITS) == shared


@pytest.mark.parametrize("size", ["64x64x100000", "4097", "33x17x9"])
@pytest.mark.parametrize("splits", [1, 2, 7])
def test_each_tile_has_its_work_groups(size, splits):
    size, params = parse_size(size), {"TSM": 64, "TSN": 64, "SPLITS": splits}
    shared, count = (each(size, params, UNITS) for each in (tiles.shared, tiles.groups))
    assert count == tiles.count(size, params) - shared + splits * shared


def test_split_keeps_what_its_work_items_can_hold():
    params = {"TSM": 64, "TSN": 64, "SPLITS": 1, "PART_BITS": 16}
    kept = {K: tiles.split(parse_size(f"64x64x{K}"), params, UNITS)["KEPT"]
            for K in (1, 256, 257, 1024, 4096)}
    assert kept == {1: 1, 256: 1, 257: 2, 1024: 4, 4096: 4}


def test_a_launch_before_costs_time():
    assert best("512", before=1e-3)[0] > best("512")[0] + 9e-4


def test_the_last_work_group_adds_up_as_many_sums_as_that_is_fast_for():
    for TSM, TSN, most in ((64, 64, 16), (32, 64, 32), (128, 128, 4)):
        params = {"TSM": TSM, "TSN": TSN}
        assert [tiles.last_adds({**params, "SPLITS": n}) for n in (1, 2, most, most + 1)] == [
            0, 1, 1, 0]


def test_parts_run_beside_whole_tiles_where_a_unit_holds_both():
    """264 whole tiles and 36 shared ones: a compute unit has room for 2 and 1 of them."""
    size, shape = parse_size("1280x960x4096"), {"TSM": 64, "TSN": 64, "SPLITS": 2}
    assert (tiles.count(size, shape), tiles.shared(size, shape, UNITS)) == (300, 36)
    three, two = (tiles.Tile(shape, at_once, at_once * 0.3, 0) for at_once in (3, 2))
    beside, after = (tiles.seconds(size, each, shape, UNITS, 4) for each in (three, two))
    whole = tiles.seconds(size, three, {**shape, "SPLITS": 1}, UNITS, 4)
    assert beside < whole < after


def test_whole_tiles_go_on_alone_when_the_parts_beside_them_are_done():
    """264 whole tiles, and 86 in 6 parts: a unit has its two whole tiles alone most of the time."""
    size, shape = parse_size("1552x871x2056"), {"TSM": 64, "TSN": 64, "SPLITS": 6}
    assert (tiles.count(size, shape), tiles.shared(size, shape, UNITS)) == (350, 86)
    tile = tiles.Tile(shape, 6, 0.75, 0)
    # k's of a part, and those that whole tiles then still have, in slabs of 32
    both, alone = 352, 2080 - 352
    depth = both + alone * (2 / 6) ** 0.5
    time = depth * 6 * 64 * 64 / (0.75 * 2.4e11)
    assert tiles.seconds(size, tile, shape, UNITS, 4) == pytest.approx(
        time, rel=0.1)  # more: the parts are added up


def test_parts_cost_a_launch_where_the_last_work_group_may_not_add_them_up():
    size, shape = parse_size("32x32x4096"), {"TSM": 32, "TSN": 32, "SPLITS": 8}
    tile = tiles.Tile(shape, 2, 0.5, 60)
    itself, launch = (tiles.seconds(size, tile, shape, UNITS, 4, adds=adds) for adds in (1, 0))
    assert launch > itself + 2e-6
    assert tiles.best(size, [tile], UNITS, 4, adds=False)[0] > tiles.best(size, [tile], UNITS, 4)[0]
