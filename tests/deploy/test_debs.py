"""Packages of a board's distribution: what is downloaded, and how it is unpacked there."""

import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from types import SimpleNamespace

import pytest

from deploy import apt, debs, provision, wheels
from deploy.boards import Settings
from deploy.errors import BoardError
from deploy.fleet import Board
from deploy.link import LocalLink
from deploy.onboard import environment, limits
from tests.deploy.test_provision import APT, BARE, FOUND, plan, text

BULLSEYE = debs.Release("debian", "bullseye", "armhf")
HAS = (
    ("libc6", "install ok installed", "armhf", "2.31-13+deb11u11", "same", "libc6-dev-none (= 1)"),
    ("held", "hold ok installed", "all", "1", "", ""),
    ("removed", "deinstall ok config-files", "all", "1", "", ""),
    ("broken", "install reinstreq half-installed", "armhf", "1", "", ""),
    ("libc6", "install ok installed", "arm64", "2.31", "same", ""),
    ("a\tb", "install ok installed", "armhf", "1", "", ""),
)
INSTALLED = "".join(re.sub(r"\$\{.*?\}", "{}", debs.FORMAT).format(*row) for row in HAS)
FAKE_APT = """#!/bin/sh
echo "$@" >> {log}
case "$*" in
    *indextargets*) cat {folder}/targets;;
    *update*) {update};;
    *install*) cd $(dirname $APT_CONFIG); cat status etc/apt/sources.list apt.conf >> {log}
        touch var/cache/apt/archives/libc6_2.31_armhf.deb
        touch var/cache/apt/archives/python3-numpy_1%3a1.19_armhf.deb; {install};;
esac
"""
FAKE_CONFIG = """#!/bin/sh
echo 'Acquire::http::Proxy "http://proxy.invalid:3128/";'
"""
OF_THIS_MACHINE = """bookworm main http://mirror.invalid/debian/
bookworm-security main http://mirror.invalid/security/
trixie main http://other.invalid/debian/
"""


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A machine with Debian 12 and stand-ins for apt's programs; call it to make them."""
    monkeypatch.setattr(debs, "KEYRINGS", tmp_path)
    own = {"ID": "debian", "VERSION_CODENAME": "bookworm"}
    monkeypatch.setattr(apt.platform, "freedesktop_os_release", lambda: own)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    (tmp_path / "debian-archive-keyring.gpg").touch()
    (tmp_path / "targets").write_text(OF_THIS_MACHINE)
    log = tmp_path / "log"

    def make(update="true", install="true"):
        programs = {
            "apt-get": FAKE_APT.format(folder=tmp_path, log=log, update=update, install=install),
            "apt-config": FAKE_CONFIG,
        }
        for name, code in programs.items():
            (tmp_path / name).write_text(code)
            (tmp_path / name).chmod(0o755)
        return log

    make()
    return make


def download(driver=False):
    """Return (names of the packages that came, notes)."""
    packed = io.BytesIO()
    run = Board("test", None, None).run_here
    notes = debs.download(["python3-numpy"], BULLSEYE, INSTALLED, driver, None, packed, run)
    packed.seek(0)
    with tarfile.open(fileobj=packed) as archive:
        return archive.getnames(), notes


def test_this_machines_archive_has_the_boards_release_too(host, tmp_path):
    keys = tmp_path / "debian-archive-keyring.gpg"
    assert debs.sources(BULLSEYE) == (
        f"deb [signed-by={keys}] http://mirror.invalid/debian/ bullseye main\n"
        f"deb [signed-by={keys}] http://mirror.invalid/security/ bullseye-security main\n"
    )
    assert debs.sources(BULLSEYE, "http://old.invalid") == (
        f"deb [signed-by={keys}] http://old.invalid bullseye main\n"
    )


def test_another_distribution_needs_its_keys_and_a_mirror(host, tmp_path):
    focal = debs.Release("ubuntu", "focal", "arm64")
    with pytest.raises(BoardError, match="lacks the keys of ubuntu's archive"):
        debs.sources(focal, "http://ports.invalid")
    (tmp_path / "ubuntu-archive-keyring.gpg").touch()
    with pytest.raises(BoardError, match="no archive of ubuntu: name one with --mirror"):
        debs.sources(focal)
    assert debs.sources(focal, "http://ports.invalid").endswith("focal main universe\n")


def test_apt_has_a_root_of_its_own_with_what_the_board_has(host):
    log = host()
    assert download() == (["python3-numpy_1%3a1.19_armhf.deb"], [])
    said = log.read_text()
    assert "install --yes --download-only python3-numpy" in said
    assert 'APT::Architecture "armhf";' in said
    assert 'Acquire::http::Proxy "http://proxy.invalid:3128/";' in said
    for line in ("Package: libc6", "Version: 2.31-13+deb11u11", "Provides: libc6-dev-none (= 1)",
                 "Package: held"):
        assert line in said
    assert said.count("Package: libc6") == 1
    assert said.count("Provides: ") == 1  # apt takes no empty one
    assert not any(word in said for word in ("removed", "broken", "arm64", "\t", "opencl-icd"))
    assert not any(word in said for word in ("trusted=yes", "Unauthenticated", "Valid-Until"))


