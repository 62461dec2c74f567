"""Clocks that are pinned are restored, whatever ends the program that pinned them."""

import os
import signal
import subprocess
import sys
import time

import pytest
from fake_sysfs import CPU, GPU, put, rockchip, snapshot

from common.errors import SampleError, Unsupported, UsageError
from common.machine import keeper, pin, settings, sysfs
from common.machine.pin import pinned
from tests.conftest import ROOT

PROGRAM = """
import ctypes, os, sys, time
from pathlib import Path
from common.machine.pin import pinned
with pinned("gpu", 4e8, Path(sys.argv[1])):
    print("pinned", flush=True)
    exec(sys.argv[2])
"""
WAIT = "time.sleep(60)"


@pytest.fixture
def tree(tmp_path):
    return rockchip(tmp_path / "sys")


def held(tree, path):
    return (tree / path).read_text().strip()


def test_every_clock_runs_at_its_maximum_and_comes_back(tree):
    before = snapshot(tree)
    with pinned("gpu", tree=tree):
        for path in (f"{CPU}/scaling_governor", f"{GPU}/governor"):
            assert held(tree, path) == "performance"
        for name in ("scaling_min_freq", "scaling_max_freq"):
            assert held(tree, f"{CPU}/{name}") == "1800000"
        for name in ("min_freq", "max_freq"):
            assert held(tree, f"{GPU}/{name}") == "800000000"
    assert {p: t.strip() for p, t in snapshot(tree).items()} == {
        p: t.strip() for p, t in before.items()
    }


def test_one_frequency_of_the_gpu(tree):
    with pinned("gpu", 4e8, tree):
        assert held(tree, f"{GPU}/min_freq") == held(tree, f"{GPU}/max_freq") == "400000000"
        assert held(tree, f"{CPU}/scaling_min_freq") == "1800000"
    assert held(tree, f"{GPU}/min_freq") == "200000000"


def test_a_governor_that_is_not_there_is_left_alone(tree):
    put(tree, f"{GPU}/available_governors", "simple_ondemand userspace")
    with pinned("gpu", tree=tree):
        assert held(tree, f"{GPU}/governor") == "simple_ondemand"
        assert held(tree, f"{GPU}/min_freq") == "800000000"


@pytest.mark.parametrize(
    ("governor", "speed", "hertz"),
    [
        (f"{CPU}/scaling_governor", f"{CPU}/scaling_setspeed", 816000),
        (f"{GPU}/governor", f"{GPU}/userspace/set_freq", 400000000),
    ],
)
def test_what_was_set_by_hand_comes_back_after_its_governor(tree, governor, speed, hertz):
    """The driver forgets it with the governor, and refuses it under another."""
    put(tree, governor, "userspace")
    put(tree, speed, hertz)
    paths = [path for path, _ in pin.plan(sysfs.clocks(tree), "gpu", None)]
    assert paths.index(tree / speed) < paths.index(tree / governor)  # on the way there
    with pinned("gpu", tree=tree):
        assert held(tree, governor) == "performance"
        put(tree, speed, "<unsupported>")
    assert held(tree, governor) == "userspace"
    assert held(tree, speed) == str(hertz)


def test_no_speed_is_restored_that_nobody_set(tree):
    put(tree, f"{CPU}/scaling_setspeed", 816000)  # left over under the governor schedutil
    with pinned("gpu", tree=tree):
        put(tree, f"{CPU}/scaling_setspeed", "<unsupported>")
    assert held(tree, f"{CPU}/scaling_setspeed") == "<unsupported>"


def test_the_locks_of_an_exynos(tmp_path):
    folder = "devices/11800000.mali"
    for name, value in (("clock", 177), ("dvfs_min_lock", -1), ("dvfs_max_lock", 0)):
        put(tmp_path, f"{folder}/{name}", value)
    with pinned("gpu", 6e8, tmp_path):
        assert held(tmp_path, f"{folder}/dvfs_min_lock") == "600"
        assert held(tmp_path, f"{folder}/dvfs_max_lock") == "600"
    assert held(tmp_path, f"{folder}/dvfs_min_lock") == "0"
    with (
        pytest.raises(UsageError, match="mali does not report its maximum: give --pin MHZ"),
        pinned("gpu", None, tmp_path),
    ):
        pass


@pytest.mark.parametrize("limits", [(200000000, 200000000), (400000000, 800000000)])
@pytest.mark.parametrize("hz", [2e8, 8e8])
def test_the_order_of_the_writes_never_puts_the_minimum_above_the_maximum(tree, limits, hz):
    """A kernel would refuse that."""
    files = [f"{GPU}/min_freq", f"{GPU}/max_freq"]
    for path, value in zip(files, limits):
        put(tree, path, value)
    written, back = [], []

    def write(steps):
        for step in steps:
            keeper.change([step], back)
            written.append([int(held(tree, path)) for path in files])
            assert written[-1][0] <= written[-1][1]

    write([(str(path), text) for path, text in pin.plan(sysfs.clocks(tree), "gpu", hz)])
    assert written[-1] == [hz, hz]
    write([*back])
    assert written[-1] == [*limits]


