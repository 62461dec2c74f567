"""What a program takes is its own, not that of the process that asks."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.dev import usage

MIB = 1024  # KiB


def python(code, **options):
    return usage.run([sys.executable, "-c", code], **options)


def test_a_large_process_does_not_count():
    """Not even where the process that asks has been larger than it is now."""
    ours = b"x" * (400 * 2**20)
    assert python("").peak < 100 * MIB
    del ours
    assert python("").peak < 100 * MIB


def test_what_the_program_takes_for_a_short_time_counts():
    assert 200 * MIB < python("b'x' * (200 * 2**20)").peak < 300 * MIB


def test_what_a_child_of_the_program_takes_counts():
    code = (
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', \"b'x' * (200 * 2**20)\"])"
    )
    assert 200 * MIB < python(code).peak < 300 * MIB


def test_the_time_of_the_processor_is_not_that_on_the_clock():
    waits = python("import time; time.sleep(1)")
    assert waits.processor < 0.5 < 1 < waits.seconds
    works = python("import time\nwhile time.process_time() < 0.5: pass")
    assert 0.5 <= works.processor < 2


@pytest.mark.parametrize(
    ("code", "status"),
    [("", 0), ("raise SystemExit(77)", 77), ("import os; os.kill(os.getpid(), 15)", -15)],
)
def test_the_exit_status_is_that_of_the_program(code, status):
    assert python(code).status == status


def test_the_options_are_the_programs(tmp_path):
    code = "import os, sys; print(os.getcwd(), os.environ['WORD'], sys.stdin.read())"
    with open(tmp_path / "out", "w") as out:
        python(code, cwd=tmp_path, env={"WORD": "x"}, stdin=subprocess.DEVNULL, stdout=out)
    assert (tmp_path / "out").read_text() == f"{tmp_path} x \n"


def test_a_program_that_leaves_a_child_behind_has_ended(tmp_path):
    code = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid)"
    with open(tmp_path / "out", "w") as out:
        done = python(code, stdout=out)
    os.kill(int((tmp_path / "out").read_text()), signal.SIGKILL)
    assert done.seconds < 30


def test_a_wait_that_is_broken_off_ends_the_program():
    def late(*_):
        raise TimeoutError

    out, into = os.pipe()
    code = f"import os, time; os.kill({os.getpid()}, {signal.SIGUSR1:d}); time.sleep(60)"
    before, start = signal.signal(signal.SIGUSR1, late), time.monotonic()
    try:
        with pytest.raises(TimeoutError):
            python(code, stdout=into)
    finally:
        signal.signal(signal.SIGUSR1, before)
        os.close(into)
    with open(out) as file:
        assert file.read() == ""  # the end comes once nobody can write to it any more
    assert time.monotonic() - start < 30
