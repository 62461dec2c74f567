"""A shared run: what is packed comes back, and what was changed or is not ours is refused."""

import io
import json
import stat
import tracemalloc
import zipfile

import pytest
from report_data import RUN, item, make_run, program, write

from common import record
from common.errors import UsageError
from report import archive, reading, replay

UNSET = "data: author unset, licence unset; kernels: author unset, licence unset"


@pytest.fixture
def packed(tmp_path):
    """A run, and the archive that was made of it."""
    argv = ["/home/anna/suite/samples/sgemm/run.py", "--size", "8", "--json", "/home/anna/x.jsonl"]
    kernel = "/home/anna/suite/samples/sgemm/sgemm.cl"
    folder = make_run(tmp_path / "r", item(argv=argv, params={"file": kernel, "size": "8"}))
    archive.pack(folder, "odroid", tmp_path / "run.zip")
    return folder, tmp_path / "run.zip"


def rewritten(path, change):
    """Return a copy of the archive whose {name: data} went through `change`."""
    with zipfile.ZipFile(path) as old:
        files = {name: old.read(name) for name in old.namelist()}
    change(files)
    copy = path.with_name("changed.zip")
    with zipfile.ZipFile(copy, "w") as new:
        for name, data in files.items():
            new.writestr(name, data)
    return copy


def refused(path, tmp_path):
    """Return why an archive is refused, which must leave nothing behind."""
    target = tmp_path / "target"
    with pytest.raises(UsageError) as caught:
        archive.unpack(path, target)
    assert not target.exists()
    return str(caught.value)


def test_authors_and_licences_are_chosen(packed, tmp_path, capsys):
    folder, path = packed
    rights = tmp_path / "rights.toml"
    rights.write_text('[data]\nauthor = "A. Lab"\nlicence = "CC-BY-4.0"\n'
                      '[kernels]\nlicence = "Apache-2.0"\n')
    done = program(capsys, folder, "--export", path, "--rights", rights)
    line = "data: author A. Lab, licence CC-BY-4.0; kernels: author unset, licence Apache-2.0"
    assert line in done.stdout
    with zipfile.ZipFile(path) as opened:
        assert line in opened.read("README.txt").decode()
    about = archive.unpack(path, tmp_path / "target")
    assert about["data"] == {"author": "A. Lab", "licence": "CC-BY-4.0"}
    assert about["kernels"] == {"author": None, "licence": "Apache-2.0"}
    (told,) = reading.collect([path], tmp_path / "unpacked").archives
    assert told.endswith(line)


def test_what_belongs_to_a_page_is_no_option_of_an_archive(packed, capsys):
    folder, path = packed
    path.unlink()
    done = program(capsys, folder, "--export", path, "-o", "page.html", "--all-runs")
    assert done.stderr == "report: error: --export makes no page: omit --output, --all-runs\n"
    assert (done.returncode, path.exists()) == (2, False)


@pytest.mark.parametrize(("text", "message"), [
    ('licence = "MIT"', "licence: there can be data and kernels, each a table of the texts author"),
    ('[data]\nlicense = "MIT"', "data: there can be"),
    ("[data]\nauthor = 3", "data: there can be"),
    ("kernels = []", "kernels: there can be"),
    ("[", "rights.toml: "),
])
def test_a_wrong_file_of_rights_is_refused(packed, tmp_path, capsys, text, message):
    (tmp_path / "rights.toml").write_text(text)
    args = "--export", tmp_path / "new.zip", "--rights", tmp_path / "rights.toml"
    done = program(capsys, packed[0], *args)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
    assert not (tmp_path / "new.zip").exists()


def test_an_older_archive_has_the_licence_of_its_data(packed, tmp_path):
    def older(files):
        about = json.loads(files["manifest.json"])
        del about["data"], about["kernels"]
        about |= {"version": 1, "licence": "CC0-1.0"}
        files["manifest.json"] = json.dumps(about).encode()

    about = archive.unpack(rewritten(packed[1], older), tmp_path / "target")
    assert archive.told(about).startswith("data: author unset, licence CC0-1.0; kernels: author un")