ENDS = {
    "the end": ("pass", None, 0),
    "an exception": ("raise ValueError", None, 1),
    "Ctrl-C": (WAIT, signal.SIGINT, -signal.SIGINT),
    "SIGTERM": (WAIT, signal.SIGTERM, -signal.SIGTERM),
    "SIGHUP": (WAIT, signal.SIGHUP, -signal.SIGHUP),
    "SIGKILL": (WAIT, signal.SIGKILL, -signal.SIGKILL),
    "an abort in a driver": ("os.abort()", None, -signal.SIGABRT),
    "a crash in a driver": ("ctypes.string_at(0)", None, -signal.SIGSEGV),
    "an exit without clean-up": ("os._exit(3)", None, 3),
}


@pytest.mark.parametrize("end", ENDS)
def test_restored_after(tree, end):
    code, number, status = ENDS[end]
    before = {p: t.strip() for p, t in snapshot(tree).items()}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tree, code], cwd=ROOT, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    assert process.stdout.readline() == "pinned\n"
    if number is not None:
        assert held(tree, f"{GPU}/min_freq") == "400000000"
        os.killpg(process.pid, number)  # as a terminal does: to all of its processes
    assert process.wait(20) == status
    process.stdout.close()
    deadline = time.monotonic() + 10
    while {p: t.strip() for p, t in snapshot(tree).items()} != before:
        assert time.monotonic() < deadline, "not restored"
        time.sleep(0.02)


def test_who_pins_next_waits_until_all_is_restored(tree):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, tree, WAIT], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "pinned\n"
    with (
        pytest.raises(UsageError, match="--pin: another program uses these settings"),
        pinned("gpu", tree=tree, patience=0.2),
    ):
        pass
    process.kill()  # what it changed is not restored yet, and must not be taken for what there was
    with pinned("gpu", tree=tree):
        assert held(tree, f"{GPU}/min_freq") == "800000000"
    process.wait()
    process.stdout.close()
    assert held(tree, f"{GPU}/min_freq") == "200000000"
    assert held(tree, f"{GPU}/governor") == "simple_ondemand"


def test_a_keeper_that_is_killed_is_stood_in_for(tree, monkeypatch):
    started = []
    popen = subprocess.Popen
    monkeypatch.setattr(
        settings.subprocess, "Popen", lambda *a, **k: started.append(popen(*a, **k)) or started[-1]
    )
    with pinned("gpu", tree=tree):
        started[0].kill()
        started[0].wait()
    assert held(tree, f"{GPU}/governor") == "simple_ondemand"
    assert held(tree, f"{GPU}/min_freq") == "200000000"


def test_what_cannot_be_restored_is_said(tree):
    def spoil():
        for name in ("min_freq", "max_freq"):
            (tree / GPU / name).unlink()
            (tree / GPU / name).mkdir()

    message = r"cannot restore .*min_freq \(Is a directory; it held 2"
    with pytest.raises(SampleError, match=message), pinned("gpu", tree=tree):
        spoil()
    assert held(tree, f"{CPU}/scaling_governor") == "schedutil"  # the others are restored


def test_what_cannot_be_written_leaves_nothing_changed(tree):
    before = snapshot(tree)
    (tree / GPU / "governor").unlink()
    (tree / GPU / "governor").symlink_to("/proc/version")  # which nobody can write
    put(tree, f"{GPU}/available_governors", "performance")
    with (
        pytest.raises(UsageError, match=r"--pin cannot write performance to .*gpu/governor: Input"),
        pinned("gpu", tree=tree),
    ):
        pass
    assert held(tree, f"{CPU}/scaling_governor") == "schedutil"
    after = {p: t.strip() for p, t in snapshot(tree).items() if p.parent.name != "ff9a0000.gpu"}
    assert after == {p: t.strip() for p, t in before.items() if p in after}


def test_missing_rights_are_said():
    """These tests may run as root."""
    answer = {"path": "/sys/governor", "value": "x", "error": "Permission denied", "denied": True}
    message = "--pin needs permission to write /sys/governor: run it as root, let `fab provision"
    with pytest.raises(UsageError, match=message):
        settings.require_done(answer, "pin")


def test_what_cannot_be_pinned_is_said(tree, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for arguments, message in (
        (("gpu", None, bare), "has no clock that can be set"),
        (("gpu", 5e8, tree), "cannot run at 500 MHz: choose from 200 MHz, 400 MHz, 800 MHz"),
        (("cpu", 5e9, tree), "policy0 cannot run at 5000 MHz"),
        (("acc", 5e8, tree), "has no acc clock"),
    ):
        error = Unsupported if "has no" in message else UsageError
        with pytest.raises(error, match=message), pinned(*arguments):
            pass
