"""Host keys, jumps, and names that try to be something else; several boards at once."""

import os
import shlex
import socket
import subprocess
import time

import pytest

from common.errors import UsageError
from deploy import boards
from deploy.errors import BoardError
from deploy.fleet import Fleet
from deploy.link import Session, SshLink
from deploy.onboard import limits
from dev.loopback import make_key
from tests.deploy.test_deploy import processes_with, records, until

NEEDS_SSH = pytest.mark.skipif(
    not os.path.exists("/usr/bin/ssh"), reason="ssh is not installed (Debian: openssh-client)")


def command_of(refused):
    """Return the command by which a refusal lets the user see and accept a host key."""
    return shlex.split(refused.stderr.split("to accept it, run ")[1])


def accept(refused, tmp_path):
    """Run that command, and say yes."""
    says_yes = tmp_path / "says-yes"
    says_yes.write_text("#!/bin/sh\necho yes\n")
    says_yes.chmod(0o755)
    env = {**os.environ, "SSH_ASKPASS": str(says_yes), "SSH_ASKPASS_REQUIRE": "force"}
    subprocess.run(
        command_of(refused), env=env, check=True, timeout=20, stdin=subprocess.DEVNULL,
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
    assert "host key is known for" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (odroid.home / "opencl-samples").exists()

    accept(refused, tmp_path)
    assert fab("-S", config, "deploy", "--host", "odroid").returncode == 0


@pytest.mark.parametrize(("option", "value"), [
    ("StrictHostKeyChecking", "no"), ("StrictHostKeyChecking", "accept-new"),
    ("NoHostAuthenticationForLocalhost", "yes"), ("LogLevel", "QUIET"), ("LogLevel", "DEBUG3"),
])
def test_a_host_key_is_checked_whatever_the_configuration_says(
    fab, odroid, tmp_path, option, value
):
    odroid.known_hosts.unlink()
    with open(tmp_path / ".ssh" / "config", "a") as config:
        config.write(odroid.host_block("other", **{option: value}))
    refused = fab("deploy", "--host", "other")
    assert (refused.returncode, refused.stderr.count("\n")) == (3, 1)
    assert "host key is known" in refused.stderr
    assert command_of(refused)[-4:] == ["-o", "StrictHostKeyChecking=ask", "other", "exit"]
    assert not odroid.known_hosts.exists()


def test_a_connection_whose_key_was_not_checked_is_not_shared(fab, odroid, tmp_path):
    path, config = tmp_path / "shared", tmp_path / ".ssh" / "config"
    config.write_text(odroid.host_block("other", ControlPath=path, StrictHostKeyChecking="no"))
    master = subprocess.Popen(["/usr/bin/ssh", "-F", config, "-N", "-M", "other"])
    until(path.exists)
    odroid.known_hosts.unlink()
    try:
        assert "host key is known" in fab("deploy", "--host", "other").stderr
    finally:
        master.terminate()
        master.wait()


@pytest.mark.parametrize("options", [
    {"RemoteCommand": "echo hi"}, {"RequestTTY": "force"},
    {"LocalForward": "127.0.0.1:{port} 127.0.0.1:9", "ExitOnForwardFailure": "yes"},
], ids=" ".join)
def test_options_that_serve_a_person_at_a_terminal(fab, odroid, tmp_path, stub, options):
    stub("one")
    options = {name: text.format(port=odroid.port) for name, text in options.items()}
    with open(tmp_path / ".ssh" / "config", "a") as config:
        config.write(odroid.host_block("other", **options))
    done = fab("deploy", "--host", "other")
    assert done.returncode == 0, done.stderr


def options_of(link):
    """Return the options that ssh uses for a board."""
    words = link.command()
    words[1:1] = ["-G"]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    return dict(line.partition(" ")[::2] for line in done.stdout.splitlines())


@NEEDS_SSH
def test_a_board_is_lent_nothing(tmp_path):
    """... and leaves nothing: neither the agent, nor a port, nor a key in known_hosts."""
    (tmp_path / "config").write_text(
        "ForwardAgent yes\nForwardX11 yes\nRemoteForward 1234 localhost:22\n"
        "PermitLocalCommand yes\nUpdateHostKeys yes\nVerifyHostKeyDNS yes\nBatchMode no\n"
    )
    found = options_of(SshLink("board", "python3", tmp_path / "config"))
    assert "remoteforward" not in found or found["clearallforwardings"] == "yes"
    assert found["batchmode"] == "yes"
    assert [found[name] for name in (
        "forwardagent", "forwardx11", "permitlocalcommand", "updatehostkeys", "verifyhostkeydns"
    )] == ["no", "no", "no", "false", "false"]


def test_the_command_for_an_address_holds_port_and_user(fab, odroid):
    refused = fab("deploy", "--host", f"nobody@127.0.0.1:{odroid.port}")
    command = command_of(refused)
    assert command[-4:] == ["-p", str(odroid.port), "nobody@127.0.0.1", "exit"]


def test_a_host_key_alias_is_followed(fab, odroid, tmp_path, stub):
    stub("one")
    key = odroid.known_hosts.read_text().split(" ", 1)[1]
    odroid.known_hosts.write_text(f"the-board {key}")
    with open(tmp_path / ".ssh" / "config", "a") as config:
        config.write(odroid.host_block("other", HostKeyAlias="the-board"))
    assert fab("deploy", "--host", "other").returncode == 0
    assert "host key is known" in fab("deploy", "--host", "odroid").stderr


def test_keys_that_are_not_there_and_no_jump(fab, odroid, tmp_path, stub):
    stub("one")
    with open(tmp_path / ".ssh" / "config", "a") as config:
        config.write(odroid.host_block("other", ProxyJump="none", ProxyCommand="none"))
        config.write("    IdentityFile /no/such/key\n")
    done = fab("deploy", "--host", "other")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", ["Port abc", "ConnectTimeout x", "Match nonsense"])
def test_an_ssh_configuration_that_cannot_be_used(fab, tmp_path, line):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(f"Host broken\n    {line}\n")
    done = fab("deploy", "--host", "broken")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "the ssh configuration of broken: " in done.stderr


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
    assert "host key is known" in refused.stderr
    (folder / "config").write_text(block.replace("Port", "Match nonsense\nPort"))
    refused = fab("deploy", "--host", "mine")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_an_ssh_config_that_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "config")
    with pytest.raises(UsageError, match=r"the ssh_config of board: .*config: it is a FIFO"):
        SshLink("board", "python3", tmp_path / "config")


