"""The first signal stops a program in order; only Ctrl-C ends its cleaning up."""

import signal
import subprocess
import sys

import pytest

from tests.conftest import ROOT

CLEANS_UP = """
import time
from common import stopping
stopping.stop_in_order("it: error: stopped")
try:
    print("ready", flush=True)
    time.sleep(60)
except stopping.Stopped as stop:
    print("cleaning up", flush=True)
    time.sleep(1)
    print("clean", flush=True)
    raise SystemExit(stop.exit_status)
"""


@pytest.mark.parametrize(
    ("first", "second", "status", "said"),
    [("SIGTERM", "SIGTERM", 143, "clean\n"), ("SIGHUP", "SIGTERM", 143, "clean\n"),
     ("SIGINT", "SIGTERM", 130, "clean\n"), ("SIGTERM", "SIGINT", 130, "")],
)
def test_a_second_signal(first, second, status, said):
    process = subprocess.Popen(
        [sys.executable, "-c", CLEANS_UP], cwd=ROOT, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    for line, name in (("ready\n", first), ("cleaning up\n", second)):
        assert process.stdout.readline() == line
        process.send_signal(getattr(signal, name))
    assert process.communicate(timeout=20) == (said, "" if said else "it: error: stopped\n")
    assert process.returncode == status


HEARS = """
import signal, threading, time
from common import stopping
stopping.stop_in_order("it: error: stopped")
deaf = threading.Event()

def kill():
    time.sleep(0.5)  # until the main thread waits, which this signal does not wake
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)

threading.Thread(target=kill).start()
try:
    stopping.wait(deaf.wait)
except stopping.Stopped as stop:
    raise SystemExit(stop.exit_status)
"""


def test_a_signal_that_does_not_wake_the_main_thread_is_seen():
    done = subprocess.run([sys.executable, "-c", HEARS], cwd=ROOT, timeout=20)
    assert done.returncode == 130
