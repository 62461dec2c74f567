"""The measurements of `fab sweep` on a fleet, with few boards and points."""

import pytest

from dev import crowd, fleet
from dev.loopback import SSHD

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(SSHD is None, reason="sshd is not installed (Debian: openssh-server)"),
]


def test_nothing_is_lost_when_boards_and_the_host_are_killed(capsys):
    assert fleet.main(["loss", "--boards", "8", "--points", "100"]) == 0
    assert "100 points, at most 1 record each" in capsys.readouterr().out


def test_what_a_point_costs(capsys):
    assert fleet.main(["cost", "--points", "10"]) == 0
    assert "a point costs" in capsys.readouterr().out


def test_a_small_crowd(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(crowd, "SECONDS", 0.1)
    plot = tmp_path / "crowd.svg"
    fleet.main(["crowd", "--boards", "5", "--points", "20", "--plot", str(plot)])
    assert "5 boards, 20 points of 0.1 s" in capsys.readouterr().out
    assert "</svg>" in plot.read_text()
