"""What inputs are made of: words as people mistype them, odd numbers, odd data."""

import re

from hypothesis import strategies as st

# Texts that are no numbers, and numbers that no sample takes. Others, such as 5000, cost time.
ODD_NUMBERS = st.sampled_from([
    "0", "-1", "-0", "1e400", "nan", "inf", "-inf", "9" * 4400, "1" + "0" * 30, "0x10", "1_000",
    "\u0661", "\u00b2", "", " ", "1.5", "1e3", "+3", "1,2", "3:1", "1:2:0", "8x", "x8", "4x4x4x4",
    "0x0", "--", "*", "**", "?", "[", "../..", "/", "/dev/null", "~", "-", "$HOME", "a" * 300,
])
SMALL = st.one_of(st.integers(1, 40).map(str), st.sampled_from(["3x5x7", "17x33x9", "8,9"]))
TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
    st.sampled_from(["\n", "\x1b[2J", "\x07", "a\rb", "\u202etxt", "%s", "'\"`;|&"]),
)
NAMES = st.sampled_from([
    "all", "best", "1", "6,7", "01_naive", "naive", "14", "99", "dot4", "row4", "tile4x4", "nn",
    "nt", "single", "double", "half", "sdk", "integer", "mali-t628", "long_vectors", "two_stages",
    "gpu", "cpu", "contiguous", "noise", "SGEMM_*", "SGEMM_NN_1x1.json", "paper", "none",
])
WORDS = st.one_of(ODD_NUMBERS, SMALL, NAMES, TEXTS)

# Plain data: JSON and TOML, with what parsers and their readers stumble over.
_LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=10),
    st.sampled_from([10**400, -1, 0, 1e308, "9" * 5000, "\x1b[1m", "\ud800"]),
)
DATA = st.recursive(
    _LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def takes_long(argv):
    """Tell whether a command line may ask for more work than an input is worth."""
    return any(re.fullmatch(r"\D*0*[1-9]\d{2,17}\D*", word) for word in argv)


@st.composite
def mutated(draw, data):
    """Draw bytes that differ from `data` in some parts: replaced, dropped, repeated, put in."""
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(data)))
        part = data[start : start + draw(st.integers(0, 64))]
        extremes = [b"", 8 * part, b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80"]
        new = draw(st.sampled_from(extremes) | st.binary(max_size=16))
        data = data[:start] + new + data[start + len(part) :]
    return data


@st.composite
def altered(draw, table):
    """Draw a table like `table`, in which some values are others, missing or new."""
    table = dict(table)
    for _ in range(draw(st.integers(0, 3))):
        key = draw(st.sampled_from([*sorted(table), ""])) or draw(st.text(max_size=8))
        if isinstance(table.get(key), dict) and draw(st.booleans()):
            table[key] = draw(altered(table[key]))
        elif draw(st.integers(0, 3)):
            table[key] = draw(DATA)
        else:
            table.pop(key, None)
    return table
