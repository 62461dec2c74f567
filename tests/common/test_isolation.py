"""A sample works in a child process: a crash, a signal, and what is left after each."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest
from fake_drivers import PATIENCE, build

from common import record
from common.errors import OpenCLFailure
from common.isolation import Progress
from tests.conftest import ROOT

CRASH = "*(volatile global int *)8 = 1;"  # no device's memory


@pytest.fixture
def broken(project):
    """Let a kernel of the copied project crash the driver of a CPU: call it with file and entry."""

    def edit(path, entry):
        file = project / "samples" / path
        head, entry, rest = file.read_text().partition(f"void {entry}(")
        arguments, brace, body = rest.partition("{")
        assert brace
        file.write_text(f"{head}{entry}{arguments}{{ {CRASH} {body}")
        return project

    return edit


def outcome(items):
    return {item.variant: (item.status, item.reason) for item in items}


def test_sgemm_goes_on_with_the_other_kernels(recorded, broken):
    root = broken("sgemm/sgemm.cl", "sgemm_row4")
    done, items = recorded("sgemm", "--kernel", "all", "--size", 20, root=root)
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1] == "run.py: error: row4: killed by SIGSEGV while running"
    assert outcome(items) == {
        "dot4": ("passed", None),
        "row4": ("error", "killed by SIGSEGV while running"),
        "tile4x4": ("passed", None),
    }
    assert len(items) == 3


def test_gemmbench_goes_on_with_the_other_kernels(recorded, broken):
    root = broken("gemmbench/kernels/vectors.cl", "gemm")
    args = ("-f", "SGEMM_NN_[14]x1", "-n", 16)
    done, items = recorded("gemmbench", *args, root=root)
    assert done.returncode == 3
    assert outcome(items)["SGEMM_NN_4x1"] == ("error", "killed by SIGSEGV while running")
    assert outcome(items)["SGEMM_NN_1x1"] == ("passed", None)


@pytest.mark.parametrize(
    "args",
    [
        ["--check-only"],
        pytest.param(["--repeat", "2", "--libraries", "numpy"], marks=pytest.mark.exhaustive),
    ],
)
def test_mygemm_goes_on_with_the_other_kernels(recorded, broken, args):
    root = broken("mygemm/kernels/04_wide.cl", "gemm")
    done, items = recorded("mygemm", "--kernel", "1,4,11", "--size", "20,24", *args, root=root)
    assert done.returncode == 3
    for size in ("20x20x20", "24x24x24"):
        here = [item for item in items if item.params["size"] == size]
        found = outcome(here)
        assert found.pop("04_wide") == ("error", "killed by SIGSEGV while running")
        assert set(found.values()) == {("passed", None)}
        assert {"01_naive", "11_registers_only"} <= set(found)
        assert len(here) == len(found) + 1  # each has one record that counts
        table = done.stdout.rpartition(f"\n{size[:2]}x")[2].partition("\n\n")[2]
        for kernel in ("01_naive", "04_wide", "11_registers_only"):  # also what ran before
            assert re.search(rf"^{kernel}  ", table, re.M)
    if "--check-only" in args:
        assert "run.py: error: 04_wide 24x24x24: killed" in done.stderr
        line = done.stdout.splitlines()[-1]
        assert line == "Run before a driver crashed, so only in the tables above: 20x20x20"


# Kernel 1 crashes where it is timed: its result has been checked by then.
WHEN_TIMED = """
import os, signal
made = run.compare.Contender
def contender(name, launcher, **more):
    crash = lambda stream: lambda: os.kill(os.getpid(), signal.SIGSEGV)
    return made(name, crash if name == "01_naive" else launcher, **more)
run.compare.Contender = contender
"""


def test_a_crash_while_timing_leaves_one_record(recorded):
    args = ("--kernel", "1,11", "--size", 20, "--repeat", 1, "--libraries", "none")
    done, items = recorded("mygemm", *args, change=WHEN_TIMED)
    assert done.returncode == 3
    assert outcome(items) == {
        "01_naive": ("error", "killed by SIGSEGV while timing"),
        "11_registers_only": ("passed", None),
    }
    assert len(items) == 2


def test_a_kernel_alone_that_fails_while_it_is_timed_leaves_one_record(recorded):
    change = f"""{WHEN_TIMED}
def fail(*_):
    raise run.cl.RuntimeError("it failed")
