"""What an SSH server on loopback needs: a port, keys, and the configurations of both sides."""

import socket
import subprocess
from contextlib import suppress


def free_port():
    """Return a port of 127.0.0.1 on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    """Tell whether an SSH server greets on a port of 127.0.0.1."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as probe:
        return probe.recv(4) == b"SSH-"
    return False


def make_key(path):
    """Make a pair of keys, in place of an older one."""
    for old in (path, path.with_suffix(".pub")):
        old.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", path]
    subprocess.run(command, check=True)


def trust(known_hosts, port, key):
    """Let a file known_hosts have the public key of the server on that port, and no other."""
    words = key.read_text(encoding="utf-8").split()[:2]
    known_hosts.write_text(f"[127.0.0.1]:{port} {' '.join(words)}\n", encoding="utf-8")


def sshd_config(port, host_key, authorized_keys, env, **more):
    """Return an sshd_config; `env` are the variables of its sessions, each NAME=VALUE."""
    options = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": host_key,
        "PidFile": "none",
        "AuthorizedKeysFile": authorized_keys,
        "StrictModes": "no",  # pytest's folders may be open to a group
        "UsePAM": "no",
        "PasswordAuthentication": "no",
        "KbdInteractiveAuthentication": "no",
        "MaxStartups": 100,
        "Subsystem": "sftp internal-sftp",
        "SetEnv": " ".join(env),
        **more,
    }
    return "".join(f"{key} {value}\n" for key, value in options.items())


def host_block(alias, port, user, folder, **more):
    """Return a Host of an ssh configuration; the client's keys are in a folder."""
    lines = {
        "HostName": "127.0.0.1",
        "Port": port,
        "User": user,
        "IdentityFile": f'"{folder / "client_key"}"',
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": f'"{folder / "known_hosts"}"',
        **more,
    }
    return f"Host {alias}\n" + "".join(f"    {key} {value}\n" for key, value in lines.items())
