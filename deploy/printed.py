"""Compare the output of a case with samples/<sample>/expected/<case>.txt.

Each line of that text must be printed, in order; other lines may stand between. Two lines agree
when their words do, with any spaces between. Integers agree when they are equal. Other numbers
agree when they differ by at most one unit in the last printed digit, of the one printed finer.

A log may come from a hostile board: it is bounded, and every step is linear in its length.
"""

import re
from decimal import Context, Decimal
from itertools import islice

from common.text import printable
from deploy.onboard import limits
from deploy.screen import shortened

LONGEST_NUMBER = 40  # characters; what is longer is text
LONGEST_LINE = 1000  # characters; a longer line agrees with none
MOST_LINES = 100_000  # of a log, without empty ones; those behind are not looked at
# A number, and what may stand around it without being part of it.
_NUMBER = re.compile(
    r"([][(),;:]*)([+-]?(?:[0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)([][(),;:]*)"
)
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

    The reason names the expected line and the printed line that is most like it, among those where
    it belongs.
    """
    wanted, printed = _lines(text), _lines(log)
    early = _places(wanted, printed)
    if len(early) == len(wanted):
        return None
    first, start, end = _trouble(wanted, printed, early)
    number, words = wanted[first]
    reason = f'line {number}, "{_shown(words)}", is not printed'
    where, nearest = max(printed[start:end], key=lambda line: _likeness(words, line[1]),
                         default=(0, []))
    if _likeness(words, nearest) == 0:
        return f"{reason} where it belongs, and nothing like it is"
    return f'{reason}: nearest is line {where} of the log, "{_shown(nearest)}"'


def _lines(text):
    """Return (number from 1, words) of the first MOST_LINES lines that are not empty."""
    lines = ((number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip())
    return [(number, line.split() if len(line) <= LONGEST_LINE else [])
            for number, line in islice(lines, MOST_LINES)]


def _agree(words, others):
    return 0 < len(words) == len(others) and all(map(_same, words, others))


def _places(wanted, printed):
    """Return the index of the printed line for each wanted one, each as early as possible.

    Ends at the first wanted line that has none. Looks at each printed line once.
    """
    places, left = [], iter(enumerate(printed))
    for _, words in wanted:
        at = next((at for at, (_, others) in left if _agree(words, others)), None)
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


def _likeness(words, others):
    """Return how like two lines are, 0 for not at all.

    2 for each word that agrees, 1 for each number that differs, 1 for as many words.
    """
    pairs = list(zip(words, others))
    numbers = sum(None not in (_number(a), _number(b)) for a, b in pairs if not _same(a, b))
    return 2 * sum(_same(a, b) for a, b in pairs) + numbers + (0 < len(words) == len(others))


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


def _shown(words):
    return shortened(printable(" ".join(words)))
