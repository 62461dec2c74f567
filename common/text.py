"""Text for a person: what boards and records say, and the names of signals."""

import signal


def printable(text):
    """Return a line without what could steer a terminal, or show other than what is there."""
    return "".join(c if c.isprintable() or c == "\t" else "?" for c in text)


def signal_name(number):
    """Return the name of a signal: SIGSEGV."""
    return next((each.name for each in signal.Signals if each == number), f"signal {number}")
