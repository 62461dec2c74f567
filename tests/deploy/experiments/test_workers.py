"""Dask in this process: nothing of it can be reached from elsewhere."""

import os
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from distributed.utils import sync

from common.errors import UsageError
from deploy.experiments import workers


def listening():
    """Return the local addresses, in hexadecimal, at which this process listens by TCP."""
    mine = set()
    for path in Path("/proc/self/fd").iterdir():
        try:
            mine.add(os.readlink(path))
        except OSError:
            continue
    lines = [line.split() for name in ("tcp", "tcp6")
             for line in Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]]
    return {line[1].split(":")[0] for line in lines
            if line[3] == "0A" and f"socket:[{line[9]}]" in mine}


async def begin(client):
    board = SimpleNamespace(name="x", prefix="")
    return await workers.BoardWorker(client, SimpleNamespace(board=board))


def test_points_leave_nothing_in_memory():
    with workers.connect() as client:
        worker = sync(client.loop, begin, client)
        for number in range(20):
            assert client.submit(lambda n: n, number).result() == number
        assert max(len(worker.state.log), len(worker.state.stimulus_log)) <= 10
        sync(client.loop, worker.close)


def test_nothing_listens_beyond_loopback():
    with workers.connect() as client:
        worker = sync(client.loop, begin, client)
        assert listening() <= {"0100007F"}
        assert client.submit(lambda: 1).result() == 1
        sync(client.loop, worker.close)


def test_the_dashboards_address_is_where_it_listens():
    with workers.connect() as client:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/status", client.dashboard_link)


def test_no_scheduler_without_tls():
    with pytest.raises(UsageError, match="it must begin with tls://"):
        workers.connect("tcp://127.0.0.1:1")


def test_a_scheduler_that_cannot_be_used_has_one_line():
    with pytest.raises(UsageError, match=r"--scheduler tls://127\.0\.0\.1:1: "):
        workers.connect("tls://127.0.0.1:1")
