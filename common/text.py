"""Text for the terminal: safe texts from boards and records, names of signals, rates."""

import os
import signal
import sys
from contextlib import suppress

MOST = 1000  # characters of an error: an argument may have a hundred thousand


def printable(text):
    """Return a line without what could steer a terminal, or show other than what is there."""
    return "".join(c if c.isprintable() or c == "\t" else "?" for c in text)


def one_line(error):
    """Return an error, or any text, as one printable line of a length that can be read."""
    text = printable(" ".join(str(error).split()))
    half = MOST // 2
    return text if len(text) <= MOST else f"{text[:half]} ... {text[-half:]}"


def open_streams():
    """Make stdout and stderr such that whatever is printed can be: a stream that whoever started
    this has closed goes nowhere, and what an encoding lacks is shown as its number."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # else the next file that is opened takes its place
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: SIM115
        elif name != "stdin" and hasattr(getattr(sys, name), "reconfigure"):
            getattr(sys, name).reconfigure(errors="backslashreplace")


def is_closed(path):
    """Tell whether a path leads to a stream that open_streams() found closed: /dev/stdout."""
    names = {getattr(stream, "name", None) for stream in (sys.stdout, sys.stderr)}
    nowhere = os.path.realpath(os.devnull)
    return (os.devnull in names and str(path) != os.devnull
            and os.path.realpath(path) == nowhere)


def show_log(error):
    """Print the compiler's log of an error, if it has one."""
    if log := getattr(error, "log", None):
        print("\n".join(map(printable, log.splitlines())), flush=True)


def complain(line):
    """Print a line on stderr. Where it cannot be written, the exit status says the rest."""
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        discard(sys.stderr)


def discard(stream):
    """Let all that is still to be printed on a stream go nowhere."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def signal_name(number):
    """Return the name of a signal: SIGSEGV."""
    return next((each.name for each in signal.Signals if each == number), f"signal {number}")


def listed(names):
    """Return the names as a text: `a, b and c`."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def figures(value):
    """Return a rate as text: four figures, and never an exponent for a large one."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"


def milliseconds(seconds):
    """Return a time as text."""
    return f"{figures(seconds * 1e3)} ms"


def size_text(count):
    """Return a number of bytes as a person reads it: 32 KiB, 5.9 GiB."""
    units = iter(("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"))
    unit = next(units)
    while count >= 1024 and unit != "EiB":
        count, unit = count / 1024, next(units)
    return f"{count:.3g} {unit}" if count < 1000 else f"{count:.0f} {unit}"
