"""Tables of plain text."""


def lines(head, rows):
    """Return the lines of a table; the first column goes left, the others right."""
    every = [list(map(str, row)) for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*every)]
    found = []
    for row in every:
        cells = [text.rjust(width) for text, width in zip(row[1:], widths[1:])]
        found.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    return found