@NEEDS_SSH
@pytest.mark.parametrize("name", ["2001:db8::7", "root@2001:db8::7", "::1"])
def test_an_ipv6_address(name):
    command = SshLink(boards.check_name(name), "python3").command()
    assert command[-2] == name
    assert "-p" not in command


@pytest.mark.parametrize("name", ["a:0", "a:70000", "a:b"])
def test_a_name_that_ssh_cannot_use(name):
    with pytest.raises(UsageError, match=f"^the ssh configuration of {name}: "):
        SshLink(name, "python3")


@NEEDS_SSH
def test_how_long_to_wait_for_a_board(tmp_path):
    """... the configuration says, else fab."""
    (tmp_path / "config").write_text("Host slow\n    ConnectTimeout 99\n")
    for name, expected in (("slow", "99"), ("other", "15")):
        link = SshLink(name, "python3", tmp_path / "config")
        assert options_of(link)["connecttimeout"] == expected
    link = SshLink("slow", "python3", tmp_path / "config", ["-o", "ConnectTimeout=7"])
    assert options_of(link)["connecttimeout"] == "7"  # fab's -t


def test_an_ssh_configuration_that_only_openssh_understands(fab, odroid, tmp_path, stub):
    stub("one")
    config = tmp_path / "config"
    block = odroid.host_block("other").encode()
    config.write_bytes(b"# \xff\nMatch final\n    Compression no\n" + block)
    done = fab("-S", config, "deploy", "--host", "other")
    assert done.returncode == 0, done.stderr


def test_this_machine_has_no_ssh(fab, tmp_path):
    done = fab("deploy", "--host", "odroid", env={"PATH": str(tmp_path)})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "openssh-client" in done.stderr


