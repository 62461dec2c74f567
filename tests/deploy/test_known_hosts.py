"""known_hosts as OpenSSH reads it: patterns, hashed names, markers, and lines that are broken."""

import base64
import os
import random
import shutil
import socket
import subprocess
import time

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from deploy import known_hosts, ssh

# The same in each process of the tests, since they are part of the tests' names.
PRIVATE = [ec.derive_private_key(number, ec.SECP256R1()) for number in (2, 3, 4)]
KEYS = [paramiko.ECDSAKey(vals=(each, each.public_key())) for each in PRIVATE]
MINE, OTHER, AUTHORITY = (f"{key.get_name()} {key.get_base64()}" for key in KEYS)
SALT = base64.b64encode(b"x" * 20).decode()
UNKNOWN = "sk-ssh-ed25519@openssh.com"


def hashed(host):
    """Return the name of a host as `HashKnownHosts yes` writes it."""
    return paramiko.HostKeys.hash_host(host, SALT)


@pytest.fixture
def known(tmp_path):
    """Look a host up in a file of these lines; gives its Known."""

    def look_up(*lines, host="board"):
        path = tmp_path / "known_hosts"
        data = "\n".join(lines).encode(errors="surrogateescape")
        path.write_bytes(data)
        return known_hosts.look_up([path], host)

    return look_up


def trusts(found, key):
    """Tell whether fab would take the key."""
    revoked, trusted = found.where(key)
    return not revoked and not found.fatal and bool(trusted)


def blob(name):
    return base64.b64encode(len(name).to_bytes(4, "big") + name.encode() + b"x" * 40).decode()


@pytest.mark.parametrize(
    ("names", "host"),
    [
        ("board", "board"), ("a,board,c", "board"), ("BOARD", "Board"), ("b*d", "board"),
        ("boar?", "board"), ("*", "board"), ("[board]:2222", "[board]:2222"),
        ("[b*]:2222", "[board]:2222"), ("!desk,*", "board"), ("*,!desk", "board"),
        (hashed("board"), "board"),
        (hashed("[board]:22222"), "[board]:22222"),
        ("2001:db8::*", "2001:db8::7"),
    ],
)
def test_a_line_names_a_host(known, names, host):
    assert trusts(known(f"{names} {MINE} a comment", host=host), KEYS[0])
    assert trusts(known(f"\t{names}\t {MINE}\r", host=host), KEYS[0])


@pytest.mark.parametrize(
    ("names", "host"),
    [
        ("boards", "board"), ("oard", "board"), ("", "board"), ("!board,*", "board"),
        ("*,!b*", "board"), ("board", "[board]:2222"), ("[board]:22", "board"),
        ("[abcdo]oard", "board"), ("b?", "board"), ("!board", "board"), ("!desk", "board"),
        (hashed("desk"), "board"), ("|1|x", "board"), ("|1|é|ü", "board"),
        ("|1||", "board"), ("|2|" + hashed("board")[3:], "board"),
    ],
)
def test_a_line_names_another_host(known, names, host):
    found = known(f"{names} {MINE}", host=host)
    assert not trusts(found, KEYS[0])
    assert not found.trusted


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="OpenSSH is not installed")
def test_patterns_are_those_of_openssh(tmp_path):
    rng = random.Random(7)
    lines = [
        ",".join(
            rng.choice(["", "", "", "!"]) + "".join(rng.choices("ab*?", k=rng.randint(1, 5)))
            for _ in range(rng.randint(1, 3))
        )
        for _ in range(600)
    ]
    path = tmp_path / "known_hosts"
    path.write_text("".join(f"{names} {MINE}\n" for names in lines))
    for host in ("a", "ab", "abba", "bab"):
        command = ["ssh-keygen", "-F", host, "-f", path]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        theirs = [int(line.split()[-1]) for line in done.stdout.splitlines() if line[0] == "#"]
        ours = [int(at.rpartition(":")[2]) for at in known_hosts.look_up([path], host).trusted]
        assert 0 < len(ours) < len(lines)
        assert ours == theirs


def test_any_key_of_a_host_may_be_the_one(known):
    found = known(f"board {OTHER}", f"board {MINE}")
    assert trusts(found, KEYS[0])
    assert trusts(found, KEYS[1])
    assert not trusts(found, KEYS[2])


