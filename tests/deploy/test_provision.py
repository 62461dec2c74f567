"""fab provision: the plan for boards that tests cannot have, and what it does on those they can."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy
import pytest

from common import icd
from deploy.provision import make_plan
from tests.deploy.test_deploy_debian import PYTHON, installed
from tests.deploy.test_deploy_robustness import home_of, one_line, with_mount
from tests.deploy.test_doctor import HEALTHY, everything_in, missing

ALL = ("numpy", "pyopencl", "PIL")
NOTHING = {name: {"ok": False, "text": "No module named"} for name in ALL}
APT = {"packages": ["python3-numpy"], "new": ["libblas3", "python3-numpy"], "problem": None}
APT |= {"may": True, "other_python": None}
FOUND = {
    **HEALTHY,
    "bits": 64,
    "machine": "aarch64",
    "implementation": "cpython",
    "libc": ["glibc", 2, 31],
    "lacking": [],
    "drivers": [],
    "apt": None,
    "release": ["debian", "bullseye", "arm64"],
}
BARE = {"packages": NOTHING, "lacking": list(ALL), "apt": {**APT, "problem": "none"}}


def plan(system=False, **changes):
    return make_plan({**FOUND, **changes}, "there", system)


def text(made):
    return "\n".join(f"{how} {what}" for how, what in made.lines)


def test_what_is_there_is_kept():
    made = plan()
    assert (made.kind, made.drivers, made.lacking) == (None, [], [])
    assert text(made).splitlines() == [
        "keep numpy 1.0", "keep pyopencl 1.0", "keep PIL 1.0",
        "keep /etc/OpenCL/vendors/mali.icd: libmali",
    ]


def test_the_distributions_packages_come_first_where_they_are_allowed():
    numpy = {"packages": missing("numpy"), "lacking": ["numpy"], "apt": APT}
    made = plan(system=True, **numpy)
    assert (made.kind, made.packages) == ("apt", ["python3-numpy"])
    assert "apt install libblas3, python3-numpy" in text(made)
    made = plan(**numpy)
    assert (made.kind, made.packages) == ("wheels", ["numpy"])
    assert "skip apt-get: it could install libblas3, python3-numpy with --system" in text(made)


@pytest.mark.parametrize(
    ("apt", "why"),
    [
        ({**APT, "problem": "the board has none"}, "skip apt-get: the board has none"),
        ({**APT, "may": False}, "skip apt-get: it needs root"),
    ],
)
def test_wheels_come_where_apt_cannot(apt, why):
    made = plan(system=True, packages=NOTHING, lacking=list(ALL), apt=apt)
    assert (made.kind, made.packages) == ("wheels", ["numpy", "pyopencl", "Pillow"])
    assert why in text(made)
    assert "for CPython 3.11, aarch64, glibc 2.31: downloaded here, unpacked into there/envs" in (
        text(made)
    )


def test_only_what_is_missing_comes_as_wheels():
    made = plan(**{**BARE, "packages": missing("PIL"), "lacking": ["PIL"]})
    assert (made.kind, made.packages) == ("wheels", ["Pillow"])


def test_what_was_provisioned_before_is_replaced_as_a_whole():
    missing_one = {**BARE, "packages": missing("PIL"), "lacking": ["PIL"]}
    made = plan(**missing_one, provisioned="/there/envs/1")
    assert made.packages == ["numpy", "pyopencl", "Pillow"]


def test_a_driver_without_an_icd_file():
    made = plan(drivers=["/usr/lib/libmali.so"])
    assert made.drivers == ["/usr/lib/libmali.so"]
    assert "ICD /usr/lib/libmali.so has no ICD file: one in there/vendors" in text(made)


def test_no_driver_at_all():
    no_icd = {"icd": {"vendors": "x", "files": []}, "lacking": ["driver"]}
    cannot = {**APT, "problem": "none"}
    made = plan(**no_icd, apt=cannot)
    assert made.kind is None
    assert "an OpenCL driver: install the vendor's" in made.lacking[0]
    made = plan(**no_icd, apt=cannot, machine="x86_64")
    assert made.packages == [
        "numpy", "pyopencl", "Pillow", "intel-opencl-rt", "intel-cmplr-lib-rt",
    ]
    assert made.lacking == []
    made = plan(system=True, **no_icd, apt={**APT, "packages": ["pocl-opencl-icd"]})
    assert (made.kind, made.packages, made.lacking) == ("apt", ["pocl-opencl-icd"], [])


def test_a_python_that_cannot_run_the_samples():
    old = {"path": "/usr/bin/python3", "version": "3.7.3"}
    made = plan(**BARE, python=old)
    assert made.kind is None
    assert "Python 3.7.3: the samples need 3.8" in made.lacking[0]
    made = plan(**BARE, implementation="pypy")
    assert made.kind is None
    assert "wheels for pypy" in made.lacking[0]


# A stand-in for a package: the tests' own, with another version. Driver and kernels are real.
STAND_IN = """
import sys
sys.path.insert(0, {real!r})
del sys.modules[__name__]
module = __import__(__name__)
module.__version__ = module.VERSION_TEXT = "9.9"
sys.path.append(sys.path.pop(0))  # for what these import later; the stand-ins come first
"""


def make_wheel(folder, name, module, code):
    info = f"{name}-9.9.dist-info"
    with zipfile.ZipFile(folder / f"{name}-9.9-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{module}/__init__.py", code)
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")


def lock(project, folder):
    """Write the copied project's lock: what the wheels of a folder are, with their digests."""
    text = ""
    for wheel in folder.glob("*.whl"):
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        text += f"{wheel.name.split('-')[0]}==9.9 \\\n    --hash=sha256:{digest}\n    # via x\n"
    (project / "requirements.lock").write_text(text)


