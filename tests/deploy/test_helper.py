"""The helper that `fab provision --system` installs: who gets it, as what, and that it goes."""

import os
import subprocess
from types import SimpleNamespace

import pytest

from common.machine import keeper, settings
from deploy import helper as host
from deploy import provision, ship
from deploy.onboard import helper
from tests.conftest import ROOT

TEXT = "#!/usr/bin/python3 -I\nprint()\n"
# Tests need not run as root: the files are this user's.
SUDO = """#!/bin/sh
shift
echo "$@" >> {log}
exec $(echo "$@" | sed 's/-o root -g root//')
"""
VISUDO = """#!/bin/sh
{visudo}
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """Stand-ins for sudo and visudo; gives what makes them, and the log of what root does."""
    folder, log = tmp_path / "tools", tmp_path / "log"
    folder.mkdir()

    def make(visudo="true"):
        for name, text in (("sudo", SUDO.format(log=log)),
                           ("visudo", VISUDO.format(visudo=visudo))):
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        return log

    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(helper, "PATH", os.environ["PATH"])
    monkeypatch.setattr(helper.os, "getuid", lambda: 1000)
    (tmp_path / "etc" / "sudoers.d").mkdir(parents=True)
    return make


def test_it_is_installed_for_this_user_and_removed(tools, tmp_path):
    log, root = tools(), str(tmp_path)
    assert helper.problem("anna", 1000) is None
    assert helper.install(TEXT, "anna", root) is None
    program, rule = tmp_path / helper.HELPER, tmp_path / (helper.RULE % "anna")
    assert program.read_text() == TEXT
    assert rule.read_text() == f"anna ALL=(root) NOPASSWD: {program} pin, {program} energy\n"
    assert [path.stat().st_mode & 0o7777 for path in (program.parent, program, rule)] == [
        0o755, 0o755, 0o440,
    ]
    assert [line.split()[0] for line in log.read_text().splitlines()] == [
        "true", "visudo", *["install"] * 3,
    ]
    assert log.read_text().count("install -o root -g root -m ") == 3
    assert helper.is_there(TEXT, root)
    assert not helper.is_there(TEXT + "#", root)  # an older one
    assert helper.remove("anna", root) is None
    assert not program.parent.exists()
    assert not rule.exists()


def test_a_line_that_visudo_refuses_is_never_there(tools, tmp_path):
    tools(visudo="echo rule:1:8: syntax error; echo anna ALL; echo '  ^~~~'; exit 1")
    assert helper.install(TEXT, "anna", str(tmp_path)) == "visudo: rule:1:8: syntax error"
    assert not (tmp_path / "opt").exists()
    assert list((tmp_path / "etc/sudoers.d").iterdir()) == []


def test_what_cannot_be_removed_is_said(tools, tmp_path):
    tools()
    helper.install(TEXT, "anna", str(tmp_path))
    (tmp_path / helper.HELPER).with_name("else").touch()
    assert "rmdir: " in helper.remove("anna", str(tmp_path))


@pytest.mark.parametrize("user", ["ALL", "%wheel", "a b", "a,b", "a\nb", "../x", "a.b", "#0", ""])
def test_a_name_that_sudoers_reads_otherwise_is_refused(tools, user):
    tools()
    assert "is not valid in sudoers" in helper.problem(user, 1000)


def test_who_cannot_have_it(tools, monkeypatch):
    log = tools()
    assert helper.problem("root", 0) == "not needed, this user is root"
    (log.parent / "tools" / "sudo").write_text("#!/bin/sh\nexit 1\n")
    assert helper.problem("anna", 1000) == "sudo must not ask for a password"
    monkeypatch.setattr(helper.shutil, "which", lambda name, path: name != "visudo")
    assert helper.problem("anna", 1000) == "the board has no visudo"


def test_what_the_user_reads(board, capsys, monkeypatch):
    found = {"helper": "/" + helper.HELPER, "there": False, "reason": None, "changed": False,
             "problem": None}
    answers = iter([
        found, {**found, "changed": True}, {**found, "there": True},
        {**found, "problem": "the board has no sudo"}, {**found, "changed": True, "reason": "no"},
    ])
    answer = SimpleNamespace(event=lambda: next(answers))
    monkeypatch.setattr(board, "start", lambda *_, **__: answer)
    for dry_run in (True, *[False] * 4):
        host.provision(board, dry_run)
    told = "sudo   /opt/opencl-samples/keeper, for --pin and --energy, and a line in "
    assert capsys.readouterr().out.splitlines() == [
        f"{told}/etc/sudoers.d for it alone: to be installed",
        f"{told}/etc/sudoers.d for it alone: installed",
        "keep   /opt/opencl-samples/keeper",
        "skip   helper for --pin and --energy: the board has no sudo",
        "FAIL   helper for --pin and --energy: no",
    ]


def test_a_board_is_asked_with_system_only(board, capsys, monkeypatch):
    asked = []
    found = {"there": True, "reason": None, "changed": True, "problem": None}
    start = board.start

    def listening(task, *args, **more):
        if task != "helper":
            return start(task, *args, **more)
        asked.append(more["act"])
        return SimpleNamespace(event=lambda: found)

    monkeypatch.setattr(board, "start", listening)
    provision.provision(board, system=False, dry_run=True)
    assert asked == []
    provision.provision(board, system=True, dry_run=True)
    assert asked == [None]
    os.makedirs(board.settings.folder)
    for system in (False, True):
        with open(os.path.join(board.settings.folder, "suite.json"), "w") as mark:
            mark.write("{}")
        ship.clean(board, False, system)
        os.makedirs(board.settings.folder, exist_ok=True)
    assert asked == [None, "remove"]
    assert "removed /opt/opencl-samples/keeper, and its line" in capsys.readouterr().out


def test_host_and_board_name_one_file():
    assert "/" + helper.HELPER == settings.HELPER
    text = f"#!{helper.PYTHON} -I\n{(ROOT / 'common/machine/keeper.py').read_text()}"
    done = subprocess.run([helper.PYTHON, "-I", "-c", text], capture_output=True, text=True,
                          check=False)
    assert done.stderr == "usage: pin | energy\n"  # it needs nothing but Python
    assert keeper.__file__ == str(ROOT / "common/machine/keeper.py")


def test_sudo_runs_the_helper_for_who_is_not_root(tmp_path, monkeypatch):
    (tmp_path / "keeper").touch()
    monkeypatch.setattr(settings, "HELPER", str(tmp_path / "keeper"))
    monkeypatch.setattr(settings.os, "geteuid", lambda: 1000)
    assert settings.by_helper()
    assert not settings.by_helper(tmp_path)  # which only stands for /sys
    started = []
    monkeypatch.setattr(settings.subprocess, "Popen", lambda command, **_: started.append(command))
    with pytest.raises(AttributeError), settings.changed("pin", list):
        pass
    assert started == [["sudo", "-n", str(tmp_path / "keeper"), "pin"]]
    monkeypatch.setattr(settings.os, "geteuid", lambda: 0)
    assert not settings.by_helper()
