"""Measure the report of a big sweep: to make the page, to export it, to read it again, to use it.

python -m dev.load                     200,000 records of 2 KB, each of a point of its own
python -m dev.load --no-browser        the files alone: what needs no Chromium
python -m dev.load --keep /tmp/sweep   keep the run, its archive and the page

The records are made up, from a seed: they are as many and as long as those of a sweep over kernels,
orders, local sizes and clocks. Exit status 1: a limit is missed. Times are those of the processor,
which other programs do not lengthen much.
"""

import argparse
import itertools
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from common.errors import WRONG_USAGE, UsageError
from common.record import Record
from dev import usage
from dev.browser import browser, open_page

ROOT = Path(__file__).resolve().parents[1]

# A page may take this much, and this much more for each 1000 records: with 200,000 of them it may
# take 40 s of the processor and 1000 MiB of memory.
SECONDS, SECONDS_MORE = 8, 0.16
MEMORY, MEMORY_MORE = 200, 4
MOST_BYTES, MOST_PAINT = 40e6, 2  # of the page, seconds until something is to be seen
DEVICE = {
    "platform": "made up", "platform_version": "OpenCL 1.2", "name": "made-up GPU", "type": "gpu",
    "vendor": "none", "version": "OpenCL 1.2", "driver": "1.0", "opencl_c": "OpenCL C 1.2",
    "profile": "FULL_PROFILE", "compute_units": 4,
    "extensions": [f"cl_khr_made_up_extension_{number}" for number in range(8)],
    "limits": {"max_work_group_size": 256, "max_work_item_sizes": [256, 256, 256],
               "local_mem_size": 32768, "max_mem_alloc_size": 2**30, "global_mem_size": 2**31},
    "preferred_vector_widths": dict.fromkeys(("char", "short", "int", "float", "half"), 4),
}
KERNELS = [f"gemm_{way}_{tile}" for way in ("nn", "nt") for tile in ("1x1", "4x1", "4x2", "8x4")]
ORDERS = (64, 96, 128, 192, 256, 384, 512, 640, 768, 896, 1024)
LOCALS = [(x, y) for x in (1, 2, 4, 8, 16, 32) for y in (1, 2, 4, 8)]
CLOCKS = (177, 266, 350, 420, 480, 543, 600)
UNROLLS = (1, 2, 4, 8)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--no-browser", action="store_true", help="do not open the page")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where to leave what is made")
    args = parser.parse_args(argv)
    if args.records < 1:
        parser.error("--records is at least 1")
    with tempfile.TemporaryDirectory() as temporary:
        return measure(args.keep or Path(temporary), args)


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
    return 0 if all(good) else 1


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
        file.writelines(record.to_line() + "\n" for record in records(count))
    return base.with_suffix(".jsonl").stat().st_size


def records(count):
    """Yield `count` Records, each of a point of its own."""
    draw = random.Random(1)
    points = itertools.cycle(itertools.product(CLOCKS, UNROLLS, LOCALS, ORDERS, KERNELS))
    for number, (clock, unroll, (x, y), order, kernel) in zip(range(count), points):
        words = {"kernel": kernel, "size": str(order), "local": f"{x}x{y}", "unroll": unroll,
                 "seed": number}
        argv = ["samples/sweep/run.py"]
        for name, value in words.items():
            argv += [f"--{name}", str(value)]
        flop, rate = 2e-9 * order**3, draw.uniform(1, 5) * (x * y) ** 0.4 * clock / 600
        times = [flop / rate * draw.lognormvariate(0, 0.03) for _ in range(5)]
        rates = sorted(flop / seconds for seconds in times)
        states = [{"clocks_hz": {"gpu": clock * 1e6}, "power_w": {"gpu": draw.uniform(1, 2)},
                   "temperatures_c": {"cpu": draw.uniform(50, 60), "gpu": draw.uniform(60, 80)}}
                  for _ in range(3)]
        yield Record(
            "sweep", kernel, "passed", device=DEVICE, argv=argv,
            params=words | {"alpha": -0.321605, "beta": -0.100323,
                            "kernel_sha256": f"{KERNELS.index(kernel):064x}"},
            environment={"host": "made-up", "kernel": "Linux", "governors": {"gpu": "fixed"},
                         "before": states[0], "during": states[1:2], "after": states[2],
                         "throttled": []},
            timing={"run_s": times, "host_s": times, "queued_s": [1e-5] * 5, "wait_s": [1e-5] * 5,
                    "warmup": 1},
            metrics={"gflops": rates[2],
                     "statistics": {"min": rates[0], "max": rates[-1], "repeats": 5}},
            check={"error_over_bound": draw.random() / 100,
                   "output_sha256": f"{draw.getrandbits(256):064x}"},
        )


def report(what, count, *args):
    """Call `python -m report` on `count` records, say what it took; return whether that is fine."""
    most_seconds = SECONDS + SECONDS_MORE * count / 1000
    most_memory = MEMORY + MEMORY_MORE * count / 1000
    used = usage.run([sys.executable, ROOT / "report", *args], stdout=subprocess.DEVNULL)
    if used.status:
        raise UsageError(f"report ended with status {used.status}")
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
    try:
        sys.exit(main())
    except UsageError as error:
        print(f"dev.load: error: {error}", file=sys.stderr)
        sys.exit(WRONG_USAGE)
