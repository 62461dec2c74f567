"""Copies of a library become one file with several names."""

from deploy.slim import slim


def test_copies_of_a_library_are_one_file(tmp_path):
    texts = {"libx.so": "x", "libx.so.1": "x", "libx.so.1.2": "y", "libother.so": "x"}
    for name, text in {**texts, "icx-lto.so": "z"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "libx.so.link").symlink_to("libx.so")
    (tmp_path / "gone.so").symlink_to("nowhere")
    for _ in range(2):
        slim(tmp_path)
        left = {path.name: path for path in tmp_path.iterdir()}
        assert set(left) == {*texts, "libx.so.link", "gone.so"}
        assert {name: left[name].read_text() for name in texts} == texts
        assert left["libx.so"].samefile(left["libx.so.1"])
        assert left["libother.so"].stat().st_nlink == left["libx.so.1.2"].stat().st_nlink == 1
        assert left["libx.so.link"].is_symlink()
    slim(tmp_path / "no folder")
