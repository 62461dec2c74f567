"""Files that others name: only regular ones of a limited size are read, and none is waited for."""

import json
import os
import socket
import tomllib
import tracemalloc

import pytest

from common import files
from common.errors import UsageError

MOST = 1000


@pytest.fixture
def odd(tmp_path):
    """Paths that are no regular files, or cannot be read, each with what is said of it."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "to-fifo").symlink_to("fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))
        yield {
            tmp_path: "a folder",
            tmp_path / "fifo": "a FIFO",
            tmp_path / "to-fifo": "a FIFO",
            tmp_path / "socket": "a socket",
            "/dev/zero": "a device",
            tmp_path / "loop": "symbolic links",
            tmp_path / ("x" * 300): "name too long",
            tmp_path / "none": "No such file",
            tmp_path / "a\0b": "null",
        }


@pytest.mark.parametrize("read", [files.regular, files.opened, lambda p: files.read_text(p, MOST)])
def test_what_is_no_regular_file_is_refused_in_one_line(odd, read):
    for path, why in odd.items():
        with pytest.raises(UsageError) as refused:
            read(path)
        assert why.lower() in str(refused.value).lower()
        assert str(path).replace("\0", "?") in str(refused.value)
        assert "\n" not in str(refused.value)


def test_a_file_has_at_most_so_many_bytes(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * MOST)
    assert files.read_text(tmp_path / "file", MOST) == "x" * MOST
    os.truncate(tmp_path / "file", 2**40)  # sparse: takes no room
    with pytest.raises(UsageError, match="file: it is larger than 1,000 bytes"):
        files.read_text(tmp_path / "file", MOST)
    with pytest.raises(UsageError, match="larger"):  # its size is said to be 0
        files.read_text("/proc/self/mountinfo", 5)


def test_a_limit_takes_no_memory(tmp_path):
    (tmp_path / "file").write_bytes(b"x" * MOST)
    tracemalloc.start()
    assert len(files.read_bytes(tmp_path / "file", 2**30)) == MOST
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**21


def test_a_fifo_that_takes_the_place_of_a_file_is_not_waited_for(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    regular, real = os.stat(tmp_path / "file"), os.stat
    (tmp_path / "file").unlink()
    os.mkfifo(tmp_path / "file")
    monkeypatch.setattr(os, "stat", lambda path, **more: regular)
    with pytest.raises(UsageError, match="a FIFO"):
        files.opened(tmp_path / "file")
    assert real(tmp_path / "file")


def test_a_name_cannot_steer_the_terminal(tmp_path):
    with pytest.raises(UsageError) as refused:
        files.read_text(tmp_path / "a\nb\x1b[2J", MOST)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("content", "parse", "why"),
    [
        (b"\xff\xfe", json.loads, "not text in UTF-8"),
        (b"{", json.loads, "line 1"),
        (b"1" * 5000, json.loads, "5000 digits"),
        (b"x = " + b"1" * 5000, tomllib.loads, "5000 digits"),
        (b"x = " + b"1" * 4096, files.toml, "line 1 has more than 4096 characters"),
        (b"x = [\n" + b"[\n" * 10**4, files.toml, "nested too deeply"),
        (b"[" * 10**6, json.loads, "nested too deeply"),
        (b'{"x":' * 10**5, json.loads, "nested too deeply"),
        (b"x = " + b"[" * 10**5, tomllib.loads, "nested too deeply"),
    ],
)
def test_what_cannot_be_parsed_is_told_in_one_line(tmp_path, content, parse, why):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(UsageError, match=why) as refused:
        files.parsed(tmp_path / "file", 10**7, parse)
    assert str(refused.value).isprintable()
    assert "file" in str(refused.value)
    assert len(str(refused.value)) < 300


def test_what_is_right_is_read(tmp_path):
    (tmp_path / "file").write_text('{"ä": 1}', encoding="utf-8")
    assert files.parsed(files.regular(tmp_path / "file"), MOST, json.loads) == {"ä": 1}
