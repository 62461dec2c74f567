"""Errors between the host and its boards."""

import logging

from common import programs
from common.errors import SampleError


class BoardError(SampleError):
    """One board cannot be reached or cannot do it. The others go on."""


class Refusal(BoardError):
    """The board's program has ended in order, and says why it did not do what was asked."""


def explained(error):
    """Return the exit status for an error, and why in one line. fab -d shows its traceback."""
    logging.getLogger("deploy").debug("ended by", exc_info=error)
    return programs.explained(error, "fab -d")
