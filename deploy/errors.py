"""What goes wrong between the host and its boards, with the exit status of fab."""

CASE_FAILED = 1
WRONG_USAGE = 2
BOARD_FAILED = 3
INTERRUPTED = 130


class UsageError(Exception):
    """The command line, boards.toml or a sample.toml asks for something that cannot be."""


class BoardError(Exception):
    """One board cannot be reached or cannot do it. The others go on."""


def printable(text):
    """Return a line without what could steer a terminal: not all that boards send is ours."""
    return "".join(c if c.isprintable() or c == "\t" else "?" for c in text)