@pytest.fixture
def index(tmp_path, project):
    """Wheels of small stand-ins, and the variables that make pip take them and nothing else."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    real = STAND_IN.format(real=str(Path(numpy.__file__).parents[1]))
    make_wheel(folder, "numpy", "numpy", real)
    make_wheel(folder, "pillow", "PIL", "__version__ = '9.9'\n")
    make_wheel(folder, "pyopencl", "pyopencl", real)
    lock(project, folder)
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": os.devnull}


@pytest.fixture
def bare(odroid, boards_toml):
    """A board that has sshd, a driver, and a Python without any package."""
    vendors = odroid.folder / "vendors"
    vendors.mkdir()
    for number, library in enumerate(icd.libraries().values()):
        (vendors / f"{number}.icd").write_text(f"{library}\n")
    odroid.stop()
    odroid.variables["OCL_ICD_VENDORS"] = vendors
    odroid.start()
    python = odroid.home / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", python], check=True)
    boards_toml(f'[odroid]\npython = "{python}/bin/python"\n')
    return odroid


WHO = """
import importlib, os
for name in ("numpy", "pyopencl", "PIL"):
    print(name, importlib.import_module(name).__version__
          if name != "pyopencl" else importlib.import_module(name).VERSION_TEXT)
print(sys.executable)
"""


@pytest.mark.exhaustive
def test_a_bare_board_gets_wheels_offline(fab, bare, stub, index, project):
    stub("one", WHO)
    before = everything_in(bare.home)
    dry = fab("provision", "--host", "odroid", "--dry-run", env=index)
    assert dry.returncode == 0, dry.stdout + dry.stderr
    assert "wheels numpy, pyopencl, Pillow for CPython" in dry.stdout
    assert "dry run: nothing was changed" in dry.stdout
    assert everything_in(bare.home) == before

    done = fab("provision", "--host", "odroid", env=index)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = bare.home / "opencl-samples"
    own = folder / "envs" / "1"
    assert f"ok    packages   {own}: from `fab provision`" in done.stdout
    assert re.search(r"ok    OpenCL         .* \((cpu|gpu)\), driver .+\n", done.stdout)
    after = everything_in(bare.home)
    changed = {path for path in after if after[path] != before.get(path)} - {bare.home}
    assert all(path.is_relative_to(folder) for path in changed)

    ran = fab("deploy", "--host", "odroid", "run-all", "--verbose", env=index)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    for line in ("numpy 9.9", "pyopencl 9.9", "PIL 9.9", f"{bare.home}/bare/bin/python"):
        assert f"   {line}" in ran.stdout
    (plan,) = project.glob("results/odroid/*/plan.json")
    # For the report's commands:
    assert json.loads(plan.read_text())["env"]["PYTHONPATH"] == str(own)
    again = fab("provision", "--host", "odroid", env={**index, "PIP_FIND_LINKS": "/nothing"})
    assert again.returncode == 0
    assert "nothing to do" in again.stdout
    asked = fab("doctor", "--host", "odroid")
    assert "from `fab provision`" in asked.stdout
    assert fab("clean", "--host", "odroid").returncode == 0
    assert not folder.exists()


@pytest.mark.exhaustive
def test_a_broken_environment_is_replaced(fab, bare, index):
    assert fab("provision", "--host", "odroid", env=index).returncode == 0
    folder = bare.home / "opencl-samples" / "envs"
    shutil.rmtree(folder / "1" / "numpy")
    done = fab("provision", "--host", "odroid", env=index)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [path.name for path in folder.iterdir()] == ["2"]
    (folder.parent / "environment.json").write_text("[]")
    assert "FAIL  numpy" in fab("doctor", "--host", "odroid").stdout


@pytest.mark.exhaustive
def test_another_python_in_boards_toml_is_obeyed(fab, bare, stub, index, boards_toml):
    stub("one", "print(sys.executable)")
    assert fab("provision", "--host", "odroid", env=index).returncode == 0
    boards_toml("[odroid]\n")
    ran = fab("deploy", "--host", "odroid", "run-all", "--verbose")
    assert "/envs/" not in ran.stdout
    assert ran.returncode == 0


@pytest.mark.exhaustive
def test_a_pythonpath_in_boards_toml_keeps_the_packages(fab, bare, stub, index, boards_toml):
    stub("one", "import mine\n" + WHO)
    (bare.home / "mine.py").touch()
    python = f"{bare.home}/bare/bin/python"
    boards_toml(f'[odroid]\npython = "{python}"\nenv = {{ PYTHONPATH = "{bare.home}" }}\n')
    done = fab("provision", "--host", "odroid", "deploy", "run-all", "--verbose", env=index)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "   numpy 9.9" in done.stdout
    assert f"   {python}" in done.stdout


def test_a_wheel_with_another_digest_is_refused(fab, bare, index, project):
    text = (project / "requirements.lock").read_text()
    (project / "requirements.lock").write_text(re.sub("sha256:.{8}", "sha256:00000000", text))
    done = fab("provision", "--host", "odroid", env=index)
    assert done.returncode == 1
    assert "FAIL   no wheels for CPython" in done.stdout
    assert "DO NOT MATCH THE HASHES" in done.stdout
    assert not (bare.home / "opencl-samples" / "envs").exists()


def test_no_wheels_for_the_board(fab, bare, index):
    (Path(index["PIP_FIND_LINKS"]) / "pyopencl-9.9-py3-none-any.whl").unlink()
    before = everything_in(bare.home)
    done = fab("provision", "--host", "odroid", env=index)
    assert done.returncode == 1
    assert "FAIL   no wheels for CPython" in done.stdout
    assert "No matching distribution found for pyopencl" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    assert everything_in(bare.home) == before


def test_a_disk_too_small_for_the_packages(fab, bare, index, boards_toml, project):
    python = bare.home.parent / "bare"
    shutil.copytree(bare.home / "bare", python, symlinks=True)
    boards_toml(f'[odroid]\npython = "{python}/bin/python"\n')
    (Path(index["PIP_FIND_LINKS"]) / "pillow-9.9-py3-none-any.whl").unlink()
    make_wheel(Path(index["PIP_FIND_LINKS"]), "pillow", "PIL", f"x = '{os.urandom(10**6).hex()}'")
    lock(project, Path(index["PIP_FIND_LINKS"]))
    with_mount(bare, 'mount -t tmpfs -o size=1m tmpfs "$0"')
    one_line(fab("provision", "--host", "odroid", env=index), "No space left on device")
    folder = home_of(bare) / "opencl-samples"
    assert list((folder / "envs").iterdir()) == []
    assert not (folder / "environment.json").exists()


# What a virtual environment has comes behind PYTHONPATH: there this one steps aside.
NO_NUMPY = """
import os, sys
if sys.prefix == sys.base_prefix:
    raise ImportError("no numpy yet")
