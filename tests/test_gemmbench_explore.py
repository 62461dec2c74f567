"""Explorations: a journal that survives everything, and points that cannot hurt it."""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bad_kernels import CRASH, HANG, add_kernel
from conftest import ROOT, exhaustive_but, sample_module

from common import record

KERNELS = ROOT / "samples/gemmbench/kernels"
QUICK = ("--repeat", 2, "--warmup", 0, "--no-fence")
FEW = ("-f", "SGEMM_NN_1x1", "--orders", "4,5,6", "--lws", "1x1", *QUICK)


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "journal.jsonl"


@pytest.fixture
def explore(run_sample, journal):
    """Run `explore` into the journal; gives the finished process and the journal's records."""

    def run(*args, **more):
        done = run_sample("gemmbench", "explore", "--journal", journal, *args, **more)
        return done, record.read(journal) if journal.exists() else []

    return run


def points(items):
    return [(i.variant, i.params["point"]["size"], i.params["point"]["lws"]) for i in items]


ALL = [("SGEMM_NN_1x1", f"{n}x{n}x{n}", "1,1") for n in (4, 5, 6)]


def start(journal, *args):
    command = [sys.executable, "samples/gemmbench/run.py", "explore", "--journal", journal, *args]
    return subprocess.Popen(
        list(map(str, command)), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, start_new_session=True,
    )  # fmt: skip


