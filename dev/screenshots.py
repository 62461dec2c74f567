"""Make the pictures of results/reference in docs/images: the page, and the kernels of each file."""

import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image

from common import programs
from common.arguments import Parser
from common.errors import PASSED, UsageError
from dev.browser import browser, open_page
from report import __main__ as program

ROOT = Path(__file__).resolve().parents[1]
REFERENCE, IMAGES = ROOT / "results" / "reference", ROOT / "docs" / "images"
COLOURS = 256  # of a picture: enough for a page, and a third of the bytes
RUNS, RECORDS = "*.zip", "*.jsonl"  # of results/reference
# name, width and height in pixels, dark, what is at the top, of what
SHOTS = (
    ("report", 1200, 1000, False, "main", RUNS),
    ("report-plots", 1200, 1000, True, "#gemm", RECORDS),
    ("report-timeline", 1200, 1060, False, "#timeline", RUNS),
    ("report-points", 1200, 620, False, "#points", RUNS),
    ("report-phone", 390, 844, False, "main", RUNS),
)


def main(argv):
    Parser("dev.screenshots", __doc__, None).parse_args(argv)
    for name, width, height, dark, top, which in SHOTS:
        with tempfile.TemporaryDirectory() as folder:
            picture = take(report(folder, *sorted(REFERENCE.glob(which))), width, height, dark, top)
        picture.save(IMAGES / f"{name}.png", "PNG", optimize=True)
    for path in REFERENCE.glob(RECORDS):
        draw_kernels(path)
    return PASSED


def report(folder, *args):
    """Make a page of the results in a folder; return its path. Raises UsageError."""
    page = Path(folder, "page.html")
    if program.main([*map(str, args), "--output", str(page)]):
        raise UsageError("no page was made")
    return page


def draw_kernels(records):
    """Write the kernels' plots of a file as kernels-<file>.svg, kernels-<file>-2.svg ..."""
    with tempfile.TemporaryDirectory() as folder:
        report(folder, records, "--figures", folder)
        for number, drawn in enumerate(sorted(Path(folder).glob("kernels-at-*.svg")), 1):
            more = f"-{number}" if number > 1 else ""
            shutil.copy(drawn, IMAGES / f"kernels-{records.stem}{more}.svg")


def take(page, width, height, dark, top):
    """Return a picture of the page, scrolled to the first element of the selector `top`."""
    with browser(width, height, dark) as driver:
        open_page(driver, page)
        if top != "main":
            driver.execute_script("document.querySelector(arguments[0])?.scrollIntoView()", top)
        shot = io.BytesIO(driver.get_screenshot_as_png())
    picture = Image.open(shot).convert("RGB")
    return picture.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)


if __name__ == "__main__":
    sys.exit(programs.run("dev.screenshots", main, sys.argv[1:]))
