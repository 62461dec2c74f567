"""Whatever stops a program of the host becomes one line and an exit status."""

import errno
import sys

import pytest

from common import programs
from common.arguments import Parser
from common.errors import UsageError
from common.stopping import Stopped


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UsageError("no such\nfile"), 2, "no such file"),
        (ImportError("No module named 'x'"), 3,
         "No module named 'x': `make run` installs what it needs"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (Stopped(15), 143, "stopped"),
        (MemoryError(), 3, "not enough memory"),
        (MemoryError("Unable to allocate"), 3, "not enough memory: Unable to allocate"),
        (OSError(errno.ENOSPC, "No space left on device"), 2,
         "cannot write the output: No space left on device"),
        (OSError(errno.EACCES, "Permission denied", "x"), 2, "x: Permission denied"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), 3,
         "unforeseen ConnectionRefusedError: [Errno 111] Connection refused (--debug shows where)"),
        (KeyError("x"), 3, "unforeseen KeyError: 'x' (--debug shows where)"),
    ],
)
def test_what_stops_a_program(capsys, error, status, line):
    def main(argv):
        raise error

    assert programs.run("it", main, []) == status
    assert capsys.readouterr().err == f"it: error: {line}\n"


def test_its_status_where_stderr_is_full(monkeypatch):
    def main(argv):
        raise UsageError("no such file")

    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert programs.run("it", main, []) == 2


def test_a_help_that_cannot_be_written(monkeypatch, capsys):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert programs.run("it", Parser("it", "It.", "").parse_args, ["--help"]) == 2
    line = "it: error: cannot write the output: No space left on device\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize("status", [None, 0, 77])
def test_its_own_status(status, capsys):
    assert programs.run("it", lambda argv: argv[0], [status]) == (status or 0)
    assert capsys.readouterr().err == ""


def test_debug_shows_where(capsys):
    def main(argv):
        raise KeyError

    programs.run("it", main, ["--debug"])
    assert "Traceback" in capsys.readouterr().err
