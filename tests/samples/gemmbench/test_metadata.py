"""What is wrong with a kernel's .json is said, with the file and the key."""

import json
import os

import pytest

from common.errors import UsageError
from tests.conftest import ROOT, sample_module

metadata = sample_module("gemmbench", "metadata")
RIGHT = {"name": "k", "file": "k.cl", "type": "S", "transA": "N", "transB": "T", "dj": 4, "di": 1}


@pytest.fixture
def load(tmp_path):
    """Write a .json file with some keys changed (None: left out), and load it."""

    def write(text=None, **changes):
        (tmp_path / "k.cl").write_text("")
        keys = {k: v for k, v in {**RIGHT, **changes}.items() if v is not None}
        (tmp_path / "k.json").write_text(json.dumps(keys) if text is None else text)
        return metadata.load(tmp_path / "k.json")

    return write


def test_the_originals_form(load):
    found = load()
    assert (found.type, found.transA, found.transB, found.dj, found.di) == ("S", "N", "T", 4, 1)
    assert (found.opts, found.shape) == ("", "n")
    assert found.source.name == "k.cl"


def test_small_letters_and_options(load):
    found = load(type="d", transA="t", transB="n", opts="-DX=1 -cl-mad-enable", shape="MNK")
    assert (found.type, found.transA, found.transB) == ("D", "T", "N")
    assert (found.opts, found.shape) == ("-DX=1 -cl-mad-enable", "mnk")


def test_half_kernels_sum_floats_unless_they_say_so(load):
    assert load(type="H").sums == "float32"
    assert load(type="H", arithmetic="h").sums == "float16"
    assert load(type="C").sums == "complex64"


def test_the_origin_of_a_kernel(load):
    found = load(author="A. Lab", licence="MIT", generator="kernelgen 1.2")
    assert found.origin == {"author": "A. Lab", "licence": "MIT", "generator": "kernelgen 1.2"}
    assert found.params()["generator"] == "kernelgen 1.2"
    assert load().params()["author"] is None


def test_a_record_names_a_kernel_of_the_sample_alike_on_every_machine(load, tmp_path):
    own = metadata.load(metadata.KERNELS / "SGEMM_NN_1x1.json")
    assert own.params()["metadata"] == "kernels/SGEMM_NN_1x1.json"
    assert load().params()["metadata"] == str(tmp_path / "k.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"author": 3}, "author must be a text without control characters, not 3"),
        ({"licence": "a\nb"}, "licence must be a text without control characters"),
        ({"generator": ""}, "generator must be a text"),
        ({"dk": 32}, "dk is unknown: choose from name, file, type, transA, transB, dj, di, opts"),
        ({"TYPE": "S"}, "TYPE is unknown"),
        ({"di": None}, "di is missing"),
        ({"name": 3}, "name must be a text without control characters, not 3"),
        ({"name": ""}, 'name must be a text without control characters, not ""'),
        ({"type": "X"}, 'type must be S or D or H or C or Z, not "X"'),
        ({"type": ["S"]}, r'type must be a text .*, not \["S"\]'),
        ({"transB": "C"}, 'transB must be N or T, not "C"'),
        ({"dj": 0}, "dj must be a whole number from 1 to 64, not 0"),
        ({"dj": "4"}, 'dj must be a whole number from 1 to 64, not "4"'),
        ({"dj": True}, "dj must be a whole number from 1 to 64, not true"),
        ({"di": 2.0}, "di must be a whole number from 1 to 64, not 2.0"),
        ({"di": -1}, "di must be a whole number"),
        ({"di": 65}, "di must be a whole number"),
        ({"opts": ["-DX"]}, "opts must be a text"),
        ({"shape": "square"}, 'shape must be N or MNK, not "square"'),
        ({"arithmetic": "S"}, "arithmetic is for kernels of type H only"),
        ({"file": "other.cl"}, "file names other.cl, which is not in the same folder"),
        ({"file": "../k.cl"}, "file must be the name of a file in the same folder"),
        ({"file": "."}, "file must be the name"),
        ({"file": "k.cl/"}, "file must be the name"),
    ],
)
def test_wrong_metadata(load, changes, message):
    with pytest.raises(UsageError, match=f"k.json: {message}"):
        load(**changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"k\.json: Expecting"),
        ("{", r"k\.json: Expecting"),
        ("[1]", "k.json: not a JSON object with the keys name, file"),
        ("[" * 100000, r"k\.json: its values are nested too deeply"),
        ("\x00", r"k\.json: Expecting"),
        ('{"name": "k", "dj": 4, "dj": 8}', r"k\.json: dj stands there twice"),
    ],
)
def test_what_is_no_metadata(load, text, message):
    with pytest.raises(UsageError, match=message):
        load(text)


