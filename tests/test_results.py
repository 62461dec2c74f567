"""results/*.md: their tables and the READMEs' key figures agree with the records."""

import re

import pytest

from common.record import read
from tests.conftest import ROOT

RESULTS = ROOT / "results"
DRIVERS = {"PoCL": "Portable Computing Language", "Intel": "Intel(R) OpenCL"}
METRICS = {"64_bit_integer": "gbytes_per_s", "sgemm": "gflops"}


def rates(sample):
    """Return the rates in the records of a sample, by (driver, size, kernel)."""
    found = {}
    for item in read(RESULTS / "reference" / sample / "cpu.jsonl"):
        size = re.search(r"[0-9]+", item.params.get("size") or item.params["image"])[0]
        (driver,) = (d for d, name in DRIVERS.items() if name == item.device["platform"])
        found[driver, size, item.variant] = item.metrics[METRICS[sample]]
    return found


@pytest.mark.parametrize("sample", METRICS)
def test_a_table_has_the_figures_of_the_records(sample):
    text = (RESULTS / f"{sample}.md").read_text()
    head, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")]
                      for line in text.splitlines() if line.startswith("|"))
    shown = {}
    for name, *cells in rows:
        for column, cell in zip(head[1:], cells):
            driver, size = column.split()
            shown[driver, size.split("x")[0], name] = cell
    assert shown == {key: f"{rate:.3g}" for key, rate in rates(sample).items()}


def test_the_records_without_a_digest_of_their_code_are_named():
    folder = RESULTS / "reference"
    lacking = {path.relative_to(folder).as_posix(): sum(item.code is None for item in read(path))
               for path in folder.rglob("*.jsonl")}
    readme = (folder / "README.md").read_text()
    (text,) = re.findall(r"have no `code`: (.*?)\.\s+All others", readme, re.S)
    named = re.findall(r"[\w/-]+\.jsonl", text)
    assert sorted(named) == sorted(name for name, count in lacking.items() if count)
    assert f"{lacking['mygemm/mkl.jsonl']} of the" in text


def test_the_key_figures_of_the_readmes():
    text = (ROOT / "samples/sgemm/README.md").read_text()
    found = rates("sgemm")
    times = found["Intel", "1024", "tile4x4"] / found["Intel", "1024", "dot4"]
    assert f"`tile4x4` is {times:.0f} times as fast" in text
    found = rates("64_bit_integer")
    for driver in DRIVERS:
        assert found[driver, "4096", "two_stages"] > 400 * found[driver, "4096", "long_vectors"]
