"""make board, without a board: tools that lack, builds that break, processes that are others'."""

import os
import signal
import subprocess
import sys

import pytest

from common.errors import UsageError
from common.profiles import PROFILES
from deploy import apt, boards, samples
from deploy.errors import BoardError
from dev.emulate import root
from dev.emulate.__main__ import main
from dev.emulate.board import Emulated
from tests.conftest import ROOT
from tests.deploy.test_deploy import processes_with, until

ARM64 = root.ARCHES["arm64"]
FAKE_BUILDER = """#!/bin/sh
echo "$@" >> {log}
for last; do case $last in *.partial) root=$last;; --aptopt=/*) cat "${{last#--aptopt=}}";;
    esac; done >> {log}
mkdir -p $root/usr/share/base-passwd $root/usr/share/libc-bin $root/etc/apt/apt.conf.d
printf 'root:*:0:0::/root:/bin/sh\\n' > $root/usr/share/base-passwd/passwd.master
printf 'root:*:0:\\ntty:*:5:\\n' > $root/usr/share/base-passwd/group.master
touch $root/usr/share/libc-bin/nsswitch.conf $root/etc/apt/apt.conf.d/99mmdebstrap
{act}
"""
FAKE_APT = """#!/bin/sh
echo 'bookworm main http://mirror.invalid/debian/'
echo 'bookworm-security main http://mirror.invalid/security/'
echo 'trixie main http://other.invalid/debian/'
"""
DEBIAN = {"ID": "debian", "VERSION_CODENAME": "bookworm"}
FAKE_CONFIG = """#!/bin/sh
echo 'Acquire::http::Proxy "http://proxy.invalid:3128/";'
echo 'Acquire::cdrom "";'
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder first in PATH for stand-ins of the host's tools; call it to add one."""
    folder = tmp_path / "tools"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("OPENCL_SAMPLES_CACHE", str(tmp_path / "cache"))

    def add(name, text="#!/bin/sh\n"):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    return add


@pytest.fixture
def builder(tools, tmp_path, monkeypatch):
    """A machine with all tools, whose mmdebstrap notes how it was called, and then does `act`."""
    monkeypatch.setattr(root, "KEYRING", tmp_path)
    monkeypatch.setattr(apt.platform, "freedesktop_os_release", lambda: DEBIAN)
    for name in (ARM64.qemu, "fakechroot", "fakeroot", "ssh-keygen"):
        tools(name)
    tools("apt-get", FAKE_APT)
    tools("apt-config", FAKE_CONFIG)
    log = tmp_path / "builder.log"

    def act(text="true"):
        tools("mmdebstrap", FAKE_BUILDER.format(log=log, act=text))
        return log

    return act


def test_what_this_machine_lacks_is_named_in_one_line(tmp_path):
    env = {"PATH": str(tmp_path), "OPENCL_SAMPLES_CACHE": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "dev.emulate", "start", "--state", tmp_path / "state"],
        cwd=ROOT, env=env, capture_output=True, text=True, check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("emulate: error: this machine lacks ")
    assert done.stderr.count("\n") == 1
    assert "mmdebstrap openssh-client qemu-user-static: sudo apt install " in done.stderr


def test_a_board_is_built_once(builder):
    log = builder()
    said = []
    folder = root.build(ARM64, said.append)
    assert folder == root.build(ARM64, said.append)
    assert len(said) == 1
    assert "--arch=arm64" in log.read_text()
    assert "var/lib/dpkg/status" in log.read_text()  # what dpkg then says is installed
    assert log.read_text().count("--variant=extract") == 1
    assert not (folder / "etc/apt/apt.conf.d/99mmdebstrap").exists()
    assert "board:*:1000:1000::/home/board" in (folder / "etc/passwd").read_text()
    assert "tty" not in (folder / "etc/group").read_text()
    assert sorted(p.suffix for p in folder.parent.iterdir()) == ["", ".lock"]


def test_this_machines_archive_and_proxy_are_used(builder):
    log = builder()
    root.build(ARM64, print)
    said = log.read_text()
    assert 'Acquire::http::Proxy "http://proxy.invalid:3128/";' in said.splitlines()
    assert f"deb [signed-by={root.KEYRING}] http://mirror.invalid/debian/ bookworm main" in said
    assert not any(word in said for word in ("trixie", "security", "cdrom"))


def test_a_mali_is_of_debian_13_with_a_newer_mesa_in_one_file_system_for_all(builder):
    log = builder()
    folder = root.build(root.BOARDS["mali-g52"], print)
    assert folder == root.build(root.BOARDS["adreno-630"], print)
    assert folder != root.build(ARM64, print)
    said = log.read_text()
    for suite in ("trixie", "trixie-backports"):
        assert f"http://mirror.invalid/debian/ {suite} main" in said
    assert 'APT::Default-Release "trixie-backports"' in said
    assert "mesa-opencl-icd" in said


def test_another_distribution_takes_debians_own_archive(builder, monkeypatch):
    monkeypatch.setattr(apt.platform, "freedesktop_os_release", lambda: {"ID": "ubuntu"})
    log = builder()
    root.build(ARM64, print)
    assert "mirror.invalid" not in log.read_text()
    assert f"{root.ARCHIVE} bookworm main" in log.read_text()


def test_a_build_that_fails_says_why_and_starts_anew(builder, tmp_path):
    builder("echo 'I: busy' >&2; echo 'E: cannot reach the archive' >&2; exit 1")
    with pytest.raises(UsageError, match="cannot build the board: E: cannot reach the archive"):
        root.build(ARM64, print)
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]
    builder()
    assert root.build(ARM64, print).is_dir()


