"""Dask's workers: one for each board, as long as that can be reached."""

import logging
import sys
import tempfile
import threading
from collections import deque
from contextlib import contextmanager

import dask
from distributed import Client, LocalCluster, Security, Worker, get_worker
from distributed.utils import sync

from common.errors import SampleError, UsageError
from deploy.experiments.member import Lost, Member
from deploy.fleet import name_lines

RETRY = 2.0  # seconds until a board that is away is tried again
IN_USE = "the board is in use"
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
    """A Worker for a Member. It has no HTTP server: Dask's own would listen beyond loopback."""

    def __init__(self, client, member, **more):
        super().__init__(
            client.scheduler.address, nthreads=1, name=member.board.name, memory_limit=0,
            security=client.security, **more,
        )
        self.member, self.lost, self.gone = member, None, threading.Event()
        seldom = ("find-missing", "heartbeat") if client.cluster else ("find-missing",)
        for name in seldom:
            self.periodic_callbacks[name].callback_time = _SELDOM

    def start_http_server(self, *_, **__):
        """Start none."""


class Attendant:
    """Keeps a worker for a board, in a thread: a board that returns gets a new one.

    `decided` tells whether the board was reached, or refused for another reason than that it is
    in use: what the last host left there may still be running. `why` says why it is away, and
    `refused` what is wrong with the options.
    """

    def __init__(self, board, client):
        self.board, self.decided, self.why, self.refused = board, False, None, None
        self._client, self._member = client, Member(board)
        self._worker, self._stop = None, threading.Event()
        self._thread = threading.Thread(target=self._attend, daemon=True)
        self._thread.start()

    def _attend(self):
        with tempfile.TemporaryDirectory() as folder:
            while not self._stop.is_set():
                try:
                    self._member.connect()
                except (SampleError, OSError) as error:
                    self._note(str(error))
                else:
                    self._serve(folder)
                self._stop.wait(RETRY)

    def _serve(self, folder):
        self.why = None
        self._worker = sync(self._client.loop, BoardWorker, self._client, self._member,
                            local_directory=folder)
        self.decided = True
        if self._stop.is_set():
            self._worker.gone.set()
        self._worker.gone.wait()
        lost = self._worker.lost
        self.refused = lost if isinstance(lost, UsageError) else None
        self._note(str(lost or "stopped"))
        if lost and not isinstance(lost, Lost):  # it cannot run the sample, and never will
            self._stop.set()
        sync(self._client.loop, self._worker.close, executor_wait=False, timeout=_CLOSING)

    def _note(self, why):
        # The only board of a sweep: that ends with the same words.
        last = self.refused and self._client.cluster and not self.board.prefix
        if why != self.why and not self._stop.is_set() and not last:
            self.board.say(f"away: {why}")
        self.why = why
        self.decided = self.decided or IN_USE not in why

    def stop(self, stored):
        """End the worker, and the program on the board; `stored` as in Member.forget()."""
        self._stop.set()
        self._member.forget(stored)
        if self._worker:
            self._worker.gone.set()

    def wait(self):
        """Wait for what stop() began."""
        self._thread.join(_CLOSING)


@contextmanager
def attended(boards, scheduler=None):
    """Give a Client as connect() does, an Attendant for each Board, and a list for keys of points.

    At the end the workers end, and the boards forget the points of that list.
    """
    name_lines(boards)
    stored = deque(maxlen=_MOST_STORED)
    with connect(scheduler) as client:
        attendants = [Attendant(board, client) for board in boards]
        try:
            yield client, attendants, stored
        finally:
            for each in attendants:
                each.stop(stored)
            for each in attendants:
                each.wait()


def call(method, *arguments):
    """Call a method of a worker's Member, by name. The worker ends where that loses its board."""
    worker = get_worker()
    try:
        return getattr(worker.member, method)(*arguments)
    except SampleError as error:
        worker.lost = worker.lost or error
        worker.gone.set()
        raise
