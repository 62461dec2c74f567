"""Measure the report of a large sweep: its page, the export, the page of the export, the browser.

python -m dev.load                200,000 records of 2.5 KB, each a separate point
python -m dev.load --no-browser   the files only, without Chromium

The records are copies of a real one with other parameters and times, drawn from a seed, as from a
sweep over kernels, orders, local sizes and clocks. Exit status 1: a limit is exceeded. Times are
processor times, on which other programs have little influence.
"""

import itertools
import json
import random
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from common import programs, record
from common.arguments import Parser, count
from common.errors import PASSED, WRONG_RESULT, OpenCLFailure
from dev import usage
from dev.browser import browser, open_page

ROOT = Path(__file__).resolve().parents[1]
REAL = ROOT / "results" / "reference" / "pocl-mygemm.jsonl"

# A page may take this much, and this much more for each 1000 records: with 200,000 of them it may
# take 40 s of the processor and 1000 MiB of memory.
SECONDS, SECONDS_MORE = 8, 0.16
MEMORY, MEMORY_MORE = 200, 4
MOST_BYTES, MOST_PAINT = 40e6, 2  # of the page, seconds until something is to be seen
KERNELS = [f"gemm_{way}_{tile}" for way in ("nn", "nt") for tile in ("1x1", "4x1", "4x2", "8x4")]
ORDERS = (64, 96, 128, 192, 256, 384, 512, 640, 768, 896, 1024)
LOCALS = [f"{x}x{y}" for x in (1, 2, 4, 8, 16, 32) for y in (1, 2, 4, 8)]
CLOCKS = (177, 266, 350, 420, 480, 543, 600)


def main(argv):
    parser = Parser("dev.load", __doc__, None)
    parser.add_argument("--records", type=count(1), default=200_000)
    parser.add_argument("--no-browser", action="store_true", help="do not open the page")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        return measure(Path(folder), args)


def measure(folder, args):
    """Make all there is to make in a folder; return the exit status."""
    run, packed, page = folder / "board" / "run", folder / "run.zip", folder / "report.html"
    size = write_run(run, args.records)
    print(f"records   {args.records}, {size / 1e6:.0f} MB, {size / args.records:.0f} bytes each")
    good = [
        report("page", args.records, run, "--output", page),
        report("export", args.records, run, "--export", packed),
        report("archive", args.records, packed, "--output", page),
    ]
    size = page.stat().st_size
    print(f"page      {size / 1e6:.1f} MB (at most {MOST_BYTES / 1e6:.0f})")
    good.append(size <= MOST_BYTES)
    if not args.no_browser:
        good.append(look(page) <= MOST_PAINT)
    return PASSED if all(good) else WRONG_RESULT


def write_run(folder, count):
    """Write a run with `count` records; return their bytes."""
    base = folder / "sweep" / "all"
    base.parent.mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_text('{"run": "made up", "cases": [], "deployed": {}}')
    (folder / "ended.json").write_text('{"stopped": false}')
    outcome = {"sample": "sweep", "case": "all", "argv": ["samples/sweep/run.py"], "clock": 0.0,
               "started": 1.7e9, "seconds": 1e5, "exit_status": 0, "reason": None}
    base.with_suffix(".outcome.json").write_text(json.dumps(outcome))
    with open(base.with_suffix(".jsonl"), "w", encoding="utf-8") as file:
        file.writelines(item.to_line() + "\n" for item in records(count))
    return base.with_suffix(".jsonl").stat().st_size


def records(count):
    """Yield `count` Records, each of a point of its own."""
    real, draw = record.read(REAL)[0], random.Random(1)
    device = {**real.device, "extensions": real.device["extensions"][:4]}
    points = itertools.cycle(itertools.product(CLOCKS, LOCALS, ORDERS, KERNELS))
    for number, (clock, local, order, kernel) in zip(range(count), points):
        words = {"kernel": kernel, "size": str(order), "local": local, "seed": number}
        argv = ["samples/sweep/run.py"]
        for name, value in words.items():
            argv += [f"--{name}", str(value)]
        flop, rate = 2e-9 * order**3, draw.uniform(1, 60) * clock / 600
        times = [flop / rate * draw.lognormvariate(0, 0.03) for _ in range(5)]
        state = {"clocks_hz": {"gpu": clock * 1e6}, "power_w": {"gpu": draw.uniform(1, 2)},
                 "temperatures_c": {"cpu": draw.uniform(50, 60), "gpu": draw.uniform(60, 80)}}
        yield replace(
            real, sample="sweep", variant=kernel, argv=argv, device=device, params=words,
            environment={**real.environment, "before": state, "during": [state], "after": state},
            timing={"run_s": times, "host_s": times, "warmup": 1},
            metrics={"gflops": rate, "peak_gflops": real.metrics["peak_gflops"]},
            check={**real.check, "output_sha256": f"{draw.getrandbits(256):064x}"},
        )


def report(what, count, *args):
    """Call `python -m report` on `count` records, say what it took; return whether that is fine."""
    most_seconds = SECONDS + SECONDS_MORE * count / 1000
    most_memory = MEMORY + MEMORY_MORE * count / 1000
    used = usage.run([sys.executable, ROOT / "report", *args], stdout=subprocess.DEVNULL)
    if used.status:
        raise OpenCLFailure(f"report ended with status {used.status}")
    memory = used.peak / 1024
    print(
        f"{what:<9} {used.processor:.1f} s of the processor (at most {most_seconds:.1f}), "
        f"{used.seconds:.1f} s in all, {memory:.0f} MiB of memory (at most {most_memory:.0f})"
    )
    return used.processor <= most_seconds and memory <= most_memory


def look(page):
    """Open the page, filter and sort; return the seconds until something was to be seen."""
    with browser() as driver:
        ready, paint = open_page(driver, page), driver.execute_script(_PAINT)
        print(f"paint     {paint / 1e3:.2f} s until the first (at most {MOST_PAINT})")
        print(f"table     {ready / 1e3:.2f} s until it can be used")
        for what, script in (("filter", _FILTER), ("again", _FILTER), ("sort", _SORT)):
            print(f"{what:<9} {driver.execute_script(_TIMED % script) / 1e3:.2f} s")
    return paint / 1e3


_PAINT = "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
_TIMED = "const start = performance.now(); %s; return performance.now() - start;"
_FILTER = """
const field = document.getElementById("filter");
field.value = "4x2 size=512 gflops>10";
field.dispatchEvent(new Event("input"));
"""
_SORT = "document.querySelector('th[data-name=gflops] button').click()"

if __name__ == "__main__":
    sys.exit(programs.run("dev.load", main, sys.argv[1:]))