def test_a_build_that_is_killed_starts_anew(builder, tmp_path):
    log = builder(f"echo building >> {tmp_path}/marks; exec sleep 300.{os.getpid()}")
    code = "from dev.emulate import root; root.KEYRING = '/'; "
    code += "root.build(root.ARCHES['arm64'], print)"
    building = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.DEVNULL)
    until(lambda: (tmp_path / "marks").exists())
    building.kill()
    building.wait(10)
    for process in processes_with(f"sleep 300.{os.getpid()}"):
        os.kill(process, signal.SIGKILL)
    half = [path for path in (tmp_path / "cache").iterdir() if path.suffix == ".partial"]
    assert len(half) == 1
    (half[0] / "rubbish").touch()
    builder()
    folder = root.build(ARM64, print)
    assert not (folder / "rubbish").exists()
    assert not half[0].exists()
    assert log.read_text().count("--variant=extract") == 2


def test_a_process_that_is_not_ours_is_left_alone(tmp_path):
    board = Emulated("arm64", tmp_path)
    board.folder.mkdir()
    other, ours = subprocess.Popen(["sleep", "60"]), subprocess.Popen(
        ["sh", "-c", "sleep 60; :", "inside.sh", str(board.folder / "home")])
    try:
        # The id of a board that ended long ago, given to another process since.
        (board.folder / "leader").write_text(f"{other.pid}\n")
        assert board.leader() is None
        assert board.stop() is False
        assert other.poll() is None
        (board.folder / "leader").write_text(f"{ours.pid}\n")
        until(lambda: board.leader() == ours.pid)
        assert board.stop() is True
        assert ours.wait(10) == -signal.SIGKILL
    finally:
        for process in (other, ours):
            process.kill()
            process.wait(10)
    (board.folder / "leader").write_text("rubbish")
    assert board.leader() is None


def test_why_a_board_does_not_start(tmp_path, tools, monkeypatch):
    tools("unshare", "#!/bin/sh\necho busy >&2; echo 'cannot mount /x' >&2; exit 1\n")
    tools("ssh-keygen", '#!/bin/sh\nfor file; do :; done; echo ssh-ed25519 AAAA >"$file.pub"\n')
    tools(ARM64.qemu)
    board = Emulated("arm64", tmp_path)
    monkeypatch.setattr(board, "build", lambda say: (tmp_path, ""))
    with pytest.raises(BoardError, match=r"cannot start: cannot mount /x\. It needs "):
        board.start(print)
    assert board.leader() is None


def test_a_command_in_place_of_sshd(tmp_path, tools, monkeypatch, capfd):
    tools("unshare", "#!/bin/sh\necho \"$@\"; exit 7\n")
    tools("qemu-aarch64-static")
    board = Emulated("mali-g52", tmp_path / "state")
    monkeypatch.setattr(board, "build", lambda say: ("root", "cache"))
    assert board.run(["uname", "-m"], print) == 7
    words = capfd.readouterr().out.split()
    assert words[-2:] == ["uname", "-m"]
    assert {"--kill-child", "cache", "/usr/bin/env", "PAN_GPU_ID=7402",
            "RUSTICL_ENABLE=panfrost"} <= {*words}


@pytest.mark.parametrize("words", [["run"], ["run", "mali-g52"], ["start", "arm64", "uname"]])
def test_only_run_takes_a_command(words):
    with pytest.raises(UsageError, match="give a command to run"):
        main(words)


def test_each_gpu_has_its_settings_in_boards_toml():
    known = boards.load(ROOT / "boards.toml")
    for name in root.GPUS:
        assert known[name].build_only
        assert known[name].ssh_config == str(ROOT / ".emulated" / name / "ssh_config")
        assert known[name].limits in (None, name)
        assert name in PROFILES or not name.startswith("mali")
    assert all(Emulated(name).alias in known for name in root.BOARDS)


def test_make_mali_takes_every_mali_and_skips_cases_that_there_are():
    show = ["make", "--eval", "show: ; @echo $(GPUS) $(BUILT_ELSEWHERE)", "show"]
    said = subprocess.run(show, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    gpus, skipped = (text.split(",") for text in said.split())
    assert gpus == [name for name in root.GPUS if name.startswith("mali")]
    samples.every(samples.load(), skipped)  # raises for a name that no case has


@pytest.mark.parametrize("gpus", ["mali-g31", "x"])
def test_make_mali_for_a_gpu_without_targets_says_so_and_builds_nothing(gpus):
    command = ["make", "READY=", "mali", f"GPUS={gpus}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, f"GPUS={gpus}: no kernel has a target for it\n")


def test_stopping_what_does_not_run(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "dev.emulate", "stop", "--state", tmp_path],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )
    assert (done.returncode, done.stdout) == (0, "no emulated board is running here\n")


def test_fab_says_that_a_board_does_not_run(fab):
    done = fab("doctor", "--host", "emulated")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "`make board` starts an emulated board" in done.stderr


@pytest.mark.parametrize("do", ["start", "stop"])
def test_a_board_that_there_is_not(do):
    with pytest.raises(UsageError, match=r"invalid choice: 'mali-g53' \(choose from '?arm64'?, "):
        main([do, "mali-g53"])


def test_a_board_is_made_without_any_package():
    """-S hides what is installed, as on a machine with Python alone."""
    command = [sys.executable, "-S", "-c", "import dev.emulate.__main__"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
