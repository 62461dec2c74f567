"""What goes wrong on boards: power, disks, clocks, people. Each against real SSH servers."""

import os
import socket
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import FAB
from tests.deploy.test_deploy import drop_connections, processes_with, records, start_run_all, until

FAKETIME = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
# Mounts that only a server and what it starts can see.
PRIVATE = ["unshare", "--mount"]
if os.getuid() != 0:
    PRIVATE = ["unshare", "--user", "--map-current-user", "--keep-caps", "--mount"]


def with_mount(server, command):
    """Start the server again, in mounts of its own: `command` makes them, "$0" is its home."""
    server.stop()
    server.prefix = [*PRIVATE, "sh", "-c", f'{command} && exec "$@"', server.home]
    server.start()


def home_of(server):
    """Return the server's home folder as the server itself sees it."""
    return Path(f"/proc/{server.process.pid}/root{server.home}")


def one_line(done, message):
    """Check that a task failed with one line on stderr that says so."""
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stdout


def waits_for(flag):
    """Return the code of a sample that waits until a file is there."""
    return f"import os\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.05)"


def test_sshd_killed_while_a_sample_runs(fab, odroid, project, stub):
    stub("a_quick")
    stub("b_slow", waits_for(project / "go"))
    assert fab("deploy", "--host", "odroid").returncode == 0
    running = start_run_all(odroid, project)
    results = odroid.home / "opencl-samples" / "results"
    until(lambda: list(results.glob("*/b_slow/only.log")))
    drop_connections(odroid)
    odroid.process.kill()
    odroid.process.wait(10)
    output = running.communicate(timeout=30)[0]
    assert running.returncode == 3
    assert "fab collect --host odroid" in output

    one_line(fab("collect", "--host", "odroid"), "Connection refused")
    odroid.start()
    (project / "go").touch()
    until(lambda: list(results.glob("*/ended.json")))
    assert fab("collect", "--host", "odroid").returncode == 0
    came = records(project, "odroid")
    assert set(came) == {("a_quick", "only"), ("b_slow", "only")}
    assert all(item.status == "passed" for items in came.values() for item in items)


def test_a_disk_that_is_full_at_the_deploy(fab, odroid):
    with_mount(odroid, 'mount -t tmpfs -o size=200k tmpfs "$0"')
    one_line(fab("deploy", "--host", "odroid"), "No space left on device")
    folder = home_of(odroid) / "opencl-samples"
    assert not list(folder.glob("trees/*"))  # what came is gone: the disk has its room again
    asked = fab("doctor", "--host", "odroid")
    assert asked.returncode == 1
    assert "free at least" in asked.stdout


def test_a_disk_that_fills_while_samples_run(fab, odroid, project, stub):
    stub("a_before")
    stub("b_fills", """
import os
try:
    open(os.environ['HOME'] + '/big', 'wb').write(b'x' * 10**7)
except OSError as error:
    print(error)
    sys.exit(2)
""")
    stub("c_after")
    with_mount(odroid, 'mount -t tmpfs -o size=4m tmpfs "$0"')
    assert fab("deploy", "--host", "odroid").returncode == 0
    done = fab("run-all", "--host", "odroid")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "the board cannot continue: No space left on device" in done.stdout
    came = records(project, "odroid")
    assert came["a_before", "only"][0].status == "passed"
    full = "No space left on device"
    assert came["b_fills", "only"][0].reason == f"the run was interrupted while it ran: {full}"
    assert came["c_after", "only"][0].reason == f"not run: the run was interrupted: {full}"

    with suppress(OSError), open(home_of(odroid) / "more", "wb", 0) as more:
        while more.write(bytes(1000)):
            pass
    refused = fab("run", "c_after", "--host", "odroid")
    one_line(refused, "No space left on device")
    assert "fab collect" not in refused.stderr  # nothing ran

    for name in ("big", "more"):
        (home_of(odroid) / name).unlink()
    again = fab("run", "c_after", "--host", "odroid")
    assert again.returncode == 0, again.stdout + again.stderr


