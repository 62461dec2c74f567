"""Host keys, jumps, and names that try to be something else; several boards at once."""

import os
import shlex
import socket
import subprocess
import time

import fabric
import pytest

from common.errors import UsageError
from deploy import boards
from deploy.fleet import Fleet
from deploy.ssh import SshLink
from dev.loopback import make_key
from tests.deploy.test_deploy import records


def accept(refused, tmp_path):
    """Run the command by which a refusal lets the user accept a host key, and say yes."""
    command = refused.stderr.split("accept it with: ")[1].strip()
    says_yes = tmp_path / "says-yes"
    says_yes.write_text("#!/bin/sh\necho yes\n")
    says_yes.chmod(0o755)
    env = {**os.environ, "SSH_ASKPASS": str(says_yes), "SSH_ASKPASS_REQUIRE": "force"}
    subprocess.run(
        shlex.split(command), env=env, check=True, timeout=20, stdin=subprocess.DEVNULL,
        capture_output=True,
    )


def test_an_unknown_host_key_is_refused_with_the_command_that_accepts_it(
    fab, odroid, tmp_path, stub
):
    stub("one")
    odroid.known_hosts.unlink()
    config = tmp_path / ".ssh" / "config"
    refused = fab("-S", config, "deploy", "--host", "odroid")
    assert refused.returncode == 3
    assert "the host key of" in refused.stderr
    assert "is unknown, ssh-ed25519 SHA256:" in refused.stderr
    assert not (odroid.home / "opencl-samples").exists()

    accept(refused, tmp_path)
    assert fab("-S", config, "deploy", "--host", "odroid").returncode == 0


def test_the_command_for_an_address_holds_port_and_user(fab, odroid):
    refused = fab("deploy", "--host", f"nobody@127.0.0.1:{odroid.port}")
    assert f"-p {odroid.port} -l nobody 127.0.0.1 exit" in refused.stderr


def test_a_host_key_alias_is_followed(fab, odroid, tmp_path, stub):
    stub("one")
    key = odroid.known_hosts.read_text().split(" ", 1)[1]
    odroid.known_hosts.write_text(f"the-board {key}")
    with open(tmp_path / ".ssh" / "config", "a") as config:
        config.write(odroid.host_block("other", HostKeyAlias="the-board"))
    assert fab("deploy", "--host", "other").returncode == 0
    assert "is unknown" in fab("deploy", "--host", "odroid").stderr


def test_keys_that_are_not_there_and_no_jump(fab, odroid, tmp_path, stub):
    stub("one")
    with open(tmp_path / ".ssh" / "config", "a") as config:
        config.write(odroid.host_block("other", ProxyJump="none", ProxyCommand="none"))
        config.write("    IdentityFile /no/such/key\n")
    done = fab("deploy", "--host", "other")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", ["Port abc", "ConnectTimeout x", "ProxyJump broken"])
def test_an_ssh_configuration_that_cannot_be_used(fab, tmp_path, line):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(f"Host broken\n    {line}\n")
    done = fab("deploy", "--host", "broken")
    assert done.returncode in (2, 3)
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_a_boards_own_ssh_config(fab, odroid, tmp_path, stub, boards_toml):
    stub("one")
    folder = tmp_path / "a folder"
    folder.mkdir()
    odroid.known_hosts.rename(folder / "known hosts")
    quoted = f'"{folder / "known hosts"}"'
    block = odroid.host_block("mine", UserKnownHostsFile=quoted)
    (folder / "config").write_text(block)
    boards_toml(f'[mine]\nssh_config = "{folder}/config"\n')
    assert fab("deploy", "--host", "mine").returncode == 0
    refused = fab("deploy", "--host", "odroid")  # the user's own knows another known_hosts
    assert "is unknown" in refused.stderr
    (folder / "config").write_text(block.replace("Port", "Match nonsense\nPort"))
    refused = fab("deploy", "--host", "mine")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_an_ssh_config_that_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "config")
    with pytest.raises(UsageError, match=r"the ssh_config of board: .*config: it is a FIFO"):
        SshLink("board", fabric.Config(), "python3", own_file=tmp_path / "config")