os.kill = fail
"""
    args = ("--kernel", "1", "--size", 20, "--repeat", 1, "--libraries", "none")
    done, items = recorded("mygemm", *args, change=change)
    assert done.returncode == 3
    assert outcome(items) == {"01_naive": ("error", "it failed")}
    assert (len(items), items[0].params["size"]) == (1, "20x20x20")
    assert "01_naive: ERROR: it failed" in done.stdout


def test_the_log_of_a_kernel_that_is_survived_cannot_steer_the_terminal(capsys):
    error = OpenCLFailure("no")
    error.log = "one\x1b[2J\n  two"
    assert Progress().survive(error) == (3, "error", "no")
    assert capsys.readouterr().out == "one?[2J\n  two\n"


def test_an_error_without_a_text_has_a_reason():
    assert Progress().survive(MemoryError()) == (3, "error", "not enough memory")


MANY = """
import os, signal, sys
from common.isolation import Progress, enter, leave
progress, lost = Progress(), []
def note(*about):
    lost.append(about)
    return 3
enter(progress, note, None)
if not progress.past("last"):
    for name in progress.each(names):
        progress.at(name, "running")
    assert not [*progress.each(names)]
    os.write(progress._file.fileno(), b'\\n["half of a li')
    progress.done("last", 16, "failed", 1000 * "no")
    progress.done("last")
    progress.at(1000 * "\\U0001f600", "running")
    os.kill(os.getpid(), signal.SIGKILL)
assert progress.crashed and progress.past("last", 16) == ("failed", 1000 * "no")
assert not [*progress.each(names)]
assert progress.past(1000 * "\\U0001f600") == ("error", "killed by SIGKILL while running")
progress.ended(0)
leave(0)
"""


@pytest.mark.parametrize("memory", ["", "import os\ndel os.memfd_create"])
def test_what_is_done_is_remembered_however_much_it_is(memory):
    names = 'names = [f"kernel {n} " + 50 * "x" for n in range(20_000)]'
    program = "\n".join((memory, names, MANY))
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True,
                          check=False, timeout=30)
    assert (done.returncode, done.stderr) == (3, "")


@pytest.mark.parametrize(
    ("define", "reason"),
    [
        ("BUILD=abort()", "killed by SIGABRT while building"),
        ("BUILD=for (;;)", "the compiler takes longer than 0.2 s: killed"),
    ],
)
def test_a_compiler_that_crashes_or_hangs_costs_one_kernel(recorded, tmp_path, define, reason):
    change = "from common import program\nprogram.LIMIT = 0.2"
    env = {**PATIENCE, "OCL_ICD_VENDORS": str(build(tmp_path, define))}
    args = ("-p", "fake", "--kernel", "8,1,4", "--size", 16, "--build-only")
    done, items = recorded("mygemm", *args, env=env, change=change)
    assert done.returncode == 77
    assert done.stdout.count("Device: ") == 1
    found = outcome(items)
    assert found.pop("08_shuffles")[0] == "unsupported"
    assert done.stdout.count("08_shuffles: unsupported: ") == 1  # said before the next one crashes
    assert found == {"01_naive": ("unsupported", reason), "04_wide": ("unsupported", reason)}


def test_one_kernel_alone_is_not_tried_again(recorded, broken):
    root = broken("gemm_intel/gemm.cl", "gemm")
    done, items = recorded("gemm_intel", "-s", 16, "-i", 1, root=root)
    assert done.returncode == 3
    assert done.stdout.count("Running gemm_nn") == 1
    assert outcome(items) == {"gemm_nn": ("error", "killed by SIGSEGV while running")}


@pytest.mark.parametrize("status", [0, 1])
def test_a_driver_that_ends_the_process_has_not_passed(recorded, tmp_path, status):
    env = {**PATIENCE, "OCL_ICD_VENDORS": str(build(tmp_path, f"BUILD=exit({status})"))}
    done, items = recorded("sgemm", "-p", "fake", "--size", 16, env=env)
    assert done.returncode == 3
    reason = f"the driver ended the process with status {status} while building sgemm.cl"
    assert done.stderr == f"run.py: error: {reason}\n"
    assert [item.reason for item in items] == [reason]


def test_who_started_it_may_ignore_its_children(tmp_path):
    command = f"trap '' CHLD; exec {sys.executable} samples/sgemm/run.py --size 8 --repeat 1"
    done = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_64_bit_integer_goes_on_with_the_other_kernels(recorded, broken):
    root = broken("64_bit_integer/kernels/02_many_vectors.cl", "many_vectors")
    done, items = recorded("64_bit_integer", "--kernel", "all", root=root)
    assert done.returncode == 3
    assert outcome(items)["many_vectors"][0] == "error"
    assert [s for s, _ in outcome(items).values()].count("passed") == len(items) - 1 == 3


# Kernel 4 loses the device: where it is checked, or where it is timed.
LOST = """
import sys
sys.path[:0] = ["samples/mygemm", "."]
import pyopencl as cl, run
from common import cli
real, broken, ready = run.enqueuer, [], ["--check-only" in sys.argv]
measure = run.compare.interleaved.measure
def begin(*args):
    ready[0] = True
    return measure(*args)
