"""Make the README's pictures: the page in a browser as PNG, the kernels of each file as SVG.

python -m dev.screenshots                        of results/reference, into docs/images
python -m dev.screenshots results -o /tmp/look   of other results, or into another folder
"""

import argparse
import base64
import io
import shutil
import sys
import tempfile
from pathlib import Path

from PIL import Image

from dev.browser import browser
from report import __main__ as program
from common.errors import OPENCL_FAILURE
from report.errors import ReportError

ROOT = Path(__file__).resolve().parents[1]
COLOURS = 256  # of a picture: enough for a page, and a third of the bytes
RUNS, RECORDS = "*.zip", "*.jsonl"  # of results/reference
# name, width and height in pixels, dark, what is at the top, of what
SHOTS = (
    ("report", 1200, 1000, False, "main", RUNS),
    ("report-plots", 1200, 1000, True, "#gemm", RECORDS),
    ("report-timeline", 1200, 760, False, "#timeline", RUNS),
    ("report-points", 1200, 620, False, "#points", RUNS),
    ("report-phone", 390, 844, False, "main", RUNS),
)


def main(argv=None):
    parser = argparse.ArgumentParser(prog="dev.screenshots", description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="*", type=Path, help="default: results/reference")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "images")
    args = parser.parse_args(argv)
    reference = ROOT / "results" / "reference"
    results = {
        which: args.results or sorted(reference.glob(which)) for which in (RUNS, RECORDS)
    }  # by the last of a shot
    if not all(results.values()):
        parser.error("there is nothing in results/reference: name results")
    try:
        args.output.mkdir(parents=True, exist_ok=True)
        take_all(results, args.output)
        for path in results[RECORDS]:
            draw_kernels(path, args.output)
    except ReportError as error:
        print(f"dev.screenshots: error: {error}", file=sys.stderr)
        return BROKEN
    return 0


def take_all(results, folder):
    """Write the pictures into the folder. `results` holds paths by the last of a shot."""
    with tempfile.TemporaryDirectory() as temporary:
        pages = {}
        for number, (which, paths) in enumerate(results.items()):
            pages[which] = Path(temporary, f"{number}.html")
            if program.main([*map(str, paths), "--output", str(pages[which])]):
                raise ReportError("no page was made")
        for name, width, height, dark, top, which in SHOTS:
            path = folder / f"{name}.png"
            path.write_bytes(take(pages[which], width, height, dark, top))
            print(f"{path}: {path.stat().st_size / 1024:.0f} KiB")


def draw_kernels(records, folder):
    """Write the kernels' plots of a file as kernels-<file>.svg, kernels-<file>-2.svg ..."""
    with tempfile.TemporaryDirectory() as temporary:
        page = Path(temporary, "page.html")
        if program.main([str(records), "--output", str(page), "--figures", temporary]):
            raise ReportError("no figures were made")
        for number, drawn in enumerate(sorted(Path(temporary).glob("kernels-at-*.svg")), 1):
            more = f"-{number}" if number > 1 else ""
            path = folder / f"kernels-{records.stem}{more}.svg"
            shutil.copy(drawn, path)
            print(f"{path}: {path.stat().st_size / 1024:.0f} KiB")


def take(page, width, height, dark, top):
    """Return a PNG of the page, scrolled to the first element of the selector `top`."""
    with browser(width, height, dark) as driver:
        driver.get(page.as_uri())
        if top != "main":
            driver.execute_script("document.querySelector(arguments[0])?.scrollIntoView()", top)
        shot = driver.execute_cdp_cmd("Page.captureScreenshot", {})
    picture = Image.open(io.BytesIO(base64.b64decode(shot["data"]))).convert("RGB")
    small = io.BytesIO()
    flat = picture.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    flat.save(small, "PNG", optimize=True)
    return small.getvalue()


if __name__ == "__main__":
    sys.exit(main())
