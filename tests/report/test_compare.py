"""Better, same or worse: what counts as noise, and what a regression does to the exit status."""

import random

import pytest
from report_data import LATER, item, make_run, program, write

from common import stats
from common.errors import UsageError
from report import compare, reading


def compared(tmp_path, old, new):
    """Return the rows on lists of records."""
    for name, items in (("old", old), ("new", new)):
        (tmp_path / name / "r.jsonl").unlink(missing_ok=True)
        write(tmp_path / name / "r.jsonl", *items)
    read = [reading.collect([tmp_path / name], "/nowhere").points for name in ("new", "old")]
    return compare.compare(*read)


def verdicts(tmp_path, old, new):
    """Return the verdict on each kernel, of lists of records."""
    return {row["Kernel"]: row["Verdict"] for row in compared(tmp_path, old, new)}


def times(draw, scale=1.0, count=5, noise=0.02):
    return stats.spread([scale * draw.lognormvariate(0, noise) for _ in range(count)])


@pytest.mark.parametrize("count", [5, 10, 40])
def test_noise_alone_is_hardly_ever_a_verdict(count):
    draw = random.Random(7)
    said = [compare.judge(times(draw, count=count), times(draw, count=count)) for _ in range(5000)]
    assert said.count("same") >= 0.995 * len(said)


@pytest.mark.parametrize(("scale", "verdict"), [(1.25, "worse"), (0.75, "better")])
def test_a_change_beyond_the_noise_is_found(scale, verdict):
    draw = random.Random(7)
    said = [compare.judge(times(draw, scale), times(draw)) for _ in range(500)]
    assert said.count(verdict) >= 0.99 * len(said)


def test_a_small_change_is_no_verdict_however_little_noise_there_is():
    steady = stats.spread([1.0, 1.0, 1.0])
    assert compare.judge(stats.spread([1.029] * 3), steady) == "same"
    assert compare.judge(stats.spread([1.031] * 3), steady) == "worse"
    assert compare.judge(stats.spread([0.969] * 3), steady) == "better"


def test_too_few_launches_say_nothing():
    assert compare.judge(stats.spread([9.0, 9.0]), stats.spread([1.0, 1.0, 1.0])) == "unsure"


def test_both_spreads_count():
    # Medians 1 and 2: apart, but not beyond what either side shows by itself.
    wide, narrow = stats.spread([0.5, 1.0, 2.5]), stats.spread([1.99, 2.0, 2.01])
    assert compare.judge(narrow, wide) == compare.judge(wide, narrow) == "same"


def test_verdicts(tmp_path):
    slow = (0.020, 0.021, 0.022)
    old = [item("worse"), item("better", times=slow), item("same"), item("broke"), item("gone"),
           item("mended", "failed"), item("still", "failed"), item("lacking", "unsupported"),
           item("bare", times=())]
    new = [item("worse", times=slow), item("better"), item("same"), item("broke", "error"),
           item("mended"), item("still", "error"), item("lacking", "failed"),
           item("bare", times=()), item("new")]
    found = verdicts(tmp_path, old, new)
    assert found == {
        "worse": "worse", "better": "better", "same": "same", "broke": "worse", "gone": "gone",
        "mended": "better", "still": "same", "lacking": "worse",
        "bare": "unsure", "new": "new",
    }
    assert list(found)[:2] == ["worse", "broke"]  # the worst comes first


def test_a_point_is_compared_with_that_of_its_own_device(tmp_path):
    other = {"name": "Mali-G610", "type": "gpu"}
    slow = (0.020, 0.021, 0.022)
    old = [item(), item(times=slow, device=other)]
    assert verdicts(tmp_path, old, [item(times=slow, device=other), item()]) == {"dot4": "same"}


def test_another_driver_is_what_is_compared(tmp_path):
    newer = {**item().device, "driver": "2.0"}
    assert verdicts(tmp_path, [item()], [item(device=newer)]) == {"dot4": "same"}


def test_another_version_of_the_kernel_is_the_same_case(tmp_path):
    old, new = ({"size": "8", "kernel_sha256": v, "peer": v, "point": {"v": v}} for v in "ab")
    assert verdicts(tmp_path, [item(params=old)], [item(params=new)]) == {"dot4": "same"}


def test_parameters_make_another_case(tmp_path):
    other = item("dot4", params={"size": "64"})
    with pytest.raises(UsageError, match="nothing to compare"):
        verdicts(tmp_path, [item()], [other])


# As the samples write them: what a kernel was built with is known where it was built.
MYGEMM = {"precision": "single", "alpha": 1.0, "beta": 0.0, "data": "sdk", "seed": 1,
          "size": "256x256x256", "lda": 256, "ldb": 256, "ldc": 256}
