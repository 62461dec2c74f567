"""Run a program: whatever stops it becomes one line and an exit status."""

import errno
import sys
import traceback

from common.errors import INTERRUPTED, OPENCL_FAILURE, PASSED, WRONG_USAGE, SampleError
from common.text import complain, discard, one_line, open_streams

# What a stream says that cannot be written.
_UNWRITABLE = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


def run(name, main, argv):
    """Call main(argv), a program of the host; return its exit status, or that of what stopped it.

    The line begins with the program's name. --debug among the arguments shows where an error arose.
    """
    open_streams()
    try:
        status = main(argv)
        sys.stdout.flush()
        return status or PASSED
    except (Exception, KeyboardInterrupt) as error:
        status, why = explained(error)
        if "--debug" in argv:
            traceback.print_exc()
        if not isinstance(error, BrokenPipeError):  # nobody reads on
            complain(f"{name}: error: {why}")
        return status


def is_unwritable(error):
    """Tell whether an error says that stdout cannot be written: a full disk, or nobody reads."""
    return isinstance(error, OSError) and not error.filename and error.errno in _UNWRITABLE


def explained(error, debug="--debug"):
    """Return the exit status of what stopped a program, and why in one line.

    `debug` shows where it arose. Where stdout cannot be written, all that is still to be printed
    goes nowhere.
    """
    why = one_line(error)
    if isinstance(error, SampleError):
        return error.exit_status, why
    if isinstance(error, KeyboardInterrupt):
        status = getattr(error, "exit_status", INTERRUPTED)
        return status, "interrupted" if status == INTERRUPTED else "stopped"
    if isinstance(error, ImportError):
        return OPENCL_FAILURE, f"{why}: `make run` installs what it needs"
    if isinstance(error, MemoryError):
        return OPENCL_FAILURE, f"not enough memory: {why}" if why else "not enough memory"
    if isinstance(error, OSError) and error.filename:
        return WRONG_USAGE, one_line(f"{error.filename}: {error.strerror}")
    if is_unwritable(error):
        discard(sys.stdout)
        return WRONG_USAGE, f"cannot write the output: {error.strerror}"
    return OPENCL_FAILURE, f"unforeseen {type(error).__name__}: {why} ({debug} shows where)"
