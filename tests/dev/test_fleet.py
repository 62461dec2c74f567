"""The measurements of `fab sweep` on a fleet, with few boards and points."""

import pytest

from dev import fleet
from dev.loopback import SSHD

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(SSHD is None, reason="sshd is not installed (Debian: openssh-server)"),
]


def test_nothing_is_lost_when_boards_and_the_host_are_killed(capsys):
    assert fleet.main(["loss", "--boards", "8", "--points", "100"]) == 0
    assert "100 points, at most 1 record each" in capsys.readouterr().out


def test_what_a_point_costs(capsys):
    assert fleet.main(["pace", "--boards", "2", "--points", "5"]) == 0
    said = capsys.readouterr().out
    assert "a point costs" in said
    assert "2 boards do" in said


def test_a_small_crowd(capsys, monkeypatch):
    monkeypatch.setattr(fleet, "POINT", 0.1)
    fleet.main(["crowd", "--boards", "5", "--points", "20"])
    assert "5 boards, 20 points of 0.1 s" in capsys.readouterr().out
