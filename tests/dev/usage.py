"""What a program takes: its exit status, its time, and its memory at most.

Linux counts to a process the memory of the one that forked it, even after the fork has become
another program. So the program is started by this file, run as a small process of its own: what is
measured is the program's, however large the process is that asks for it.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass


@dataclass
class Usage:
    """How a program ended: its exit status (-N where signal N ended it), the seconds it lasted,
    those of the processor, and the KiB of memory that it or a child of it had at most.

    A peak below some 15 MiB, that of the small process, is not seen.
    """

    status: int
    seconds: float
    processor: float
    peak: int


def run(command, **options):
    """Run a command until it ends and return its Usage; `options` are those of subprocess.run.

    Where the wait is broken off, by Ctrl-C or a time limit, the program is killed.
    """
    with tempfile.NamedTemporaryFile() as answer:
        small = [sys.executable, "-I", "-S", __file__, answer.name]
        subprocess.run([*small, "setpriv", "--pdeathsig", "KILL", *command], check=True, **options)
        return Usage(*json.load(answer))


def _measure(answer, command):
    """Be the small process: run the command, and write its Usage into the file `answer`."""
    start = time.monotonic()
    _, status, used = os.wait4(os.posix_spawnp(command[0], command, os.environ), 0)
    seconds, processor = time.monotonic() - start, used.ru_utime + used.ru_stime
    with open(answer, "w", encoding="utf-8") as file:
        json.dump([os.waitstatus_to_exitcode(status), seconds, processor, used.ru_maxrss], file)


if __name__ == "__main__":
    _measure(sys.argv[1], sys.argv[2:])
