"""python -m dev.emulate start [BOARD], or stop: what `make board` does.

run BOARD -- COMMAND... runs a command there, in this folder, without ssh.
"""

import os
import sys
from functools import partial
from pathlib import Path

from common import programs
from common.arguments import Parser
from common.errors import PASSED, UsageError
from dev.emulate.board import STATE, Emulated
from dev.emulate.root import BOARDS


def main(argv):
    """Do what the command line says; return the exit status."""
    parser = Parser("python -m dev.emulate", __doc__, None)
    parser.add_argument("do", choices=("start", "stop", "run"))
    what = f"one of {', '.join(BOARDS)} (start: arm64; stop: all)"
    parser.add_argument("board", nargs="?", help=what)
    parser.add_argument("command", nargs="*", help="run: a command and its arguments, after --")
    parser.add_argument("--state", type=Path, default=STATE, help="(%(default)s)")
    args = parser.parse_args(argv)
    if (args.do == "run") != bool(args.command):
        raise UsageError("give a command to run, as in: run mali-g52 -- uname -m")
    if args.board and args.board not in BOARDS:
        raise UsageError(f"{args.board}: no such board: choose from {', '.join(BOARDS)}")
    board = Emulated(args.board or "arm64", args.state)
    if args.do == "run":
        return board.run(args.command, partial(print, file=sys.stderr))
    if args.do == "start":
        _start(board)
    else:
        _stop([board] if args.board else [Emulated(name, args.state) for name in BOARDS])
    return PASSED


def _start(board):
    say = partial(print, flush=True)
    board.start(say)
    say(f"    fab doctor --host {board.alias}")
    say(f"    ssh -F {os.path.relpath(board.ssh_config)} {board.alias}")


def _stop(boards):
    running = [board.alias for board in boards if board.stop()]
    print(f"stopped {', '.join(running)}" if running else "no emulated board is running here")


if __name__ == "__main__":
    sys.exit(programs.run("emulate", main, sys.argv[1:]))
