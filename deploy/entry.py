"""The program fab. The set-up puts this text into the place of the script that pip makes.

Importing fabric takes a third of a second, in which that script ends in its own ways when it is
stopped. So this one listens first. It stands alone: the project is found when fabric looks for it.
"""

import os
import signal


def listen():
    """Let Ctrl-C and SIGTERM end the process with one line, until the fabfile takes over."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)


def _end(number, _):
    try:
        os.write(2, b"fab: error: stopped\n")
    finally:  # also where nobody reads it
        os._exit(128 + number)


def install(script):
    """Put this text into the place of a script of pip's, whose first lines say which Python."""
    with open(script, encoding="utf-8") as file:
        head = file.read().partition('"""')[0].partition("import ")[0]
    with open(__file__, encoding="utf-8") as ours, open(f"{script}.new", "w") as new:
        new.write(head + ours.read())
    os.chmod(f"{script}.new", os.stat(script).st_mode)
    os.replace(f"{script}.new", script)


if __name__ == "__main__":
    listen()
    import sys

    from fabric.main import program

    sys.exit(program.run())
