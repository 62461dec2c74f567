"""Text for a person: what boards and records say, names of signals, and rates."""

import signal


def printable(text):
    """Return a line without what could steer a terminal, or show other than what is there."""
    return "".join(c if c.isprintable() or c == "\t" else "?" for c in text)


def signal_name(number):
    """Return the name of a signal: SIGSEGV."""
    return next((each.name for each in signal.Signals if each == number), f"signal {number}")


def figures(value):
    """Return a rate as text: four figures, and never an exponent for a large one."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.4g}"
