"""What goes wrong between the host and its boards, with the exit status of fab."""

CASE_FAILED = 1
WRONG_USAGE = 2
BOARD_FAILED = 3
INTERRUPTED = 130


class UsageError(Exception):
    """The command line, boards.toml or a sample.toml asks for something that cannot be."""


class BoardError(Exception):
    """One board cannot be reached or cannot do it. The others go on."""
