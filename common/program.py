"""Build a .cl file. A failed build shows the compiler's log with the source lines it names."""

import os
import re
import sys
import warnings
from contextlib import contextmanager

import pyopencl as cl

from common.errors import OpenCLFailure

# clang's `file:3:12: error: text`, as most drivers print it, or PoCL's `error: file:3:12: text`.
_PLACE = re.compile(r"(?:^|:)(\d+):\d+:\s+(?:fatal )?(?:error:\s*)?(.*)")


def build(context, path, defines=None, options=()):
    """Return the program of the file `path`, built with -D for each of `defines`.

    Raises OpenCLFailure, whose `log` is the compiler's log with the lines of source it names.
    """
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as error:
        raise OpenCLFailure(f"cannot read the kernel {path.name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise OpenCLFailure(f"the kernel {path.name} is not UTF-8 text: {error.reason}") from error
    # pyopencl's own cl.Program adds -I, which some Mali compilers refuse, and keeps binaries, which
    # some drivers crash on when they load them again. What it wraps does neither.
    program = cl._cl._Program(context, source)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cl.CompilerWarning)  # remarks, e.g. of an unused argument
        try:
            with _quiet_driver():
                all_flags = " ".join([*flags(defines or {}), *options])
                program.build(all_flags.encode(), context.devices)
        except cl.RuntimeError as error:
            if error.code != cl.status_code.BUILD_PROGRAM_FAILURE:
                raise
            failure = OpenCLFailure(f"{path.name} does not build: {_first_error(str(error))}")
            failure.log = _with_source(str(error), source)
            raise failure from error
    return cl.Program(program)


def flags(defines):
    """Return the build options that define each of `defines`."""
    return [f"-D{name}={value}" for name, value in defines.items()]


def _first_error(log):
    for line in log.splitlines():
        if place := _error_place(line):
            return f"line {place[1]}: {place[2]}"
    for line in log.splitlines():
        if line.lower().startswith("error: "):  # of the compiler itself
            return f"{line[7:]} (see docs/boards.md, Troubles)"
    return "the compiler's log, above, names no line"


def _error_place(line):
    return _PLACE.search(line) if "error" in line.lower() else None


@contextmanager
def _quiet_driver():
    """Keep what a driver itself writes to stderr away: the log that it returns says it again."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _with_source(log, source):
    lines = source.splitlines()
    shown = []
    for line in log.splitlines():
        shown.append(line)
        place = _error_place(line)
        if place and int(place[1]) <= len(lines):
            named = lines[int(place[1]) - 1]
            if named.strip() not in log:  # some compilers show it themselves
                shown.append(f"{int(place[1]):5} | {named}")
    return "\n".join(shown)