@pytest.mark.parametrize("name", ["2001:db8::7", "root@2001:db8::7", "::1"])
def test_an_ipv6_address(name):
    link = SshLink(boards.check_name(name), fabric.Config(), "python3")
    assert link.address.endswith(f"@[{name.rpartition('@')[2]}]:22")


@pytest.mark.parametrize("path", ["/no/such/file", "/dev/zero"])
def test_an_ssh_configuration_that_is_not_there(fab, path):
    done = fab("-S", path, "deploy", "--host", "odroid")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert path in done.stderr


def test_a_changed_host_key_is_always_refused(fab, odroid):
    odroid.stop()
    make_key(odroid.folder / "host_key")
    odroid.start()
    refused = fab("deploy", "--host", "odroid")
    assert refused.returncode == 3
    assert "has CHANGED" in refused.stderr
    assert not (odroid.home / "opencl-samples").exists()
    forget = shlex.split(refused.stderr.split("remove the old key: ")[1])
    assert forget[0] == "ssh-keygen"
    subprocess.run(forget, check=True, timeout=20, capture_output=True)
    assert "is unknown" in fab("deploy", "--host", "odroid").stderr


def test_lines_about_authorities_and_revoked_keys_cost_other_boards_nothing(fab, odroid, stub):
    stub("one")
    mine = odroid.known_hosts.read_text()
    other = (odroid.folder / "client_key.pub").read_text()  # a key that is not the server's
    for line in (f"@cert-authority * {other}", f"@revoked * {other}", "@new *", "x ssh-rsa A"):
        odroid.known_hosts.write_text(f"{line}\n{mine}")
        assert fab("deploy", "--host", "odroid").returncode == 0, line


def test_a_revoked_host_key_is_refused(fab, odroid):
    key = odroid.known_hosts.read_text().split(" ", 1)[1]
    with open(odroid.known_hosts, "a") as file:
        file.write(f"@revoked * {key}")
    refused = fab("deploy", "--host", "odroid")
    assert refused.returncode == 3
    assert f"is REVOKED by {odroid.known_hosts}:2" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (odroid.home / "opencl-samples").exists()


def test_a_key_that_only_an_authority_vouches_for(fab, odroid, tmp_path, stub):
    """It is told, and the command accepts the key itself, though ssh prefers its certificate."""
    stub("one")
    make_key(odroid.folder / "authority")
    sign = ["ssh-keygen", "-q", "-s", odroid.folder / "authority", "-h", "-I", "x"]
    subprocess.run([*sign, odroid.folder / "host_key.pub"], check=True)
    authority = (odroid.folder / "authority.pub").read_text()
    odroid.known_hosts.write_text(f"@cert-authority * {authority}")
    odroid.stop()
    odroid.prefix = [
        "sh",
        "-c",
        f'exec "$@" -o HostCertificate={odroid.folder}/host_key-cert.pub',
        "-",
    ]
    odroid.start()
    refused = fab("-S", tmp_path / ".ssh" / "config", "deploy", "--host", "odroid")
    assert refused.returncode == 3
    assert f"{odroid.known_hosts}:1 trusts a certificate authority" in refused.stderr
    accept(refused, tmp_path)
    assert fab("deploy", "--host", "odroid").returncode == 0


def test_of_several_host_keys_the_one_that_is_known_is_asked_for(fab, odroid, stub):
    stub("one")
    rsa = odroid.folder / "rsa_key"
    command = ["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", rsa]
    subprocess.run(command, check=True)
    odroid.stop()
    odroid.prefix = ["sh", "-c", f'exec "$@" -h {rsa}', "-"]
    odroid.start()
    for key in ("rsa_key", "host_key"):
        public = (odroid.folder / f"{key}.pub").read_text()
        odroid.known_hosts.write_text(f"[127.0.0.1]:* {public}")
        assert fab("deploy", "--host", "odroid").returncode == 0