@pytest.mark.exhaustive
def test_a_remote_folder_that_became_read_only(fab, odroid, project, stub):
    sample = stub("one")
    assert fab("deploy", "--host", "odroid").returncode == 0
    with_mount(odroid, 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0"')
    (sample / "run.py").write_text("# changed")
    for task in ("deploy", "run-all", "clean"):
        one_line(fab(task, "--host", "odroid"), "Read-only file system")
    asked = fab("doctor", "--host", "odroid")
    assert asked.returncode == 1
    assert "not writable" in asked.stdout
    assert "remount it read-write" in asked.stdout


def test_python3_missing(fab, odroid, stub):
    stub("one")
    odroid.stop()
    odroid.variables["PATH"] = odroid.folder / "nothing"
    odroid.start()
    for task in ("doctor", "provision", "deploy"):
        one_line(fab(task, "--host", "odroid"), "python3: command not found. Install python3")


@pytest.mark.exhaustive
@pytest.mark.skipif(not FAKETIME, reason="libfaketime is not installed (Debian: libfaketime)")
def test_a_board_whose_clock_says_1970(fab, odroid, project, stub):
    stub("one", "print('it is', time.gmtime().tm_year)")
    assert fab("deploy", "--host", "odroid").returncode == 0
    odroid.stop()
    odroid.variables |= {"LD_PRELOAD": FAKETIME[0], "FAKETIME": f"-{int(time.time()) - 3600}"}
    odroid.start()
    (project / "samples" / "one" / "sample.toml").open("a").write("# changed\n")
    done = fab("deploy", "--host", "odroid", "run-all", "--verbose", "doctor")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "deployed: 1 files copied" in done.stdout  # what differs is told by contents, not times
    assert "it is 1970" in done.stdout
    assert "the board's clock shows 1970-01-01" in done.stdout
    (run,) = (project / "results" / "odroid").iterdir()
    assert run.name.startswith(time.strftime("%Y"))  # by the host's clock
    assert records(project, "odroid")["one", "only"][0].started.startswith("1970-01-01")


def test_two_deploys_at_once_to_one_board(fab, odroid, project, stub):
    stub("one")
    # The first is held where it has the board's lock: the board waits for its disk to write.
    (odroid.home / "slow").mkdir()
    (odroid.home / "slow" / "sitecustomize.py").write_text(
        f"import os, time\nreal = os.sync\ndef sync():\n    real()\n"
        f"    while not os.path.exists({str(project / 'go')!r}): time.sleep(0.05)\nos.sync = sync\n"
    )
    odroid.stop()
    odroid.variables["PYTHONPATH"] = odroid.home / "slow"
    odroid.start()
    command = [FAB, "deploy", "--host", "odroid"]
    env = {**os.environ, "HOME": str(odroid.folder.parent)}
    first = subprocess.Popen(
        command, cwd=project, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )
    lock = odroid.home / "opencl-samples" / "lock"
    until(lambda: lock.exists() and "process" in lock.read_text())
    second = fab("deploy", "--host", "odroid")
    (project / "go").touch()
    output = first.communicate(timeout=30)[0]
    one_line(second, "the board is in use: ")
    assert f"@{socket.gethostname()}, process " in second.stderr
    assert first.returncode == 0, output
    assert fab("deploy", "--host", "odroid").returncode == 0


@pytest.mark.exhaustive
def test_twenty_boards_of_which_three_fail(fab, ssh_server, project, stub, tmp_path):
    good = [f"good{number:02}" for number in range(17)]
    servers = {name: ssh_server(name) for name in [*good, "refuses", "hangs", "dies"]}
    servers["refuses"].stop()
    servers["hangs"].stop()
    (tmp_path / ".ssh").mkdir()
    blocks = [server.host_block(name, ConnectTimeout=3) for name, server in servers.items()]
    (tmp_path / ".ssh" / "config").write_text("".join(blocks))
    stub("one", "print('awake', flush=True); time.sleep(4)")
    start = time.monotonic()
    assert fab("deploy", "--host", "good00", "run-all").returncode == 0
    alone = time.monotonic() - start

    def die():
        results = servers["dies"].home / "opencl-samples" / "results"
        until(lambda: list(results.glob("*/one/only.log")), seconds=60)
        drop_connections(servers["dies"])

    with socket.socket() as silent:
        silent.bind(("127.0.0.1", servers["hangs"].port))
        silent.listen()  # takes connections, and never says a word
        death = threading.Thread(target=die)
        death.start()
        start = time.monotonic()
        done = fab("-H", ",".join(servers), "deploy", "run-all", timeout=120)
        took = time.monotonic() - start
        death.join()
    assert done.returncode == 3
    for name in good:
        assert {item.status for item in records(project, name)["one", "only"]} == {"passed"}
    reasons = {
        "refuses": "Connection refused",
        "hangs": "Connection timed out during banner exchange",
        "dies": "the connection was lost",
    }
    for name, why in reasons.items():
        assert f"fab: error: {name}: " in done.stderr
        assert why in done.stderr
        assert f"no results of {name}: " in done.stdout
        assert not (project / "results" / name).exists()
    assert "17 of 17 passed" in done.stdout
    # 3 s for the one that hangs; one after the other the boards would take 17 times as long.
    assert took < 3 + 3 * alone, (took, alone)
    until(lambda: not processes_with("one/run.py"))


def test_a_folder_that_is_refused_leaves_none_behind(fab, odroid, boards_toml):
    (odroid.home / "mine").touch()
    boards_toml('[odroid]\nfolder = "x/.."\n')
    done = fab("deploy", "--host", "odroid")
    assert (done.returncode, "has other files" in done.stderr) == (3, True), done.stderr
    assert not (odroid.home / "x").exists()
