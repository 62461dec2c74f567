"""Threads that run samples: their results are in order, and a signal ends the wait for them."""

import signal
import threading
import time

import pytest

from tools import child

PATIENCE = 20  # seconds


def test_results_come_in_the_order_of_the_items():
    second = threading.Event()

    def do(item):
        if item == "first":
            assert second.wait(PATIENCE)
        else:
            second.set()
        return item.upper()

    with child.pool(2) as pool:
        assert list(child.in_order(pool, do, ["first", "second"])) == ["FIRST", "SECOND"]


def test_a_signal_that_does_not_wake_the_main_thread_ends_the_wait():
    over = threading.Event()

    def do(_):
        time.sleep(0.5)  # until the main thread waits
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        over.wait(PATIENCE)

    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt), child.pool(1) as pool:
            list(child.in_order(pool, do, [1]))
    finally:
        over.set()
    assert time.monotonic() - started < PATIENCE / 2