BUILT = {"TS": 32, "WPT": 8, "local": "32x4"}
POINT = {"kernel": "dot4", "kernel_sha256": "a", "size": "512", "lws": "8,8", "repeat": 4}
BENCH = {"kernel": "dot4", "kernel_sha256": "a", "precision": "float32", "size": "512", "pin": None}
RAN = {"global": [64, 64], "local": [8, 8], "alpha": "1", "beta": "2", "guard_pages": "clean"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (MYGEMM | BUILT, MYGEMM),
        # Of a kernel that crashed the driver only the size is recorded.
        (MYGEMM | BUILT | {"precision": "double"}, {"size": MYGEMM["size"]}),
        (BENCH | RAN | {"point": POINT}, BENCH | {"point": POINT | {"kernel_sha256": "b"}}),
        # An exploration knows no more of a point that crashed, and how it ended.
        (BENCH | RAN | {"point": POINT, "exit_status": 0},
         {"point": POINT, "kernel": "dot4", "exit_status": -11}),
    ],
)
def test_a_kernel_that_cannot_be_built_any_more_is_worse(tmp_path, capsys, old, new):
    before = make_run(tmp_path, item(params=old), item("row4"))
    after = make_run(tmp_path, item("dot4", "error", (), params=new), item("row4"), name=LATER)
    args = (after, "--baseline", before, "-o", tmp_path / "page.html")
    done = program(capsys, *args, "--fail-on-regression")
    assert done.returncode == 1
    size = f" {new['size']}" if "size" in new else ""
    said = f"1 worse, 1 same\nworse: odroid: sgemm speed dot4{size}: error: it is broken"
    assert said in done.stdout
    mended = reading.collect([before], "/"), reading.collect([after], "/")
    assert compare.compare(*(read.points for read in mended))[0]["Verdict"] == "better"


def test_of_several_sizes_that_of_the_broken_one_is_worse(tmp_path):
    old = [item(params=MYGEMM | BUILT | {"size": size}) for size in ("64", "128")]
    new = [item("dot4", "error", (), params=MYGEMM | {"size": "64"}), old[1]]
    found = compared(tmp_path, old, new)
    assert [(row["Verdict"], row["Parameters"].split()[0]) for row in found] == [
        ("worse", "size=64"),
        ("same", "size=128"),
    ]


def test_another_choice_is_the_same_case(tmp_path):
    old, new = (item(params=MYGEMM | BUILT | {"TS": TS}, times=(TS, TS, TS)) for TS in (8, 16))
    assert verdicts(tmp_path, [old], [new]) == {"dot4": "worse"}


def test_other_points_of_a_search_are_no_pairs(tmp_path):
    search = {TS: item(params=MYGEMM | BUILT | {"TS": TS}, times=(TS, TS, TS)) for TS in (4, 8, 16)}
    found = compared(tmp_path, [search[4], search[8]], [search[4], search[16]])
    assert [row["Verdict"] for row in found] == ["same", "new", "gone"]


@pytest.mark.parametrize("kernel", ["dot4", None])
def test_what_is_gone_while_its_kernel_or_case_broke_off_is_worse(tmp_path, kernel):
    old = [item(params=MYGEMM | BUILT | {"TS": TS}) for TS in (8, 16)]
    found = compared(tmp_path, old, [item(kernel, "error", (), params={})])
    assert [row["Verdict"] for row in found][:2] == ["worse", "worse"]
    # What was as broken before is no reason.
    broken = item(kernel, "error", (), params={})
    found = compared(tmp_path, [*old, broken], [broken])
    assert [row["Verdict"] for row in found] == ["same", "gone", "gone"]


def test_a_run_that_is_compared_with_itself_is_the_same(tmp_path):
    """Also where two points of a sweep have the same parameters, given in another order."""
    swept = [item(times=(t, t, t), started=f"2026-01-02T03:04:0{n}", params={
        "size": "8", "point": {"options": words}})
        for n, (t, words) in enumerate(((1, ["-a", "-b"]), (2, ["-b", "-a"])))]
    assert [row["Verdict"] for row in compared(tmp_path, swept, swept)] == ["same", "same"]


def test_no_point_of_the_baseline_is_dropped(tmp_path):
    old = [item(), item(device={**item().device, "driver": "0.9"})]
    assert [row["Verdict"] for row in compared(tmp_path, old, [item()])] == ["same", "gone"]


def test_boards_that_do_not_correspond(tmp_path):
    for side, names in (("old", "ab"), ("new", "cd")):
        for name in names:
            make_run(tmp_path / side, item(), board=name)
    old, new = (reading.collect([tmp_path / s], "/nowhere").points for s in ("old", "new"))
    with pytest.raises(UsageError, match="the baseline has a, b and the results have c, d"):
        compare.compare(new, old)
    # One board on each side is compared, whatever it is called.
    one = [[p for p in side if p.board in "ac"] for side in (new, old)]
    assert [row["Verdict"] for row in compare.compare(*one)] == ["same"]


def test_the_exit_status_tells_of_a_regression(tmp_path, capsys):
    def report(*args):
        return program(capsys, *args)

    old = make_run(tmp_path, item())
    new = make_run(tmp_path, item(times=(0.020, 0.021, 0.022)), name=LATER)
    page = tmp_path / "page.html"
    args = (new, "--baseline", old, "-o", page)
    assert report(*args).returncode == 0
    done = report(*args, "--fail-on-regression")
    assert (done.returncode, done.stderr) == (1, "")
    said = "1 worse\nworse: odroid: sgemm speed dot4 512: 21 ms, was 11 ms (+90.9 %)\n"
    assert said in done.stdout
    text = page.read_text()
    assert "more than the sum of both spreads" in text
    assert text.index("worse than the baseline") < text.index('id="comparison"')
    assert report(new, "--baseline", new, "--fail-on-regression", "-o", page).returncode == 0
    # The other way round it is an improvement.
    back = report(old, "--baseline", new, "--fail-on-regression", "-o", page)
    assert (back.returncode, "1 better" in back.stdout) == (0, True)
