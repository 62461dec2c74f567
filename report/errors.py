"""The error that ends a report, with exit status 2."""

from common.errors import UsageError


class ReportError(UsageError):
    """There is nothing to report, or something is in the way: one line that says what to do."""
