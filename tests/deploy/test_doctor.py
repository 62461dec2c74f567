"""What the doctor says, of real boards and of boards that tests cannot have."""

import json
import sys
from pathlib import Path

import pytest

from deploy import doctor
from deploy.errors import BoardError
from deploy.link import sense
from deploy.onboard import facts

MALI = {"name": "Mali", "type": "gpu", "driver": "3.0"}
MALI0 = {"path": "/dev/mali0", "mode": "crw-rw----", "owner": "root", "group": "video"}
MALI0 |= {"usable": True, "driver": "mali_kbase r32p1"}
HEALTHY = {
    "user": "odroid",
    "python": {"path": "/usr/bin/python3", "version": "3.11.2"},
    "provisioned": None,
    "kernel": "Linux 6.1 armv7l",
    "bits": 32,
    "clock": 1_700_000_000.0,
    "packages": {name: {"ok": True, "text": "1.0"} for name in ("numpy", "pyopencl", "PIL")},
    "icd": {
        "vendors": "/etc/OpenCL/vendors",
        "files": [{"file": "/etc/OpenCL/vendors/mali.icd", "library": "libmali", "problem": None}],
    },
    "devices": {
        "ok": True,
        "text": json.dumps(
            [{"name": "ARM", "version": "1.2", "problem": None, "devices": [MALI]}]
        ),
    },
    "nodes": [MALI0],
    "governors": {"cpu policy0": "performance"},
    "folder": {
        "path": "/home/odroid/opencl-samples",
        "deployed": True,
        "taken": False,
        "writable": True,
        "free": 2**33,
        "uncollected": 0,
    },
}
NOW = 1_700_000_010.0


def sick(**changes):
    """Return the findings about a healthy board with these facts changed, without the good ones and
    what is known of its driver.
    """
    findings = doctor.judge({**HEALTHY, **changes}, NOW)
    return [finding for finding in findings if finding.level != "ok" and finding.what != "known"]


def test_a_healthy_board_has_nothing_to_do():
    assert sick() == []


def test_of_a_board_that_only_compiles_the_device_file_is_not_looked_at():
    findings = doctor.judge({**HEALTHY, "nodes": []}, NOW, build_only=True)
    (said,) = [finding for finding in findings if finding.what == "device"]
    assert said.text == "this board only compiles: its kernels are not run"


def missing(name):
    probe = {"ok": False, "text": f"ModuleNotFoundError: No module named '{name}'"}
    return {**HEALTHY["packages"], name: probe}


NODE = {**HEALTHY["nodes"][0], "usable": False}
CRASHES = {**MALI, "problem": "crashes while building a small program (SIGABRT)"}
PTHREAD = {"name": "pthread-cortex-a15", "type": "cpu", "driver": "1.8"}


def two_platforms(**second):
    """Return what a board says that has PoCL, and a second platform with something odd."""
    pocl = {"name": "PoCL", "version": "1.2", "problem": None, "devices": [PTHREAD]}
    other = {"name": "ARM", "version": "1.2", "problem": None, "devices": [MALI]}
    return {"ok": True, "text": json.dumps([pocl, {**other, **second}])}


NO_DRIVER = {"ok": False, "text": "LogicError: clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR"}
BROKEN_ICD = {"file": "mali.icd", "library": "libmali.so", "problem": "cannot open shared object"}


