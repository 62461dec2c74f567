"""Errors between the host and its boards."""


class BoardError(Exception):
    """One board cannot be reached or cannot do it. The others go on."""
