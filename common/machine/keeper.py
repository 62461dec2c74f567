"""Restore settings when the process that changed them ends. Started by common/machine/settings.py.

It reads one line, a JSON list of [path, text], says `ready`, and waits for the end of its input.
That end comes when its parent closes the pipe, and just the same when the parent is killed or
crashes. It has a session of its own and ignores the signals that end programs, so that it outlives
its parent. Needs the standard library only.
"""

import json
import os
import signal
import sys


def restore(steps):
    """Write each text into its file; return what could not be written, as texts.

    A file that holds the text already is not written: it may never have been changed.
    """
    failures = []
    for path, text in steps:
        try:
            with open(path, encoding="utf-8") as file:
                if file.read().strip() == text:
                    continue
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            failures.append(f"{path} ({error.strerror}; it held {text})")
    return failures


def main():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    parent = os.getppid()
    steps = json.loads(sys.stdin.readline())
    print("ready", flush=True)
    sys.stdin.read()
    failures = restore(steps)
    if failures and os.getppid() != parent:  # else the parent reports it
        print("cannot restore " + ", ".join(failures), file=sys.stderr)
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
