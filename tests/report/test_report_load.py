"""A report of very many records: what it takes grows with them, and slowly.

The records are copies of a real one with other parameters and times, drawn from a seed, as from a
sweep over kernels, orders, local sizes and clocks. Times are processor times, on which other
programs have less influence. The figures of docs/report.md:

    RECORDS=150000 .venv/bin/python -m pytest -s -m exhaustive tests/report/test_report_load.py
"""

import itertools
import json
import os
import random
import subprocess
import sys
import tracemalloc
from contextlib import contextmanager
from dataclasses import replace

import pytest

from common import record
from dev.browser import browser, missing, open_page
from report import archive, reading
from tests.conftest import ROOT
from tests.dev import usage

COUNT = 2000
REAL = ROOT / "results" / "reference" / "pocl-mygemm.jsonl"
# A page may take this much, and this much more for each 1000 records: with 150,000 of them it may
# take 64 s of the processor and 800 MiB of memory. On a core that other programs share, the same
# work takes up to twice the time of the processor.
SECONDS, SECONDS_MORE = 16, 0.32
MEMORY, MEMORY_MORE = 200, 4
MOST_BYTES, MOST_PAINT = 40e6, 2000  # of the page, milliseconds until something is to be seen
KERNELS = [f"gemm_{way}_{tile}" for way in ("nn", "nt") for tile in ("1x1", "4x1", "4x2", "8x4")]
ORDERS = (64, 96, 128, 192, 256, 384, 512, 640, 768, 896, 1024)
LOCALS = [f"{x}x{y}" for x in (1, 2, 4, 8, 16, 32) for y in (1, 2, 4, 8)]
CLOCKS = (177, 266, 350, 420, 480, 543, 600)


def records(count):
    """Yield `count` Records, each of a point of its own."""
    real = next(item for item in record.read(REAL) if item.status == "passed")
    draw = random.Random(1)
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


def write_run(folder, count):
    """Write a run with `count` records; return (its folder, their bytes)."""
    run = folder / "board" / "run"
    base = run / "sweep" / "all"
    base.parent.mkdir(parents=True)
    (run / "plan.json").write_text('{"run": "made up", "cases": [], "deployed": {}}')
    (run / "ended.json").write_text('{"stopped": false}')
    outcome = {"argv": ["samples/sweep/run.py"], "clock": 0.0, "started": 1.7e9, "seconds": 1e5}
    base.with_suffix(".outcome.json").write_text(json.dumps(outcome))
    with open(base.with_suffix(".jsonl"), "w", encoding="utf-8") as file:
        file.writelines(item.to_line() + "\n" for item in records(count))
    return run, base.with_suffix(".jsonl").stat().st_size


@contextmanager
def traced():
    """Give a function that returns (bytes in use, the most that were) since the start."""
    tracemalloc.start()
    try:
        yield tracemalloc.get_traced_memory
    finally:
        tracemalloc.stop()


def test_the_records_are_as_long_as_real_ones(tmp_path):
    assert 2000 < write_run(tmp_path, COUNT)[1] / COUNT < 3000


def test_a_point_takes_less_than_its_record(tmp_path):
    run, _ = write_run(tmp_path, COUNT)
    found = []
    for _ in range(3):  # threads that other tests have left may allocate meanwhile
        with traced() as memory:
            read = reading.collect([run], tmp_path)
            used, most = memory()
        assert len(read.points) == COUNT
        found.append((used / COUNT, most - used))
    assert min(each for each, _ in found) < 2400
    assert min(more for _, more in found) < 2**20


def test_an_archive_is_written_and_read_part_by_part(tmp_path):
    run, size = write_run(tmp_path, COUNT)
    packed = tmp_path / "run.zip"
    with traced() as memory:
        archive.pack(run, "board", packed)
        assert memory()[1] < size / 2
    with traced() as memory:
        archive.unpack(packed, tmp_path / "new")
        assert memory()[1] < size
    assert (tmp_path / "new/run/sweep/all.jsonl").stat().st_size == size


@pytest.mark.exhaustive
def test_what_a_page_and_an_archive_take(tmp_path):
    count = int(os.environ.get("RECORDS", 20_000))
    run, size = write_run(tmp_path, count)
    packed, page = tmp_path / "run.zip", tmp_path / "report.html"
    print(f"\n{count} records of {size / count:.0f} bytes")
    for what, args in (("page", (run, "-o", page)), ("export", (run, "--export", packed)),
                       ("page of the archive", (packed, "-o", page))):
        used = usage.run([sys.executable, ROOT / "report", *args], stdout=subprocess.DEVNULL)
        print(f"{what}: {used.processor:.1f} s of the processor, {used.peak >> 10} MiB of memory")
        assert used.status == 0
        assert used.processor <= SECONDS + SECONDS_MORE * count / 1000
        assert used.peak / 1024 <= MEMORY + MEMORY_MORE * count / 1000
    print(f"size of the page: {page.stat().st_size / 1e6:.1f} MB")
    assert page.stat().st_size <= MOST_BYTES
    if not missing():
        look(page)


def look(page):
    """Open the page, filter and sort: print how many milliseconds that takes."""
    with browser() as driver:
        ready, paint = open_page(driver, page), driver.execute_script(_PAINT)
        print(f"first paint: {paint:.0f} ms, table: {ready:.0f} ms")
        assert paint <= MOST_PAINT
        for what, script in (("filter", _FILTER), ("filter", _FILTER), ("sort", _SORT)):
            print(f"{what}: {driver.execute_script(_TIMED % script):.0f} ms")


_PAINT = "return performance.getEntriesByName('first-contentful-paint')[0].startTime"
_TIMED = "const start = performance.now(); %s; return performance.now() - start;"
_FILTER = """
const field = document.getElementById("filter");
field.value = "4x2 size=512 gflops>10";
field.dispatchEvent(new Event("input"));
"""
_SORT = "document.querySelector('th[data-name=gflops] button').click()"