def test_a_board_with_a_driver_gets_no_other(host):
    log = host()
    download(driver=True)
    assert "\nProvides: opencl-icd\n" in log.read_text()


def test_expired_lists_of_an_old_release_are_used_and_said(host):
    expired = "case $* in *Valid*) ;; *) echo 'E: Release file is expired' >&2; exit 100;; esac"
    log = host(update=expired)
    names, notes = download()
    assert names
    assert notes == [
        "the archive's lists are expired: used as they are, as of an old release"
    ]
    assert "--quiet -o Acquire::Check-Valid-Until=false update" in log.read_text()


def test_updates_that_the_archive_has_no_more_are_left_out(host):
    gone = "touch var/cache/apt/archives/perl-base_5_armhf.deb; echo 'E: Failed to fetch' >&2"
    log = host(install=f"if grep -q security etc/apt/sources.list; then {gone}; exit 100; fi")
    names, notes = download()
    assert names == ["python3-numpy_1%3a1.19_armhf.deb"]
    assert notes == ["without the updates of debian bullseye for armhf: Failed to fetch"]
    assert log.read_text().count("install --yes") == 2


def test_what_apt_cannot_get_is_named(host):
    host(install="echo 'W: x' >&2; echo 'E: Unable to locate package' >&2; exit 100")
    with pytest.raises(BoardError, match="no packages of debian bullseye for armhf: Unable to"):
        download()


@pytest.mark.parametrize("part", ["", "../x", "x y", "x\n", "[trusted=yes]", "X", "x" * 50, None])
def test_a_release_that_cannot_be(part):
    assert debs.release(["debian", "bullseye", "armhf"]) == BULLSEYE
    assert debs.release(None) is None
    for number in range(3):
        found = ["debian", "bullseye", "armhf"]
        found[number] = part
        with pytest.raises((ValueError, TypeError)):
            debs.release(found)


ARMHF = {**BARE, "bits": 32, "machine": "armv7l", "release": [*BULLSEYE]}
NAMES = ["python3-numpy", "python3-pil", "python3-pyopencl"]
ARMHF["apt"] = {**APT, "packages": NAMES, "problem": "none"}


def test_a_board_that_no_wheels_fit_gets_packages():
    made = plan(**ARMHF)
    assert (made.kind, made.packages, made.lacking) == ("debs", NAMES, [])
    assert "debs python3-numpy, python3-pil, python3-pyopencl and what they need, of debian " in (
        text(made)
    )
    assert "unpacked into there/envs; there are no wheels for 32-bit ARM" in text(made)


def test_an_old_python_gets_packages():
    old = {"path": "/usr/bin/python3", "version": "3.9.2"}
    made = plan(**{**ARMHF, "bits": 64, "machine": "aarch64", "python": old})
    assert made.packages == NAMES
    assert "there are no wheels for Python 3.9" in text(made)
    assert wheels.none_for(wheels.target(FOUND)) is None


def test_what_was_provisioned_before_is_replaced_as_a_whole():
    one = {**ARMHF, "lacking": ["PIL"], "apt": {**ARMHF["apt"], "packages": ["python3-pil"]}}
    assert plan(**one).packages == ["python3-pil"]
    assert plan(**{**one, "provisioned": "/there/envs/1"}).packages == NAMES


@pytest.mark.parametrize(
    ("odd", "why"),
    [({"release": None}, "its system is not derived from Debian"),
     ({"apt": {**ARMHF["apt"], "other_python": "/opt/py is not the Python"}}, "/opt/py is not")],
)
def test_a_board_that_packages_do_not_fit_either(odd, why):
    made = plan(**{**ARMHF, **odd})
    assert made.kind is None
    assert why in made.lacking[0]
    assert made.lacking[0].startswith("numpy, pyopencl, PIL: there are no wheels for 32-bit ARM")


def asked_for(bytes_sent, monkeypatch, **changes):
    """Return what debs.download() is asked for, and how much of the list was read."""
    read, asked = [], []

    class Session:
        def event(self):
            return {"event": "installed", "bytes": bytes_sent}

        def pieces(self, count):
            read.append(count)
            return [b"Package: a"]

    board = SimpleNamespace(start=lambda *args, **request: Session(), say=print, run_here="run")
    monkeypatch.setattr(debs, "download", lambda *args: asked.append(args) or [])
    found = {**FOUND, **ARMHF, **changes}
    provision.download(board, plan(**ARMHF), found, "http://x.invalid", "payload")
    return asked[0], read[0]


