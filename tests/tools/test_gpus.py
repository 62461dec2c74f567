"""inspect --gpu, with a board that gives what Mesa would."""

import pytest
from test_mali import VALHALL

from common import manifest
from common.errors import UsageError
from common.record import Record
from tools import child, inspect

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
        return child.Outcome(1, [
            Record(sample, "dot4", "built", metrics={"compiler": FIGURES}, device=DEVICE),
            Record(sample, "row4", "failed", "killed by SIGSEGV while building"),
        ])

    monkeypatch.setattr(child, "run", run)
    return seen


def test_a_table_of_kernels_and_gpus(asked, tmp_path, capsys):
    words = ["sgemm", "--gpu", "mali-g57,mali-g610", "--folder", str(tmp_path), "--", "--beta", "0"]
    assert inspect.main(words) == 1  # a kernel that does not build is a finding
    out = capsys.readouterr().out
    assert "no times, and not Arm's compiler" in out
    rows = [line.split() for line in out.splitlines() if line.startswith("dot4")]
    assert [row[1] for row in rows] == ["mali-g57", "mali-g610"]
    assert rows[0][2:10] == ["7", "30", "2", "0", "0", "1.0000", "4.00", "6.00"]
    assert rows[0][10] == "load_store"
    assert "row4: mali-g610: failed: killed by SIGSEGV while building" in out
    assert "BRANCHZ" not in out
    for board, options in asked:
        assert options[:4] == ("--limits", board, "--kernel", "all")
        assert "--build-only" in options
        assert (tmp_path / board / FIGURES["listing"]).read_text() == VALHALL


def test_the_disassembly_of_points_on_an_axis(asked, tmp_path, capsys):
    words = ["sgemm", "--gpu", "mali-g57", "--folder", str(tmp_path), "--listing"]
    inspect.main([*words, "--axis", "--kernel", "dot4", "row4"])
    assert [options[2:4] for _, options in asked] == [("--kernel", "dot4"), ("--kernel", "row4")]
    assert capsys.readouterr().out.count("BRANCHZ") == 2


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
    with pytest.raises(UsageError, match="--gpu g52: no such GPU; there are: mali-t760"):
        inspect.main(["sgemm", "--gpu", "g52"])
    assert asked == []
