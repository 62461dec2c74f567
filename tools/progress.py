"""Progress with the time left, on a terminal."""

import sys

from rich.progress import track


def shown(items, total):
    """Yield the items, above a bar that counts them where stdout is a terminal.

    What is printed meanwhile stands above the bar.
    """
    return track(items, "points", total, disable=not sys.stdout.isatty())
