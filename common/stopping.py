"""Ctrl-C and SIGTERM, for programs of the host: one line, and 128 + the signal as exit status.

A main thread that waits for others does so by wait(), else it may see a signal late.
"""

import os
import signal

NUMBERS = (signal.SIGINT, signal.SIGTERM)
SLICE = 0.2  # seconds: the longest that a main thread waits for others in one call, see wait()


class Stopped(KeyboardInterrupt):
    """The user stopped the program; `exit_status` is what it ends with."""

    def __init__(self, number):
        super().__init__()
        self.exit_status = 128 + number


def end_at_once(line, numbers=NUMBERS):
    """Let a signal print this line and end the process on the spot: nothing is half done.

    An exception would not do while modules are imported: some of them take it for another error.
    """

    def end(number, _):
        try:
            if os.isatty(1) and os.environ.get("TERM", "dumb") != "dumb":
                os.write(1, b"\x1b[?25h")  # a progress display hides the cursor
            os.write(2, f"{line}\n".encode(errors="replace"))
        finally:  # also where nobody reads it
            os._exit(128 + number)

    for number in numbers:
        signal.signal(number, end)


def stop_in_order(line, closed=True):
    """Let a signal raise Stopped, and then Ctrl-C end the process at once, with this line.

    `timeout` sends SIGTERM twice: the second must not end the cleaning up. If `closed`, a terminal
    that is closed counts as SIGTERM; else it ends the process.
    """

    def stop(number, _):
        signal.signal(signal.SIGTERM, lambda *_: None)  # not SIG_IGN, which children inherit
        end_at_once(line, [signal.SIGINT])
        raise Stopped(number)

    for number in NUMBERS:
        signal.signal(number, stop)
    if closed and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))


def wait(waits):
    """Call waits(SLICE), which waits for at most that many seconds, until it returns True.

    Python calls a signal's handler between two instructions, in the main thread. For a signal that
    comes right before a call that blocks, or to another thread, that is when the call has returned.
    """
    while not waits(SLICE):
        pass
