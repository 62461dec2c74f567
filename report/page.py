"""Make one self-contained HTML page of all results."""

import base64
import hashlib
import re
from collections import Counter
from datetime import datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from common.record import STATUSES
from common.stats import grouped
from common.text import figures
from report import compare, draw, overview, rows

_TEMPLATES = Path(__file__).with_name("templates")
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
MOST = 100  # notices, problems, machines
MOST_PLOTS = 60  # of matrix multiplication: then name a board
MOST_ROWS = 500  # of a plot's numbers, or of a comparison


def stream(read, gemm, timelines, comparisons, baseline):
    """Return the page as a stream, which makes its text while it is read: it can be very long.

    `read` is the Reader of the results, `gemm` and `timelines` are Plots, `comparisons` the
    rows of compare() with the baseline of that name, or None.
    """
    points = read.points
    style, script = ((_TEMPLATES / name).read_text("utf-8") for name in ("style.css", "table.js"))
    verdicts = Counter(row["Verdict"] for row in comparisons or ())
    devices = {board: dict.fromkeys(p.device_name for p in own if p.device)
               for board, own in grouped(points, lambda p: p.board).items()}
    tiles = _tiles(points, read.records, len(devices))
    if comparisons is not None:
        worse = verdicts["worse"]
        tiles.append(("worse than the baseline", worse, "bad" if worse else "good"))
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )
    environment.filters["cell"] = cell
    return environment.get_template("page.html").stream(
        subtitle=_subtitle(points, sorted(devices)), policy=_policy(script),
        style=Markup(style), script=Markup(script), tiles=tiles,
        notices=read.notices, problems=overview.problems(points),
        overview=overview.table(points), devices=devices,
        comparisons=comparisons, baseline=baseline, rule=compare.RULE, verdicts=verdicts,
        most=MOST, most_rows=MOST_ROWS,
        gemm=_drawn(gemm[:MOST_PLOTS], 0), gemm_full=len(gemm) > MOST_PLOTS,
        timelines=_drawn(timelines, MOST_PLOTS),
        machines=overview.machines(points), archives=read.archives,
        builds=overview.built(points), builds_note=overview.BUILT_NOTE, data=rows.packed(points),
    )


def cell(value):
    """Return a number as a table shows it; a text as it is."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.2e}" if 0 < abs(value) < 0.001 else figures(value)
    return str(value)


def _policy(script):
    """Return the Content-Security-Policy: this script, these styles, nothing from outside."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _subtitle(points, boards):
    days = {p.started[:10] for p in points if _DAY.match(p.started)}
    when = f"Measured {' to '.join(sorted({min(days), max(days)}))}, page" if days else "Page"
    made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return f"{', '.join(boards[:12])}. {when} made {made}."


def _tiles(points, records, boards):
    """Return (name, number, tone) of each tile."""
    counts = Counter(point.status for point in points)
    tones = {"passed": "good", "built": "", "unsupported": ""}
    tiles = [("board" if boards == 1 else "boards", boards, ""), ("points", len(points), ""),
             ("records", records, "")]
    tiles += [(status, counts[status], tones.get(status, "bad"))
              for status in ("passed", *STATUSES[:0:-1]) if counts[status]]
    throttled = sum(bool(point.throttled) for point in points)
    return [*tiles, ("throttled", throttled, "bad")] if throttled else tiles


def _drawn(plots, first):
    """Return [(where, [(Plot, its <svg>)])]; each figure has names of its own."""
    drawn = [(plot, Markup(draw.svg_for_page(plot, n))) for n, plot in enumerate(plots, first)]
    return list(grouped(drawn, lambda each: each[0].where).items())
