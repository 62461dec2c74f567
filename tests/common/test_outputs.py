"""What --output writes, and the distance of two outputs in units of the last place."""

import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from common import outputs
from common.outputs import digest, ulp_distance
from deploy import samples
from tests.conftest import exhaustive_but

SAMPLES = samples.load()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_writes_what_its_digest_is_of(recorded, tmp_path, name):
    golden = next(case for case in SAMPLES[name].cases if case.golden)
    done, records = recorded(name, *golden.args, "--output", tmp_path / "out.npz")
    assert done.returncode in (0, 77), done.stdout + done.stderr  # 77: it left out a kernel
    records = [item for item in records if item.status == "passed"]
    arrays = outputs.read(tmp_path / "out.npz")
    assert set(arrays) == {item.variant or item.sample for item in records}
    for item in records:
        assert digest(arrays[item.variant or item.sample]) == item.check["output_sha256"]


EVERY = samples.every(SAMPLES)
ONE_EACH = list({case.sample: case for case in EVERY}.values())


@pytest.mark.parametrize(
    "case", exhaustive_but(ONE_EACH, EVERY), ids=lambda case: f"{case.sample}-{case.name}"
)
def test_every_case_can_write_it(recorded, tmp_path, case):
    out = tmp_path / "out.npz"
    done, _ = recorded(case.sample, *case.args, "--output", out, "--platform", "of nobody")
    assert done.returncode == 2
    assert "of nobody" in done.stderr
    assert out.is_file()


def test_arrays_come_back_as_they_were(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time", lambda: 0.0)  # zip files know no year before 1980
    path = tmp_path / "out"
    path.write_text("from an earlier run")
    outputs.start(path)
    assert outputs.read(path) == {}
    big_endian = np.arange(6, dtype=">f4").reshape(2, 3).T
    outputs.append(path, "one", big_endian)
    outputs.append(path, "two", np.array([2**64 - 1], np.uint64))
    outputs.append(path, "one", big_endian)
    outputs.append(path, "one", big_endian)
    came = outputs.read(path)
    assert list(came) == ["one", "two", "one.2", "one.3"]
    assert (came["one"] == big_endian).all()
    assert came["one"].dtype == np.dtype("<f4")
    assert came["two"][0] == 2**64 - 1


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04 broken"])
def test_a_file_that_is_none(tmp_path, content):
    (tmp_path / "out.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"out\.npz"):
        outputs.read(tmp_path / "out.npz")


def test_the_distance_of_float16_is_that_of_their_ranks():
    # All numbers of the type, in order: the oracle that wider types are too large for.
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    every = every[~np.isnan(every)]
    rank = {value: place for place, value in enumerate(np.unique(every))}  # -0 equals +0
    a, b = np.random.default_rng(3).choice(every, (2, 2000))
    for x, y in zip(a, b):
        distance = ulp_distance(np.array([x]), np.array([y]))
        assert distance == abs(rank[x] - rank[y]), (x, y)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.complex64])
def test_one_step_is_one(kind):
    part = np.zeros(1, kind).real.dtype.type
    for value in (0.0, -1.0, 1.0, np.finfo(part).tiny, 1 - np.finfo(part).epsneg):
        near = np.array([np.nextafter(part(value), part(9))], kind)
        assert ulp_distance(np.array([value], kind), near) == 1
        assert ulp_distance(near, np.array([value], kind)) == 1


def test_ends_and_odd_values():
    largest = np.finfo(np.float32).max
    ends = np.array([[-largest, largest]], np.float32)
    assert ulp_distance(ends, ends[:, ::-1].copy()) == 2 * (2**31 - 2**23 - 1)
    nan, inf = np.array([np.nan, 1.0]), np.array([np.inf, 1.0])
    assert ulp_distance(nan, nan) == 0
    assert ulp_distance(nan, inf) == float("inf")
    assert ulp_distance(np.array([-0.0]), np.array([0.0])) == 0
    assert ulp_distance(np.empty(0), np.empty(0)) == 0
    assert ulp_distance(np.array([2**64 - 1], np.uint64), np.array([1], np.uint64)) == 2**64 - 2


@pytest.mark.parametrize("other", [np.zeros(3), np.zeros(2, np.float32), np.zeros((2, 1))])
def test_what_cannot_be_compared(other):
    with pytest.raises(ValueError, match="cannot be compared"):
        ulp_distance(np.zeros(2), other)


def header(shape, descr="<f4"):
    stream = io.BytesIO()
    about = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, about)
    return stream.getvalue()


def packed(path, data, **more):
    with zipfile.ZipFile(path, "w", **more) as file:
        file.writestr("one.npy", data)


def overlapping(path, names):
    """Write a zip file whose directory names one array many times."""
    packed(path, header((2**18,)) + bytes(2**20))
    data = path.read_bytes()
    at = data.index(b"PK\1\2")
    entry = data[at : data.index(b"PK\5\6")]
    entries = b"".join(entry.replace(b"one.npy", b"%07d" % n) for n in range(names))
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, names, names, len(entries), at, 0)
    path.write_bytes(data[:at] + entries + end)


HOSTILE = {
    "packed": lambda p: packed(
        p, header((2**25,)) + bytes(2**27), compression=zipfile.ZIP_DEFLATED
    ),
    "a shape that is too large": lambda p: packed(p, header((2**29,)) + bytes(64)),
    "a shape that no memory holds": lambda p: packed(p, header((2**60, 2**60)) + bytes(64)),
    "a type that is too large": lambda p: packed(p, header((1,), ("<f4", (2**29,))) + bytes(64)),
    "a type of 16 bytes": lambda p: packed(p, header((4,), "<f16") + bytes(64)),
    "objects": lambda p: packed(p, header((8,), "|O") + bytes(64)),
    "no header": lambda p: packed(p, b"\x93NUMPY\1\0\xff\xff{{{("),
    "another version": lambda p: packed(p, b"\x93NUMPY\3\0" + bytes(64)),
    "one array many times": lambda p: overlapping(p, 1000),
    "a directory that is too large": lambda p: overlapping(p, 65535),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_grows_in_memory(tmp_path, kind):
    path = tmp_path / "out.npz"
    HOSTILE[kind](path)
    assert path.stat().st_size < 2**24
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"out\.npz"):
        outputs.read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def test_whole_numbers_need_no_list_of_them():
    a, b = np.zeros((2, 2**18), np.int32)
    b[7], a[9] = -(2**31), 2**31 - 1
    b[9] = -1
    assert ulp_distance(a, b) == 2**31
    assert ulp_distance(a.astype(np.uint64), b.astype(np.uint64)) == 2**64 - 2**31
    tracemalloc.start()
    ulp_distance(a, b)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * a.nbytes


def test_a_digest_knows_values_shapes_and_types_but_one_zero():
    zero = np.zeros((2, 3), np.float32)
    assert digest(zero) == digest(-zero)
    others = [zero.reshape(3, 2), zero.astype(np.float64), zero + 1]
    assert len({digest(a) for a in [zero, *others]}) == 4
    assert digest(zero) == digest(zero.astype(">f4"))


def test_a_digest_takes_whole_numbers():
    sums = np.array([2**63, 1], np.uint64)
    assert digest(sums) == digest(sums.astype(">u8"))
    assert digest(sums) != digest(sums + np.uint64(1))
