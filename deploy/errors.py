"""Errors between the host and its boards, with the exit status of fab."""

from common.errors import UsageError

__all__ = [
    "BOARD_FAILED",
    "CASE_FAILED",
    "INTERRUPTED",
    "WRONG_USAGE",
    "BoardError",
    "UsageError",  # the command line or a file asks for something that cannot be
]

CASE_FAILED = 1
WRONG_USAGE = 2
BOARD_FAILED = 3
INTERRUPTED = 130


class BoardError(Exception):
    """One board cannot be reached or cannot do it. The others go on."""
