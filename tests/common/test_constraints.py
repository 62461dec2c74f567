"""Constraints as data: what they demand, what is chosen under them, and what may stand in them."""

import time

import pytest

from common import constraints
from common.constraints import Space
from common.errors import Unsupported, UsageError

TILES = Space(
    defaults={"TSM": 64, "TSN": 64, "WPT": 8},
    values={"TSM": (16, 32, 64), "TSN": (16, 32, 64), "WPT": (1, 2, 4, 8)},
    constraints=("TSM >= 1", "WPT >= 1", "TSM % WPT == 0", "TSM * WPT <= 1024"),
    local=("TSN", "TSM // WPT"),
    local_bytes="itemsize * TSM * TSN",
)
LARGE = {
    "itemsize": 4, "local_mem_size": 65536, "max_work_group_size": 1024,
    "max_work_items_0": 1024, "max_work_items_1": 1024,
}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"WPT": 3}, "--TSM 64 --WPT 3: WPT must divide TSM"),
        ({"WPT": 0}, "--WPT 0: WPT must be at least 1"),
        ({"TSM": 256}, "--TSM 256 --WPT 8: TSM * WPT = 2048 must be at most 1024"),
        ({"TSN": 2048}, "--TSN 2048: 2048 work-items in dimension 0, but the device"),
    ],
)
def test_a_broken_constraint_is_named_with_the_values(given, said):
    (message, *_) = constraints.broken(TILES, TILES.defaults | given, LARGE)
    assert message.startswith(said)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"max_work_group_size": 256}, "512 work-items, but a work-group has at most 256"),
        ({"local_mem_size": 4096}, "16384 bytes of local memory, but the device has 4096"),
    ],
)
def test_a_work_group_and_its_local_memory_must_fit(known, said):
    assert said in constraints.broken(TILES, TILES.defaults, LARGE | known)[0]


def test_what_is_legal_is_chosen_as_it_is():
    choice = constraints.choose(TILES, {"TSM": 32}, LARGE)
    assert choice.params == {"TSM": 32, "TSN": 64, "WPT": 8}
    assert choice.why is None


def test_what_is_left_open_is_made_to_fit_and_what_is_given_stays():
    choice = constraints.choose(TILES, {"TSM": 64}, LARGE | {"local_mem_size": 8192})
    assert choice.params == {"TSM": 64, "TSN": 32, "WPT": 8}
    assert "local memory" in choice.why


def test_a_value_that_nothing_makes_legal_is_refused_with_one_that_would_do():
    with pytest.raises(UsageError, match=r"01_x: .*WPT must divide TSM; try --WPT 4"):
        constraints.choose(TILES, {"WPT": 3}, LARGE, "01_x")


def test_a_fault_of_what_is_given_is_named_before_one_of_the_defaults():
    space = Space({"A": 5, "B": 4}, {"A": (1, 4), "B": (2, 4)}, ("A <= 4", "B % 2 == 0"))
    with pytest.raises(UsageError, match=r"^x: --B 3: 2 must divide B; try --B [24]$"):
        constraints.choose(space, {"B": 3}, LARGE, "x")


def test_a_device_without_any_legal_choice_is_unsupported():
    with pytest.raises(Unsupported, match="no combination of its parameters is legal"):
        constraints.choose(TILES, {}, LARGE | {"local_mem_size": 100})


def test_all_legal_choices_are_found_and_no_others():
    found = list(constraints.legal(TILES, LARGE | {"max_work_group_size": 64}, {"WPT": 8}))
    assert {"TSM": 16, "TSN": 32, "WPT": 8} in found
    assert all(p["WPT"] == 8 and p["TSN"] * p["TSM"] // 8 <= 64 for p in found)
    assert len(found) == 3


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "a.b", "f(1)", "[1]", "2 ** 9", "1.5", "'x'", "lambda: 1", "a if b else c",
     "min(a, b)", "max(a, key=b)", "max(a, b, key=c)", "max.real", "max + 1",
     "max(a)", "(", "a +" * 500, "+".join(["a"] * 600)],
)
def test_nothing_but_arithmetic_of_whole_numbers_is_evaluated(text):
    with pytest.raises(ValueError, match=r"expression|constraint|number|unknown"):
        constraints.evaluate(text, {"a": 1, "b": 1, "c": 1})


def test_a_name_without_a_value_is_an_error():
    with pytest.raises(ValueError, match="b is unknown"):
        constraints.evaluate("a + b", {"a": 1})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("W in (1, 2, 4)", "W must be one of 1, 2, 4"),
        ("W == 0 or N % W == 0", "W == 0 must hold or W must divide N"),
        ("W * N < limit", "W * N = 15 must be below limit = 10"),
    ],
)
def test_a_constraint_explains_itself(text, said):
    assert constraints.explain(text, {"W": 3, "N": 5, "limit": 10}) == said


def test_the_larger_of_two_may_be_asked_for():
    assert constraints.evaluate("2 * max(a, b)", {"a": 1, "b": 3}) == 6


def test_what_would_divide_by_0_is_broken_and_says_so():
    space = Space({"A": 0, "B": 1}, {"A": (1,), "B": (1,)}, ("B % (B // A) == 0",))
    assert constraints.broken(space, space.defaults, LARGE) == ["--A 0 --B 1: B // A must divide B"]
    assert constraints.choose(space, {}, LARGE).params == {"A": 1, "B": 1}


def test_the_fast_answer_is_that_of_the_messages():
    for size in (64, 512, 1024):
        known = LARGE | {"max_work_group_size": size}
        for params in ({"TSM": m, "TSN": n, "WPT": w} for m in (0, 16, 24, 64, 2048)
                       for n in (16, 64) for w in (0, 1, 3, 8, 32)):
            assert constraints.is_legal(TILES, params, known) is not bool(
                constraints.broken(TILES, params, known)
            )
    with pytest.raises(ValueError, match="itemsize is unknown"):
        constraints.is_legal(TILES, TILES.defaults, {n: 9**9 for n in LARGE if n != "itemsize"})


def test_a_large_space_without_any_legal_choice_is_no_long_search():
    names = "ABCDEFGHIJ"  # 5**10 choices, of which the first three parameters forbid all
    space = Space(
        dict.fromkeys(names, 1), dict.fromkeys(names, (1, 2, 3, 4, 5)),
        (*(f"{n} >= 1" for n in names), "A % B == 0 or B % A == 0", "A * B * C > 999"),
    )
    start = time.monotonic()
    with pytest.raises(Unsupported):
        constraints.choose(space, {}, LARGE)
    assert time.monotonic() - start < 15
