"""Dask's workers: one for each board."""

import logging
import sys
import tempfile
from asyncio import gather
from collections import deque
from contextlib import contextmanager

import dask
from distributed import Client, LocalCluster, Security, Worker, get_worker
from distributed.utils import sync

from common.errors import SampleError, UsageError
from deploy.errors import BoardError
from deploy.experiments.member import Member
from deploy.fleet import name_lines

_CLOSING = 30  # seconds
_MOST_STORED = 200  # the last points: of those before, the boards know
_SECURE = "tls://"
# All workers are in this process, a point is long, and needs no data of others: what Dask measures
# and looks for, some hundred times a second for each worker, would take most of the processor; its
# logs would take 40 KB for each point.
_SPARING = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.low-level-log-length": 10,
    "distributed.admin.tick.interval": "1h",
    "distributed.admin.tick.cycle": "1h",
    "distributed.admin.system-monitor.interval": "1h",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.client.scheduler-info-interval": "1h",
    "distributed.scheduler.active-memory-manager.start": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.worker-ttl": None,
    "distributed.worker.use-file-locking": False,
}
_SELDOM = 3600e3  # milliseconds
_TURN = 0.1  # seconds; a thread that waits for Python's lock asks for it each time: 1,000 may wait


def connect(scheduler=None):
    """Return a Client of Dask: of a cluster in this process, or of a scheduler with TLS.

    In this process nothing listens, except for Dask's dashboard on loopback where bokeh is
    installed. The keys for TLS are those of Dask's own configuration. Raises UsageError.
    """
    for name in ("distributed", "distributed.worker", "distributed.scheduler"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    dask.config.set(_SPARING)
    sys.setswitchinterval(_TURN)
    if scheduler is None:
        cluster = LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0",
                               silence_logs=logging.CRITICAL)
        # Dask would name this machine, where nothing listens beyond loopback.
        dask.config.set({"distributed.dashboard.link": "http://127.0.0.1:{port}/status"})
        return Client(cluster)
    if not scheduler.startswith(_SECURE):
        raise UsageError(f"--scheduler {scheduler}: it must begin with {_SECURE}")
    try:
        return Client(scheduler, security=Security(require_encryption=True), timeout=15)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"--scheduler {scheduler}: {error}") from error


class BoardWorker(Worker):
    """A Worker for a Member, also while its board is away. It has no HTTP server: Dask's own would
    listen beyond loopback."""

    def __init__(self, client, member, **more):
        super().__init__(
            client.scheduler.address, nthreads=1, name=member.board.name, memory_limit=0,
            security=client.security, **more,
        )
        self.member, self.away = member, None
        # If the only board refuses the options, the sweep ends in the same words.
        self.alone = bool(client.cluster) and not member.board.prefix
        seldom = ("find-missing", "heartbeat") if client.cluster else ("find-missing",)
        for name in seldom:
            self.periodic_callbacks[name].callback_time = _SELDOM

    def start_http_server(self, *_, **__):
        """Start none."""


@contextmanager
def attended(boards, scheduler=None):
    """Give a Client as connect() does, with a worker for each Board, and a list for keys of points.

    At the end the boards forget the points of that list.
    """
    name_lines(boards)
    stored, members = deque(maxlen=_MOST_STORED), [Member(board) for board in boards]
    with tempfile.TemporaryDirectory() as folder, connect(scheduler) as client:
        started = sync(client.loop, _start, client, members, folder)
        try:
            yield client, stored
        finally:
            for member in members:
                member.board.stopping = True  # one that still joins goes no further
                member.forget(stored)
            sync(client.loop, _close, started)


async def _start(client, members, folder):
    return [await BoardWorker(client, each, local_directory=folder) for each in members]


async def _close(started):
    # A thread that still waits for its board is not waited for.
    await gather(*(each.close(executor_wait=False, timeout=_CLOSING) for each in started))


def call(method, *arguments):
    """Call a method of a worker's Member, by name. Say why its board is away, but not twice."""
    worker = get_worker()
    try:
        result = getattr(worker.member, method)(*arguments)
    except (SampleError, OSError) as error:
        board, away = worker.member.board, str(error)
        silent = board.stopping or (worker.alone and isinstance(error, UsageError))
        if away != worker.away and not silent:
            board.say(f"away: {away}")
        worker.away = away
        # Without a cause: Dask follows causes, and would follow one that is its own for ever.
        raise (error if isinstance(error, SampleError) else BoardError(away)) from None
    worker.away = None
    return result
