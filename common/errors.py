"""What ends a sample early. Each has an exit status; cli.py turns it into one line on stderr."""

PASSED = 0
WRONG_RESULT = 1
WRONG_USAGE = 2
OPENCL_FAILURE = 3
UNSUPPORTED = 77
INTERRUPTED = 130


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
