"""Errors that end a report, with the exit status of `python -m report`."""

REGRESSION = 1
WRONG_USAGE = 2
BROKEN = 3
INTERRUPTED = 130


class ReportError(Exception):
    """There is nothing to report, or something is in the way: one line that says what to do."""
