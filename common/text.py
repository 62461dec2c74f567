"""Text that is not all ours: what boards and records say."""


def printable(text):
    """Return a line without what could steer a terminal, or show other than what is there."""
    return "".join(c if c.isprintable() or c == "\t" else "?" for c in text)
