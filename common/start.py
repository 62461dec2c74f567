"""The start of a sample, before anything but the standard library is there."""

import sys
from contextlib import contextmanager


@contextmanager
def importing():
    """End the program with one line, and exit status 3, where an import in the block fails."""
    try:
        yield
    except ImportError as missing:
        why = str(missing).strip().splitlines()[-1]  # numpy says much more
        print(f"run.py: error: {why}: see docs/boards.md, What a board needs", file=sys.stderr)
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
