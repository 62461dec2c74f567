"""GEMM kernels as data, measured so that nobody is left wondering.

python samples/gemmbench/run.py                                  a single point, as the original
python samples/gemmbench/run.py -f SGEMM_NT_4x1.json -n 512 -lws 8,8
python samples/gemmbench/run.py --kernels DIR -f NAME.json       a kernel written elsewhere

COMMAND is one of the following; each has a --help of its own:
  explore   run kernels x orders x local sizes x frequencies into a journal
  replay    run a recorded point again: does it agree?
  check     look for races and accesses out of bounds, under Oclgrind
  paper     why the validation failed in the GEMMbench paper
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

try:
    import check
    import explore
    import options
    import paper
    import point
    import replay

    from common import cli
    from common.errors import UsageError
except ImportError as missing:
    why = str(missing).strip().splitlines()[-1]  # numpy says much more
    print(f"run.py: error: {why}: see docs/boards.md, What a board needs", file=sys.stderr)
    sys.exit(3)
except KeyboardInterrupt:
    sys.exit(130)

COMMANDS = {"explore": explore, "replay": replay, "check": check, "paper": paper}


def start(argv):
    """Run the subcommand that comes first among the arguments, or else a single point."""
    if argv and argv[0] in COMMANDS:
        command = COMMANDS[argv[0]]
        parser = command.parser()
        parser.prog += f" {argv[0]}"
        cli.run(command.main, parser, argv[1:])
    cli.run(single_point, options.of_a_point(__doc__, COMMANDS))


def single_point(args):
    """Run a single point; raises UsageError for a word that is no subcommand in its place."""
    if args.command in COMMANDS:
        raise UsageError(f"{args.command} must come first: run.py {args.command} ...")
    if args.command is not None:
        have = ", ".join(COMMANDS)
        raise UsageError(f"'{args.command}' is no subcommand, there is {have}; -f names a kernel")
    return point.main(args)


if __name__ == "__main__":
    start(sys.argv[1:])
