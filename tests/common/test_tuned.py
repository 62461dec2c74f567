"""Tuned parameters: stored by device, and found for this device, its family, or its vendor."""

import json
import subprocess
import sys

import pytest

from common import tuned
from common.errors import UsageError
from tests.conftest import ROOT

ABOUT = {"name": "Mali-G52", "platform": "ARM Platform", "vendor": "ARM", "type": "gpu",
         "limits": {"profile": "device"}}


def entry(kernel="registers", size="512x512x512", gflops=9.0, precision="single", **params):
    return {"kernel": kernel, "precision": precision, "size": size, "gflops": gflops,
            "params": params, "driver": "r1", "when": "2026", "slower_than": None}


@pytest.fixture
def best(tmp_path):
    """Store entries of devices, and return the first that is found, or None."""

    def find(stored, size=512, about=ABOUT, precision="single"):
        for its, each in stored:
            tuned.store(tmp_path, tuned.identity({**ABOUT, **its}), each)
        found = tuned.find(tmp_path, about, precision, f"{size}x{size}x{size}")
        return found[0] if found else None

    return find


def test_what_is_slower_than_another_kernel_is_left_out(best):
    slower = entry("tiles", gflops=99, TS=2) | {"slower_than": "11_registers_only"}
    assert best([({}, slower)]) is None
    found = best([({}, slower), ({}, entry("tiles", gflops=50, size="64x64x64", TS=4))])
    assert found.params == {"TS": 4}


def test_this_device_comes_first_then_family_and_vendor(best):
    here, family, vendor = {}, {"name": "Mali-G31"}, {"name": "Mali-T628", "vendor": "Arm"}
    found = best([(vendor, entry("tiles", gflops=99, TS=2))])
    assert (found.kernel, found.params) == ("tiles", {"TS": 2})
    assert found.why.startswith("tuned for its vendor (Mali-T628: 99 GFLOPS at 512x512x512")
    found = best([(family, entry("tiles", gflops=50, TS=4))])
    assert (found.params, found.why[:20]) == ({"TS": 4}, "tuned for its family")
    found = best([(here, entry("tiles", gflops=10, TS=8))])
    assert (found.params, found.why[:21]) == ({"TS": 8}, "tuned for this device")
    other = {**ABOUT, "name": "Rubbish", "vendor": "Nobody", "platform": "None"}
    assert best([], about=other) is None


def test_a_batch_and_a_single_product_are_kept_apart(tmp_path):
    batched = entry("tiles", TS=2) | {"batch": 4096}
    for each in (entry("tiles", TS=4), batched, batched | {"params": {"TS": 8}}):
        path = tuned.store(tmp_path, tuned.identity(ABOUT), each)
    for batch, tile in ((1, 4), (7, 8)):
        found = tuned.find(tmp_path, ABOUT, "single", "512x512x512", batch)
        assert {each.params["TS"] for each in found} == {tile}
    path.write_text(path.read_text().replace("4096", '"many"'))
    with pytest.raises(UsageError, match="'many' is not a whole number"):
        tuned.find(tmp_path, ABOUT, "single", "512x512x512")


def test_what_was_measured_comes_before_what_a_model_chose(best):
    model = {"name": "Mali-G31", "platform": "a model"}
    found = best([(model, entry(gflops=None, TS=2))])
    assert found.params == {"TS": 2}
    assert found.why == "not measured, but chosen by a static model for its family (Mali-G31: r1)"
    assert best([(model, entry("tiles", "8x8x8", gflops=3, TS=4))]).params == {"TS": 4}


def test_with_the_limits_of_a_mali_its_family_counts(best):
    stored = [({"name": "Mali-T860", "vendor": "x"}, entry(TS=2))]
    cpu = {**ABOUT, "name": "H200", "vendor": "y"}
    assert best(stored, about=cpu) is None
    assert best([], about=cpu | {"limits": {"profile": "mali-t628"}}).params == {"TS": 2}


def test_the_nearest_size_counts_then_the_faster_kernel(best):
    stored = [
        ({}, entry("naive", "64x64x64", 1, TS=4)),
        ({}, entry("tiles", "1024x1024x1024", 5, TS=4)),
        ({}, entry("naive", "1024x1024x1024", 7, TS=8)),
        ({}, entry("naive", "1024x1024x1024", 70, "double", TS=16)),
    ]
    assert best(stored, size=900).params == {"TS": 8}
    assert best([], size=100).params == {"TS": 4}
    assert best([], precision="double").params == {"TS": 16}


def test_a_newer_result_takes_the_place_of_an_older(best, tmp_path):
    best([({}, entry("naive", TS=4))])
    assert best([({}, entry("naive", TS=8))]).params == {"TS": 8}
    (path,) = tmp_path.glob("*.json")
    assert path.name == "mali-g52-arm-platform.json"
    assert len(json.loads(path.read_text())["entries"]) == 1


