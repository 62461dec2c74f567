"""python -m dev.emulate start [arm64|armhf], or stop: what `make board` does."""

import argparse
import os
import sys
from pathlib import Path

from common.errors import INTERRUPTED, OPENCL_FAILURE, WRONG_USAGE, UsageError
from deploy.errors import BoardError
from dev.emulate.board import STATE, Emulated
from dev.emulate.root import ARCHES


def main():
    """Do what the command line says; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m dev.emulate", description=__doc__)
    parser.add_argument("do", choices=("start", "stop"))
    parser.add_argument("arch", nargs="?", choices=ARCHES, help="(start: arm64; stop: all)")
    parser.add_argument("--state", type=Path, default=STATE, help="(%(default)s)")
    args = parser.parse_args()
    try:
        if args.do == "start":
            _start(Emulated(args.arch or "arm64", args.state))
        else:
            _stop([Emulated(arch, args.state) for arch in ([args.arch] if args.arch else ARCHES)])
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


def _complain(error, status):
    print(f"emulate: error: {error}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
