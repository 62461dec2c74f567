"""python -m dev.emulate start [BOARD], or stop: what `make board` does.

run BOARD -- COMMAND... runs a command there, in this folder, without ssh.
"""

import os
import signal
import sys

from common import stopping

if __name__ == "__main__":  # before all that takes long to import
    stopping.end_at_once("emulate: error: interrupted", [signal.SIGINT])

from functools import partial

from common import programs
from common.arguments import Parser, a_path
from common.errors import PASSED, UsageError
from dev.emulate.board import STATE, Emulated
from dev.emulate.root import BOARDS


def main(argv):
    """Do what the command line says; return the exit status."""
    parser = Parser("python -m dev.emulate", __doc__, None)
    parser.add_argument("do", choices=("start", "stop", "run"))
    parser.add_argument("board", nargs="?", choices=BOARDS, help="(start: arm64; stop: all)")
    parser.add_argument("command", nargs="*", help="run: a command and its arguments, after --")
    parser.add_argument("--state", type=a_path, default=STATE, help="(%(default)s)")
    args = parser.parse_args(argv)
    if (args.do == "run") != bool(args.command):
        raise UsageError("give a command to run, as in: run mali-g52 -- uname -m")
    board = Emulated(args.board or "arm64", args.state)
    if args.do == "run":
        return board.run(args.command, partial(print, file=sys.stderr))
    if args.do == "start":
        board.start(partial(print, flush=True))
        print(f"    fab doctor --host {board.alias}")
        print(f"    ssh -F {os.path.relpath(board.ssh_config)} {board.alias}")
        return PASSED
    every = [board] if args.board else [Emulated(name, args.state) for name in BOARDS]
    stopped = [each.alias for each in every if each.stop()]
    print(f"stopped {', '.join(stopped)}" if stopped else "no emulated board is running here")
    return PASSED


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(programs.run("emulate", main, sys.argv[1:]))