@pytest.mark.parametrize(
    ("changes", "level", "what", "todo"),
    [
        ({"python": {"path": "/usr/bin/python3", "version": "3.6.9"}}, "FAIL", "python3", "3.8"),
        ({"packages": missing("pyopencl")}, "FAIL", "pyopencl", "apt install python3-pyopencl"),
        ({"packages": missing("numpy")}, "FAIL", "numpy", "apt install python3-numpy"),
        ({"packages": missing("PIL")}, "note", "PIL", "apt install python3-pil"),
        ({"packages": missing("numpy"), "bits": 64}, "FAIL", "numpy", "fab provision"),
        ({"icd": {"vendors": "x", "files": [BROKEN_ICD]}}, "FAIL", "ICD", "LD_LIBRARY_PATH"),
        ({"devices": NO_DRIVER}, "FAIL", "OpenCL", "-1001"),
        ({"devices": {"ok": True, "text": "[]"}}, "FAIL", "OpenCL", "RUSTICL_ENABLE"),
        ({"devices": {"ok": False, "text": "crashed with signal 11"}}, "FAIL", "OpenCL", "fix"),
        ({"devices": two_platforms(problem="OUT_OF_HOST_MEMORY")}, "FAIL", "OpenCL", "driver"),
        ({"devices": two_platforms(devices=[])}, "FAIL", "OpenCL", "driver"),
        (
            {"devices": two_platforms(devices=[CRASHES])},
            "note",
            "OpenCL",
            "-p selects it",
        ),
        ({"devices": two_platforms(version="", problem="hangs")}, "FAIL", "OpenCL",
         "do not use this driver"),
        (
            {"devices": two_platforms(name="rusticl", devices=[])},
            "FAIL",
            "OpenCL",
            "RUSTICL_ENABLE",
        ),
        ({"devices": two_platforms(devices=[PTHREAD])}, "note", "OpenCL", "GPU's OpenCL driver"),
        ({"nodes": [NODE]}, "note", "device", "usermod -aG video odroid"),
        ({"nodes": [{**NODE, "group": "root"}]}, "note", "device", "udev rule"),
        ({"nodes": [{**NODE, "mode": "crw-------"}]}, "note", "device", "udev rule"),
        ({"nodes": []}, "note", "device", "kernel driver"),
        ({"governors": {"gpu mali": "simple_ondemand"}}, "note", "governor", "performance"),
        ({"clock": 12_345.0}, "note", "clock", "date -s"),
        ({"folder": {**HEALTHY["folder"], "writable": False}}, "FAIL", "folder", "read-write"),
        ({"folder": {**HEALTHY["folder"], "free": 2**20}}, "FAIL", "folder", "free at least"),
        ({"folder": {**HEALTHY["folder"], "taken": True}}, "FAIL", "folder", "another folder"),
        ({"folder": {**HEALTHY["folder"], "uncollected": 2}}, "note", "results", "fab collect"),
    ],
)
def test_each_trouble_is_named_with_what_to_do(changes, level, what, todo):
    findings = sick(**changes)
    assert [(finding.level, finding.what) for finding in findings] == [(level, what)]
    assert todo in findings[0].todo


@pytest.mark.parametrize(
    ("platform", "device", "known"),
    [
        ("ARM Platform", "Mali-G610", ["main memory"]),
        ("rusticl", "Mali-G610 (Panfrost)", ["main memory", "64-bit atomics"]),
        ("rusticl", "Mali-G52 r1 (Panfrost)", ["main memory", "64-bit", "-cl-fast-relaxed-math"]),
        ("rusticl", "Mali-T860 (Panfrost)", ["main memory", "64-bit atomics", "fma() is emulated"]),
        ("Portable Computing Language", "cortex-a76", []),
    ],
)
def test_what_is_known_of_a_driver(platform, device, known):
    mali = {"name": device, "type": "gpu", "driver": "26.1.6", "problem": None}
    devices = {"ok": True, "text": json.dumps([
        {"name": platform, "version": "3.0", "problem": None, "devices": [mali]}
    ])}
    findings = doctor.judge({**HEALTHY, "devices": devices}, NOW)
    found = [finding.text for finding in findings if finding.what == "known"]
    assert len(found) == len(known)
    assert all(part in text for part, text in zip(known, found))
    assert any(f"{device} (gpu), driver 26.1.6" in finding.text for finding in findings)
    assert any(finding.text.endswith("mali_kbase r32p1") for finding in findings)


def test_no_icd_file_matters_only_where_no_driver_is_found():
    none = {"vendors": "/etc/OpenCL/vendors", "files": []}
    assert sick(icd=none) == []
    assert [f.what for f in sick(icd=none, devices=NO_DRIVER)] == ["ICD", "OpenCL"]


