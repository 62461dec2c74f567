"""Draw plots with Matplotlib, for the page and as files. Nothing here knows a record.

Plots are drawn in the colours of the light page. On the page each colour becomes a variable of the
style sheet, so that the dark page shows the same plot in its own colours; text stays text.
"""

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from textwrap import fill

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from common.text import figures, printable

INK, MUTED, LINE, PAPER = "#1b2530", "#5a6675", "#d5dbe3", "#fdfefe"
SERIES = ("#2563c9", "#c2570c", "#15805a", "#8145c9", "#c72c62", "#0c7f92", "#84690a", "#66727f")
MARKERS = "osD^vPX*"
FADED = "#9aa5b1"  # what has no colour of its own
_VARIABLES = {INK: "--ink", MUTED: "--muted", LINE: "--line", PAPER: "--paper", FADED: "--faded"}
_VARIABLES |= {colour: f"--series-{number}" for number, colour in enumerate(SERIES, 1)}
LONGEST_LABEL = 32  # characters; the table beside a plot has it all
LONGEST_NAME = 200  # of a legend, in lines of _LEGEND_LINE: these fit into a plot
_LEGEND_LINE = 64
_FEW = 100  # times: a logarithmic axis that spans less has at most two powers of 10

_STYLE = {
    "svg.fonttype": "none",  # text as text: small, and a screen reader can read it
    "svg.hashsalt": "report",  # the same plot gives the same file
    "text.parse_math": False,  # a $ in a name is a $
    "font.size": 10.5, "font.family": "sans-serif", "text.color": INK,
    "axes.edgecolor": MUTED, "axes.labelcolor": INK, "axes.titlesize": 10.5,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "axes.axisbelow": True,
    "grid.color": LINE, "grid.linewidth": 0.8, "lines.linewidth": 1.8, "lines.markersize": 5.5,
    "xtick.color": MUTED, "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK,
    "legend.frameon": False, "legend.fontsize": 9,
    "figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none",
}


@dataclass(frozen=True)
class Plot:
    """A plot and its numbers as a table. `draw()` returns the Figure.

    `rows` have a text or a number by heading. `where` says what it is of: plots of one board and
    device stand together.
    """

    title: str
    note: str
    rows: list
    draw: Callable
    where: str = ""
    wide: bool = False

    @property
    def name(self):
        """The name of its file: small letters, digits and dashes."""
        return re.sub("[^a-z0-9]+", "-", f"{self.title} {self.where}".lower()).strip("-")[:100]


def canvas(width=5.6, height=3.5, rows=1, columns=1, **more):
    """Return a Figure of a size in inches, and its axes."""
    empty = Figure((width, height), layout="constrained")
    return empty, empty.subplots(rows, columns, **more)


def label(name, longest=LONGEST_LABEL):
    """Return a name as it may stand in a plot: matplotlib hides what begins with _."""
    name = printable(name)
    name = name if len(name) <= longest else f"{name[: longest - 1]}…"
    return f" {name}" if name.startswith("_") else name


def colour(number):
    """Return (colour, marker) of a series; those beyond the palette are faded."""
    return (SERIES[number], MARKERS[number]) if number < len(SERIES) else (FADED, ".")


def rows(axes, names):
    """Name the rows of a bar chart, from the top. However many there are, none is left empty."""
    axes.set_yticks(range(len(names)), list(map(label, names)))
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def legend(axes, others=0):
    """Write the names of the series below, without most of the faded; `others` come before them.

    It has as many columns as there is room for, and the figure grows by its height.
    """
    handles, names = axes.get_legend_handles_labels()
    shown = others + len(SERIES)
    if len(names) > shown:
        names[shown:] = [f"and {len(names) - shown} slower"]
    names = [fill(name, _LEGEND_LINE, break_on_hyphens=False) for name in names]
    figure = axes.figure
    for columns in (3, 2, 1):
        made = figure.legend(handles[: len(names)], names, loc="outside lower center",
                             ncols=columns, columnspacing=1.2, handlelength=1.6)
        extent = made.get_window_extent()
        if columns == 1 or extent.width <= figure.bbox.width:
            break
        made.remove()
    figure.set_figheight(figure.get_figheight() + extent.height / figure.dpi)


def powers_of_2(axes, values):
    """Make the x axis logarithmic, with ticks at the values, as far as they have room."""
    axes.set_xscale("log", base=2)
    ticks = []
    for value in sorted(set(values), reverse=True):
        if not ticks or value < ticks[-1] / 1.35:
            ticks.append(value)
    # The order of a product that is not square is no whole number.
    axes.set_xticks(ticks, [figures(round(tick) if tick >= 10 else tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def numbers(axes):
    """Write numbers at logarithmic axes as they are: 0.1, 1, 10; on short axes 0.2 and 0.5, too."""
    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < _FEW * low else (1,)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")


def svg_for_page(plot, number):
    """Return a Plot as an <svg> element for an HTML page, its names unique by `number`."""
    file = io.StringIO()
    _write(plot, file, format="svg")
    text = re.sub(r"^.*?(?=<svg)|<metadata>.*?</metadata>", "", file.getvalue(), flags=re.S)
    for value, variable in _VARIABLES.items():
        text = text.replace(value, f"var({variable})")
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\1p{number}-", text)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    # The caption and the table beside it say what it shows.
    return re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', r'<svg viewBox="\1" aria-hidden="true">',
                  text, count=1)


def save(plot, base):
    """Write a Plot as BASE.svg and BASE.png: for a README, on white."""
    _write(plot, f"{base}.svg", facecolor="white")
    _write(plot, f"{base}.png", facecolor="white", dpi=144)


def _write(plot, file, **more):
    """Draw in our style, and without a word on letters that its font does not have."""
    # Without its date the same plot gives the same file.
    metadata = None if str(file).endswith(".png") else {"Date": None}
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plot.draw().savefig(file, metadata=metadata, **more)
