"""Errors that end a program. Each has an exit status; it is printed as one line on stderr."""

import sys
import warnings
from contextlib import contextmanager

PASSED = 0
WRONG_RESULT = 1
WRONG_USAGE = 2
OPENCL_FAILURE = 3
UNSUPPORTED = 77
INTERRUPTED = 130
STOPPED = 143

# Of the status of a record.
EXIT_STATUS = {"passed": PASSED, "built": PASSED, "failed": WRONG_RESULT,
               "unsupported": UNSUPPORTED, "error": OPENCL_FAILURE}
# Of several exit statuses the one that counts most, which comes last here, is given.
_SEVERITY = (PASSED, UNSUPPORTED, WRONG_USAGE, OPENCL_FAILURE, WRONG_RESULT, STOPPED, INTERRUPTED)


def worst(statuses):
    """Return the exit status that counts most; PASSED where there is none."""
    return max(statuses, key=_SEVERITY.index, default=PASSED)


@contextmanager
def importing():
    """Import in the block what this machine may lack; leave the program in one line if it does."""
    # pytools, a part of pyopencl, would recommend a package for something the samples do not use.
    warnings.filterwarnings("ignore", "Unable to import recommended hash")
    try:
        yield
    except ImportError as missing:
        why = str(missing).strip().splitlines()[-1]  # numpy says much more
        print(f"run.py: error: {why}: see docs/boards.md, What a board needs", file=sys.stderr)
        sys.exit(OPENCL_FAILURE)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


class SampleError(Exception):
    """A reason to stop that a person can act on: the message says what is wrong and what to do."""

    exit_status = OPENCL_FAILURE
    record_status = "error"


class UsageError(SampleError):
    """The command line asks for something that cannot be."""

    exit_status = WRONG_USAGE


class OpenCLFailure(SampleError):
    """OpenCL, or the driver behind it, failed."""


class Unsupported(SampleError):
    """This device lacks what the sample must have."""

    exit_status = UNSUPPORTED
    record_status = "unsupported"
