"""tools keep: the fastest of records is stored, for the size that they were measured at."""

import json

import pytest

from common import manifest, tuned
from common.errors import UsageError
from common.record import Record
from tests.conftest import ROOT
from tools.keep import main

DEVICE = {"name": "G9", "platform": "P", "vendor": "V", "type": "gpu", "driver": "1",
          "compute_units": 4, "limits": {"profile": "device"}}
REFERENCE = ROOT / "results/reference/mygemm"


def item(kernel, rate, size="8x9x10", ratios=(), units=4, **params):
    return Record(
        "mygemm", kernel, "passed", params={"size": size, "precision": "single", **params},
        device={**DEVICE, "compute_units": units}, timing={"run_s": [1.0], "host_s": [1.0]},
        metrics={"gflops": float(rate), "ratios": {"ceiling": 0.5, kernel: 1.0, **dict(ratios)}},
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
    assert out == f"the fastest at 1 sizes: stored in {out.split()[-1]}\n"
    assert keep(*items, size="8x9x11")[1] == [] == keep(*items, batch=2)[1]


def test_ratios_to_a_library_of_all_count_more_than_rates(keep):
    slower = item("a", 99, ratios={"blas": 0.5, "other": 9}, TS=1)
    faster = item("b", 10, ratios={"blas": 1.5}, TS=2)
    assert keep(slower, faster)[1][0].params == {"TS": 2}


def test_the_median_of_repeated_runs_counts(keep):
    runs = [item("a", rate, TS=1) for rate in (1, 2, 99)]
    assert keep(*runs, item("b", 3, TS=2))[1][0].kernel == "b"


def test_devices_with_other_compute_units_are_not_compared(keep):
    pairs = [item(kernel, rate, units=units, TS=units)
             for kernel, rate, units in (("a", 9, 4), ("b", 1, 4), ("a", 1, 8), ("b", 9, 8))]
    assert [each.params for each in keep(*pairs)[1]] == [{"TS": 4}]


def test_a_newer_winner_takes_the_place_of_another_kernel(keep):
    keep(item("a", 9, TS=1), item("b", 1, TS=2))
    assert [each.kernel for each in keep(item("a", 5, TS=1), item("b", 6, TS=2))[1]] == ["b"]


@pytest.mark.parametrize("others", [
    [], [{"library": "blas 1"}], [{"lda": 99}], [{"size": "9x9x9"}],
], ids=["alone", "a library", "other rows", "another size"])
def test_nothing_to_compare_is_said(keep, others):
    with pytest.raises(UsageError, match="nothing to compare: no size has"):
        keep(item("a", 1), *(item("b", 2, **params) for params in others))


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
