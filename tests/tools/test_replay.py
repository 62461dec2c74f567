"""tools replay: a recorded run is run again, and judged only by what is like it."""

import json
import os
import re

import pytest
from stub import Stub

from common import files, manifest, record
from tools import replay


@pytest.fixture
def stub(tmp_path, monkeypatch, capsys):
    stub = Stub(tmp_path, monkeypatch, capsys)
    manifest.choosing.cache_clear()
    yield stub
    manifest.choosing.cache_clear()


@pytest.fixture
def recorded_point(stub):
    """A journal with the record of one point; gives a function that changes the record."""
    stub.point("--kernel", "1", "--size", "8")
    data = json.loads(stub.journal.read_text())

    def change(**changes):
        stub.journal.write_text(json.dumps({**data, **changes}) + "\n")
        return data

    return change


def test_they_agree_by_both_spreads_together(recorded_point, stub, monkeypatch):
    """Times of 0.1 (3 of them), 0.11 and 0.12: the 10th to 90th percentile is 40 to 34.48."""
    recorded_point()
    monkeypatch.setenv("STUB_FACTOR", "1.25")  # 50, and 43.1 to 50: 10 apart, 12.4 allowed
    status, out, _ = stub("replay", f"{stub.journal}:1")
    assert status == 0
    assert re.search(r"^  recorded  40 GFLOPS \(median of 5, spread 34.48 to 40\), 2", out, re.M)
    assert re.search(r"^  now       50 GFLOPS \(median of 5, spread 43.1 to 50\)$", out, re.M)
    assert "\nagree: the medians differ by 10; up to 12.41 counts as noise\n" in out
    monkeypatch.setenv("STUB_FACTOR", "1.5")  # 60, and 51.7 to 60: 20 apart, 13.8 allowed
    status, out, _ = stub("replay", stub.journal)
    assert status == 1
    assert "\ndiffer: the medians differ by 20; up to 13.79 counts as noise\nnote: " in out


@pytest.mark.parametrize(("factor", "verdict"), [(1.029, "agree"), (1.031, "differ")])
def test_medians_within_3_percent_agree_whatever_their_spreads(factor, verdict):
    def run(rate):
        return record.Record("sgemm", "k", "passed", timing={"host_s": [1.0] * 5},
                             metrics={"gflops": rate})

    found = replay.compare(manifest.read("sgemm"), run(100.0), run(100.0 * factor))
    assert found[0].startswith(f"{verdict}: the medians differ by ")


def test_integer_operations_have_their_unit():
    item = record.Record("mygemm", "k", "passed", params={"precision": "int8"},
                         timing={"host_s": [1.0] * 3}, metrics={"gflops": 9.0})
    assert replay.shown(manifest.read("mygemm"), item).startswith("9 GOPS (")


def test_a_single_time_has_no_spread():
    item = record.Record("sgemm", "k", "passed", timing={"host_s": [1.0]}, metrics={"gflops": 9.0})
    assert replay.shown(manifest.read("sgemm"), item) == "9 GFLOPS (1 run, no spread)"


def test_few_times_are_inconclusive(stub):
    stub.point("--kernel", "1", "--repeat", 2)
    status, out, _ = stub("replay", stub.journal)
    assert status == 77
    assert "\ninconclusive: one side has 2 times, fewer than 3\n" in out


def test_runs_without_times_agree(stub):
    stub.point("--kernel", "1", "--do", "check")
    status, out, _ = stub("replay", stub.journal)
    assert (status, "agree: both runs passed; there are no times to compare" in out) == (0, True)


def test_failures(recorded_point, stub):
    recorded_point(status="failed", reason="9 elements are wrong", metrics={}, timing={})
    status, out, _ = stub("replay", stub.journal)
    assert status == 0
    assert "\nno longer fails: it was recorded as failed" in out
    stub.journal.unlink()
    stub.point("--kernel", "1", "--do", "wrong")
    status, out, _ = stub("replay", stub.journal)
    assert (status, "\nagree: it fails as recorded (failed)" in out) == (0, True)
    data = json.loads(stub.journal.read_text())
    stub.journal.write_text(json.dumps({**data, "reason": "it is broken"}) + "\n")
    status, out, _ = stub("replay", stub.journal)
    assert (status, "differ: the reason of the failure changed" in out) == (1, True)
    stub.journal.write_text(json.dumps({**data, "status": "passed", "reason": None}) + "\n")
    status, out, _ = stub("replay", stub.journal)
    assert (status, "differ: recorded as passed, now failed" in out) == (1, True)


def test_the_numbers_of_a_reason_may_differ():
    old = record.Record("stub", "k", "error", "killed: it did not end within 6 s")
    for reason, verdict in (
        ("killed by SIGSEGV", "differ"),
        ("killed: it did not end within 60 s", "agree"),
    ):
        new = record.Record("stub", "k", "error", reason)
        assert replay.compare(None, old, new)[0].startswith(verdict)


