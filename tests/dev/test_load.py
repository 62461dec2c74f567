"""A report of very many records: what it takes grows with them, and slowly. See dev/load.py."""

import tracemalloc
from contextlib import contextmanager

import pytest

from dev import load
from report import archive, reading

COUNT = 2000


@pytest.fixture
def big_run(tmp_path):
    """A run of COUNT records, each of a point of its own; and how many bytes they are."""
    folder = tmp_path / "board" / "run"
    return folder, load.write_run(folder, COUNT)


@contextmanager
def traced():
    """Give a function that returns (bytes in use, the most that were) since the start."""
    tracemalloc.start()
    try:
        yield tracemalloc.get_traced_memory
    finally:
        tracemalloc.stop()


def test_the_records_are_as_long_as_real_ones(big_run):
    assert 2000 < big_run[1] / COUNT < 3000


def test_a_point_takes_less_than_its_record(big_run, tmp_path):
    found = []
    for _ in range(3):  # threads that other tests have left may allocate meanwhile
        with traced() as memory:
            read = reading.collect([big_run[0]], tmp_path)
            used, most = memory()
        assert len(read.points) == COUNT
        found.append((used / COUNT, most - used))
    assert min(each for each, _ in found) < 2400
    assert min(more for _, more in found) < 2**20


def test_an_archive_is_written_and_read_part_by_part(big_run, tmp_path):
    folder, size = big_run
    packed = tmp_path / "run.zip"
    with traced() as memory:
        archive.pack(folder, "board", packed)
        assert memory()[1] < size / 2
    with traced() as memory:
        archive.unpack(packed, tmp_path / "new")
        assert memory()[1] < size
    assert (tmp_path / "new/sweep/all.jsonl").stat().st_size == size


@pytest.mark.exhaustive
def test_its_limits_hold_for_a_tenth(capfd):
    assert load.main(["--records", "20000", "--no-browser"]) == 0
    said = capfd.readouterr().out
    assert [line.split()[0] for line in said.splitlines()] == [
        "records", "page", "export", "archive", "page",
    ]
