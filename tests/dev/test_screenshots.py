"""The README's pictures: made by their command, and small."""

import re

import pytest
from PIL import Image
from report_data import item, write

from common.errors import UsageError
from dev import screenshots
from dev.browser import missing
from tests.conftest import ROOT

MOST = 200 * 1024  # bytes of a picture in the repository


def test_the_pictures_of_the_readme_are_those_of_the_command():
    folder = ROOT / "docs" / "images"
    assert {path.stem for path in folder.glob("*.png")} == {name for name, *_ in screenshots.SHOTS}
    for name, width, height, *_ in screenshots.SHOTS:
        with Image.open(folder / f"{name}.png") as picture:
            assert picture.size == (width, height)
        assert (folder / f"{name}.png").stat().st_size < MOST
    records = (ROOT / "results" / "reference").glob("*.jsonl")
    plots = {f"kernels-{path.stem}" for path in records}
    assert {re.sub(r"-\d$", "", path.stem) for path in folder.glob("*.svg")} == plots


@pytest.mark.skipif(bool(missing()), reason=str(missing()))
def test_pictures_of_other_results(tmp_path, monkeypatch):
    shot = ("phone", 390, 844, False, "main", screenshots.RECORDS)
    monkeypatch.setattr(screenshots, "SHOTS", [shot])
    monkeypatch.setattr(screenshots, "REFERENCE", tmp_path)
    monkeypatch.setattr(screenshots, "IMAGES", tmp_path)
    write(tmp_path / "some.jsonl", item(), item("two"), item("three"))
    assert screenshots.main([]) == 0
    with Image.open(tmp_path / "phone.png") as picture:
        assert picture.size == (390, 844)
        assert len(picture.convert("RGB").getcolors()) > 20  # there is something on it
    assert (tmp_path / "kernels-some.svg").stat().st_size > 1000


def test_results_of_which_no_page_can_be_made(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(screenshots, "REFERENCE", tmp_path)
    monkeypatch.setattr(screenshots, "IMAGES", tmp_path)
    (tmp_path / "bad.zip").write_text("rubbish")
    with pytest.raises(UsageError, match="no page was made"):
        screenshots.main([])
