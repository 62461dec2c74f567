"""The helper that runs as root: it writes settings of clocks and sensors, and nothing else."""

import json
import subprocess
import sys

import pytest
from fake_sysfs import CPU, GPU, put, rockchip, snapshot

from common.errors import SampleError
from common.machine import keeper, pin, settings, sysfs
from tests.conftest import ROOT

FILE = ROOT / "common" / "machine" / "keeper.py"
MAIN = "import runpy, sys; sys.exit(runpy.run_path(sys.argv[1])['main'](*sys.argv[2:]))"


@pytest.fixture
def tree(tmp_path):
    return rockchip(tmp_path / "sys")


def helper(tree, word, request):
    """Run the helper on a tree, as root runs it on /sys; return (status, answers, stderr)."""
    done = subprocess.run([sys.executable, "-c", MAIN, FILE, word, tree], input=request,
                          capture_output=True, text=True, timeout=20, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_all_that_pin_writes_is_allowed(tree):
    for folder in ("devices/11800000.mali", "devices/system/cpu/cpu0/cpufreq"):
        for name, value in (("clock", 177), ("dvfs_min_lock", 0), ("dvfs_max_lock", 0)):
            put(tree, f"{folder}/{name}", value)
    put(tree, f"{CPU}/scaling_governor", "userspace")
    put(tree, f"{CPU}/scaling_available_governors", "userspace performance")
    put(tree, f"{CPU}/scaling_setspeed", 816000)
    changes = pin.plan(sysfs.clocks(tree), "gpu", 4e8)
    assert len(changes) > 10
    steps = [[str(path), text] for path, text in changes]
    assert keeper.refused("pin", steps, str(tree)) is None


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/passwd", "1"),
        (f"{CPU}/scaling_cur_freq", "1"),
        (f"{CPU}/../policy0/scaling_min_freq", "1"),
        (f"{CPU}/scaling_min_freq", "1; reboot"),
        (f"{CPU}/scaling_min_freq", "-1"),
        (f"{CPU}/scaling_min_freq", "1\n"),
        (f"{CPU}/scaling_governor", "ondemand"),  # which is not there
        (f"{GPU}/governor", ""),
        ("class/powercap/intel-rapl:0/energy_uj", "444"),  # another word's
    ],
)
def test_anything_else_is_refused(tree, path, text):
    put(tree, "class/powercap/intel-rapl:0/energy_uj", 1)
    path = path if path.startswith("/") else f"{tree}/{path}"
    good = [f"{tree}/{GPU}/min_freq", "400000000"]
    status, answers, _ = helper(tree, "pin", json.dumps([good, [path, text]]))
    assert (status, answers[0]) == (0, "ready")
    assert json.loads(answers[1])["problem"]["error"] == "the helper does not set this"
    assert (tree / GPU / "min_freq").read_text() == "200000000\n"


@pytest.mark.parametrize("text", ["777", "4444", "444 ", "0", "400"])
def test_permissions_are_those_of_a_counter_only(tree, text):
    put(tree, "class/powercap/intel-rapl:0/energy_uj", 1)
    path = f"{tree}/class/powercap/intel-rapl:0/energy_uj"
    assert keeper.refused("energy", [[path, text]], str(tree))
    assert keeper.refused("energy", [[path, "444"]], str(tree)) is None


def test_what_is_allowed_is_written_and_restored(tree):
    path = f"{tree}/{GPU}/min_freq"
    request = json.dumps([[path, "400000000"], [path, "600000000"]])
    status, answers, said = helper(tree, "pin", request)
    back = [[path, "400000000"], [path, "200000000"]]
    assert (status, answers[0], said) == (0, "ready", "")
    assert json.loads(answers[1]) == {"back": back, "problem": {}}
    assert (tree / GPU / "min_freq").read_text() == "200000000"  # without its line feed: rewritten


@pytest.mark.parametrize("line", ["3", "{", '{"back": []}', "[[1]]", "[3]"])
def test_a_request_that_cannot_be_read(tree, line):
    assert helper(tree, "pin", line) == (2, ["ready"], "the request cannot be read\n")


def test_the_program_takes_fixed_words_only(tree):
    for words in ([], ["pin", str(tree)], ["/tmp"], ["pin", "energy"]):
        done = subprocess.run([sys.executable, FILE, *words], capture_output=True, text=True,
                              input="", timeout=20, check=False)
        assert (done.returncode, done.stderr) == (1, "usage: pin | energy\n")


def test_no_variable_leads_the_program_elsewhere(tree):
    """It is asked for a setting below another folder than /sys."""
    request = json.dumps([[f"{tree}/{GPU}/min_freq", "400000000"]])
    env = dict.fromkeys(("SYSFS", "ROOT", "HOME", "TMPDIR", "PYTHONHOME_"), str(tree))
    done = subprocess.run([sys.executable, FILE, "pin"], capture_output=True, text=True,
                          input=request, env=env, timeout=20, check=False)
    assert "the helper does not set this" in done.stdout
    assert "os.environ" not in FILE.read_text()


def test_a_user_who_is_not_root_pins_by_the_helper(tree, tmp_path, monkeypatch):
    """sudo is a stand-in here, and the helper runs on the tree as root's does on /sys."""
    sudo = tmp_path / "sudo"
    sudo.write_text(f'#!/bin/sh\n[ "$1 $2" = "-n {settings.HELPER}" ] || exit 1\n'
                    f'exec {sys.executable} -c "{MAIN}" {FILE} "$3" {tree}\n')
    sudo.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(settings, "by_helper", lambda _: True)
    before = {path: text.strip() for path, text in snapshot(tree).items()}
    with pin.pinned("gpu", 4e8, tree):
        assert (tree / GPU / "min_freq").read_text() == "400000000"
        assert (tree / CPU / "scaling_governor").read_text() == "performance"
    assert {path: text.strip() for path, text in snapshot(tree).items()} == before
    sudo.write_text("#!/bin/sh\nexit 1\n")
    with (
        pytest.raises(SampleError, match="--pin: the process that restores the settings did not"),
        pin.pinned("gpu", 4e8, tree),
    ):
        pass
