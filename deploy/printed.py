"""Compare the output of a case with samples/<sample>/expected/<case>.txt.

Each line of that text must be printed, in order; other lines may stand between. Two lines agree
when their words do, with any spaces between. Integers agree when they are equal. Other numbers
agree when they differ by at most one unit in the last printed digit, of the one printed finer.

A log may come from a hostile board: it is bounded, and every step is linear in its length.
"""

import re
from decimal import Context, Decimal
from itertools import islice
from typing import NamedTuple

from common.text import printable
from deploy.onboard import limits

LONGEST_NUMBER = 40  # characters; what is longer is text
LONGEST_LINE = 1000  # characters; a longer line agrees with none
MOST_LINES = 100_000  # of a log, without empty ones; those behind are not looked at
_SHOWN = 160  # characters of a line that a reason shows
# A number, and what may stand around it without being part of it.
_NUMBER = re.compile(
    r"([][(),;:]*)([+-]?(?:[0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)([][(),;:]*)"
)
_NO_NUMBER = ("nan", "-nan", "inf", "-inf")
_EXACT = Context(prec=3 * LONGEST_NUMBER)


def read_log(path):
    """Return the text of a case's log, up to what a board may send; empty where there is none."""
    try:
        with path.open("rb") as file:
            return file.read(limits.LOG).decode("utf-8", "replace")
    except OSError:
        return ""


def difference(text, log):
    """Return in what the `log` differs from the expected `text`, or None where each line is there.

    The reason names the expected line and the printed line that came nearest.
    """
    wanted, printed = _lines(text), _lines(log)
    early = _places(wanted, printed)
    if len(early) == len(wanted):
        return None
    first, start, end = _trouble(wanted, printed, early)
    what = f'line {wanted[first].number}, "{_shown(wanted[first])}", is not printed'
    nearest = _nearest(wanted[first], printed, start, end)
    if nearest is None:
        return f"{what}, and nothing like it is"
    if _agree(wanted[first], nearest):
        return f"{what} where it belongs, but as line {nearest.number} of the log"
    return f'{what}: nearest is line {nearest.number} of the log, "{_shown(nearest)}"'


def renew(text, log):
    """Return `text` with the numbers of the `log`; lines that agree stay as they are.

    Each line takes the numbers of the next printed line that has the same words beside them. Raises
    ValueError where there is none.
    """
    if difference(text, log) is None:
        return text
    wanted, printed = _lines(text), _lines(log)
    places = _places(wanted, printed, _alike)
    if len(places) < len(wanted):
        missing = wanted[len(places)]
        raise ValueError(f'line {missing.number}, "{_shown(missing)}": no such line is printed')
    lines = text.split("\n")
    for line, place in zip(wanted, places):
        if not _agree(line, printed[place]):
            lines[line.number - 1] = printed[place].text.rstrip()
    return "\n".join(lines)


class _Line(NamedTuple):
    number: int  # from 1
    text: str

    def words(self):
        """Return its words, none where it is too long to agree with another."""
        return self.text.split() if len(self.text) <= LONGEST_LINE else []


def _lines(text):
    """Return the first MOST_LINES lines that are not empty."""
    lines = (_Line(number, line) for number, line in enumerate(text.split("\n"), 1))
    return list(islice((line for line in lines if line.text.strip()), MOST_LINES))


def _agree(line, other, same=None):
    words, others = line.words(), other.words()
    return 0 < len(words) == len(others) and all(map(same or _same, words, others))


def _places(wanted, printed, same=None):
    """Return the index of the printed line for each wanted one, each as early as possible.

    Ends at the first wanted line that has none. Looks at each printed line once.
    """
    places, left = [], iter(enumerate(printed))
    for line in wanted:
        at = next((at for at, other in left if _agree(line, other, same)), None)
        if at is None:
            break
        places.append(at)
    return places


def _trouble(wanted, printed, early):
    """Return the first wanted line at fault, and the range of printed lines where it belongs.

    The lines at fault are the fewest in a row without which all others are printed in order. The
    first line that _places does not find need not be one: it may have lost its own line to a wrong
    one before it, where several parts of an output are alike.
    """
    late = [len(printed) - 1 - at for at in _places(wanted[::-1], printed[::-1])]
    # behind[n] is where the last n wanted lines begin, printed as late as possible.
    before, behind = [-1, *early], [len(printed), *late]
    found, left = [], len(late)
    for first, last in enumerate(before):
        while behind[left] <= last:
            left -= 1
        found.append((len(wanted) - first - left, first, last + 1, behind[left]))
    return min(found)[1:]


def _nearest(line, printed, start, end):
    """Return the printed line that comes nearest to `line`, or None: nothing is like it.

    Those from `start` to `end` are preferred, where half of the words agree.
    """
    for among, least in ((printed[start:end], len(line.words())), (printed, 1)):
        nearest = max(among, key=lambda other: _score(line, other), default=None)
        if nearest and _score(line, nearest) >= least:
            return nearest
    return None


def _score(line, other):
    """Return how near a line comes: 2 for each word that agrees, 1 for a number that differs."""
    pairs = zip(line.words(), other.words())
    return sum(2 if _same(a, b) else _number(a) is not None and (b in _NO_NUMBER or _alike(a, b))
               for a, b in pairs)


def _alike(word, printed):
    """Tell whether two words are equal, or both are numbers."""
    return word == printed or None not in (_number(word), _number(printed))


def _same(word, printed):
    a, b = _number(word), _number(printed)
    if word == printed or a is None or b is None:
        return word == printed
    (value, *form), (other, *others_form) = a, b
    if form != others_form:
        return False
    is_integer = form[0]
    finer = min(each.as_tuple().exponent for each in (value, other))
    allowed = 0 if is_integer else Decimal((0, (1,), finer))
    return abs(_EXACT.subtract(value, other)) <= allowed


def _number(word):
    """Return (value, whether it is an integer, what stands around it), or None where it is text."""
    found = _NUMBER.fullmatch(word)
    if not found or len(found[2]) > LONGEST_NUMBER:
        return None
    return Decimal(found[2]), found[2].lstrip("+-").isdigit(), (found[1], found[3])


def _shown(line):
    text = printable(" ".join(line.text[: 2 * _SHOWN].split()))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
