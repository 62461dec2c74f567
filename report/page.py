"""Make one self-contained HTML page of all results."""

import base64
import hashlib
import re
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from common.text import figures
from report import compare, draw, machines, overview, rows
from report.points import SEVERITY

_TEMPLATES = Path(__file__).with_name("templates")
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
MOST_NOTICES = 50
MOST_PLOTS = 60  # of matrix multiplication: then name a board
MOST_MACHINES = 100
MOST_ROWS = 500  # of a plot's numbers, or of a comparison


@dataclass(frozen=True)
class Contents:
    """All that the page shows.

    `points` are of this report, `comparisons` those with the baseline called `baseline` (or None),
    `gemm` and `timelines` Plots, `archives` lines on the archives that were read.
    """

    points: list
    records: int
    notices: list
    gemm: list
    timelines: list
    comparisons: list | None = None
    baseline: str | None = None
    archives: tuple = ()


def stream(contents):
    """Return the page as a stream, which makes its text while it is read: it can be very long."""
    style, script = (
        (_TEMPLATES / name).read_text(encoding="utf-8") for name in ("style.css", "table.js")
    )
    points = contents.points
    problems, count = overview.problems(points)
    columns, lines = overview.table(points)
    boards = sorted({point.board for point in points})
    gemm = _numbered(contents.gemm[:MOST_PLOTS], 0)
    timelines = _numbered(contents.timelines, MOST_PLOTS)
    comparison = _comparison(contents)
    return _environment().get_template("page.html").stream(
        title="OpenCL samples: results",
        subtitle=_subtitle(contents, boards),
        policy=_policy(script),
        style=Markup(style),
        script=Markup(script),
        sections=_sections(problems, comparison, gemm, timelines),
        tiles=_tiles(contents, boards),
        notices=contents.notices[:MOST_NOTICES],
        more_notices=max(0, len(contents.notices) - MOST_NOTICES),
        problems=problems,
        more_problems=count - len(problems),
        overview={"columns": columns, "rows": lines, "devices": _devices(points)},
        comparison=comparison,
        gemm_plots=gemm,
        gemm_full=len(contents.gemm) > MOST_PLOTS,
        timeline_plots=timelines,
        machines=machines.machines(points)[:MOST_MACHINES],
        archives=contents.archives,
        footer="Times are from the device's events, or from the host's clock if these have none. "
               "A point has all launches of one kernel with the same parameters, code and machine.",
        data=map(Markup, rows.data(points)),
    )  # fmt: skip


def _environment():
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {
        "percent": lambda value: f"{100 * value:.{0 if value > 0.0995 else 1}f} %",
        "signed_percent": lambda value: f"{100 * value:+.1f} %",
        "cell": cell,
        "median_ms": median_ms,
        "first_few": first_few,
    }
    return environment


def cell(value):
    """Return a number as a table shows it; a text as it is."""
    if value is None:
        return ""
    if isinstance(value, float):
        return "0" if value == 0 else figures(value) if value >= 0.001 else f"{value:.2e}"
    return str(value)


def median_ms(times):
    """Return a Spread of times as text: the median, and the spread in brackets."""
    return f"{times.median * 1e3:.4g} ({times.relative:.1%})" if times else ""


def first_few(names, most=12):
    """Return some of many names as a text."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _policy(script):
    """Return the Content-Security-Policy: this script, these styles, nothing from outside."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _subtitle(contents, boards):
    days = sorted({p.started[:10] for p in contents.points if _DAY.match(p.started)})
    when = f"Measured {' to '.join(dict.fromkeys((days[0], days[-1])))}, page" if days else "Page"
    made = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return f"{', '.join(islice(boards, 12))}. {when} made {made}."


def _tiles(contents, boards):
    counts = dict.fromkeys(SEVERITY, 0)
    for point in contents.points:
        counts[point.status] += 1
    tiles = [("board" if len(boards) == 1 else "boards", len(boards), ""),
             ("points", len(contents.points), ""), ("records", contents.records, ""),
             ("passed", counts["passed"], "good")]  # fmt: skip
    tiles += [(s, counts[s], "bad" if s in ("error", "failed") else "") for s in SEVERITY[:0:-1]]
    if throttled := sum(bool(point.throttled) for point in contents.points):
        tiles.append(("throttled", throttled, "bad"))
    if contents.comparisons is not None:
        worse = sum(c.verdict == "worse" for c in contents.comparisons)
        tiles.append(("worse than the baseline", worse, "bad" if worse else "good"))
    return [{"name": name, "value": f"{value:,}".replace(",", " "), "tone": tone}
            for name, value, tone in tiles if value or name not in SEVERITY]  # fmt: skip


def _devices(points):
    found = {}
    for point in points:
        if point.device:
            found.setdefault(point.board, {})[point.device_name] = None
        else:
            found.setdefault(point.board, {})
    return found


def _comparison(contents):
    if contents.comparisons is None:
        return None
    every = contents.comparisons
    counts = dict.fromkeys(compare.VERDICTS, 0)
    for each in every:
        counts[each.verdict] += 1
    return {
        "name": contents.baseline, "rule": compare.RULE,
        "counts": [(verdict, count) for verdict, count in counts.items() if count],
        "shown": every[:MOST_ROWS], "more": max(0, len(every) - MOST_ROWS),
    }  # fmt: skip


def _numbered(plots, first):
    """Return [(where, plots)] for the template, drawn; each figure has names of its own."""
    groups = {}
    for number, plot in enumerate(plots, first):
        groups.setdefault(plot.where, []).append({
            "title": plot.title, "note": plot.note, "columns": plot.columns, "wide": plot.wide,
            "rows": plot.rows[:MOST_ROWS], "more": max(0, len(plot.rows) - MOST_ROWS),
            "svg": Markup(draw.svg_for_page(draw.drawn(plot), number)),
        })  # fmt: skip
    return list(groups.items())


def _sections(problems, comparison, gemm, timelines):
    there = (
        ("problems", "Not passed", problems), ("overview", "Overview", True),
        ("comparison", "Comparison", comparison), ("gemm", "Matrix multiplication", gemm),
        ("timeline", "Timeline", timelines), ("machines", "Machines", True),
        ("points", "All points", True),
    )  # fmt: skip
    return [(anchor, name) for anchor, name, wanted in there if wanted]