def everything_in(folder):
    return {path: path.lstat().st_mtime_ns for path in sorted(Path(folder).rglob("*"))}


def test_a_real_board_is_examined_and_left_as_it_was(fab, odroid):
    before = everything_in(odroid.home)
    done = fab("doctor", "--host", "odroid")
    assert done.returncode == 0, done.stdout + done.stderr
    assert everything_in(odroid.home) == before
    lines = done.stdout.splitlines()
    assert lines[0] == "doctor of odroid"
    found = {line.split()[1] for line in lines[1:] if not line.strip().startswith("->")}
    assert {"reachable", "python3", "numpy", "pyopencl", "OpenCL", "kernel", "folder"} <= found
    assert "nothing deployed yet" in done.stdout
    assert f"@127.0.0.1, port {odroid.port}" in done.stdout


def test_a_real_board_in_trouble(fab, odroid, boards_toml, tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "mali.icd").write_text("/no/such/libmali.so\n")
    icd = bad / "mali.icd"
    boards_toml(f'[odroid.env]\nOCL_ICD_VENDORS = "{icd}"\n')
    done = fab("doctor", "--host", "odroid")
    assert done.returncode == 1
    assert "mali.icd: /no/such/libmali.so does not load" in done.stdout
    assert "FAIL  OpenCL     no OpenCL platform" in done.stdout


def test_drivers_are_sought_as_the_samples_seek_them(board):
    texts = {"survey.py": "import sys, common.seek\nsys.exit(common.seek.WHAT)\n"}
    texts["common/seek.py"] = "WHAT = 'sought'\n"
    facts = board.start("facts", modules=texts).event()
    assert facts["devices"] == {"ok": False, "text": "sought"}


def test_what_was_provisioned_and_does_not_work_any_more(fab, odroid):
    folder = odroid.home / "opencl-samples"
    (folder / "envs" / "1").mkdir(parents=True)
    (folder / "envs" / "1" / "numpy.py").write_text("raise ImportError('it was deleted')")
    env = {"PYTHONPATH": str(folder / "envs" / "1")}
    recorded = {"base": f"{Path(sys.executable).parent}/python3", "env": env}
    (folder / "environment.json").write_text(json.dumps(recorded))
    done = fab("doctor", "--host", "odroid")
    assert done.returncode == 1
    assert "FAIL  numpy      ImportError: it was deleted" in done.stdout
    assert f"ok    packages   {folder}/envs/1: from `fab provision`" in done.stdout


def test_the_local_board(fab):
    done = fab("doctor")
    assert done.returncode == 0
    assert "ok    reachable  this machine" in done.stdout


@pytest.mark.parametrize("clock", [1e17, -1e300])
def test_a_clock_that_cannot_be(clock):
    with pytest.raises(BoardError, match="it sends invalid data"), sense({"clock": clock}):
        sick(clock=clock)


def test_a_folder_below_a_file(tmp_path):
    (tmp_path / "file").touch()
    taken = {name: facts.folder_facts(str(tmp_path / name))["taken"]
             for name in ("file", "file/below", "new/below")}
    assert taken == {"file": True, "file/below": True, "new/below": False}


def test_one_run_to_collect():
    (finding,) = sick(folder={**HEALTHY["folder"], "uncollected": 1})
    assert finding.text == "1 run to collect"


@pytest.mark.parametrize(
    ("code", "ok", "text"),
    [("import os; os.write(1, b'\\xff\\n@@3.0')", True, "3.0"),
     ("import os; os.write(1, b'@@3.0 \\xff')", True, "3.0 \ufffd"),
     ("import os; os.write(2, b'no \\xff')", False, "no \ufffd")],
)
def test_a_driver_may_say_what_is_no_text(code, ok, text):
    assert facts.ask(code, {"PATH": "/usr/bin:/bin", "PYTHONUTF8": "1"}) == {"ok": ok, "text": text}
