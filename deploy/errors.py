"""Errors between the host and its boards."""

from common.errors import SampleError


class BoardError(SampleError):
    """One board cannot be reached or cannot do it. The others go on."""