@pytest.mark.parametrize("text", ["", "[]", '{"device": {}, "entries": []}'])
def test_a_file_that_cannot_be_understood_is_named(best, tmp_path, text):
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(UsageError, match=r"odd\.json cannot be used: .*; delete it, or tune again"):
        best([])


@pytest.mark.parametrize(("text", "key"), [('{"a": 1}', "device"), ('{"device": {}}', "entries")])
def test_a_file_without_a_key_is_named(best, tmp_path, text, key):
    (tmp_path / "odd.json").write_text(text)
    with pytest.raises(UsageError, match=rf"odd\.json cannot be used: {key} is missing; delete"):
        best([])


STORE = """
import sys
from tests.common.test_tuned import ABOUT, entry
from common import tuned
for n in range(40):
    side = 8 * n + int(sys.argv[2])
    tuned.store(sys.argv[1], tuned.identity(ABOUT), entry(size=f"{side}x8x8"))
"""


def test_two_processes_that_store_at_once_lose_nothing(tmp_path):
    folder = tmp_path / "new"
    running = [subprocess.Popen([sys.executable, "-c", STORE, folder, str(n)], cwd=ROOT)
               for n in (1, 2)]
    assert [process.wait(30) for process in running] == [0, 0]
    (path,) = folder.iterdir()
    assert len(json.loads(path.read_text())["entries"]) == 80


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot write .*: Not a directory"):
        tuned.store(tmp_path / "file" / "tuned", tuned.identity(ABOUT), entry())


@pytest.mark.parametrize(
    ("about", "family"),
    [
        ({"name": "Mali-T628"}, "Mali Midgard"),
        ({"name": "Mali-G71"}, "Mali Bifrost"),
        ({"name": "Mali-G610 (Panfrost)"}, "Mali Valhall"),
        ({"name": "Mali-G999"}, None),
        ({"name": "Adreno"}, None),
        ({"name": "H200", "compute_capability": "9.0"}, "NVIDIA, compute capability 9"),
        ({"name": "x", "type": "cpu", "platform": "PoCL", "preferred_vector_widths": {"float": 8}},
         f"PoCL, {tuned.platform.machine()}, float8"),
    ],
)
def test_families(about, family):
    assert tuned.family({**ABOUT, **about}) == family


@pytest.mark.parametrize("size", ["0x0x0", "4x4", "@resnet50"])
def test_a_size_that_is_none_is_named(best, tmp_path, size):
    odd = {"device": tuned.identity(ABOUT), "entries": [entry(size=size)]}
    (tmp_path / "odd.json").write_text(json.dumps(odd))
    with pytest.raises(UsageError, match=rf"odd\.json cannot be used: size is '{size}'"):
        best([])


def exact(kernel, **params):
    return entry(kernel, **params) | {"compute_units": 4}


def test_an_exact_entry_is_for_its_size_rows_limits_and_device(tmp_path):
    about = {**ABOUT, "compute_units": 4}
    for each in (entry("tiles", gflops=99, TS=2), exact("registers", TS=4)):
        tuned.store(tmp_path, tuned.identity(ABOUT), each)

    def first(about=about, size="512x512x512", **more):
        return tuned.find(tmp_path, about, "single", size, **more)[0]

    assert (first().params, first().exact) == ({"TS": 4}, True)
    others = [
        first({**about, "compute_units": 8}), first(ABOUT), first({**about, "name": "Mali-G31"}),
        first({**about, "limits": {"profile": "embedded"}}), first(size="512x512x513"),
        first(usual=False),
    ]
    assert [(each.params, each.exact) for each in others] == [({"TS": 2}, False)] * 6


@pytest.mark.parametrize(("slower_than", "found"), [
    (None, "registers"), ("11_registers_only", "tiles")])
def test_a_search_replaces_an_exact_entry_only_if_it_wins(tmp_path, slower_than, found):
    about = {**ABOUT, "compute_units": 4}
    tuned.store(tmp_path, tuned.identity(ABOUT), exact("tiles", TS=2))
    tuned.store(tmp_path, tuned.identity(ABOUT), exact("tiles", size="64x64x64", TS=2))
    searched = entry("registers", TS=4) | {"slower_than": slower_than}
    path = tuned.store(tmp_path, tuned.identity(ABOUT), searched)
    assert tuned.find(tmp_path, about, "single", "512x512x512")[0].kernel == found
    assert '"64x64x64"' in path.read_text()


@pytest.mark.parametrize("wrong", [
    {"gflops": "fast"}, {"gflops": -1}, {"gflops": True}, {"kernel": 6}, {"driver": None},
    {"params": {"TS": "2"}}, {"params": 1}, {"batch": 2.5}, {"compute_units": "4"},
], ids=str)
def test_an_entry_of_wrong_types_is_named(tmp_path, wrong):
    path = tuned.store(tmp_path, tuned.identity(ABOUT), entry("tiles", TS=2))
    data = json.loads(path.read_text())
    data["entries"][0].update(wrong)
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=r"mali-g52-arm-platform\.json cannot be used"):
        tuned.find(tmp_path, ABOUT, "single", "512x512x512")
