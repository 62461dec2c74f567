"""SSH servers that do not keep to SSH: fab stays small, ends in time and says why."""

import contextlib
import socket
import struct
import threading
import time

import paramiko
import pytest

from tests.deploy.test_deploy_hostile import hostile, measured  # noqa: F401

pytestmark = pytest.mark.usefixtures("project")


class Server(paramiko.ServerInterface):
    """Lets everyone in, and does as it is told with a command."""

    def __init__(self, act):
        self.act = act

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind, chanid):
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel, command):
        threading.Thread(target=self.run, args=[channel], daemon=True).start()
        return True

    def run(self, channel):
        with contextlib.suppress(OSError, EOFError):
            self.act(channel)


@pytest.fixture
def serve(odroid, tmp_path):
    """Take the place of the server `odroid`: `talk(socket)` has the connections.

    At a port of its own: that of `odroid` may be taken again at once, or still be in use.
    """
    odroid.stop()
    listening = socket.create_server(("127.0.0.1", 0))
    odroid.port = listening.getsockname()[1]
    odroid.trust()
    (tmp_path / ".ssh" / "config").write_text(odroid.host_block("odroid"))

    def start(talk):
        def accept():
            with contextlib.suppress(OSError):
                while True:
                    connection = listening.accept()[0]
                    with contextlib.suppress(OSError):
                        talk(connection)

        threading.Thread(target=accept, daemon=True).start()

    yield start
    listening.shutdown(socket.SHUT_RDWR)  # ends accept(), as close() does not
    listening.close()


def test_a_server_that_does_not_wait_until_what_it_sends_is_read(measured, serve, odroid):  # noqa: F811
    key = paramiko.Ed25519Key(filename=str(odroid.folder / "host_key"))

    def flood(channel):
        channel.out_window_size = 2**40  # whatever the other end allows
        end = time.monotonic() + 20
        while time.monotonic() < end:
            channel.send_stderr(bytes(2**15))

    def talk(connection):
        transport = paramiko.Transport(connection)
        transport.add_server_key(key)
        transport.start_server(server=Server(flood))

    serve(talk)
    done = measured("doctor", "--host", "odroid")
    assert done.status == 3
    why = "it sends without end: its SSH server ignores the flow control"
    assert done.err == f"fab: error: odroid: {why}\n"
    assert done.seconds < 20


def test_a_packet_without_end(measured, serve):  # noqa: F811
    def talk(connection):
        connection.sendall(b"SSH-2.0-odd\r\n" + struct.pack(">I", 2**31 - 4))
        for _ in range(2**14):
            connection.sendall(bytes(2**16))

    serve(talk)
    done = measured("doctor", "--host", "odroid")
    assert done.status == 3
    assert "an SSH packet of 2147483640 bytes" in done.err
    assert done.err.count("\n") == 1
    assert done.seconds < 20


def test_a_program_that_closes_its_output_and_lives_on(measured, odroid, boards_toml):  # noqa: F811
    python = odroid.home / "python"
    python.write_text("#!/bin/sh\nexec 0<&- 1>&- 2>&-\nexec sleep 30\n")
    python.chmod(0o755)
    boards_toml(f"[odroid]\npython = '{python}'\n")
    done = measured("doctor", "--host", "odroid", SILENCE=1)
    assert done.status == 3
    assert "the program there closed its output but does not end" in done.err
    assert done.seconds < 20


def test_a_program_that_reads_nothing(measured, odroid, boards_toml):  # noqa: F811
    python = odroid.home / "python"
    python.write_text("#!/bin/sh\nexec sleep 30\n")
    python.chmod(0o755)
    boards_toml(f"[odroid]\npython = '{python}'\n")
    done = measured("deploy", "--host", "odroid", SILENCE=1)
    assert done.status == 3
    assert "lost: no data for 1 s" in done.err
    assert done.seconds < 20