@pytest.mark.parametrize("names", ["board", "*", hashed("board")])
def test_a_revoked_key_is_refused_whatever_trusts_it(known, names):
    for lines in (
        [f"board {MINE}", f"@revoked {names} {MINE}"],
        [f"@revoked\t{names}  {MINE} lost", f"board {MINE}"],
    ):
        found = known(*lines, f"board {OTHER}")
        assert not trusts(found, KEYS[0])
        assert found.where(KEYS[0])[0].endswith(f"known_hosts:{1 + lines[0].startswith('board')}")
        assert trusts(found, KEYS[1])
    assert trusts(known(f"@revoked desk {MINE}", f"board {MINE}"), KEYS[0])


def test_a_revoked_key_that_cannot_be_read_trusts_none(known):
    for broken in (
        "", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp256 !!!", "ecdsa-sha2-nistp256 AAAA",
        MINE.replace("nistp256", "nistp384", 1), f"x{MINE}", MINE[:-40],
        f"ecdsa-sha2-nistp256 {blob('ecdsa-sha2-nistp256')}",
    ):
        found = known(f"board {OTHER}", f"@revoked * {broken}")
        assert not trusts(found, KEYS[1]), broken
        assert "known_hosts:2 revokes an unreadable key" in found.fatal
        assert trusts(known(f"board {OTHER}", f"@revoked desk {broken}"), KEYS[1])
    # A board cannot come with a key of a type that paramiko has not.
    assert trusts(known(f"board {OTHER}", f"@revoked * {UNKNOWN} {blob(UNKNOWN)}"), KEYS[1])


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (f"@cert-authority * {AUTHORITY}", "known_hosts:2 trusts a certificate authority"),
        (f"@cert-authority board {MINE}", "known_hosts:2 trusts a certificate authority"),
        (f"@new board {MINE}", "known_hosts:2 has the unknown marker @new"),
        ("@revoked", "known_hosts:2 names no host"),
        ("board", "known_hosts:2 has no readable key"),
        ("board ssh-rsa", "known_hosts:2 has no readable key"),
        ("board ssh-rsa %%%", "known_hosts:2 has no readable key"),
        ("board ssh-rsa AAAAB3NzaC1yc2E=", "known_hosts:2 has no readable key"),
        (f"board {MINE.replace('nistp256', 'nistp384', 1)}", "known_hosts:2 has no readable key"),
        (f"board {MINE[:-60]}", "known_hosts:2 has no readable key"),
        (f"board {UNKNOWN} {blob(UNKNOWN)}", f"has a key of the unknown type {UNKNOWN}"),
    ],
)
def test_a_line_that_is_not_understood_trusts_no_key_and_costs_no_other(known, line, why):
    found = known("# mine", line)
    assert not trusts(found, KEYS[0])
    assert [text for text in found.trouble if why in text]
    assert trusts(known("# mine", line, f"board {MINE}"), KEYS[0])
    elsewhere = known(line.replace("board", "desk").replace("*", "desk"), f"board {MINE}")
    assert trusts(elsewhere, KEYS[0])
    assert line == "@revoked" or not elsewhere.trouble


def test_bytes_that_are_not_utf_8(known):
    assert trusts(known("b\udcff\udc80 \udcff \udcfe", "\0\x01", "", f"board {MINE}"), KEYS[0])
    assert "has no readable key" in known("board \udcff \udcfe").trouble[0]


@pytest.mark.parametrize("names", ["host{0},10.0.0.{0}", "|1|{1}|{1}", "*.lan{0},!bad.lan{0}"])
def test_a_file_of_100000_lines(known, names):
    lines = [f"{names.format(number, SALT)} {OTHER}" for number in range(100_000)]
    start = time.monotonic()
    found = known(*lines, f"board {MINE}")
    assert time.monotonic() - start < 10
    assert list(found.trusted.values()) == [KEYS[0]]


def test_a_file_that_cannot_be_read_trusts_none(tmp_path, known):
    found = known(f"board {MINE}")
    assert trusts(found, KEYS[0])
    large = tmp_path / "large"
    large.touch()
    os.truncate(large, 2**40)
    found = known_hosts.look_up([large, tmp_path / "known_hosts"], "board")
    assert not trusts(found, KEYS[0])
    assert "large" in found.fatal


@pytest.mark.parametrize(
    ("types", "first"),
    [
        (["ssh-rsa"], ["rsa-sha2-512", "rsa-sha2-256"]),
        (["ecdsa-sha2-nistp384"], ["ecdsa-sha2-nistp384"]),
    ],
)
def test_the_types_of_known_keys_are_asked_for_first(types, first):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        asked = [ssh.transport(each, ours)._preferred_keys for each in (types, [])]
    assert list(asked[0][: len(first)]) == first
    assert sorted(asked[0]) == sorted(asked[1])
