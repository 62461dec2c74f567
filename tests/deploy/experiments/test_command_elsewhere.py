"""Boards of a scheduler elsewhere: everything goes through TLS."""

import subprocess
import sys
import threading
import time

import dask
import pytest
from distributed import Security
from stub_board import Bench

from common.errors import UsageError
from deploy.experiments import command, file
from tests.conftest import ROOT

AXES = 'sample = "stub"\n[axes]\n"--kernel" = ["1"]\n"--size" = [8, 16, 32]\n'


@pytest.fixture
def scheduler(tmp_path):
    """Start Dask's scheduler with keys of its own, and use them; gives its address."""
    keys = Security.temporary()
    names = {"ca-file": keys.tls_ca_file, "cert": keys.tls_client_cert, "key": keys.tls_client_key}
    for name, text in names.items():
        (tmp_path / name).write_text(text)
    ca, cert, key = (str(tmp_path / name) for name in names)
    log = tmp_path / "log"
    with open(log, "w") as out, subprocess.Popen(
        [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "tls://127.0.0.1",
         "--port", "0", "--tls-ca-file", ca, "--tls-cert", cert, "--tls-key", key,
         "--no-dashboard", "--dashboard-address", "127.0.0.1:0"],
        stdout=out, stderr=out, cwd=ROOT,
    ) as process:
        end = time.monotonic() + 40
        while "tls://" not in log.read_text():
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.1)
        address = log.read_text().partition("tls://")[2].split()[0]
        own = {"ca-file": ca, "client.cert": cert, "client.key": key, "worker.cert": cert,
               "worker.key": key}
        with dask.config.set({f"distributed.comm.tls.{name}": own[name] for name in own}):
            yield f"tls://{address}"
        process.terminate()


@pytest.mark.exhaustive
def test_the_points_run_where_the_boards_are(tmp_path, monkeypatch, capsys, scheduler):
    bench, stop = Bench(tmp_path, monkeypatch, capsys), threading.Event()
    gateway = threading.Thread(target=command.work, args=([bench.board()], scheduler, stop))
    gateway.start()
    try:
        # The options of one user, which a board refuses, do not take it from the others.
        (tmp_path / "x.toml").write_text('sample = "stub"\noptions = ["--do", "refuse-all"]\n')
        with pytest.raises(UsageError, match="stub: "):
            command.sweep([], file.read(str(tmp_path / "x.toml")), scheduler)
        (tmp_path / "x.toml").write_text(AXES)
        assert command.sweep([], file.read(str(tmp_path / "x.toml")), scheduler) == 0
        assert len(bench.came()) == len(bench.runs()) == 3
    finally:
        stop.set()
        gateway.join(30)