def test_a_crash_is_a_result(stub):
    stub.point("--kernel", "1", "--do", "crash")
    status, out, _ = stub("replay", stub.journal)
    assert status == 0
    assert "  now       error: killed by SIGSEGV: last words ?[1m\n" in out


def test_a_run_that_takes_too_long_is_inconclusive(stub):
    stub.point("--kernel", "1")
    data = json.loads(stub.journal.read_text())
    data["params"]["point"]["options"] += ["--do", "hang"]
    stub.journal.write_text(json.dumps(data) + "\n")
    status, out, _ = stub("replay", stub.journal, "--limit", 0.5)
    assert (status, "\ninconclusive: it did not end within the time limit" in out) == (77, True)


@pytest.mark.parametrize(("words", "kept"), [
    (["--size", "64,128", "--kernel", "6,7"], ["--size=64x64x64", "--kernel", "6,7"]),
    (["--size=256:1024:256", "-p", "intel"], ["--size=64x64x64", "-p", "intel"]),
    (["--size", "64", "-n", "1,2", "--check-only"], ["--size", "64", "-n", "1,2", "--check-only"]),
    (["a,b", "--size"], ["a,b", "--size"]),
])
def test_of_several_sizes_that_of_the_record_is_run(words, kept):
    assert replay._of_one(words, {"size": "64x64x64", "n": 1}) == kept


def test_other_code_is_not_judged(recorded_point, stub):
    recorded_point(code="another")
    status, out, _ = stub("replay", stub.journal)
    assert (status, "\nnot comparable: the code has changed since\n" in out) == (77, True)
    data = recorded_point()
    del data["code"]
    recorded_point(code=None)
    status, out, _ = stub("replay", stub.journal)
    assert status == 77
    assert "\nnot comparable: the record has no digest of its code\n" in out


def test_the_device_is_that_of_the_record(recorded_point, stub, monkeypatch):
    data = recorded_point()
    assert stub("replay", stub.journal)[0] == 0
    assert stub.runs()[-1] == "--kernel 1 --size 8 --platform=a platform --device=a device"
    recorded_point(device={**data["device"], "name": "Mali-T628"})
    status, out, _ = stub("replay", stub.journal, "--", "-p", "0")
    assert status == 77
    assert "\nnot comparable: recorded on Mali-T628 (a platform), now on a device" in out
    assert stub.runs()[-1] == "--kernel 1 --size 8 -p 0"


def test_a_device_that_is_not_here(recorded_point, stub):
    """The sample says so."""
    recorded_point(params={"point": {"options": ["--do", "refuse"]}})
    status, _, errors = stub("replay", stub.journal)
    assert (status, errors) == (77, (
        "tools: error: not comparable: it is refuse; it was recorded with --platform=a platform "
        "--device=a device: if that is not here, name another device after --: -p, -d\n"
    ))


def test_another_driver_is_said_and_judged(recorded_point, stub):
    data = recorded_point()
    recorded_point(device={**data["device"], "driver": "0.1"})
    status, out, _ = stub("replay", stub.journal)
    assert status == 0
    assert "\nnote: recorded with driver 0.1, now 1\nagree: " in out


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["run.py", "--blas", "./friend.zip"], "--blas"),
        (["run.py", "--kernel", "1", "--blas=x"], "--blas=x"),
        (["run.py", "--kernel", "/etc/passwd"], "/etc/passwd"),
        (["run.py", "friend.bmp"], "friend.bmp"),
        (["run.py", "--kernel"], "--kernel"),
    ],
)
def test_options_of_others_only_choose(recorded_point, stub, argv, word):
    data = recorded_point()
    del data["params"]["point"]
    recorded_point(argv=argv)
    runs = len(stub.runs())
    status, _, errors = stub("replay", stub.journal)
    assert status == 2
    what = "option" if word[0] == "-" else "argument"
    assert f"the record's {what} {word} may name or write a file" in errors
    assert errors.count("\n") == 1
    assert len(stub.runs()) == runs
    point = {"options": argv[1:], "key": "0" * 32}
    recorded_point(argv=["run.py"], params={**data["params"], "point": point})
    assert stub("replay", stub.journal)[0] == 2
    stub("replay", "--trust", stub.journal)
    assert len(stub.runs()) == runs + 1


def test_the_record_of_a_run_by_hand(recorded_point, stub):
    data = recorded_point()
    del data["params"]["point"]
    argv = ["/home/board/samples/stub/run.py", "--kernel", "1", "--json", "x", "--output=y.npz"]
    recorded_point(argv=argv)
    assert stub("replay", stub.journal)[0] == 0
    assert stub.runs()[-1].startswith("--kernel 1 --platform")