def test_a_file_that_is_no_text(tmp_path):
    (tmp_path / "k.json").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"k\.json is not text in UTF-8"):
        metadata.load(tmp_path / "k.json")
    with pytest.raises(UsageError, match=r"cannot read .*: it is a folder"):
        metadata.load(tmp_path)


def test_the_digest_is_of_both_files(load, tmp_path):
    found = load()
    before = found.params()["kernel_sha256"]
    (tmp_path / "k.cl").write_text("changed")
    assert found.params()["kernel_sha256"] != before
    assert load(dj=2).params()["kernel_sha256"] != before


def test_kernels_are_found_by_pattern():
    folder = ROOT / "samples/gemmbench/kernels"

    def names(*patterns):
        return [meta.name for meta in metadata.find(folder, patterns)]

    assert names("SGEMM_NN_1x1.json") == names("SGEMM_NN_1x1") == ["SGEMM_NN_1x1"]
    assert names("DGEMM_NN_2x1*") == [
        "DGEMM_NN_2x1", "DGEMM_NN_2x1_barrier", "DGEMM_NN_2x1_unroll2",
    ]
    assert len(names("all")) == len(list(folder.glob("*.json"))) == len(names("all", "SGEMM_*"))
    assert names(str(folder / "CGEMM_NN_1x1.json")) == ["CGEMM_NN_1x1"]
    with pytest.raises(UsageError, match=r"no kernel 'x' in .*: choose from CGEMM.* and \d+ more"):
        names("x")


def test_a_broken_file_is_named(load, tmp_path):
    load()
    (tmp_path / "z.json").write_text(json.dumps({**RIGHT, "di": 0}))
    with pytest.raises(UsageError, match=r"^z\.json: di must be a whole number from 1 to 64"):
        metadata.find(tmp_path, ["all"])


@pytest.mark.parametrize("pattern", ["all", "x"])
def test_a_folder_without_kernels_is_called_so(tmp_path, pattern):
    with pytest.raises(UsageError, match=r"^--kernels .* is not a folder of kernels: each"):
        metadata.find(tmp_path, [pattern])


# Odd files and names.


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a" * 300, "no kernel 'a{300}' in"),
        ("/" + "a" * 300, "cannot read .*: File name too long"),
        ("**/../SGEMM*", "cannot read .*: No such file"),
        ("[", r"no kernel '\['"),
        ("", "no kernel ''"),
        ("\x00", r"no kernel '\?'"),
        ("./\x00", "cannot read .*: .*embedded null "),
        ("\x1b[31m", r"no kernel '\?\[31m'"),
    ],
)
def test_odd_patterns_are_refused_in_one_line(pattern, message):
    with pytest.raises(UsageError, match=message) as caught:
        metadata.find(metadata.KERNELS, [pattern])
    assert str(caught.value).isprintable()


def test_two_stars_are_one():
    assert metadata.find(metadata.KERNELS, ["**"]) == metadata.find(metadata.KERNELS, ["all"])


@pytest.mark.parametrize("kind", ["fifo", "loop", "device", "folder"])
@pytest.mark.parametrize("suffix", [".json", ".cl"])
def test_what_is_no_file_is_not_waited_for(load, tmp_path, kind, suffix):
    load()
    path = tmp_path / f"k{suffix}"
    path.unlink()
    make = {"fifo": os.mkfifo, "loop": lambda p: p.symlink_to(p), "folder": os.mkdir,
            "device": lambda p: p.symlink_to("/dev/zero")}
    make[kind](path)
    source = "k.json: file names k.cl, which is not in the same folder"
    with pytest.raises(UsageError, match="cannot read .*k.json" if suffix == ".json" else source):
        metadata.find(tmp_path, ["k"])


def test_a_file_without_end_is_not_read(load, tmp_path):
    with open(tmp_path / "k.json", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match="is larger than 1,048,576 bytes"):
        metadata.load(tmp_path / "k.json")


@pytest.mark.parametrize("key", ["name", "opts"])
def test_control_characters_are_refused(load, key):
    with pytest.raises(UsageError, match=f"k.json: {key} must be a text without control char"):
        load(**{key: "a\x1b[31mb\n"})


@pytest.mark.parametrize("folder", ["/no/such", "/dev/null", "a\x00b", "a" * 5000])
def test_a_folder_that_cannot_be_listed(folder):
    with pytest.raises(UsageError, match=r"--kernels .* is not a folder"):
        metadata.find(folder, ["all"])


def test_two_kernels_of_one_name_are_refused(load, tmp_path):
    load()
    (tmp_path / "other.json").write_text((tmp_path / "k.json").read_text())
    assert len(metadata.find(tmp_path, ["k", f"{tmp_path}/k.json", "k*"])) == 1
    with pytest.raises(UsageError, match=r"k\.json and /.*other\.json have the same name, k$"):
        metadata.find(tmp_path, ["all"])
