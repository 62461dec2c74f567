"""inspect --gpu, with a board that gives what Mesa would."""

import json
from dataclasses import asdict
from itertools import pairwise

import pytest

from common import manifest
from common.constraints import Space
from common.errors import UsageError
from common.record import Record
from tests.tools.test_mali import VALHALL
from tools import child, gpus, inspect
from tools.__main__ import run as tools_run

FIGURES = {
    "by": "Mesa", "instructions": 7, "registers": 30, "threads": 2, "spills": 0, "fills": 0,
    "fma": 1 / 32, "special": 2 / 8, "load_store": 1.0, "listing": "0-sgemm-dot4.isa",
}
DEVICE = {"name": "Mali-G57", "type": "gpu"}


@pytest.fixture
def asked(monkeypatch):
    """The options of every run on a board, which builds one kernel and fails at another."""
    seen = []

    def run(sample, options, limit_s, env=None, board=None):
        seen.append((board, options))
        keep = manifest.ROOT / options[options.index("--keep") + 1]
        (keep / FIGURES["listing"]).write_text(VALHALL)
        figures = {"compiler": FIGURES} if "mali" in board else {}
        return child.Outcome(1, [
            Record(sample, "dot4", "built", metrics=figures, device=DEVICE),
            Record(sample, "row4", "failed", "killed by SIGSEGV while building"),
        ])

    monkeypatch.setattr(child, "run", run)
    return seen


def test_a_table_of_kernels_and_gpus(asked, tmp_path, capsys):
    words = ["sgemm", "--gpu", "mali-g57,mali-g610", "--folder", str(tmp_path), "--", "--beta", "0"]
    assert inspect.main(words) == 1  # a kernel that does not build is a finding
    out = capsys.readouterr().out
    assert "these are not times" in out
    rows = [line.split() for line in out.splitlines() if line.startswith("dot4")]
    assert [row[1] for row in rows] == ["mali-g57", "mali-g610"]
    assert rows[0][2:10] == ["7", "30", "2", "0", "0", "1.0000", "4.00", "6.00"]
    assert rows[0][10] == "load_store"
    assert "row4: mali-g610: failed: killed by SIGSEGV while building" in out
    assert "BRANCHZ" not in out
    for board, options in asked:
        assert options[:5] == ("--limits", board, "--build-only", "--kernel", "all")
        assert (tmp_path / board / FIGURES["listing"]).read_text() == VALHALL


def test_a_gpu_without_limits_and_figures(asked, tmp_path, capsys):
    """Those of an Adreno are not known, and Mesa says nothing of its kernels."""
    words = ["sgemm", "--gpu", "adreno-630", "--folder", str(tmp_path)]
    inspect.main([*words, "--", "--kernel", "dot4", "row4"])
    assert [options[:3] for _, options in asked] == [
        ("--build-only", "--kernel", "dot4"), ("--build-only", "--kernel", "row4")]
    note = "adreno-630: Mesa gives no figures for this GPU: a kernel builds, or not\n"
    assert capsys.readouterr().out.count(note) == 1


SPACE = Space({"M0": 4, "N0": 4}, {"M0": (4, 8), "N0": (4, 8)}, ("N0 <= M0",), ("M0", "N0"))
LIMITS = {"max_work_group_size": 256, "max_work_item_sizes": [256] * 3, "local_mem_size": 32768}