def test_what_is_packed_comes_back(packed, tmp_path):
    folder, path = packed
    about = archive.unpack(path, tmp_path / "target")
    assert (about["board"], about["run"]) == ("odroid", RUN)
    names = sorted(p.name for p in (tmp_path / "target" / "run").rglob("*") if p.is_file())
    assert names == ["ended.json", "plan.json", "speed.jsonl", "speed.log", "speed.outcome.json"]
    with zipfile.ZipFile(path) as opened:
        assert b"\n    python samples/sgemm/run.py --size 8\n" in opened.read("README.txt")
    (back,) = record.read(tmp_path / "target" / "run" / "sgemm" / "speed.jsonl")
    (old,) = record.read(folder / "sgemm" / "speed.jsonl")
    assert (back.timing, back.metrics, back.check) == (old.timing, old.metrics, old.check)


def test_what_names_the_sender_stays_at_home(packed):
    _, path = packed
    with zipfile.ZipFile(path) as opened:
        everything = b"".join(opened.read(name) for name in opened.namelist()).decode()
    for secret in ("anna", "secret", "/home"):
        assert secret not in everything


def test_the_same_run_gives_the_same_archive(packed, tmp_path):
    folder, path = packed
    archive.pack(folder, "odroid", tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == path.read_bytes()


def test_an_archive_that_has_no_room_is_not_called_wrong(packed, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"^cannot unpack \S+/run\.zip: Not a directory$"):
        archive.unpack(packed[1], tmp_path / "file" / "target")


def test_an_archive_that_is_named_twice_counts_once(packed, tmp_path, monkeypatch):
    """Its launches, counted twice, would look as if they had been repeated."""
    monkeypatch.chdir(packed[1].parent)
    paths = packed[1], packed[1].name
    once, twice = (reading.collect(paths[:n], tmp_path / f"unpacked{n}") for n in (1, 2))
    assert once.records == twice.records > 0


def test_an_archive_is_reported_beside_own_results(packed, tmp_path):
    _, path = packed
    own = make_run(tmp_path / "own", item("row4"), board="odroid")
    read = reading.collect([own, path], tmp_path / "unpacked")
    assert {p.board for p in read.points} == {"odroid", "odroid (run.zip)"}
    (line,) = read.archives
    assert "run.zip: SHA-256 " in line
    assert line.endswith(f"; {UNSET}")


@pytest.mark.parametrize(
    "more", ["--journal", "--listings", "--tuned=x", "--pin", "--out", "tune", "explore"]
)
def test_a_command_of_others_that_writes_is_not_offered(tmp_path, more):
    argv = ["samples/sgemm/run.py", "--size", "8"]
    folder = make_run(tmp_path / "r", item(argv=argv), item("row4", argv=[*argv, more, ".bashrc"]))
    archive.pack(folder, "odroid", tmp_path / "run.zip")
    loose = write(tmp_path / "loose.jsonl", item(argv=[*argv, more, ".bashrc"]))
    other = item(argv=["samples/gemmbench/other.py"])
    write(loose, other)
    for path, known in ((folder, 2), (tmp_path / "run.zip", 1), (loose, 0)):
        points = reading.collect([path], tmp_path / "unpacked").points
        assert sum(replay.command(point) is not None for point in points) == known


@pytest.mark.parametrize("option", ["--json", "--output"])
def test_what_fab_adds_is_no_part_of_the_command(tmp_path, option):
    argv = ["samples/sgemm/run.py", "--size", "8"]
    file = f"{tmp_path}/board/results/x.npz"
    folder = make_run(tmp_path / "r", item(argv=[*argv, option, file]),
                      item("row4", argv=[*argv, f"{option}={file}"]), board="local")
    archive.pack(folder, "odroid", tmp_path / "run.zip")
    for path in (folder, tmp_path / "run.zip"):
        points = reading.collect([path], tmp_path / "unpacked").points
        made = {str(replay.command(point)) for point in points}
        assert made == {"python samples/sgemm/run.py --size 8"}
    with zipfile.ZipFile(tmp_path / "run.zip") as packed:
        for name in packed.namelist():
            assert str(tmp_path).encode() not in packed.read(name), name


@pytest.mark.parametrize("name", ["run/sgemm/speed.jsonl", "run/plan.json", "README.txt"])
def test_a_changed_file_is_refused(packed, tmp_path, name):
    copy = rewritten(packed[1], lambda files: files.update({name: files[name] + b" "}))
    assert f"the SHA-256 of {name} differs from that in the manifest" in refused(copy, tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../evil", "is not the name of a file"),
        ("/etc/evil", "is not the name of a file"),
        ("run/../../evil.log", "is not the name of a file"),
        ("run/sgemm/x/y.log", "is not the name of a file"),
        ("run\\..\\evil.log", "is not the name of a file"),
        ("run/sgemm/evil.sh", "is not the name of a file"),
        ("run/sgemm/.log", "is not the name of a file"),
        ("run/sgemm/_.log", "is not the name of a file"),
        (f"run/sgemm/{101 * 'x'}.log", "is not the name of a file"),
        ("run/sgemm/more.log", "its files differ from its manifest"),
    ],
)
@pytest.mark.parametrize("listed", [False, True])
def test_a_name_that_leads_elsewhere_is_refused(packed, tmp_path, name, message, listed):
    def add(files):
        files[name] = b"x"
        if listed and "manifest" not in message:
            about = json.loads(files["manifest.json"])
            about["files"][name] = {"bytes": 1, "sha256": archive.hashlib.sha256(b"x").hexdigest()}
            files["manifest.json"] = json.dumps(about).encode()

    assert message in refused(rewritten(packed[1], add), tmp_path)
    assert not list(tmp_path.rglob("evil*"))


