"""Run a program of the host: whatever stops it becomes one line and an exit status."""

import os
import sys
import traceback
from contextlib import suppress

from common.errors import INTERRUPTED, OPENCL_FAILURE, PASSED, WRONG_USAGE, SampleError
from common.text import one_line, open_streams


def run(name, main, argv, stopped=None):
    """Call main(argv); return its exit status, or that of what stopped it.

    The line begins with the program's name. `stopped` is what it says after Ctrl-C or SIGTERM.
    --debug among the arguments shows where an unforeseen error arose.
    """

    def fail(status, why):
        print(f"{name}: error: {one_line(why)}", file=sys.stderr, flush=True)
        return status

    open_streams()
    try:
        status = main(argv)
        sys.stdout.flush()
        return status or PASSED
    except SampleError as error:
        return fail(error.exit_status, error)
    except ImportError as missing:
        return fail(OPENCL_FAILURE, f"{missing}: `make run` installs what it needs")
    except KeyboardInterrupt as stop:
        status = getattr(stop, "exit_status", INTERRUPTED)
        return fail(status, stopped or ("interrupted" if status == INTERRUPTED else "stopped"))
    except MemoryError:
        return fail(OPENCL_FAILURE, "not enough memory")
    except OSError as error:
        if error.filename:
            return fail(WRONG_USAGE, f"{error.filename}: {error.strerror}")
        with suppress(OSError, ValueError):  # let all that is still to be printed go nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # nobody reads on
            return WRONG_USAGE
        return fail(WRONG_USAGE, f"cannot print: {error.strerror}")
    except Exception as error:
        if "--debug" in argv:
            traceback.print_exc()
        what = f"unforeseen {type(error).__name__}: {error} (--debug shows where)"
        return fail(OPENCL_FAILURE, what)