@pytest.fixture
def tuned(monkeypatch, tmp_path, capsys):
    """Tune a kernel with tiles M0 x N0; `spills` are those tiles that do. Gives (status, out)."""

    def tune(*words, spills=()):
        def run(sample, options, limit_s, env=None, board=None):
            if "--describe" in options:
                kernel = {"name": "24_mali_images", "options": ["--kernel", "24"],
                          "space": asdict(SPACE)}
                about = {**DEVICE, "platform": "rusticl", "vendor": "ARM", "driver": "26.1.6",
                         "limits": LIMITS}
                return child.Outcome(0, [Record(sample, "describe", "passed", device=about,
                                                params={"kernels": [kernel]})])
            given = dict(pairwise(options))
            tile = int(given["--M0"]), int(given["--N0"])
            keep = manifest.ROOT / given["--keep"]
            loads = "   LOAD.i128\n" * (64 // tile[0])
            text = VALHALL.replace("offset:-6", f"offset:-{6 + 64 // tile[0]}")
            (keep / "l").write_text(text.replace("   IMUL", loads + "   IMUL"))
            figures = {**FIGURES, "listing": "l", "spills": int(tile in spills),
                       "load_store": 1.0 + 64 // tile[0]}
            return child.Outcome(0, [Record(sample, "24_mali_images", "built",
                                            params={"size": "8x8x8"},
                                            metrics={"compiler": figures})])

        monkeypatch.setattr(child, "run", run)
        folder = str(tmp_path / "tuned")
        return tools_run(["tune", "mygemm", "--gpu", "mali-g57", "--tuned", folder, *words])

    return tune


def test_the_tile_that_takes_fewest_cycles_is_stored(tuned, tmp_path, capsys):
    """The 8 x 4 spills; of the others the 8 x 8 takes less than the 4 x 4."""
    assert tuned(spills=[(8, 4)]) == 0
    out = capsys.readouterr().out
    table = out.partition("From the static model")[2].splitlines()
    rows = [line.split() for line in table if line.startswith("--M0")]
    assert [(row[1], row[3]) for row in rows] == [("8", "8"), ("4", "4"), ("8", "4")]
    assert [row[8] for row in rows] == ["0", "0", "1"]
    assert "3 of 3 combinations can be compared" in out
    (path,) = (tmp_path / "tuned").glob("*.json")
    device, (entry,) = json.loads(path.read_text()).values()
    assert (device["name"], device["family"]) == ("Mali-G57", "Mali Valhall")
    assert (entry["params"], entry["gflops"]) == ({"M0": 8, "N0": 8}, None)
    assert entry["driver"] == "26.1.6"


def test_a_kernel_that_spills_with_every_tile(tuned, tmp_path, capsys):
    assert tuned("--", "--M0", "4", spills=[(4, 4)]) == 0
    assert "every combination spills registers\nbest: --N0 4\n" in capsys.readouterr().out
    assert len(list((tmp_path / "tuned").glob("*.json"))) == 1


def test_a_sample_whose_kernels_have_no_parameters(monkeypatch, capsys):
    kernels = [{"name": "dot4", "options": ["--kernel", "dot4"], "space": None}]
    described = Record("sgemm", "describe", "passed", None, {"kernels": kernels}, {}, argv=[])
    monkeypatch.setattr(child, "run", lambda *_, **__: child.Outcome(0, [described]))
    assert tools_run(["tune", "sgemm", "--kernel", "dot4", "--gpu", "mali-g57"]) == 2
    assert capsys.readouterr().err == "tools: error: sgemm's kernels have no parameters\n"


def test_points_on_an_axis_are_built_one_by_one(asked, tmp_path, capsys):
    words = ["sgemm", "--gpu", "mali-g57", "--folder", str(tmp_path)]
    inspect.main([*words, "--", "--kernel", "dot4", "row4"])
    assert [options[3:5] for _, options in asked] == [("--kernel", "dot4"), ("--kernel", "row4")]
    names = {path.parent.name for path in tmp_path.rglob(FIGURES["listing"])}
    assert names == {"mali-g57-kernel-dot4", "mali-g57-kernel-row4"}


def test_a_sample_starts_in_the_board(monkeypatch, tmp_path):
    """Its records come back by a file that both see."""
    said = []

    class Process:
        returncode = 0

        def __init__(self, words, cwd, **_):
            said.extend(words)
            path = manifest.ROOT / words[-1]
            path.write_text(Record("sgemm", "dot4", "built").to_line() + "\n")
            assert cwd == manifest.ROOT

        def wait(self, _):
            return 0

    monkeypatch.setattr(child.subprocess, "Popen", Process)
    done = child.run("sgemm", ["--build-only"], 1, board="mali-g52")
    at = said.index("dev.emulate")
    assert said[at + 1 : at + 3] == ["run", "mali-g52"]
    assert said[-4:-1] == ["samples/sgemm/run.py", "--build-only", "--json"]
    assert [item.status for item in done.records] == ["built"]


def test_a_gpu_that_cannot_be_emulated(asked):
    with pytest.raises(UsageError, match="g52: no such GPU: choose from mali-t760"):
        inspect.main(["sgemm", "--gpu", "g52"])
    assert asked == []


@pytest.mark.parametrize(("text", "said"), [
    ("[", r"boards\.toml: Invalid"), ("mali-g52 = 1", "mali-g52: no such GPU")])
def test_boards_that_cannot_be_read(monkeypatch, tmp_path, text, said):
    (tmp_path / "boards.toml").write_text(text)
    monkeypatch.setattr(gpus.manifest, "ROOT", tmp_path)
    with pytest.raises(UsageError, match=said):
        gpus.require(["mali-g52"])


@pytest.mark.parametrize("kernel", ["work_group", "two_stages"])
def test_work_groups_within_the_limits_of_the_gpu_are_tried(monkeypatch, capsys, kernel):
    """As the sample itself describes them. A Mali-T860 takes 256 at most."""
    describe, asked = child.run, []

    def run(sample, options, limit_s, env=None, board=None):
        if "--describe" in options:
            return describe(sample, options, limit_s)
        asked.append(dict(pairwise(options))["--work-group"])
        keep = manifest.ROOT / options[options.index("--keep") + 1]
        (keep / FIGURES["listing"]).write_text(VALHALL)
        return child.Outcome(0, [Record(sample, kernel, "built", metrics={"compiler": FIGURES})])

    monkeypatch.setattr(child, "run", run)
    words = ["tune", "64_bit_integer", "--kernel", kernel, "--gpu", "mali-t860"]
    assert tools_run(words) == 0
    assert sorted(map(int, asked)) == [2**n for n in range(9)]
    assert "9 of 9 combinations can be compared" in capsys.readouterr().out