def test_a_board_that_is_given_up_leaves_no_ssh(odroid, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SILENCE", 1)
    (tmp_path / "python").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "python").chmod(0o755)
    link = SshLink("odroid", str(tmp_path / "python"), tmp_path / ".ssh" / "config")
    session = Session(link, 60)
    with pytest.raises(BoardError, match="lost: no data for 1 s"):
        session.greet({})
    session.close()
    until(lambda: not processes_with(f"{tmp_path}/python"))


@pytest.mark.parametrize("path", ["/no/such/file", "/dev/zero"])
@pytest.mark.parametrize("option", ["-S", "-i"])
def test_a_file_for_ssh_that_is_not_there(fab, option, path):
    done = fab(option, path, "deploy", "--host", "odroid")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert path in done.stderr


def test_a_changed_host_key_is_always_refused(fab, odroid):
    odroid.stop()
    make_key(odroid.folder / "host_key")
    odroid.start()
    refused = fab("deploy", "--host", "odroid")
    assert (refused.returncode, refused.stderr.count("\n")) == (3, 1)
    assert "has changed" in refused.stderr
    assert "someone may be listening" in refused.stderr
    assert "accept" not in refused.stderr
    assert not (odroid.home / "opencl-samples").exists()


def test_a_revoked_host_key_is_refused(fab, odroid):
    key = odroid.known_hosts.read_text().split(" ", 1)[1]
    with open(odroid.known_hosts, "a") as file:
        file.write(f"@revoked * {key}")
    refused = fab("deploy", "--host", "odroid")
    assert (refused.returncode, refused.stderr.count("\n")) == (3, 1)
    assert "is marked as revoked" in refused.stderr
    assert "accept" not in refused.stderr
    assert not (odroid.home / "opencl-samples").exists()


def test_a_host_certificate(fab, odroid, stub):
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
        config.write(jump.host_block("jump", StrictHostKeyChecking="no"))
        config.write(odroid.host_block("far", ProxyJump="jump"))
    refused = fab("deploy", "--host", "far")
    assert (refused.returncode, refused.stderr.count("\n")) == (3, 1)
    assert f"host key is known for [127.0.0.1]:{jump.port} " in refused.stderr
    assert jump.known_hosts.read_text() == ""


def test_a_jump_with_an_ssh_configuration_whose_name_has_a_space(fab, odroid, tmp_path, stub):
    stub("one")
    config = tmp_path / "my boards"
    config.write_text((tmp_path / ".ssh" / "config").read_text())
    assert fab("-S", config, "deploy", "--host", "behind").returncode == 0


def test_a_key_that_is_not_accepted(fab, odroid):
    make_key(odroid.folder / "client_key")
    (odroid.folder / "client_key.pub").write_text("")
    done = fab("deploy", "--host", "odroid")
    assert done.returncode == 3
    assert "ssh-copy-id" in done.stderr


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


@NEEDS_SSH
def test_an_unknown_host_and_a_closed_port(fab, tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    done = fab("deploy", "--host", f"127.0.0.1:{port}")
    assert done.returncode == 3
    assert "is sshd running there" in done.stderr
    done = fab("deploy", "--host", "no-such-host.invalid")
    assert done.returncode == 3
    assert "give a Host of your ssh configuration" in done.stderr


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
    stub("slow", "asleep = time.time()\ntime.sleep(5)\nprint('awake', asleep, time.time())")
    done = fab("-H", "odroid,gone,firefly", "deploy", "run-all", "--verbose")
    assert done.returncode == 3
    assert set(records(project, "odroid")) == set(records(project, "firefly")) == {("slow", "only")}
    assert not (project / "results" / "gone").exists()
    lines = done.stdout.splitlines()
    spans = [line.split()[-2:] for name in ("odroid ", "firefly") for line in lines
             if line.startswith(f"{name} |    awake")]
    assert len(spans) == 2
    assert max(float(asleep) for asleep, _ in spans) < min(float(awake) for _, awake in spans)
    streamed = [line for line in lines if "awake" in line or "==" in line or "deployed" in line]
    assert all(" | " in line for line in streamed)
    assert done.stderr.count("fab: error: gone: ") == 1  # run-all leaves it out
    assert "no results of gone: " in lines[-1]  # the table does not hide it