sys.path.remove(os.path.dirname(__file__))
del sys.modules["numpy"]
import numpy
"""
FAKE_APT = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
    *--simulate*) printf 'NOTE: a simulation\\nInst libblas3 (3)\\nInst python3-numpy (1.24)\\n';;
    update) echo 'E: no network' >&2; exit 100;;
    *) {act};;
esac
"""


@pytest.fixture
def apt_board(odroid, boards_toml):
    """A board with apt and Debian's Python whose numpy is missing until apt installs it."""
    hidden, tools = odroid.home / "hidden", odroid.home / "tools"
    for folder in (hidden, tools):
        folder.mkdir()
    (hidden / "numpy.py").write_text(NO_NUMPY)
    (tools / "sudo").write_text('#!/bin/sh\nshift\nexec "$@"\n')
    log = odroid.folder / "apt.log"

    def set_up(act):
        (tools / "apt-get").write_text(FAKE_APT.format(log=log, act=act.format(hidden=hidden)))
        for tool in tools.iterdir():
            tool.chmod(0o755)
        odroid.stop()
        odroid.variables |= {"PATH": f"{tools}:/usr/bin:/bin", "PYTHONPATH": hidden}
        odroid.start()
        boards_toml(f'[odroid]\npython = "{PYTHON}"\n')
        return log

    return set_up