run.compare.interleaved.measure = begin
def enqueuer(built, *args):
    if built.plan.kernel.number == 4 and ready[0]:
        broken.append(built)
        raise cl.RuntimeError(cl._cl._ErrorRecord("a bad access", -9999, "clWaitForEvents"))
    return real(built, *args)
run.enqueuer = enqueuer
class Queue:
    def __getattr__(self, name):
        if broken: raise cl.RuntimeError(cl._cl._ErrorRecord("gone", -9999, name))
        return getattr(QUEUE, name)
progress = run.cli.isolation.Progress
survive = progress.survive
progress.survive = lambda self, error, _: survive(self, error, Queue())
sys.argv[0] = "run.py"
cli.run(run.main, run.options())
"""


@pytest.mark.parametrize("how", [["--check-only"], ["--repeat", "1", "--libraries", "none"]])
def test_a_device_that_is_lost_costs_one_kernel(tmp_path, how):
    """As on NVIDIA's driver: it does not crash, but fails all that comes after a bad access."""
    path = tmp_path / "records.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", LOST, "--kernel", "1,4,11", "--size", "20", *how, "--json", path],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=60,
    )
    assert done.returncode == 3, done.stderr
    found = outcome(record.read(path))
    assert found["01_naive"] == found["11_registers_only"] == ("passed", None)
    assert found["04_wide"][0] == "error"
    assert found["04_wide"][1].endswith("and the device is lost")


def test_what_was_checked_is_on_the_disk_before_the_next_kernel_starts(tmp_path, broken):
    """All processes are killed at once, as by a board that crashes."""
    root = broken("mygemm/kernels/04_wide.cl", "gemm")
    file = root / "samples/mygemm/kernels/04_wide.cl"
    file.write_text(file.read_text().replace(CRASH, "volatile int on = 1; while (on) {}"))
    path = tmp_path / "records.jsonl"
    command = [sys.executable, "samples/mygemm/run.py", "--kernel", "1,4", "--size", "20"]
    process = subprocess.Popen(
        [*command, "--json", path], cwd=root, start_new_session=True, stdout=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)
    (item,) = record.read(path)
    assert (item.variant, item.reason) == ("01_naive", record.UNFINISHED)
    assert item.check["error_over_bound"] <= 1


def start(root, path):
    """Start a sample that takes long, in a session of its own; return it when it works."""
    process = subprocess.Popen(
        [sys.executable, "samples/sgemm/run.py", "--size", "512", "--repeat", "100000",
         "--json", path], cwd=root, start_new_session=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    for line in process.stdout:
        if line.startswith("sgemm_dot4"):
            return process
    raise AssertionError(process.stderr.read())


@pytest.mark.parametrize(
    ("number", "status", "reason"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "stopped")],
)
@pytest.mark.parametrize("group", [True, False])
def test_a_signal_is_one_line_and_a_record(tmp_path, number, status, reason, group):
    path = tmp_path / "records.jsonl"
    process = start(ROOT, path)
    children = [int(pid) for pid in children_of(process.pid)]
    (os.killpg if group else os.kill)(process.pid, number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == status
    assert errors == f"run.py: error: {reason}\n"
    assert [item.reason for item in record.read(path)] == [reason]
    assert children
    assert not any(os.path.exists(f"/proc/{pid}") for pid in children)


def test_a_parent_that_is_killed_takes_its_child_along(tmp_path):
    process = start(ROOT, tmp_path / "records.jsonl")
    (child,) = children_of(process.pid)
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 10
    while os.path.exists(f"/proc/{child}") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{child}")


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return file.read().split()


def test_in_one_process_for_a_debugger(run_sample):
    done = run_sample("sgemm", "--size", 8, "--repeat", 1, "--debug")
    assert done.returncode == 0, done.stderr
    done = run_sample("sgemm", "--size", 8, "-p", "nonesuch", "--debug")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