def test_a_proxy_jump_is_followed(fab, odroid, stub):
    stub("one")
    before = odroid.log().count("Accepted publickey")
    assert fab("deploy", "--host", "behind").returncode == 0
    assert odroid.log().count("Accepted publickey") == before + 2


def test_the_host_key_of_the_jump_is_checked_too(fab, odroid, ssh_server, tmp_path):
    jump = ssh_server("jump")
    jump.known_hosts.write_text("")
    with open(tmp_path / ".ssh" / "config", "a") as config:
        config.write(jump.host_block("jump") + odroid.host_block("far", ProxyJump="jump"))
    refused = fab("deploy", "--host", "far")
    assert refused.returncode == 3
    assert f"the host key of [127.0.0.1]:{jump.port} is unknown" in refused.stderr


def test_a_key_that_is_not_accepted(fab, odroid):
    make_key(odroid.folder / "client_key")
    (odroid.folder / "client_key.pub").write_text("")
    done = fab("deploy", "--host", "odroid")
    assert done.returncode == 3
    assert "no key was accepted" in done.stderr


@pytest.mark.parametrize(
    "name", ["-oProxyCommand=touch hit", "a;touch hit", "$(touch hit)", "../../x", "a b", "."]
)
def test_a_hostile_name_is_refused(name):
    fleet = Fleet()
    with pytest.raises(UsageError, match="is not a host"):
        fleet.asked(name)
    fleet.named = [name]
    with pytest.raises(UsageError, match="is not a host"):
        fleet.asked(None)


def test_an_unknown_host_and_a_closed_port(fab, tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    done = fab("deploy", "--host", f"127.0.0.1:{port}")
    assert done.returncode == 3
    assert "refuses the connection" in done.stderr
    done = fab("deploy", "--host", "no-such-host.invalid")
    assert done.returncode == 3
    assert "cannot find a host named no-such-host.invalid" in done.stderr


def test_a_board_that_accepts_and_says_nothing(fab, odroid, tmp_path):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with open(tmp_path / ".ssh" / "config", "a") as config:
            port = silent.getsockname()[1]
            config.write(f"Host mute\n    HostName 127.0.0.1\n    Port {port}\n")
            config.write("    ConnectTimeout 1\n")
        start = time.monotonic()
        done = fab("deploy", "--host", "mute")
        assert time.monotonic() - start < 30
    assert done.returncode == 3
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.exhaustive
def test_boards_run_in_parallel_and_one_failure_does_not_stop_the_others(
    fab, odroid, ssh_server, tmp_path, project, stub
):
    second, gone = ssh_server("firefly"), ssh_server("gone")
    blocks = odroid.host_block("odroid") + second.host_block("firefly") + gone.host_block("gone")
    (tmp_path / ".ssh" / "config").write_text(blocks)
    gone.stop()
    stub("slow", "time.sleep(5)\nprint('awake')")
    start = time.monotonic()
    done = fab("-H", "odroid,gone,firefly", "deploy", "run-all", "--verbose")
    took = time.monotonic() - start
    assert done.returncode == 3
    assert took < 5 + 5  # one after the other would take longer than that
    assert set(records(project, "odroid")) == set(records(project, "firefly")) == {("slow", "only")}
    assert not (project / "results" / "gone").exists()
    lines = done.stdout.splitlines()
    assert any(line.startswith("odroid  |    awake") for line in lines)
    assert any(line.startswith("firefly |    awake") for line in lines)
    streamed = [line for line in lines if "awake" in line or "==" in line or "deployed" in line]
    assert all(" | " in line for line in streamed)
    assert done.stderr.count("fab: error: gone: ") == 1  # run-all leaves it out
    assert "no results of gone: " in lines[-1]  # the table does not hide it
