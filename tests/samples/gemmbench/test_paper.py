"""The paper's failures as an experiment: which orders fail, and which of the two causes did it."""

import re

import pytest

from tests.conftest import sample_module

HEAD = (
    "order  kernel without a tail         past row  past end  cause 1   cause 2   both      verdict"
)
RIGHT = r"(\d\.?\d*e-\d\d)"  # an error of rounding
# order, kernel, products past the row, elements of C that took something from past the end
TABLE = """\
64 SGEMM_NT_4x1_barrier_no_tail 64 127 0.0501 0.783 0.812 FAILS
64 DGEMM_NT_2x1_barrier_no_tail 0 0 0.0501 ROUNDING 0.0501 match
64 SGEMM_NT_4x1_unroll2_no_tail 0 0 0.0501 ROUNDING 0.0501 match
96 SGEMM_NT_4x1_barrier_no_tail 32 191 0.0501 0.641 0.647 FAILS
96 DGEMM_NT_2x1_barrier_no_tail 32 191 0.0501 0.641 0.647 FAILS
96 SGEMM_NT_4x1_unroll2_no_tail 0 0 0.0501 ROUNDING 0.0501 match
100 SGEMM_NT_4x1_barrier_no_tail 28 199 0.0501 0.524 0.531 FAILS
100 DGEMM_NT_2x1_barrier_no_tail 28 199 0.0501 0.524 0.531 FAILS
100 SGEMM_NT_4x1_unroll2_no_tail 4 199 0.0501 0.22 0.242 FAILS
128 SGEMM_NT_4x1_barrier_no_tail 0 0 0.0501 ROUNDING 0.0501 match
128 DGEMM_NT_2x1_barrier_no_tail 0 0 0.0501 ROUNDING 0.0501 match
128 SGEMM_NT_4x1_unroll2_no_tail 0 0 0.0501 ROUNDING 0.0501 match
192 SGEMM_NT_4x1_barrier_no_tail 64 383 0.0502 0.845 0.849 FAILS
192 DGEMM_NT_2x1_barrier_no_tail 0 0 0.0502 ROUNDING 0.0502 match
192 SGEMM_NT_4x1_unroll2_no_tail 0 0 0.0502 ROUNDING 0.0502 match
256 SGEMM_NT_4x1_barrier_no_tail 0 0 0.0502 ROUNDING 0.0502 match
256 DGEMM_NT_2x1_barrier_no_tail 0 0 0.0502 ROUNDING 0.0502 match
256 SGEMM_NT_4x1_unroll2_no_tail 0 0 0.0502 ROUNDING 0.0502 match
"""


@pytest.fixture(scope="module")
def orders():
    return ",".join(dict.fromkeys(line.split()[0] for line in TABLE.splitlines()))


def test_the_table_shows_the_two_causes_apart(recorded, orders):
    done, (item,) = recorded("gemmbench", "paper", "--orders", orders)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    at = lines.index(HEAD)
    rows = [" ".join(line.split()) for line in lines[at + 1 : lines.index("", at)]]
    assert len(rows) == TABLE.count("\n")
    for row, wanted in zip(rows, TABLE.splitlines()):
        assert re.fullmatch(re.escape(wanted).replace("ROUNDING", RIGHT), row), row
    words = " ".join(done.stdout.split())
    assert "it leaves out beta * C, at most 0.0502" in words
    assert "SGEMM_NT_4x1_barrier_no_tail fails at 64, 96, 100, 192: no multiples of 128" in words
    assert "DGEMM_NT_2x1_barrier_no_tail fails at 96, 100: no multiples of 64" in words
    assert "SGEMM_NT_4x1_unroll2_no_tail fails at 100: no multiples of 8" in words
    assert "The two causes explain every row." in words
    assert item.status == "passed"
    assert len(item.params["rows"]) == len(rows)


@pytest.mark.exhaustive
def test_a_small_tolerance_shows_that_the_reference_is_wrong_everywhere(recorded):
    _, (item,) = recorded("gemmbench", "paper", "--orders", "64,128")
    for row in item.params["rows"]:
        assert row["by_reference"] == pytest.approx(row["beta_times_c"], rel=1e-3)
        assert row["both"] >= 0.05
        assert row["kernel_fails"] == (row["order"] % row["unit"] != 0)


def test_it_fails_where_the_kernels_cause_is_gone(recorded, project):
    path = project / "samples/gemmbench/kernels/vectors.cl"
    path.write_text(path.read_text().replace("#ifdef NO_TAIL", "#if 0"))
    done, (item,) = recorded("gemmbench", "paper", "--orders", "64", root=project)
    assert done.returncode == 1
    assert "NOT EXPLAINED by that: " in done.stdout
    assert item.status == "failed"


def test_it_fails_where_the_references_cause_is_gone(run_here, monkeypatch):
    """A reference with beta * C differs from a right kernel by rounding only."""
    paper = sample_module("gemmbench", "paper")
    compare = paper.compare

    def mended(*args):
        row, result = compare(*args)
        row.by_reference = 1e-6
        return row, result

    monkeypatch.setattr(paper, "compare", mended)
    status, said, _ = run_here(paper.main, "--orders", "64", options=paper.parser())
    assert status == 1
    assert "NOT EXPLAINED by that: " in said


def test_without_doubles_the_rest_is_shown(recorded):
    done, (item,) = recorded("gemmbench", "paper", "--orders", "64", "--limits", "embedded")
    assert done.returncode == 0
    assert "skipped: DGEMM_NT_2x1_barrier_no_tail needs cl_khr_fp64" in done.stdout
    assert len(item.params["rows"]) == 2


@pytest.mark.parametrize("orders", ["6", "64,7", "64x64x8", "0", "x"])
def test_orders_that_say_nothing_are_refused(run_here, orders):
    paper = sample_module("gemmbench", "paper")
    code, _, said = run_here(paper.main, "--orders", orders, options=paper.parser())
    assert code == 2
    assert said.count("\n") == 1


def test_its_kernels_are_built_only(recorded):
    done, items = recorded("gemmbench", "paper", "--build-only", "--orders", "64")
    assert done.returncode == 0, done.stderr
    assert [item.status for item in items] == ["built"] * 3
    assert {item.variant[-8:] for item in items} == {"_no_tail"}
    assert HEAD not in done.stdout
