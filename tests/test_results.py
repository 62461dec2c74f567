"""results/*.md: their tables and the READMEs' key figures agree with the records."""

import math
import re
from statistics import median
from types import SimpleNamespace

import numpy as np
import pytest

from common.gemm import Problem, parse_size
from common.planning import nvidia
from common.record import read
from tests.conftest import ROOT, sample_module

RESULTS = ROOT / "results"
DRIVERS = {"PoCL": "Portable Computing Language", "Intel": "Intel(R) OpenCL"}
METRICS = {"64_bit_integer": "gbytes_per_s", "sgemm": "gflops"}


def tables(name):
    """Return the tables of results/NAME.md: lists of rows of cells, the head first."""
    blocks = re.findall(r"(?:^\|.*\n)+", (RESULTS / f"{name}.md").read_text(), re.M)
    rows = ([[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
            for block in blocks)
    return [[head, *rest] for head, _, *rest in rows]


def driver(item):
    """Return the short name of a record's driver."""
    return next((d for d, name in DRIVERS.items() if name == item.device["platform"]), None)


def records(path):
    return read(RESULTS / "reference" / path)


def rates(sample, machine="cpu"):
    """Return the rates in the records of a sample, by (driver, size, kernel)."""
    found = {}
    for item in records(f"{sample}/{machine}.jsonl"):
        size = re.search(r"[0-9]+", item.params.get("size") or item.params["image"])[0]
        found[driver(item) or "NVIDIA", size, item.variant] = item.metrics[METRICS[sample]]
    return found


@pytest.mark.parametrize(("sample", "number", "machine"), [
    ("64_bit_integer", 0, "cpu"), ("64_bit_integer", 1, "zen5"), ("64_bit_integer", 2, "zen4"),
    ("64_bit_integer", 3, "h200"),
    ("sgemm", 0, "cpu"),
])
def test_a_table_has_the_figures_of_the_records(sample, number, machine):
    head, *rows = tables(sample)[number]
    shown = {}
    for name, *cells in rows:
        for column, cell in zip(head[1:], cells):
            name_of_driver, size = column.split()
            shown[name_of_driver, size.split("x")[0], name] = cell
    assert shown == {
        key: f"{float(f'{rate:.3g}'):g}" for key, rate in rates(sample, machine).items()}


def test_the_table_of_gemm_intel():
    found = {}
    for item in records("gemm_intel/zen5.jsonl"):
        p = item.params
        row = f"{item.variant[5:]} {p['size_m']} {p['group_m']}"
        found[row, f"{driver(item)} {p['size_n']}"] = f"{item.metrics['gflops']:.3g}"
    ((head, *rows),) = tables("gemm_intel")
    assert {(row[0], column): cell for row in rows
            for column, cell in zip(head[1:], row[1:])} == found


def test_the_table_of_gemmbench():
    found = {(driver(item), item.variant): f"{item.metrics['gflops']:.3g}"
             for item in records("gemmbench/zen5.jsonl")}
    shown, ((head, *rows),) = {}, tables("gemmbench")
    for row in rows:
        of, prefix = row[0].split()
        for column, cell in zip(head[1:], row[1:]):
            shown[of, f"{prefix}_{column.split(' / ')[-1 * prefix.startswith('D')]}"] = cell
    assert shown == found


# Each table of mygemm: files of records for PoCL and Intel's runtime, or of one device; the kernel,
# or None where the row names it; the library of the ratios, or None for rates in TFLOPS.
H200, XEON = "h200-mygemm.jsonl", ["pocl-mygemm.jsonl", "intel-mygemm.jsonl"]
MYGEMM = [
    ([H200], None, None),
    (["mygemm/h200-tf32.jsonl"], "14_matrix_units", "cublas"),
    (["mygemm/h200-shapes.jsonl"], None, "cublas"),
    (["mygemm/h200-other.jsonl"], None, "cublas"),
    (["mygemm/h200-later.jsonl"], None, "cublas"),
    (["mygemm/h200-random.jsonl"], None, "cublas"),
    (["mygemm/h200-random.jsonl"], None, "cublas"),
    (["mygemm/h200-unseen.jsonl"], None, "cublas"),
    (["mygemm/h200-fresh.jsonl"], None, "cublas"),
    (["mygemm/h200-host.jsonl"], None, "cublas"),
    (["mygemm/h200-vectors.jsonl"], "17_row_sums", "cublas"),
    (["mygemm/h200-vectors.jsonl"], "16_dot_products", "cublas"),
    (["mygemm/h200-batch.jsonl"], None, "cublas"),
    (["mygemm/h200-batches.jsonl"], None, "cublas"),
    (XEON, None, None),
    ([*XEON, "mygemm/one-queue.jsonl"], "12_packed", "numpy"),
    ([*XEON, "mygemm/one-queue.jsonl"], "12_packed", "libmkl_rt"),
    (["mygemm/xeon.jsonl"], "12_packed", "numpy"),
    (["mygemm/xeon.jsonl"], "12_packed", "numpy"),
    (["mygemm/xeon.jsonl"], "17_row_sums", "numpy"),
    (["mygemm/xeon.jsonl"], "16_dot_products", "numpy"),
    (["mygemm/xeon16.jsonl"], "12_packed", "numpy"),
    (["mygemm/xeon16.jsonl"], "12_packed", "libmkl_rt"),
    (["mygemm/xeon16.jsonl"], "17_row_sums", "numpy"),
    (["mygemm/xeon16.jsonl"], "16_dot_products", "numpy"),
    *[(["mygemm/xeon16-steal.jsonl"], "12_packed", library)
      for library in ("libmkl_rt", "numpy", "libmkl_rt", "numpy", "libmkl_rt")],
    (["mygemm/busy-xeon.jsonl"], "12_packed", "libmkl_rt"),
    (["mygemm/quiet-xeon.jsonl"], "12_packed", "libmkl_rt"),
    (["mygemm/zen5.jsonl"], "12_packed", "numpy"),
    (["mygemm/zen5.jsonl"], "12_packed", "libmkl_rt"),
    (["mygemm/zen5.jsonl"], "12_packed", "numpy"),
    (["mygemm/zen5.jsonl"], "12_packed", "numpy"),
    (["mygemm/zen5.jsonl"], "17_row_sums", "numpy"),
    (["mygemm/zen5.jsonl"], "16_dot_products", "numpy"),
    *[(["mygemm/zen5.jsonl"], name, "numpy")
      for name in ("12_packed", "16_dot_products", "17_row_sums")],
    (["mygemm/zen5-steal.jsonl", "mygemm/zen5-busy.jsonl"], "12_packed", None),
    (["mygemm/zen4.jsonl"], "12_packed", "numpy"),
    (["mygemm/zen4.jsonl"], "12_packed", "libmkl_rt"),
    (["mygemm/zen4.jsonl"], "12_packed", "numpy"),
    (["mygemm/zen4.jsonl"], "12_packed", "numpy"),
    (["mygemm/zen4.jsonl"], "17_row_sums", "numpy"),
    (["mygemm/zen4.jsonl"], "16_dot_products", "numpy"),
]
SHAPES = {"shapes": 42, "other": 30, "later": 16, "random": 58, "unseen": 32,
          "fresh": 28}  # of h200-*.jsonl
LIBRARIES = {"numpy's OpenBLAS": "numpy", "CLBlast as shipped": "clblast",
             "cuBLAS (by the host's clock)": "cublas"}


def order(item):
    """Return a record's size as the tables have it: a number where M, N and K are equal."""
    sides = item.params.get("size", "").split("x")
    return sides[0] if len(set(sides)) == 1 else "x".join(sides)


@pytest.mark.parametrize("number", range(len(MYGEMM)))
def test_every_figure_of_mygemm_is_in_a_record(number):
    """A figure agrees with a record of that kernel, size and driver in the files of its table."""
    files, kernel, library = MYGEMM[number]
    (head, *rows), found = tables("mygemm")[number], {}
    assert len(tables("mygemm")) == len(MYGEMM)
    for item in (each for file in files for each in records(file)):
        value = (item.metrics.get("ratios") or {}).get(library or "")
        if library is None:
            value = item.metrics.get("gflops")
        if value is not None:
            key = item.variant, order(item), driver(item)
            value /= 1000 if files == [H200] else 1
            found.setdefault(key, []).append((value, item.params.get("STEAL", 0)))
        if files == [H200] and order(item) == "4096" and item.metrics.get("ratios"):
            found[item.variant, "relative", None] = [(item.metrics["ratios"]["cublas"], 0)]
    of = None
    for name, *cells in rows:
        named = next((d for d in DRIVERS if name.startswith(d)), None)
        of = named or (of if name == "in one queue" else None)
        for column, (title, cell) in enumerate(zip(head[1:], cells)):
            if not cell:
                continue
            relative = title == "relative to cuBLAS at 4096"
            size = "relative" if relative else re.search(r"[\dx]+$", title)[0]
            its_driver = of
            if files == XEON:  # its columns are of two drivers
                its_driver = list(DRIVERS)[column // 3]
            steals = (0, 1)
            if "stealing" in name or "equal shares" in name:
                steals = (int("stealing" in name),)
            key = kernel or LIBRARIES.get(name, name), size, its_driver
            values = [value for value, steal in found.get(key, ()) if steal in steals]
            if relative and name.startswith("cuBLAS"):
                values = [1]
            digits = len(cell.partition(".")[2])
            close = [v for v in values if abs(float(cell) - v) <= 0.500001 * 10**-digits
                     or cell == f"{v:.3g}"]
            assert close, (name, title, cell, values)


@pytest.mark.parametrize(("file", "number"), SHAPES.items())
def test_the_fastest_kernel_of_the_records_is_among_those_that_best_runs(file, number):
    rates, device = {}, SimpleNamespace(max_compute_units=132)
    for item in records(f"mygemm/h200-{file}.jsonl"):
        rates.setdefault(item.params["size"], {})[item.variant] = item.metrics.get("ratios", {})
    assert len(rates) == number
    close = sample_module("mygemm", "special").CLOSE
    for text, found in rates.items():
        size = parse_size(text)
        problem = Problem(size, np.dtype("f4"), size.K, size.N, size.N)
        limits = SimpleNamespace(extensions=[nvidia.EXTENSION])
        seconds = {"13_warps": nvidia.warps(problem, limits, device)[0],
                   "14_matrix_units": nvidia.units(problem, device)[0],
                   "15_warpgroups": nvidia.warpgroups(problem, device)[0]}
        fastest = max(seconds, key=lambda name: found[name]["cublas"])
        assert seconds[fastest] <= close * min(seconds.values()), (text, fastest)


def errors_to_cublas(items):
    """Yield (record of a kernel, its largest error relative to that of cuBLAS)."""
    of_cublas = {order(item): item.check["error_over_bound"]
                 for item in items if item.variant == "cublas"}
    for item in items:
        if item.variant != "cublas":
            yield item, item.check["error_over_bound"] / of_cublas[order(item)]


@pytest.mark.parametrize("file", SHAPES)
def test_kernels_14_and_15_are_more_exact_than_cublas(file):
    for item, error in errors_to_cublas(records(f"mygemm/h200-{file}.jsonl")):
        assert item.variant == "13_warps" or error < 1, (item.variant, order(item))


@pytest.mark.parametrize("file", [*SHAPES, "chunks"])
def test_kernel_15_still_takes_the_chunks_of_the_records(file):
    device, found = SimpleNamespace(max_compute_units=132), 0
    for item in records(f"mygemm/h200-{file}.jsonl"):
        if item.variant == "15_warpgroups" and "--KC" not in item.argv:
            size, found = parse_size(item.params["size"]), found + 1
            problem = Problem(size, np.dtype("f4"), size.K, size.N, size.N)
            chunk = nvidia.warpgroups(problem, device)[1]["KC"]
            assert chunk == item.params["KC"], order(item)
    assert found >= 14


def test_the_errors_of_kernel_15_with_longer_chunks():
    text = " ".join((RESULTS / "mygemm.md").read_text().split())
    items = list(records("mygemm/h200-chunks.jsonl"))
    forced = {}
    for chunk in (256, 128):
        run = [item for item in items if f"--KC {chunk}" in " ".join(item.argv)]
        forced[chunk] = list(errors_to_cublas(run))
    (first, error), (second, other) = forced[256]
    short = [error for _, error in forced[128]]
    rates = [100 * item.metrics["gflops"] / longer.metrics["gflops"]
             for (item, _), (longer, _) in zip(forced[128], forced[256])]
    assert (f"would be {error:.2f} times that of cuBLAS at {order(first)}, and {other:.2f} times "
            f"at {order(second)}; with 128 it is {short[0]:.2f} and {short[1]:.2f} times, at "
            f"{rates[0]:.0f} and {rates[1]:.0f} % of the rate") in text
    latest = list(errors_to_cublas([item for item in items if "--KC" not in item.argv]))
    errors = [error for _, error in latest]
    rates = [item.metrics["ratios"]["cublas"] for item, _ in latest]
    assert (f"At the {len(latest)} shapes with 144 to 484 tiles that were measured last, the error "
            f"is {min(errors):.2f} to {max(errors):.2f} times that of cuBLAS, and the rate "
            f"{min(rates):.2f} to {max(rates):.2f} times") in text


def test_where_all_of_kernels_13_to_15_are_slower_than_cublas():
    text = " ".join((RESULTS / "mygemm.md").read_text().split())
    rates = {}
    for file in SHAPES:
        for item in records(f"mygemm/h200-{file}.jsonl"):
            if item.variant != "cublas":
                rates.setdefault(order(item), []).append(item.metrics["ratios"]["cublas"])
    slower = [size for size, found in rates.items() if max(found) < 1]
    said = re.search(r"are all slower than cuBLAS at ([\dx, ]+) and ([\dx]+)\.", text)
    assert {*said[1].split(", "), said[2]} == set(slower)


def test_the_fastest_launches_on_a_shared_xeon():
    text, fastest, times = " ".join((RESULTS / "mygemm.md").read_text().split()), {}, {}
    for item in records("mygemm/xeon16-launches.jsonl"):
        name = driver(item), order(item), item.variant
        times.setdefault(name, []).append(item.timing["host_s"])
        assert item.params.get("STEAL") == (1 if item.variant == "12_packed" else None)
        assert item.timing["queues"] == 1
        fastest[name] = min([*item.timing["host_s"], fastest.get(name, math.inf)])
    said = []
    for of in DRIVERS:
        ratios = [fastest[of, size, "libmkl_rt"] / fastest[of, size, "12_packed"]
                  for size in ("1000", "1024", "1023x1025x1027", "2048")]
        said.append("{:.2f}, {:.2f}, {:.2f} and {:.2f} times".format(*ratios))
    assert (f"kernel 12's fastest has {said[0]} the rate of MKL's fastest at 1000, 1024, "
            f"1023x1025x1027 and 2048 with PoCL, and {said[1]} with Intel's runtime") in text
    runs = zip(times["Intel", "1024", "12_packed"], times["Intel", "1024", "libmkl_rt"])
    ratios = [median(b / a for a, b in zip(*run)) for run in runs]
    assert len(ratios) == 5
    assert f"the ratios of the five runs were {min(ratios):.2f} to {max(ratios):.2f}." in text


def test_the_rates_with_stealing_in_the_readme():
    text = " ".join((ROOT / "samples/mygemm/README.md").read_text().split())

    def span(file, steal, metric, orders=("512", "1000", "1024", "1500", "2048")):
        found = [metric(item.metrics) for item in records(f"mygemm/{file}.jsonl")
                 if item.params["STEAL"] == steal and order(item) in orders
                 and "--cores" not in item.argv]
        return min(found), max(found)

    for file in ("zen5-steal", "zen5-busy"):
        stealing, equal = (span(file, steal, lambda m: m["gflops"]) for steal in (1, 0))
        assert "{:.0f} to {:.0f} GFLOPS with stealing, and".format(*stealing) in text
        assert "{:.0f} to {:.0f} with equal shares".format(*equal) in text
    stealing, equal = (span("xeon16-steal", steal, lambda m: m["ratios"]["libmkl_rt"],
                            orders=("1500", "2048", "4096")) for steal in (1, 0))
    assert ("{:.2f} to {:.2f} times MKL's rate with stealing, and {:.2f} to {:.2f} times with "
            "equal shares".format(*stealing, *equal)) in text


def test_the_factors_to_clblast_on_a_xeon():
    text = " ".join((RESULTS / "mygemm.md").read_text().split())
    to = {order(item): f"{item.metrics['ratios']['clblast']:.1f}" for item in records(XEON[0])
          if item.variant == "12_packed" and "clblast" in item.metrics.get("ratios", {})}
    assert (f"{to['2048']} times as fast as CLBlast as shipped at 2048, {to['1024']} times at 1024 "
            f"and {to['512']} times at 512") in text


@pytest.mark.parametrize("name", ["xeon", "zen5", "zen4"])
def test_the_factors_of_batches(name):
    text = " ".join((RESULTS / "mygemm.md").read_text().split())
    found = {(driver(item), order(item)): item.metrics["ratios"]
             for item in records(f"mygemm/{name}.jsonl")
             if item.variant == "12_packed" and item.params.get("batch", 1) > 1}
    for each in DRIVERS:
        one, two = (f"{found[each, size]['numpy']:.2f}" for size in ("32", "64"))
        assert f"{one} and {two} times" in text
    if name == "zen4":
        shares = (f"{100 * found[each, '32']['ceiling']:.0f}" for each in DRIVERS)
        assert "Kernel 12 reaches {} and {} % of the ceiling".format(*shares) in text


def test_every_record_has_a_digest_of_its_code():
    paths = list((RESULTS / "reference").rglob("*.jsonl"))
    assert len(paths) > 15
    for path in paths:
        assert all(item.code for item in read(path)), path


def test_the_key_figures_of_the_readmes():
    def said(sample, text):
        return text in (ROOT / "samples" / sample / "README.md").read_text()

    found = rates("sgemm")
    times = found["Intel", "1024", "tile4x4"] / found["Intel", "1024", "dot4"]
    assert said("sgemm", f"`tile4x4` is {times:.0f} times as fast")
    found = rates("64_bit_integer")
    for each in DRIVERS:
        assert found[each, "4096", "two_stages"] > 200 * found[each, "4096", "long_vectors"]
        for machine in ("zen4", "zen5"):
            there = rates("64_bit_integer", machine)
            assert there[each, "4096", "two_stages"] > 100 * there[each, "4096", "long_vectors"]
    assert said("64_bit_integer", "On two cores of a Xeon, with PoCL and with Intel's runtime, "
                "`two_stages` is more than 200 times as fast")
    assert said("64_bit_integer", "on AMD's Zen 4 and Zen 5 more than 100 times")
    found = {item.variant: item.metrics["gflops"] for item in records("gemmbench/zen5.jsonl")
             if driver(item) == "PoCL"}
    times = found["SGEMM_NT_4x2"] / found["SGEMM_NT_1x1"]
    assert said("gemmbench", f"`SGEMM_NT_4x2` is {times:.0f} times as fast as `SGEMM_NT_1x1`")
    found = {item.params["group_m"]: item.metrics["gflops"]
             for item in records("gemm_intel/zen5.jsonl")
             if (driver(item), item.variant) == ("Intel", "gemm_nn")
             and (item.params["size_m"], item.params["size_n"]) == (1, 128)}
    assert said("gemm_intel", f"work-group of 16 is {found[16] / found[1]:.0f} times as fast as")
