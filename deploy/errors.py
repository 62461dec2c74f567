"""Errors between the host and its boards."""

from common.errors import SampleError
from common.text import one_line


class BoardError(SampleError):
    """One board cannot be reached or cannot do it. The others go on."""


def lacking(error):
    """Return a line for an ImportError: this machine lacks a package."""
    return f"{one_line(error)}: `make run` installs what it needs"