@pytest.mark.parametrize(
    ("sent", "read"), [(13, 13), (-1, 0), (10**15, limits.INSTALLED)]
)
def test_the_boards_packages_are_asked_for(sent, read, monkeypatch):
    wanted = (NAMES, BULLSEYE, "Package: a", True, "http://x.invalid", "payload", "run")
    assert asked_for(sent, monkeypatch) == (wanted, read)


def test_a_driver_is_left_out_only_where_it_was_found(monkeypatch):
    assert not asked_for(1, monkeypatch, lacking=["driver"])[0][3]


@pytest.fixture
def payload(tmp_path):
    """A tar.gz of a Debian package with a module, a driver's ICD file and libc's linker script."""
    root = tmp_path / "package"
    for name, content in {
        "DEBIAN/control": "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: x\n"
                          "Description: x\n",
        "usr/lib/python3/dist-packages/thing.py": "",
        "usr/lib/arm-linux-gnueabihf/libc.so": "GROUP ( /lib/libc.so.6 /usr/lib/libc_nonshared.a )",
        "usr/lib/arm-linux-gnueabihf/blas/libblas.so.3": "",
        "usr/bin/ld": "",
        "etc/OpenCL/vendors/pocl.icd": "libpocl.so.2\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    deb = tmp_path / "x_1_all.deb"
    subprocess.run(["dpkg-deb", "--build", root, deb], check=True, capture_output=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(deb, deb.name)
    return packed.getvalue()


def make(folder, payload, packages):
    """Let a board here take packages; return the last event."""
    board = Board("board", Settings(folder=str(folder)), LocalLink(sys.executable))
    digest = hashlib.sha256(payload).hexdigest()
    session = board.start("make", 60, sha256=digest, drivers=[], packages=packages)
    session.send(b"%d\n%s" % (len(payload), payload))
    while (event := session.event())["event"] == "lines":
        pass
    return event


@pytest.mark.skipif(shutil.which("apt-cache") is None, reason="there is no apt")
def test_apt_understands_what_a_board_says_of_its_packages(tmp_path):
    board = Board("board", Settings(folder=str(tmp_path)), LocalLink(sys.executable))
    session = board.start("installed", format=debs.FORMAT)
    said = b"".join(session.pieces(session.event()["bytes"])).decode()
    assert "Package: libc6\nStatus: install ok installed\nArchitecture: " in said
    (tmp_path / "status").write_text(said.replace("Provides: \n", ""))
    (tmp_path / "lists").mkdir()
    command = ["apt-cache", "policy", "libc6", "-o", f"Dir::State::status={tmp_path}/status",
               "-o", f"Dir::State::lists={tmp_path}/lists", "-o", f"Dir::Cache={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"Installed: \d", done.stdout)


needs_dpkg = pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="there is no dpkg-deb")


@needs_dpkg
def test_packages_are_unpacked_into_the_folder(tmp_path, payload, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/vendor")
    folder = tmp_path / "there"
    make(folder, payload, "debs")
    env = json.loads((folder / "environment.json").read_text())["env"]
    own = folder / "envs" / "1"
    libraries = own / "usr/lib/arm-linux-gnueabihf"
    assert env["PYTHONPATH"] == f"{own}/usr/lib/python3/dist-packages"
    assert env["LD_LIBRARY_PATH"] == f"/vendor:{libraries}:{libraries}/blas"
    assert env["LIBRARY_PATH"] == str(libraries)
    assert env["PATH"].endswith(f":{own}/usr/bin")
    assert env["OCL_ICD_VENDORS"].startswith(f"{folder}/vendors")
    assert (folder / "vendors" / "packaged-pocl.icd").read_text() == "libpocl.so.2\n"
    assert f" /lib/libc.so.6 {own}/usr/lib/libc_nonshared.a" in (libraries / "libc.so").read_text()
    assert not list(own.glob("*.deb"))
    assert (own / "usr/lib/python3/dist-packages/thing.py").exists()
    # What comes next replaces it.
    (folder / "vendors" / "packaged-old.icd").touch()
    make(folder, payload, "debs")
    assert [path.name for path in (folder / "envs").iterdir()] == ["2"]
    assert not (folder / "vendors" / "packaged-old.icd").exists()


@needs_dpkg
def test_a_package_that_cannot_be_unpacked(tmp_path, payload):
    (tmp_path / "rubbish.deb").write_text("no package")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        archive.add(tmp_path / "rubbish.deb", "rubbish.deb")
    with pytest.raises(BoardError, match="dpkg-deb: "):
        make(tmp_path / "there", packed.getvalue(), "debs")
    assert list((tmp_path / "there" / "envs").iterdir()) == []


def test_a_boards_own_paths_come_first(tmp_path, monkeypatch):
    env = {"LD_LIBRARY_PATH": "/ours", "PYTHONPATH": "/python"}
    monkeypatch.setattr(environment, "provisioned", lambda folder: env)
    added = environment.added(str(tmp_path), {"LD_LIBRARY_PATH": "/mali"})
    assert added == {"LD_LIBRARY_PATH": "/mali:/ours", "PYTHONPATH": "/python"}
