"""Run a program: whatever stops it becomes one line and an exit status."""

import os
import sys
import traceback
from contextlib import suppress

from common.errors import INTERRUPTED, OPENCL_FAILURE, PASSED, WRONG_USAGE, SampleError
from common.text import one_line, open_streams


def run(name, main, argv, stopped=None):
    """Call main(argv), a program of the host; return its exit status, or that of what stopped it.

    The line begins with the program's name. `stopped` is what it says after Ctrl-C or SIGTERM.
    --debug among the arguments shows where an error arose.
    """
    open_streams()
    try:
        status = main(argv)
        sys.stdout.flush()
        return status or PASSED
    except (Exception, KeyboardInterrupt) as error:
        status, why = explained(error)
        if isinstance(error, ImportError):
            why = f"{one_line(error)}: `make run` installs what it needs"
        elif isinstance(error, KeyboardInterrupt):
            why = stopped or why
        if "--debug" in argv:
            traceback.print_exc()
        if not isinstance(error, BrokenPipeError):  # nobody reads on
            print(f"{name}: error: {why}", file=sys.stderr, flush=True)
        return status


def explained(error):
    """Return the exit status of what stopped a program, and why in one line.

    Where stdout cannot be written, all that is still to be printed goes nowhere.
    """
    why = one_line(error)
    if isinstance(error, SampleError):
        return error.exit_status, why
    if isinstance(error, KeyboardInterrupt):
        status = getattr(error, "exit_status", INTERRUPTED)
        return status, "interrupted" if status == INTERRUPTED else "stopped"
    if isinstance(error, MemoryError):
        return OPENCL_FAILURE, f"not enough memory: {why}" if why else "not enough memory"
    if isinstance(error, OSError):
        if error.filename:
            return WRONG_USAGE, one_line(f"{error.filename}: {error.strerror}")
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return WRONG_USAGE, f"cannot write the output: {error.strerror}"
    return OPENCL_FAILURE, f"unforeseen {type(error).__name__}: {why} (--debug shows where)"