def processes_with(text):
    """Return the ids of the processes whose command line has the text."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if text in (folder / "cmdline").read_text():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_for(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def test_the_cross_product_is_run_and_recorded(explore, journal):
    done, items = explore(*FEW)
    assert done.returncode == 0, done.stdout + done.stderr
    assert points(items) == ALL
    assert {item.status for item in items} == {"passed"}
    assert all(item.metrics["statistics"]["repeats"] == 2 for item in items)
    lines = done.stdout.splitlines()
    assert lines[0] == f"3 points, 0 of them in {journal} already"
    assert re.fullmatch(
        r"\[1/3, 0:\d\d left\] SGEMM_NN_1x1 4x4x4 1x1: \S+ GFLOPS \(\S+ to \S+\)", lines[2]
    )
    assert lines[-2].startswith("3 passed: records in ")
    assert lines[-1].startswith("fastest: SGEMM_NN_1x1 ")
    again, same = explore(*FEW)
    assert again.returncode == 0
    assert same == items
    assert "3 points, 3 of them in " in again.stdout


def test_the_defaults_are_the_documented_ones(run_sample):
    text = " ".join(run_sample("gemmbench", "explore", "--help").stdout.split())
    for default in ("64,96,128", "0x0,8x8", "max", "gemmbench.jsonl", "60", "4"):
        assert f"(default {default})" in text


@pytest.mark.exhaustive
def test_a_seeded_random_search(explore, journal):
    args = (*FEW, "--random", 2, "--seed", 3)
    first = points(explore(*args)[1])
    assert len(set(first)) == 2
    assert set(first) < set(ALL)
    journal.unlink()
    assert points(explore(*args)[1]) == first
    other = explore(*args, "--seed", 5)[1]
    assert len(other) == 4  # of other inputs, so these are other points


@pytest.mark.exhaustive
def test_points_that_fail_are_recorded_with_their_reason(explore, tmp_path):
    folder = tmp_path / "bad"
    for name, spoil in (("a_hangs", HANG), ("b_crashes", CRASH), ("c_is_wrong", "")):
        add_kernel(folder, name, spoil)
    add_kernel(folder, "d_does_not_build", "    syntax error\n")
    shutil.copy(KERNELS / "SGEMM_NN_4x1.cl", folder)
    shutil.copy(KERNELS / "SGEMM_NN_4x1.json", folder)
    args = ("--kernels", folder, "--orders", "12", "--lws", "2x2", "--limit", 3, *QUICK)
    done, items = explore(*args)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    reasons = {item.variant: (item.status, item.reason) for item in items}
    assert reasons["a_hangs"] == ("error", "no end within 3 s: killed")
    assert reasons["b_crashes"][0] == "error"
    assert reasons["b_crashes"][1].startswith("killed by SIGSEGV")
    assert reasons["c_is_wrong"][0] == "failed"
    assert "elements are wrong" in reasons["c_is_wrong"][1]
    assert reasons["d_does_not_build"][0] == "error"
    assert "d_does_not_build.cl does not build: line 4" in reasons["d_does_not_build"][1]
    # NN_4x1 has 3 work-items a row, which groups of 2 do not divide: no failure of the kernel.
    assert "2 does not divide the 3 work-items" in reasons["SGEMM_NN_4x1"][1]
    assert "1 failed, 1 refused, 3 error: records in " in done.stdout
    assert explore(*args)[1] == items  # what failed is not tried again
    assert processes_with(str(folder)) == []


@pytest.mark.parametrize("wait", exhaustive_but([0.0], [0.0, 0.3]))
def test_sigkill_at_any_moment_loses_no_point_and_redoes_at_most_one(explore, journal, wait):
    process = start(journal, *FEW)
    seen = 0
    for line in process.stdout:
        if line.startswith("[1/3"):
            seen = 1
            break
    time.sleep(wait)  # the second point starts, builds, runs, or has just ended
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = record.read(journal)
    assert seen <= len(before) <= seen + 2
    done, items = explore(*FEW)
    assert done.returncode == 0
    assert points(items) == ALL  # each once
    assert items[: len(before)] == before
    assert f"3 points, {len(before)} of them in " in done.stdout


@pytest.mark.exhaustive
def test_a_line_that_was_cut_off_is_redone(explore, journal):
    _, items = explore(*FEW)
    whole = journal.read_bytes()
    for cut in (1, 20, 2000):
        journal.write_bytes(whole[:-cut])
        done, again = explore(*FEW)
        assert done.returncode == 0
        assert points(again) == ALL
        assert again[:2] == items[:2]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_the_running_point_ends_with_its_exploration(journal, tmp_path, number, status):
    folder = tmp_path / "hanging"
    add_kernel(folder, "hangs", HANG)
    process = start(journal, "--kernels", folder, "--orders", 4, "--limit", 50, *QUICK)
    wait_for(lambda: len(processes_with(f"{folder}/hangs.json")) == 1)
    time.sleep(0.7)  # it has reached the kernel
    os.kill(process.pid, number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == status
    assert "Traceback" not in errors
    wait_for(lambda: processes_with(str(folder)) == [])
    assert journal.read_bytes() == b""


@pytest.mark.exhaustive
def test_a_changed_kernel_is_another_point(explore, tmp_path):
    folder = tmp_path / "kernels"
    folder.mkdir()
    for suffix in (".cl", ".json"):
        shutil.copy(KERNELS / f"SGEMM_NN_1x1{suffix}", folder)
    args = ("--kernels", folder, "--orders", 4, "--lws", "1x1", *QUICK)
    explore(*args)
    path = folder / "SGEMM_NN_1x1.cl"
    path.write_text(path.read_text() + "\n")
    done, items = explore(*args)
    assert len(items) == 2
    assert "1 point, 0 of them in " in done.stdout


@pytest.mark.exhaustive
def test_the_device_of_the_environment_makes_another_point(explore):
    args = ("-f", "SGEMM_NN_1x1", "--orders", 4, "--lws", "1x1", *QUICK)
    explore(*args)
    done, items = explore(*args, env={"PYOPENCL_CTX": "0"})
    assert "1 point, 0 of them in " in done.stdout
    assert [item.params["point"]["PYOPENCL_CTX"] for item in items] == [None, "0"]


def test_two_explorations_do_not_share_a_journal(explore, journal):
    with open(journal, "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done, _ = explore(*FEW)
    assert done.returncode == 2
    assert f"another exploration is writing to {journal}" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--frequencies", "400"), "--frequencies sets clocks: add --pin"),
        (("--frequencies", "fast"), "'fast' is not a number"),
        (("--orders", "64,"), "'' is not a size"),
        (("--lws", "8"), "'8' is not a local size"),
        (("--random", "0"), "'0' is not a whole number from 1 up"),
        (("--limit", "0"), "'0' is not a number above 0"),
        (("--journal", "/no/such/folder/x"), "cannot use the journal /no/such/folder/x: No such"),
        (("--journal", "/tmp"), "cannot use the journal /tmp: it is no file"),
        (("--journal", "/dev/full"), "cannot use the journal /dev/full: it is no file"),
        (("-f", "nothing"), "no kernel 'nothing' in "),
    ],
)
def test_bad_input(explore, args, message):
    done, _ = explore(*args)
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.returncode == 2


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("these are my notes\n", 1),
        ("these are my notes\nand the last one", 1),
        ("and the last one", 1),
        ('{"a": 1}', 1),
        ('{"schema": 1, "argv": []}', 1),
        ("RECORD\nand a note", 2),
        ('a note\n{"argv": [', 1),
    ],
)
def test_a_journal_that_is_none_is_left_alone(explore, journal, text, line):
    text = text.replace("RECORD", record.Record("gemmbench", "k", "passed").to_line())
    journal.write_text(text)
    done = start(journal, *FEW)
    _, errors = done.communicate(timeout=30)
    assert done.returncode == 2
    assert f"{journal}:{line}: " in errors
    assert errors.count("\n") == 1
    assert journal.read_text() == text


def test_a_bar_on_a_terminal(journal):
    master, slave = os.openpty()
    command = [sys.executable, "samples/gemmbench/run.py", "explore", "--journal", journal, *FEW]
    with subprocess.Popen(
        list(map(str, command)), cwd=ROOT, stdout=slave, stderr=slave,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ) as process:  # fmt: skip
        os.close(slave)
        text = b""
        while True:
            try:
                text += os.read(master, 4096)
            except OSError:  # the other end is closed
                break
        assert process.wait(30) == 0
    os.close(master)
    assert "3/3" in text.decode()
    assert "left" in text.decode()
    assert "SGEMM_NN_1x1 6x6x6 1x1: " in text.decode()


def test_without_rich_there_are_plain_lines(monkeypatch, capsys):
    progress = sample_module("gemmbench", "progress")
    monkeypatch.setattr(progress, "bars", None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with progress.Progress(2) as shown:
        shown.step("one")
        shown.step("two")
    assert re.findall(r"\[(\d)/2, 0:00 left\] (\w+)", capsys.readouterr().out) == [
        ("1", "one"), ("2", "two"),
    ]  # fmt: skip
    assert [progress.clock(s) for s in (0, 59.6, 3725)] == ["0:00", "1:00", "1:02:05"]


@pytest.mark.exhaustive
def test_a_new_driver_makes_another_point(explore, journal):
    args = ("-f", "SGEMM_NN_1x1", "--orders", 4, "--lws", "1x1", *QUICK)
    _, (item,) = explore(*args)
    ran_on = item.params["point"]["ran_on"]
    names = ("platform", "platform_version", "name", "driver")
    assert ran_on == {name: item.device[name] for name in names}
    for name in names:
        item.params["point"]["ran_on"] = {**ran_on, name: "another"}
        journal.write_text(item.to_line() + "\n")
        done, items = explore(*args)
        assert "1 point, 0 of them in " in done.stdout
        assert items[1].params["point"]["ran_on"] == ran_on


@pytest.mark.exhaustive
def test_a_point_that_had_too_little_time_is_run_again_with_more(explore, tmp_path):
    add_kernel(tmp_path / "bad", "hangs", HANG)
    args = ("--kernels", tmp_path / "bad", "--orders", 4, "--lws", "1x1", *QUICK)
    _, (item,) = explore(*args, "--limit", 2)
    assert (item.reason, item.params["limit_s"]) == ("no end within 2 s: killed", 2)
    assert len(explore(*args, "--limit", 1)[1]) == 1
    done, items = explore(*args, "--limit", 2.5)
    assert "1 point, 0 of them in " in done.stdout
    assert items[1].reason == "no end within 2.5 s: killed"


@pytest.mark.exhaustive
def test_an_exploration_in_which_nothing_passed_says_why(explore):
    refused = ("-f", "SGEMM_NN_1x1", "--orders", 5, "--lws", "2x2", *QUICK)
    done, _ = explore(*refused)
    assert done.returncode == 2
    assert "\n1 refused: records in " in done.stdout
    lacking = ("-f", "DGEMM_NN_1x1", "--orders", 4, "--lws", "1x1", "--limits", "mali-t628")
    assert explore(*refused[:4], "--lws", "1x1,2x2", *QUICK)[0].returncode == 0
    done, items = explore(*lacking, *QUICK)
    assert items[-1].status == "unsupported"
    assert done.returncode == 77