def test_options_that_are_no_texts(recorded_point, stub):
    data = recorded_point()
    del data["params"]["point"]
    recorded_point(argv=["run.py", "--kernel", 1])
    assert stub("replay", stub.journal)[0] == 0
    recorded_point(argv=["run.py", "--kernel", "1", "\0", None])
    status, _, errors = stub("replay", "--trust", stub.journal)
    assert (status, "options that are not printable" in errors) == (2, True)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.jsonl", "cannot read none.jsonl: No such file"),
        ("", "FILE:LINE: give a path: it is empty"),
        (":12", "FILE:LINE: give a path: it is empty"),
        ("{}", "has several records: name one, such as "),
        ("{}:4", "has no line 4"),
        ("{}:0", "has no line 0"),
        ("{}:" + "9" * 4400, "File name too long"),
        ("{}:2", "the record is of the sample 'nonesuch', which does not exist here"),
        ("{}:3", "journal.jsonl:3: not a JSON object"),
        ("/", "cannot read /: it is a folder, not a file"),
        ("/dev/zero:1", "cannot read /dev/zero: it is a device, not a file"),
        ("a\0b", "cannot read a?b: "),
    ],
)
def test_what_cannot_be_replayed(stub, name, message):
    items = [record.Record("stub", "k", "error", "why"), record.Record("nonesuch", "k", "passed")]
    text = "".join(item.to_line() + "\n" for item in items)
    stub.journal.write_text(text + "junk\n")
    status, _, errors = stub("replay", name.format(stub.journal))
    assert message in errors
    assert (status, errors.count("\n")) == (2, 1)


def test_a_record_that_another_one_replaced_is_refused(stub):
    run = {"sample": "stub", "started": record.now()}  # records of a run share it
    old = record.Record(variant="k", status="error", reason=record.UNFINISHED, **run)
    items = [old, *(record.Record(variant=each, status="passed", **run) for each in ("other", "k"))]
    stub.journal.write_text("".join(item.to_line() + "\n" for item in items))
    status, _, errors = stub("replay", f"{stub.journal}:1")
    assert ":1 was written before k was timed: name the later record that replaced it\n" in errors
    assert status == 2
    stub.journal.write_text(old.to_line() + "\n")
    assert replay.load(f"{stub.journal}:1").reason == record.UNFINISHED


def test_a_line_without_an_end_is_not_read_to_its_end(stub, monkeypatch):
    monkeypatch.setattr(files, "LONGEST_RECORD", 1000)
    monkeypatch.setattr(record, "scan", None)
    short = record.Record("stub", "k", "error", record.UNFINISHED).to_line()
    stub.journal.write_text(f"{short}\n{short} {2000 * ' '}\n{1000 * '['}{2000 * ' '}3\n{short}\n")
    asked = []
    parse_line = record.parse_line
    monkeypatch.setattr(record, "parse_line", lambda line: asked.append(line) or parse_line(line))
    assert replay.load(f"{stub.journal}:4").reason == record.UNFINISHED
    assert max(map(len, asked)) == 1000
    assert stub("replay", f"{stub.journal}:3")[2].count("journal.jsonl:3: ") == 1


def test_the_name_of_a_kernel_cannot_steer_the_terminal(recorded_point, stub):
    recorded_point(variant="k\x1b[2J")
    _, out, _ = stub("replay", stub.journal)
    assert "\x1b" not in out
    assert "k?[2J: --kernel 1" in out


def test_a_fifo_is_refused_at_once(stub, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert stub("replay", f"{tmp_path}/fifo:1")[2].endswith("fifo: it is a FIFO, not a file\n")


@pytest.mark.parametrize(
    "change",
    [{"metrics": {"statistics": {"median": "x"}}}, {"metrics": {}}, {"timing": {}},
     {"params": {"point": 3}}, {"params": {"point": {"options": "x"}}}, {"device": {}},
     {"metrics": {"gflops": 0}}, {"timing": {"host_s": [0, 0]}}],
)
def test_odd_records_end_in_a_verdict_or_one_line(recorded_point, stub, change):
    recorded_point(**change)
    status, out, errors = stub("replay", stub.journal)
    assert status in (0, 1, 2, 77)
    assert out or errors.count("\n") == 1
    assert "unforeseen" not in errors


def test_a_record_of_a_real_sample(recorded, run_sample, tmp_path, capsys):
    from tools.__main__ import run

    recorded("sgemm", "--size", 24, "--kernel", "row4")
    status = run(["replay", str(tmp_path / "records.jsonl")])
    said = capsys.readouterr()
    assert status in (0, 1), said.err
    assert "sgemm row4: --size 24 --kernel row4" in said.out
    assert re.search(r"^(agree|differ): the medians differ by ", said.out, re.M)
