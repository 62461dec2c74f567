"""Tools for every sample. Each starts a sample as a program, and reads its records.

python -m tools tune SAMPLE      search for parameters of a kernel for a GPU that you do not have
python -m tools keep FILE...     store the fastest parameters in records for the measured sizes
python -m tools replay FILE:LINE repeat the run of a record, and compare
python -m tools inspect SAMPLE   show each kernel's registers and instructions
python -m tools check SAMPLE     look for data races and out-of-bounds accesses, with Oclgrind

Each has a --help of its own. Options after -- are passed to the sample.
"""

import importlib
import sys

from common import stopping

if __name__ == "__main__":
    stopping.end_at_once("tools: error: stopped")  # before all that takes long to import

from common import programs
from common.errors import PASSED, UsageError

COMMANDS = ("tune", "keep", "replay", "inspect", "check")


def main(argv):
    """Run the tool that comes first among the arguments; return the exit status."""
    if argv[:1] in ([], ["-h"], ["--help"]):
        print(__doc__.strip())
        return PASSED
    name = argv[0]
    if name not in COMMANDS:
        raise UsageError(f"'{name}' is not a tool: choose from {', '.join(COMMANDS)}")
    tool = importlib.import_module(f"tools.{name}")
    stopping.stop_in_order("tools: error: stopped")
    return tool.main(argv[1:])


def run(argv):
    """Run main(); whatever stops it becomes one line and an exit status."""
    return programs.run("tools", main, argv)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
