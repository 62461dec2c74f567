"""The README's pictures: made by their command, and small."""

import re

import pytest
from PIL import Image
from report_data import item, make_run

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
    monkeypatch.setattr(screenshots, "SHOTS", screenshots.SHOTS[-1:])
    make_run(tmp_path / "results", item(), item("two"), item("three"))
    assert screenshots.main([str(tmp_path / "results"), "-o", str(tmp_path)]) == 0
    with Image.open(tmp_path / "report-phone.png") as picture:
        assert picture.size == (390, 844)
        assert len(picture.convert("RGB").getcolors()) > 20  # there is something on it
    assert (tmp_path / "kernels-results.svg").stat().st_size > 1000


def test_without_results(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(screenshots, "ROOT", tmp_path)
    with pytest.raises(UsageError, match="name results"):
        screenshots.main([])
    with pytest.raises(UsageError, match="no page was made"):
        screenshots.main([str(tmp_path / "nowhere"), "-o", str(tmp_path)])
    assert "nowhere does not exist" in capsys.readouterr().err
