"""The options of gemmbench: the original's, and the suite's."""

import argparse
from pathlib import Path

from common import cli, gemm
from common.machine.sysfs import SYSFS

KERNELS = Path(__file__).with_name("kernels")


def local_size(text):
    """Return the local size that `text` names, (columns, rows), None for 0,0: an argparse type."""
    parts = text.lower().replace("x", ",").split(",")
    if len(parts) == 2 and all(part.isascii() and part.isdigit() for part in parts):
        sides = tuple(map(int, parts))
        if all(sides) or not any(sides):
            return sides if all(sides) else None
    message = f"'{text}' is not a local size: give columns,rows such as 8,8, or 0,0 for any"
    raise argparse.ArgumentTypeError(message)


def positive(text):
    """Return the positive number that `text` names: an argparse type."""
    value = cli.number(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a number above 0")
    return value


def frequency(text):
    """Return `max`, or the frequency as a text in MHz: an argparse type."""
    return "max" if text == "max" else f"{positive(text):g}"


def hertz(text):
    """Return the frequency that frequency() returned in hertz, None for `max`."""
    return None if text == "max" else float(text) * 1e6


def folder(text):
    """Return the path of a folder that is there: an argparse type."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"'{text}' is not a folder")
    return Path(text)


def add_sysfs(parser):
    """Add the option that names the folder of the machine's state."""
    parser.add_argument("--sysfs", type=folder, metavar="DIR", default=SYSFS,
                        help="to use in place of /sys")  # fmt: skip


def listed(each):
    """Return the argparse type of a list with commas, whose items are of the type `each`."""

    def parse(text):
        return [each(item) for item in text.split(",")]

    return parse


def add_shared(parser):
    """Add the options that say how each point is run."""
    add = parser.add_argument
    add("--kernels", type=Path, metavar="DIR", default=KERNELS,
        help="folder of the kernels (default: the one beside run.py)")  # fmt: skip
    add("--data", choices=["drawn", "integer"], default="drawn", help="integer: exact results")
    add("-eps", "--eps", type=positive, metavar="E",
        help="largest error of any element; without it each has a bound of its own")  # fmt: skip
    add("--energy", action="store_true", help="measure the energy of a launch as well")
    add("--no-fence", action="store_true", help="no second process that looks for stray accesses")
    add_sysfs(parser)
    parser.set_defaults(seed=12345, repeat=4)


def of_a_point(description, commands):
    """Return the parser of a single point, whose first argument may be one of `commands`."""
    parser = cli.parser("gemmbench", description)
    add = parser.add_argument
    add("command", nargs="?", metavar="COMMAND", help=f"first of all: {', '.join(commands)}")
    add(
        "-f",
        "--file",
        metavar="NAME",
        default="SGEMM_NN_1x1.json",
        help="kernel's metadata, or several: A,B or 'SGEMM_*' or all (default %(default)s)",
    )
    add("-n", "--size", type=gemm.parse_size, default="256", metavar="N",
        help="order, or MxNxK for kernels that take it (default %(default)s)")  # fmt: skip
    add("-lws", "--local-size", dest="lws", type=local_size, metavar="J,I",
        help="columns,rows of a work-group (default 0,0: the driver chooses)")  # fmt: skip
    add(
        "--pin",
        nargs="?",
        const="max",
        type=frequency,
        metavar="MHZ",
        help="hold all clocks at their maximum, the device's at MHZ if given; restored at the end",
    )
    add_shared(parser)
    return parser
