"""Make the report of a big sweep, and open it in Chromium: how long, how large, how quick.

python -m dev.load                     100,000 records of 25,000 points
python -m dev.load --repeats 1         100,000 points
python -m dev.load --keep /tmp/sweep   keep the records and the page

The records are made up, from a seed: they are as many and as long as those of a sweep over kernels,
orders, local sizes and clocks, and say nothing about any device. Exit status 1: a limit is missed.
"""

import argparse
import itertools
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common.record import Record
from dev.browser import browser
from report.errors import WRONG_USAGE, ReportError

ROOT = Path(__file__).resolve().parents[1]

MOST_SECONDS, MOST_BYTES, MOST_PAINT = 15, 30e6, 2  # of what a page may take
DEVICE = {
    "platform": "made up", "platform_version": "OpenCL 1.2", "name": "made-up GPU", "type": "gpu",
    "vendor": "none", "version": "OpenCL 1.2", "driver": "1.0", "opencl_c": "OpenCL C 1.2",
    "profile": "FULL_PROFILE", "compute_units": 4,
    "extensions": [f"cl_khr_made_up_extension_{number}" for number in range(12)],
    "limits": {"max_work_group_size": 256, "max_work_item_sizes": [256, 256, 256],
               "local_mem_size": 32768, "max_mem_alloc_size": 2**30, "global_mem_size": 2**31},
    "preferred_vector_widths": dict.fromkeys(("char", "short", "int", "float", "half"), 4),
}  # fmt: skip
KERNELS = [f"gemm_{way}_{tile}" for way in ("nn", "nt") for tile in ("1x1", "4x1", "4x2", "8x4")]
ORDERS = (64, 96, 128, 192, 256, 384, 512, 640, 768, 896, 1024)
LOCALS = [(x, y) for x in (1, 2, 4, 8, 16, 32) for y in (1, 2, 4, 8)]
CLOCKS = (177, 266, 350, 420, 480, 543, 600)
UNROLLS = (1, 2, 4, 8)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=4, help="records of each point")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where to leave what is made")
    args = parser.parse_args()
    if args.records < 1 or args.repeats < 1:
        parser.error("--records and --repeats are at least 1")
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        sweep, page = folder / "sweep.jsonl", folder / "report.html"
        write_sweep(sweep, args.records, args.repeats)
        print(f"records   {args.records}, {sweep.stat().st_size / 1e6:.0f} MB")
        seconds = make(sweep, page)
        size = page.stat().st_size
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        print(
            f"generate  {seconds:.1f} s (at most {MOST_SECONDS}), of which the processor worked "
            f"{used.ru_utime + used.ru_stime:.1f} s; {used.ru_maxrss / 1024:.0f} MiB of memory"
        )
        print(f"page      {size / 1e6:.1f} MB (at most {MOST_BYTES / 1e6:.0f})")
        paint = look(page)
    return 1 if seconds > MOST_SECONDS or size > MOST_BYTES or paint > MOST_PAINT else 0


def write_sweep(path, count, repeats):
    """Write `count` records, of which each point has `repeats`."""
    draw = random.Random(1)
    points = itertools.cycle(itertools.product(CLOCKS, UNROLLS, LOCALS, ORDERS, KERNELS))
    with open(path, "w", encoding="utf-8") as file:
        for number in range(0, count, repeats):
            clock, unroll, (x, y), order, kernel = next(points)
            params = {"size": str(order), "local": f"{x}x{y}", "unroll": unroll, "seed": number,
                      "alpha": -0.321605, "beta": -0.100323}  # fmt: skip
            flop, rate = 2e-9 * order**3, draw.uniform(1, 5) * (x * y) ** 0.4 * clock / 600
            argv = ["samples/sweep/run.py", "--kernel", kernel, "--size", str(order), "--local",
                    f"{x}x{y}", "--unroll", str(unroll), "--seed", str(number)]  # fmt: skip
            for _ in range(min(repeats, count - number)):
                times = [flop / rate * draw.lognormvariate(0, 0.03) for _ in range(5)]
                environment = {"host": "made-up", "kernel": "Linux", "governors": {"gpu": "fixed"},
                               "clocks_hz": {"gpu": clock * 1e6}}  # fmt: skip
                record = Record(
                    "sweep", kernel, "passed", None, params, DEVICE, environment,
                    {"run_s": times, "host_s": times, "queued_s": [1e-5] * 5, "wait_s": [1e-5] * 5,
                     "warmup": 1}, {"gflops": flop / sorted(times)[2]},
                    {"error_over_bound": draw.random() / 100}, argv,
                )  # fmt: skip
                file.write(record.to_line() + "\n")


def make(sweep, page):
    """Make the page; return the seconds that it took."""
    start = time.perf_counter()
    subprocess.run([sys.executable, ROOT / "report", sweep, "--output", page], check=True)
    return time.perf_counter() - start


def look(page):
    """Open the page, filter and sort; return the seconds until something was to be seen."""
    with browser() as driver:
        driver.get(page.as_uri())
        paint = driver.execute_async_script(_PAINT) / 1e3
        ready = driver.execute_script(_READY) / 1e3
        print(f"paint     {paint:.2f} s until the first (at most {MOST_PAINT})")
        print(f"table     {ready:.2f} s until it can be used")
        for what, script in (("filter", _FILTER), ("sort", _SORT)):
            print(f"{what:<9} {driver.execute_script(_TIMED % script) / 1e3:.2f} s")
    return paint


_PAINT = """
const done = arguments[0];
const seen = (list) => list.find((entry) => entry.name === "first-contentful-paint");
const now = seen(performance.getEntriesByType("paint"));
if (now) done(now.startTime);
else new PerformanceObserver((list) => {
  if (seen(list.getEntries())) done(seen(list.getEntries()).startTime);
}).observe({ type: "paint", buffered: true });
"""
_READY = "return performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
_TIMED = "const start = performance.now(); %s; return performance.now() - start;"
_FILTER = """
const field = document.getElementById("filter");
field.value = "4x2 size=512 gflops>10";
field.dispatchEvent(new Event("input"));
"""
_SORT = "document.querySelector('th[data-name=gflops] button').click()"

if __name__ == "__main__":
    try:
        sys.exit(main())
    except ReportError as error:
        print(f"dev.load: error: {error}", file=sys.stderr)
        sys.exit(WRONG_USAGE)
