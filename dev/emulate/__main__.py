"""python -m dev.emulate start [BOARD], or stop: what `make board` does.

run BOARD -- COMMAND... runs a command there, in this folder, without ssh.
"""

import argparse
import os
import sys
from pathlib import Path

from common.errors import INTERRUPTED, OPENCL_FAILURE, WRONG_USAGE, UsageError
from deploy.errors import BoardError
from dev.emulate.board import STATE, Emulated
from dev.emulate.root import BOARDS


def main():
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m dev.emulate", description=__doc__)
    parser.add_argument("do", choices=("start", "stop", "run"))
    what = f"one of {', '.join(BOARDS)} (start: arm64; stop: all)"
    parser.add_argument("board", nargs="?", help=what)
    parser.add_argument("command", nargs="*", help="run: a command and its arguments, after --")
    parser.add_argument("--state", type=Path, default=STATE, help="(%(default)s)")
    args = parser.parse_args()
    if (args.do == "run") != bool(args.command):
        parser.error("give a command to run, as in: run mali-g52 -- uname -m")
    if args.board and args.board not in BOARDS:
        have = ", ".join(BOARDS)
        return _complain(f"{args.board}: no such board: choose from {have}", WRONG_USAGE)
    board = Emulated(args.board or "arm64", args.state)
    try:
        if args.do == "start":
            _start(board)
        elif args.do == "run":
            board.run(args.command, _note)
        else:
            _stop([board] if args.board else [Emulated(name, args.state) for name in BOARDS])
    except UsageError as error:
        return _complain(error, WRONG_USAGE)
    except (BoardError, OSError) as error:
        return _complain(error, OPENCL_FAILURE)
    except KeyboardInterrupt:
        return _complain("stopped", INTERRUPTED)
    return 0


def _start(board):
    board.start(_say)
    _say(f"    fab doctor --host {board.alias}")
    _say(f"    ssh -F {os.path.relpath(board.ssh_config)} {board.alias}")


def _stop(boards):
    running = [board.alias for board in boards if board.stop()]
    _say(f"stopped {', '.join(running)}" if running else "no emulated board is running here")


def _say(text):
    print(text, flush=True)


def _note(text):
    print(text, file=sys.stderr)


def _complain(error, status):
    print(f"emulate: error: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