def test_a_file_that_is_missing_is_refused(packed, tmp_path):
    copy = rewritten(packed[1], lambda files: files.pop("run/sgemm/speed.jsonl"))
    assert "its files differ from its manifest" in refused(copy, tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "something"}, "not an archive of `fab export`"),
        ({"version": 3}, "its version is 3, this reader knows 1 to 2"),
        ({"files": []}, "lists no files"),
        ({"files": {"run/plan.json": 1}}, "lists no files"),
        ({"board": None}, "has no board"),
        ({"run": 3}, "has no run"),
    ],
)
def test_a_manifest_that_is_none_is_refused(packed, tmp_path, change, message):
    def write(files):
        about = {**json.loads(files["manifest.json"]), **change}
        files["manifest.json"] = json.dumps(about).encode()

    assert message in refused(rewritten(packed[1], write), tmp_path)


@pytest.mark.parametrize("text", [b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_manifest_that_is_not_json_is_refused(packed, tmp_path, text):
    copy = rewritten(packed[1], lambda files: files.update({"manifest.json": text}))
    assert "is refused: " in refused(copy, tmp_path)


def test_an_archive_of_something_else_is_refused(packed, tmp_path):
    copy = rewritten(packed[1], lambda files: files.pop("manifest.json"))
    assert "it has no manifest.json" in refused(copy, tmp_path)


def member(name, data=b"", **attributes):
    """Return the bytes of a zip file with one member with these attributes."""
    file = io.BytesIO()
    info = zipfile.ZipInfo(name)
    for key, value in attributes.items():
        setattr(info, key, value)
    with zipfile.ZipFile(file, "w") as new:
        new.writestr(info, data)
    return file.getvalue()


def test_links_are_refused(tmp_path):
    link = member("run/plan.json", b"/etc/passwd", external_attr=(stat.S_IFLNK | 0o777) << 16)
    (tmp_path / "link.zip").write_bytes(link)
    assert "run/plan.json is not a plain file" in refused(tmp_path / "link.zip", tmp_path)


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "LARGEST_RUN", 10_000)
    bomb = member("run/plan.json", bytes(20_000), compress_type=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 500
    (tmp_path / "bomb.zip").write_bytes(bomb)
    assert "more files or bytes than a run can have" in refused(tmp_path / "bomb.zip", tmp_path)


def test_a_size_that_is_a_lie_is_refused(tmp_path):
    more = 50_000_000
    data = bytearray(member("manifest.json", b"{}" + bytes(more), compress_type=8))
    whole = (more + 2).to_bytes(4, "little")
    at = data.rfind(whole)  # in the central directory, which is what is believed
    data[at : at + 4] = (2).to_bytes(4, "little")
    (tmp_path / "lie.zip").write_bytes(data)
    tracemalloc.start()
    assert "is refused" in refused(tmp_path / "lie.zip", tmp_path)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < more / 10  # it was not inflated


def test_the_digest_is_of_what_was_checked(packed, tmp_path, monkeypatch):
    digest = archive.hashlib.sha256(packed[1].read_bytes()).hexdigest()
    infolist = zipfile.ZipFile.infolist

    def swap(opened):
        packed[1].write_bytes(b"another")
        return infolist(opened)

    monkeypatch.setattr(zipfile.ZipFile, "infolist", swap)
    assert archive.unpack(packed[1], tmp_path / "target")["sha256"] == digest


@pytest.mark.parametrize("most", ["LARGEST_FILE", "MOST_FILES"])
def test_a_file_that_is_too_large_is_refused(packed, tmp_path, monkeypatch, most):
    monkeypatch.setattr(archive, most, 3)
    assert "is refused" in refused(packed[1], tmp_path)


def test_two_files_of_one_name_are_refused(tmp_path):
    file = tmp_path / "twice.zip"
    with zipfile.ZipFile(file, "w") as new:
        new.writestr("run/plan.json", "1")
        with pytest.warns(UserWarning, match="Duplicate"):
            new.writestr("run/plan.json", "2")
    assert "two files of the same name" in refused(file, tmp_path)


def test_an_encrypted_or_oddly_compressed_file_is_refused(packed, tmp_path):
    data = bytearray(packed[1].read_bytes())
    at = data.rfind(b"PK\x01\x02")
    data[at + 8] |= 1
    (tmp_path / "secret.zip").write_bytes(data)
    assert "is encrypted" in refused(tmp_path / "secret.zip", tmp_path)
    odd = member("run/plan.json", b"{}", compress_type=zipfile.ZIP_LZMA)
    (tmp_path / "odd.zip").write_bytes(odd)
    assert "unsupported compression" in refused(tmp_path / "odd.zip", tmp_path)


@pytest.mark.parametrize("end", [10, 400, -10])
def test_a_truncated_archive_is_refused(packed, tmp_path, end):
    (tmp_path / "short.zip").write_bytes(packed[1].read_bytes()[:end])
    assert "is refused: " in refused(tmp_path / "short.zip", tmp_path)


def test_every_byte_that_is_changed_is_seen(packed, tmp_path):
    """Whichever byte of the archive is another: it is refused, or what comes out is the same."""
    whole, copy = packed[1].read_bytes(), tmp_path / "changed.zip"
    good = archive.unpack(packed[1], tmp_path / "good")
    for at in range(0, len(whole), 23):
        copy.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        target = tmp_path / f"at{at}"
        try:
            about = archive.unpack(copy, target)
        except UsageError:
            assert not target.exists()
            continue
        assert about["files"] == good["files"]
        for path in target.rglob("*.jsonl"):
            twin = tmp_path / "good" / path.relative_to(target)
            assert path.read_bytes() == twin.read_bytes()


def test_from_the_command_line(packed, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def report(*args):
        return program(capsys, *args)

    done = report("--export", "mine.zip", packed[0])
    assert (done.returncode, done.stderr) == (0, "")
    digest = archive.hashlib.sha256((tmp_path / "mine.zip").read_bytes()).hexdigest()
    assert digest in done.stdout
    assert f"{UNSET} (--rights FILE sets them)" in done.stdout
    assert "Your paths stay in options, parameters, logs and the board's env" in done.stdout
    assert report("mine.zip", "-o", "page.html").returncode == 0
    page = (tmp_path / "page.html").read_text()
    assert digest in page
    done = report(packed[0], "--baseline", "mine.zip", "-o", "page.html")
    assert "compared with mine.zip: 1 same" in done.stdout
    assert digest in (tmp_path / "page.html").read_text()  # the baseline's, too
    (tmp_path / "mine.zip").write_bytes(b"PK")
    done = report("mine.zip", "-o", "page.html")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
