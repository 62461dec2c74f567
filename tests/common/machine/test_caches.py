"""How large the caches of this machine's cores are."""

from common.machine.caches import cache_bytes


def cache(folder, level, size, sharing, holds="Unified"):
    folder.mkdir()
    texts = {"level": level, "size": size, "shared_cpu_map": sharing, "type": holds}
    for name, text in texts.items():
        (folder / name).write_text(f"{text}\n")


def test_the_caches_are_what_linux_says(tmp_path):
    assert cache_bytes(1, tmp_path / "none") == 2**15  # no Linux, or one that does not tell
    assert cache_bytes(2, tmp_path / "none") == 2**19
    cache(tmp_path / "index0", 1, "64K", "1", "Instruction")
    cache(tmp_path / "index1", 1, "48K", "1", "Data")
    cache(tmp_path / "index2", 2, "2048K", "ff,00000003")
    cache(tmp_path / "index3", 3, "32768K", "ff")
    assert cache_bytes(1, tmp_path) == 3 * 2**14
    assert cache_bytes(2, tmp_path) == 2 * 2**20 // 10
    (tmp_path / "index2" / "shared_cpu_map").write_text("4\n")
    assert cache_bytes(2, tmp_path) == 2 * 2**20
    (tmp_path / "index2" / "shared_cpu_map").write_text("nonsense\n")
    assert cache_bytes(2, tmp_path) == 2**19
    (tmp_path / "index2" / "size").unlink()
    assert cache_bytes(2, tmp_path) == 2**19
