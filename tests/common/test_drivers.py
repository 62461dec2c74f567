"""A driver that crashes, hangs or computes nonsense is named, skipped, and costs nothing else.

The drivers are ours, of fake_driver.c: a GPU, which would come before all others.
"""

import ctypes
import json
import os
import platform
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyopencl as cl
import pytest
from fake_drivers import AT_LOAD, NO_LIMIT, PATIENCE, PRINTS, WRONG, add_working, build

from common import device, drivers, probe, record
from tests.conftest import ROOT, exhaustive_but

SMALL = ("--size", "16", "--repeat", "1")


@pytest.fixture
def with_driver(tmp_path):
    """Build a fake driver; gives the variables of a process that sees it beside what works."""

    def make(*defines, alone=False):
        vendors = build(tmp_path, *defines)
        if not alone:
            add_working(vendors)
        return {**PATIENCE, "OCL_ICD_VENDORS": str(vendors), "XDG_CACHE_HOME": str(tmp_path)}

    return make


@pytest.mark.parametrize("how", WRONG)
def test_it_is_skipped_with_the_reason(run_sample, with_driver, tmp_path, how):
    define, reason = WRONG[how]
    env = with_driver(define)
    path = tmp_path / "records.jsonl"
    done = run_sample("sgemm", *SMALL, "--json", path, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"  skipped          Fake: its driver {reason}" in done.stdout
    (item,) = record.read(path)
    assert item.device["platform"] != "Fake"
    assert reason in item.device["skipped"][0]
    listed = run_sample("sgemm", "--list", env=env)
    assert "[0] Fake, OpenCL 1.2 Fake" in listed.stdout
    assert f"not the default: its driver {reason}" in listed.stdout


@pytest.mark.parametrize("how", ["aborts", pytest.param("hangs", marks=pytest.mark.exhaustive)])
def test_one_that_cannot_even_be_loaded_is_left_out(run_sample, with_driver, how):
    define, reason = AT_LOAD[how]
    done = run_sample("sgemm", *SMALL, env=with_driver(define))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"0-fake.icd: its driver {reason}" in done.stdout


def test_one_that_cannot_even_be_loaded_is_listed_with_the_reason(run_sample, with_driver):
    define, reason = AT_LOAD["aborts"]
    env = with_driver(define)
    listed = run_sample("sgemm", "--list", env=env)
    assert "[0] Fake" not in listed.stdout
    assert f"0-fake.icd: its driver {reason}" in listed.stdout
    assert run_sample("sgemm", "-p", "fake", env=env).returncode == 2


@pytest.mark.parametrize("alone", [False, True])
def test_one_that_offers_no_platform_is_named(run_sample, with_driver, alone):
    """A GPU's driver does that where it may not open the device."""
    env = with_driver("LOAD=return -1001", alone=alone)
    done = run_sample("sgemm", *SMALL, env=env)
    assert done.returncode == (3 if alone else 0), done.stdout + done.stderr
    what = "0-fake.icd offers no platform" if alone else "0-fake.icd: its driver offers no platform"
    assert what in (done.stderr if alone else done.stdout)


def test_one_without_a_name_and_a_version_is_named_by_its_file(run_sample, with_driver):
    env = with_driver('NAME=""', 'VERSION=""')
    said = "0-fake.icd: its driver reports the platform version '', not OpenCL and a number\n"
    done = run_sample("sgemm", *SMALL, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said in done.stdout
    assert said in run_sample("sgemm", "--list", env=env).stdout


def test_what_one_prints_is_no_answer(run_sample, with_driver):
    """A line without an end would hide the answer behind it."""
    env = with_driver(PRINTS, alone=True)
    done = run_sample("sgemm", *SMALL, env=env)
    assert done.returncode == 3
    reason = WRONG["garbage"][1]
    assert f"no driver works: Fake: its driver {reason}" in done.stderr


def test_what_one_changes_of_the_process_is_undone(monkeypatch, tmp_path):
    """Records went to the root folder, and numpy counted subnormal numbers as 0."""
    monkeypatch.chdir(tmp_path)
    libm, upwards = ctypes.CDLL(None), 0x800 if platform.machine() == "x86_64" else 0x400000

    def load():
        os.chdir("/")
        assert libm.fesetround(upwards) == 0
        return []

    monkeypatch.setattr(cl, "get_platforms", load)
    before = libm.fegetround()
    drivers.loaded([])
    assert (Path.cwd(), libm.fegetround()) == (tmp_path, before)


def test_a_process_that_one_leaves_behind_is_not_waited_for(tmp_path, monkeypatch):
    """It may hold the pipe of the answer."""
    script = tmp_path / "probe.py"
    script.write_text("import os, time\nprint('@', flush=True)\n"
                      "if not os.fork():\n    time.sleep(30)\n")
    monkeypatch.setattr(drivers, "_PROBE", script)
    monkeypatch.setenv("OPENCL_SAMPLES_PROBE_SECONDS", "1")
    assert drivers._ask({"without": [], "seconds": 1}) == ""


@pytest.mark.parametrize(
    ("what", "name"),
    [("launches one after the other", "enqueue_nd_range_kernel"),
     ("mapped memory", "enqueue_map_buffer")],
)
def test_the_probe_names_what_is_wrong(queue, monkeypatch, what, name):
    before, calls = getattr(cl, name), []

    def seventh_is_dropped(queue, *args):
        calls.append(args)
        return cl.enqueue_marker(queue) if len(calls) % 7 == 0 else before(queue, *args)

    def stale(queue, buffer, flags, offset, shape, dtype, **more):
        array, event = before(queue, buffer, flags, offset, shape, dtype, **more)
        if flags == cl.map_flags.READ and dtype == np.uint32:
            array = array.copy().view(Mapped)
            array[...] = 0
        return array, event

    class Mapped(np.ndarray):
        base = SimpleNamespace(release=lambda queue: None)

    monkeypatch.setattr(cl, name, stale if what == "mapped memory" else seventh_is_dropped)
    said = probe.probe(queue)
    assert said.startswith("computes wrong results: ")
    assert what in said


def test_one_without_a_device_is_no_wrong_usage(run_sample, with_driver):
    env = with_driver("DEVICES=0")
    done = run_sample("sgemm", "-p", "fake", env=env)
    assert (done.returncode, done.stderr) == (3, "run.py: error: no device on Fake: see --list\n")
    assert run_sample("sgemm", "-p", "fake", "-t", "gpu", env=env).returncode == 2
    assert run_sample("sgemm", *SMALL, env=env).returncode == 0


def test_one_whose_library_is_missing_is_named(run_sample, tmp_path):
    add_working(tmp_path)
    (tmp_path / "mali.icd").write_text("/nowhere/libMali.so\n")
    env = {"OCL_ICD_VENDORS": str(tmp_path)}
    (tmp_path / "rubbish.icd").write_bytes(b"\0\n")
    said = "mali.icd: its driver does not load: /nowhere/libMali.so: cannot open"
    done = run_sample("sgemm", *SMALL, env=env)
    assert done.returncode == 0
    assert said in done.stdout
    assert said in run_sample("sgemm", "--list", env=env).stdout
    for path in tmp_path.glob("*.icd"):
        if path.name != "mali.icd":
            path.unlink()
    alone = run_sample("sgemm", *SMALL, env=env)
    assert alone.returncode == 3
    assert "mali.icd does not load: /nowhere/libMali.so" in alone.stderr


@pytest.mark.parametrize("how", exhaustive_but(["garbage"], ["garbage", "aborts"]))
def test_where_no_driver_works_one_line_says_why(run_sample, with_driver, how):
    define, reason = WRONG[how]
    done = run_sample("sgemm", *SMALL, env=with_driver(define, alone=True))
    assert done.returncode == 3
    assert done.stderr.startswith(f"run.py: error: no driver works: Fake: its driver {reason}")
    assert done.stderr.endswith("select one with -p\n")
    assert done.stderr.count("\n") == 1


def test_limits_of_0_are_named(run_sample, tmp_path):
    vendors = tmp_path / "all"
    vendors.mkdir()
    for name in NO_LIMIT:
        (tmp_path / name).mkdir()
        (icd_file,) = build(tmp_path / name, f"{name}=0").iterdir()
        icd_file.rename(vendors / f"{name}.icd")
    add_working(vendors)
    env = {**PATIENCE, "OCL_ICD_VENDORS": str(vendors), "XDG_CACHE_HOME": str(tmp_path)}
    done = run_sample("sgemm", *SMALL, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    listed = run_sample("sgemm", "--list", env=env).stdout
    for reason in NO_LIMIT.values():
        assert f"  skipped          Fake: its driver {reason}\n" in done.stdout
        assert f"not the default: its driver {reason}\n" in listed


@pytest.mark.parametrize("sample", ["sgemm", "mygemm", "gemmbench", "64_bit_integer", "gemm_intel"])
def test_an_option_that_names_one_with_a_limit_of_0_fails(run_sample, with_driver, sample):
    env = with_driver("UNITS=0", "GROUP=0", "MEMORY=0", "ALLOCATION=0", alone=True)
    done = run_sample(sample, "-p", "fake", env=env)
    assert done.returncode == 3
    assert done.stderr == "run.py: error: Fake: its driver reports 0 compute units\n"


@pytest.mark.parametrize(("what", "number", "said"), [
    ("max_compute_units", 2**32 - 1, "4294967295 compute units"),
    ("mem_base_addr_align", 2**32 - 1, "that buffers are aligned to 536870911 bytes"),
])
def test_a_limit_that_cannot_be_is_named(queue, what, number, said):
    class Boastful:
        def __getattr__(self, name):
            return number if name == what else getattr(queue.device, name)

    assert drivers.missing_limit(queue.device) is None
    assert drivers.missing_limit(Boastful()) == f"reports {said}"


def test_drivers_that_call_themselves_alike_are_told_apart(run_sample, tmp_path):
    vendors = tmp_path / "all"
    vendors.mkdir()
    for how in ("garbage", "aborts"):
        (tmp_path / how).mkdir()
        (icd_file,) = build(tmp_path / how, WRONG[how][0]).iterdir()
        icd_file.rename(vendors / f"{how}.icd")
    env = {**PATIENCE, "OCL_ICD_VENDORS": str(vendors), "XDG_CACHE_HOME": str(tmp_path)}
    listed = run_sample("sgemm", "--list", env=env).stdout
    for how in ("garbage", "aborts"):
        assert f"not the default: its driver {WRONG[how][1]}" in listed


def test_the_option_takes_it_all_the_same(run_sample, with_driver):
    env = with_driver(WRONG["garbage"][0])
    done = run_sample("sgemm", "-p", "fake", "--kernel", "all", *SMALL, env=env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.count("FAILED: 256 of 256 elements are wrong") == 3
    assert "GFLOPS" not in done.stdout  # what is wrong is not timed


def test_a_crash_of_the_one_that_was_asked_for_is_one_line(run_sample, with_driver):
    env = with_driver(WRONG["aborts"][0])
    done = run_sample("sgemm", "-p", "fake", *SMALL, env=env)
    assert done.returncode == 3
    assert done.stderr == "run.py: error: killed by SIGABRT while building sgemm.cl\n"


@pytest.mark.parametrize("how", exhaustive_but(["garbage"], ["garbage", "aborts"]))
def test_the_doctor_says_the_same(fab, with_driver, how):
    define, reason = WRONG[how]
    done = fab("doctor", env=with_driver(define))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"note  OpenCL         Fake GPU (gpu), driver 1.0: its driver {reason}" in done.stdout


def test_the_doctor_finds_its_answer_behind_what_one_prints(fab, with_driver):
    done = fab("doctor", env=with_driver(PRINTS))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Fake GPU (gpu), driver 1.0: its driver {WRONG['garbage'][1]}" in done.stdout


def test_the_doctor_fails_a_board_where_no_driver_works(fab, with_driver):
    done = fab("doctor", env=with_driver(WRONG["aborts"][0], alone=True))
    assert done.returncode == 1
    assert "FAIL  OpenCL         Fake GPU (gpu), driver 1.0: its driver crashes" in done.stdout


def test_the_summary_says_the_same(fab, with_driver):
    define, reason = WRONG["aborts"]
    env = with_driver(define)
    assert fab("deploy").returncode == 0
    done = fab("run", "sgemm", "--case", "documented", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"local skipped Fake: its driver {reason}" in done.stdout


@pytest.mark.exhaustive
def test_a_verdict_is_asked_for_once_for_each_library(run_sample, with_driver, tmp_path):
    env = with_driver(WRONG["aborts"][0])

    def verdicts():
        assert "SIGABRT" in run_sample("sgemm", *SMALL, env=env).stdout
        folder = tmp_path / "opencl-samples" / "drivers"
        return {file: file.stat().st_mtime_ns for file in folder.iterdir()}

    first = verdicts()
    assert verdicts() == first
    os.utime(tmp_path / "libfake.so", (1, 1))
    assert len(verdicts()) > len(first)


@pytest.mark.exhaustive
@pytest.mark.parametrize("text", ["", "{", "[]", '{"problem": 3}', "[" * 100_000])
def test_a_cache_that_is_spoilt_is_asked_anew(queue, tmp_path, monkeypatch, text):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert drivers.problem(queue.device) is None
    files = list((tmp_path / "opencl-samples" / "drivers").iterdir())
    assert files
    for file in files:
        file.write_text(text)
    assert drivers.problem(queue.device) is None
    assert all(json.loads(file.read_text())["problem"] == "" for file in files)


def test_a_bad_verdict_is_not_for_ever(queue, tmp_path, monkeypatch):
    """The machine may have been busy, or the device's file not ours."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert drivers.problem(queue.device) is None
    files = list((tmp_path / "opencl-samples" / "drivers").iterdir())
    for file in files:
        file.write_text(json.dumps({**json.loads(file.read_text()), "problem": "hangs"}))
    assert drivers.problem(queue.device) == "hangs"
    for file in files:
        os.utime(file, (time.time() - 2 * 3600,) * 2)
    assert drivers.problem(queue.device) is None


def test_who_has_more_patience_asks_again(queue, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("OPENCL_SAMPLES_PROBE_SECONDS", "60")
    assert drivers.problem(queue.device) is None
    for file in (tmp_path / "opencl-samples" / "drivers").iterdir():
        file.write_text(json.dumps({**json.loads(file.read_text()), "problem": "hangs"}))
    assert drivers.problem(queue.device) == "hangs"
    monkeypatch.setenv("OPENCL_SAMPLES_PROBE_SECONDS", "61")
    assert drivers.problem(queue.device) is None


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(queue, tmp_path, monkeypatch):
    (tmp_path / "opencl-samples").mkdir()
    (tmp_path / "opencl-samples/drivers").touch()  # where a folder should be
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert drivers.problem(queue.device) is None


def test_a_probe_takes_less_than_two_seconds(queue, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    times = []
    for _ in range(3):
        start = time.monotonic()
        assert drivers.problem(queue.device, anew=True) is None
        times.append(time.monotonic() - start)
    assert min(times) < 2, times


def test_every_driver_here_that_works_is_trusted():
    found = device.survey()
    assert any(not item["problem"] for about in found for item in about["devices"])


def test_the_probe_ships_to_boards():
    from deploy import samples

    wanted = {"common/probe.cl", "common/probe.py", "common/machine/keeper.py"}
    assert wanted <= set(samples.shipped(samples.load(), ROOT))


def test_a_verdict_holds_for_one_cpu_and_any_memory(monkeypatch):
    def machine(**board):
        drivers.machine.cache_clear()
        monkeypatch.setattr(drivers.identity, "board", lambda: board)
        return drivers.machine()

    assert machine(cpu="one") == machine(cpu="one") != machine(cpu="another")
    assert machine(cpu="one", memory_bytes=1, gpu_firmware="v1") == machine(cpu="one")
    drivers.machine.cache_clear()


def test_a_record_has_the_memory_after_the_drivers_were_tested(run_sample, tmp_path):
    done = run_sample("sgemm", *SMALL, "--json", path := tmp_path / "records.jsonl")
    assert done.returncode == 0, done.stderr
    (item,) = record.read(path)
    assert item.environment["board"]["memory_bytes"] > 2**20
