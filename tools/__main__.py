"""Tools for every sample. Each starts a sample as a program, and reads its records.

python -m tools tune SAMPLE      search for parameters of a kernel for a GPU that is not here
python -m tools replay FILE:LINE repeat the run of a record, and compare
python -m tools inspect SAMPLE   show each kernel's registers and instructions
python -m tools check SAMPLE     look for data races and out-of-bounds accesses, with Oclgrind

Each has a --help of its own. Options after -- are passed to the sample.
"""

import importlib
import os
import signal
import sys
import traceback

from common.errors import (
    INTERRUPTED,
    OPENCL_FAILURE,
    PASSED,
    STOPPED,
    WRONG_USAGE,
    SampleError,
    UsageError,
)
from common.text import one_line

COMMANDS = ("tune", "replay", "inspect", "check")


class _Stopped(BaseException):
    """SIGTERM or SIGHUP came."""


def main(argv):
    """Run the tool that comes first among the arguments; return the exit status."""
    if argv[:1] in ([], ["-h"], ["--help"]):
        print(__doc__.strip())
        return PASSED
    name = argv[0]
    if name == "sweep":
        raise UsageError("sweep is a task of fab now: fab sweep SAMPLE; see docs/experiments.md")
    if name not in COMMANDS:
        raise UsageError(f"'{name}' is not a tool: choose from {', '.join(COMMANDS)}")
    return importlib.import_module(f"tools.{name}").main(argv[1:])


def run(argv):
    """Run main(); whatever stops it becomes one line and an exit status."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup
            signal.signal(number, _stop)
    try:
        status = main(argv)
        sys.stdout.flush()
        return status
    except SampleError as error:
        return _fail(error.exit_status, str(error))
    except KeyboardInterrupt:
        return _fail(INTERRUPTED, "interrupted")
    except _Stopped:
        return _fail(STOPPED, "stopped")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # nobody reads on
        return WRONG_USAGE
    except Exception as error:
        if "--debug" in argv:
            traceback.print_exc()
        what = f"unforeseen {type(error).__name__}: {error} (--debug shows where)"
        return _fail(OPENCL_FAILURE, what)


def _stop(*_):
    raise _Stopped


def _fail(status, reason):
    print(f"tools: error: {one_line(reason)}", file=sys.stderr, flush=True)
    return status


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