@pytest.mark.skipif(not installed(), reason="Debian's packages for Python are not installed")
class TestWithDebiansPython:
    def test_apt_installs_only_with_system(self, fab, apt_board, index):
        log = apt_board("echo Setting up; rm {hidden}/numpy.py")
        dry = fab("provision", "--host", "odroid", "--dry-run", env=index)
        assert "it could install libblas3, python3-numpy with --system" in dry.stdout
        assert all("--simulate" in line for line in log.read_text().splitlines())

        done = fab("provision", "--host", "odroid", "--system", env=index)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "apt    install libblas3, python3-numpy" in done.stdout
        assert "   Setting up" in done.stdout
        assert "wheels" not in done.stdout
        done = [line for line in log.read_text().splitlines() if "--simulate" not in line]
        assert done[0] == "update"  # it fails there: old lists may do
        assert done[1] == "install --yes --no-install-recommends python3-numpy python3-pyopencl"

    def test_wheels_come_where_apt_fails(self, fab, apt_board, index):
        apt_board("echo E: broken; exit 100")
        done = fab("provision", "--host", "odroid", "--system", env=index)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "status 100: using packages downloaded by this machine" in done.stdout
        assert "downloading numpy" in done.stdout

    @pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
    def test_a_vendors_library_without_an_icd_file(self, fab, odroid, stub, boards_toml, project):
        vendor = odroid.home / "vendor"
        vendor.mkdir()
        pocl = Path("/etc/OpenCL/vendors/pocl.icd").read_text().strip()
        link = ["gcc", "-shared", "-o", vendor / "libmali.so", "-Wl,--no-as-needed", f"-l:{pocl}"]
        subprocess.run(link, check=True)  # a driver of its own for the loader; PoCL inside
        (vendor / "libmali-wayland.so").write_text("no library")
        boards_toml(f'[odroid]\npython = "{PYTHON}"\nenv = {{ LD_LIBRARY_PATH = "{vendor}" }}\n')
        stub("one", "import os\nprint(os.environ['OCL_ICD_VENDORS'])")

        done = fab("provision", "--host", "odroid")
        assert done.returncode == 0, done.stdout + done.stderr
        assert f"ICD    {vendor}/libmali.so has no ICD file" in done.stdout
        assert "libmali-wayland" not in done.stdout
        platforms = "ok    OpenCL     Portable Computing Language"
        assert done.stdout.count(platforms) == 2  # the system's is still there
        folder = odroid.home / "opencl-samples" / "vendors"
        assert f"   {folder}\n" in fab("deploy", "--host", "odroid", "run-all", "--verbose").stdout
        asked = fab("doctor", "--host", "odroid").stdout
        assert f"{folder}/provisioned-libmali.icd: {vendor}/libmali.so" in asked
        assert "nothing to do" in fab("provision", "--host", "odroid").stdout
        recorded = json.loads((folder.parent / "environment.json").read_text())
        assert recorded["env"] == {"OCL_ICD_VENDORS": str(folder)}
