"""How large the caches of this machine's cores are."""

import os

import pytest
from fake_sysfs import put

from common.machine import caches


def cache(folder, level, size, sharing, holds="Unified"):
    folder.mkdir(parents=True)
    texts = {"level": level, "size": size, "shared_cpu_map": sharing, "type": holds}
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")


@pytest.fixture
def bytes_of(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 4})
    return lambda level: caches.cache_bytes.__wrapped__(level, tmp_path)


def test_the_caches_are_what_linux_says(bytes_of, tmp_path):
    assert bytes_of(1) == 2**15  # no Linux, or one that does not tell
    assert bytes_of(2) == 2**19
    first = tmp_path / "cpu0" / "cache"
    cache(first / "index0", 1, "64K", "1", "Instruction")
    cache(first / "index1", 1, "48K", "1", "Data")
    cache(first / "index2", 2, "2048K", "ff,00000003")
    cache(first / "index3", 3, "32768K", "ff")
    assert bytes_of(1) == 3 * 2**14
    assert bytes_of(2) == 2 * 2**20 // 10
    (first / "index2" / "shared_cpu_map").write_text("4\n")
    assert bytes_of(2) == 2 * 2**20
    (first / "index2" / "shared_cpu_map").write_text("nonsense\n")
    assert bytes_of(2) == 2**19
    (first / "index2" / "size").unlink()
    assert bytes_of(2) == 2**19


def test_speeds_are_those_of_the_cores_that_are_used(tmp_path, monkeypatch):
    def speeds(cores):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: cores)
        return caches.speeds.__wrapped__(tmp_path)

    assert speeds({0, 4}) == (1, 1)  # Linux does not tell
    for core, capacity in {0: 384, 1: 384, 4: 1024, 5: 768}.items():
        put(tmp_path, f"cpu{core}/cpu_capacity", capacity)
    assert speeds({4, 0, 5}) == (0.375, 1, 0.75)
    assert speeds({0, 1}) == (1, 1)
    assert speeds({0, 9}) == (1, 1)


def test_of_big_and_little_cores_the_least_counts_if_they_are_used(bytes_of, tmp_path, monkeypatch):
    cache(tmp_path / "cpu0" / "cache" / "index0", 1, "32K", "1")
    cache(tmp_path / "cpu4" / "cache" / "index0", 1, "64K", "10")
    assert bytes_of(1) == 2**15
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {4})
    assert bytes_of(1) == 2**16


def test_all_caches_count_once(tmp_path):
    assert caches.all_bytes(tmp_path) == 0
    for core, mask in ("cpu0", "1"), ("cpu1", "2"):
        folder = tmp_path / core / "cache"
        cache(folder / "index0", 1, "32K", mask, "Data")
        cache(folder / "index1", 1, "32K", mask, "Instruction")
        cache(folder / "index2", 2, "1024K", mask)
        cache(folder / "index3", 3, "8192K", "3")
    assert caches.all_bytes(tmp_path) == (2 * (32 + 1024) + 8192) * 2**10
