"""tools keep: the fastest of records is stored, for the size that they were measured at."""

import json
import re
from dataclasses import replace

import pytest

from common import manifest, tuned
from common.errors import UsageError
from common.record import Record
from tests.conftest import ROOT
from tools.keep import main

DEVICE = {"name": "G9", "platform": "P", "vendor": "V", "type": "gpu", "driver": "1",
          "compute_units": 4, "limits": {"profile": "device"}}
REFERENCE = ROOT / "results/reference/mygemm"


def item(kernel, rate, size="8x9x10", ratios=(), device=(), started="2026", **params):
    return Record(
        "mygemm", kernel, "passed", params={"size": size, "precision": "single", **params},
        device={**DEVICE, **dict(device)}, timing={"run_s": [1.0], "host_s": [1.0]},
        metrics={"gflops": rate, "ratios": {"ceiling": 0.5, "first": 7.0, **dict(ratios)}},
        started=started,
    )


@pytest.fixture
def keep(tmp_path, capsys):
    """Store the fastest of records; return what is found at a size afterwards, and stdout."""

    def run(*items, size="8x9x10", batch=1):
        path = tmp_path / "records.jsonl"
        path.write_text("".join(each.to_line() + "\n" for each in items))
        status = main(["--tuned", str(tmp_path / "tuned"), str(path)])
        found = tuned.find(tmp_path / "tuned", items[0].device, "single", size, batch)
        return status, found, capsys.readouterr().out

    (tmp_path / "tuned").mkdir()
    return run


def test_the_fastest_is_stored_and_found_at_its_size_only(keep):
    items = item("a", 10, TS=1), item("a", 30, TS=2), item("b", 20, TS=3)
    status, found, out = keep(*items)
    assert (status, [(each.kernel, each.params) for each in found]) == (0, [("a", {"TS": 2})])
    assert found[0].why == (
        "the fastest that was measured at this size (G9: 30 GFLOPS at 8x9x10, driver 1)")
    assert re.fullmatch(r"\S+/g9-p\.json: the fastest at 1 size\nThe sample uses them .*\n", out)
    assert keep(*items, size="8x9x11")[1] == [] == keep(*items, batch=2)[1]


def test_ratios_to_the_fastest_library_of_all_count_more_than_rates(keep):
    libraries = [item(name, rate, library=name) for name, rate in
                 (("slow", 5), ("blas", 50), ("not of all", 500))]
    slower = item("a", 99, ratios={"slow": 9, "blas": 0.5, "not of all": 9}, TS=1)
    faster = item("b", 10, ratios={"slow": 1, "blas": 1.5, "not of all": None}, TS=2)
    assert keep(slower, faster, *libraries)[1][0].params == {"TS": 2}
    assert keep(slower, faster, libraries[0])[1][0].params == {"TS": 1}
    assert keep(slower, faster)[1][0].params == {"TS": 1}  # 99 GFLOPS: no library has a record


def test_the_median_of_repeated_runs_counts(keep):
    runs = [item("a", rate, TS=1) for rate in (1, 2, 99)]
    assert keep(*runs, item("b", 3, TS=2))[1][0].kernel == "b"


def test_devices_with_other_compute_units_are_not_compared(keep):
    pairs = [item(kernel, rate, device={"compute_units": units}, TS=units)
             for kernel, rate, units in (("a", 9, 4), ("b", 1, 4), ("a", 1, 8), ("b", 9, 8))]
    assert [each.params for each in keep(*pairs)[1]] == [{"TS": 4}]


def test_of_several_drivers_the_newest_record_tells_which_counts(keep):
    of_driver = [item(kernel, rate, device={"driver": driver}, started=started, TS=rate)
                 for driver, started, rates in (("2", "2026-02", (2, 1)), ("1", "2026-01", (9, 8)))
                 for kernel, rate in zip("ab", rates)]
    _, found, out = keep(*of_driver)
    assert (found[0].params, "at 1 size\n" in out) == ({"TS": 2}, True)
    assert "driver 2" in found[0].why
    again = item("a", 9, device={"driver": "2"}, started="2025", TS=9)  # before the other driver
    assert keep(*of_driver, again)[1][0].params == {"TS": 9}


def test_a_newer_winner_takes_the_place_of_another_kernel(keep):
    keep(item("a", 9, TS=1), item("b", 1, TS=2))
    assert [each.kernel for each in keep(item("a", 5, TS=1), item("b", 6, TS=2))[1]] == ["b"]


@pytest.mark.parametrize("other", [
    {"library": "blas 1"}, {"lda": 99}, {"beta": 2}, {"caches": "flushed"}, {"size": "9x9x9"},
    {"size": "0"}, {"size": 8}, {"TS": "1"}, {"TS": [1]}, {"batch": "many"},
    *({"device": change} for change in (
        {"type": "cpu"}, {"limits": {"profile": "mali-t628"}}, {"limits": 1}, {"driver": None},
        {"compute_units": "4"}, {"compute_units": None}, {"compute_units": 0})),
], ids=str)
def test_records_that_are_not_comparable_are_left_out(keep, other):
    with pytest.raises(UsageError, match="nothing to compare: no size has"):
        keep(item("a", 1), item("b", 2, **other))


def test_records_without_a_rate_are_left_out(keep):
    without = item("b", 2)
    del without.metrics["gflops"]
    with pytest.raises(UsageError, match="nothing to compare"):
        keep(item("a", 1), without)


def test_records_that_cannot_be_used_are_refused(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text(item("a", 1).to_line() + "\n{\n")
    with pytest.raises(UsageError, match=r"r.jsonl:2: "):
        main([str(path)])
    with pytest.raises(UsageError, match=r"none\.jsonl"):
        main([str(tmp_path / "none.jsonl")])
    other = Record("sgemm", "k", "passed")
    path.write_text(item("a", 1).to_line() + "\n" + other.to_line() + "\n")
    with pytest.raises(UsageError, match="the records are of mygemm, sgemm: give those of one"):
        main([str(path)])


def test_a_sample_that_looks_nowhere_needs_a_folder(tmp_path):
    name = next(n for n in manifest.names() if not manifest.read(n).tools.tuned)
    path = tmp_path / "r.jsonl"
    items = item("a", 1, TS=1), item("b", 2, TS=2)
    for each in items:
        each.sample = name
    path.write_text("".join(each.to_line() + "\n" for each in items))
    with pytest.raises(UsageError, match=f"{name} looks for no parameters: give --tuned"):
        main([str(path)])


def test_what_the_suite_ships_is_the_fastest_of_its_records(tmp_path):
    names = "h200-shapes", "h200-other", "h200-later", "h200-batch"
    paths = [str(REFERENCE / f"{name}.jsonl") for name in names]
    assert main(["--tuned", str(tmp_path), *paths]) == 0
    made, = tmp_path.glob("*.json")
    shipped = ROOT / "samples/mygemm/tuned" / made.name
    assert json.loads(made.read_text()) == json.loads(shipped.read_text())


@pytest.mark.parametrize("device", [{}, {"name": "G9", "type": "gpu"}])
def test_a_record_that_says_little_of_its_device_is_left_out(keep, device):
    odd = replace(item("c", 99, TS=9), device=device)
    items = item("a", 10, TS=1), item("b", 30, TS=2), odd
    assert keep(*items)[1][0].kernel == "b"
