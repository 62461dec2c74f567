"""Run gemm_intel with several tiles and work-groups on every CPU runtime here; print a table.

python benchmarks/intel_tiles.py                    order 1920, GFLOPS as medians
python benchmarks/intel_tiles.py --size 3840 --rounds 5

The runtimes and the choices take turns, so that a slow minute of the machine hits all alike. It
starts the sample as a program and reads its records.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from common import device, icd, record
from common.timing import figures

# kernel, tile M, group M, tile N, group N, tile K
CHOICES = (
    ("nn", 1, 16, 128, 1, 8),
    ("nn", 1, 16, 32, 1, 8),
    ("nn", 1, 16, 16, 1, 16),
    ("nn", 1, 1, 128, 1, 8),
    ("nn", 16, 1, 16, 1, 4),
    ("nn", 16, 1, 8, 1, 8),
    ("nt", 1, 16, 128, 1, 1),
    ("nt", 1, 16, 16, 1, 1),
    ("nt", 16, 1, 16, 1, 1),
)
RUNTIMES = {"PoCL": "Portable Computing Language", "Intel": icd.PLATFORM}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1920, help="order (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default %(default)s)")
    args = parser.parse_args()
    there = {platform.name.strip() for platform in device.platforms()}
    runtimes = {short: name for short, name in RUNTIMES.items() if name in there}
    for short in RUNTIMES.keys() - runtimes.keys():
        print(f"{short} is not installed here", file=sys.stderr)

    rates = {(choice, short): [] for choice in CHOICES for short in runtimes}
    for _ in range(args.rounds):
        for choice, short in rates:
            rates[choice, short].append(gflops(args.size, choice, runtimes[short]))

    head = ["kernel", "tile M", "group M", "tile N", "group N", "tile K", *runtimes]
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for choice in CHOICES:
        measured = [figures(median(rates[choice, short])) for short in runtimes]
        cells = [*map(str, choice[:-1]), "" if choice[0] == "nt" else str(choice[-1]), *measured]
        print("| " + " | ".join(cells) + " |")


def gflops(size, choice, platform):
    """Return the rate of one checked run of the sample. Ends the program where that fails."""
    kernel, *numbers = choice
    names = ("size-M", "group-M", "size-N", "group-N", "size-K")
    tiles = [f"--tile-{name}={n}" for name, n in zip(names, numbers)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "records.jsonl")
        command = [sys.executable, "samples/gemm_intel/run.py", "-p", platform, "-s", str(size)]
        command += ["--kernel", kernel, *tiles, "--validation", "-i", "2", "--json", str(path)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stdout + done.stderr)
        return record.read(path)[0].metrics["gflops"]


if __name__ == "__main__":
    main()
