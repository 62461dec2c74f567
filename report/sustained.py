"""The rate of a kernel over minutes, with clocks and temperatures: from metrics.sustained."""

from bisect import bisect_right

from common.stats import number
from common.text import figures
from report import draw
from report.draw import INK, Plot, label
from report.values import text

_LONGEST = 2000  # values of one line
_MOST_LINES = len(draw.SERIES)
_GROUPS = {  # of the machine's states: heading, unit, and what 1 unit is in the record
    "clocks_hz": ("clock", "MHz", 1e6),
    "temperatures_c": ("temperature", "°C", 1),
    "power_w": ("power", "W", 1),
}


def plots(found):
    """Return the Plots of [(Point, metrics.sustained)]; what is no such table is left out."""
    return [made for point, table in found if (made := plot(point, table))]


def plot(point, table):
    """Return the Plot of one long run, or None."""
    at, rates = _numbers(table.get("at_s")), _numbers(table.get("rates"))
    unit, verdict, why, rule = (text(table.get(key), 1000) for key in
                                ("unit", "verdict", "why", "rule"))
    first, last = number(table.get("first")), number(table.get("last"))
    if not at or len(at) != len(rates) or None in (*at, *rates, first, last):
        return None
    looked, lines = _states(table.get("states"))
    shown = [group for group in _GROUPS if lines[group]]

    def paint():
        rows = 1 + len(shown)
        figure, grid = draw.canvas(width=8.4, height=1 + 1.5 * rows, rows=rows, sharex=True,
                                   squeeze=False)
        axes = grid[:, 0]
        axes[0].plot(at, rates, color=INK, linewidth=1, marker=".", markersize=3)
        axes[0].set(ylabel=unit, ylim=(0, None))
        for axis, group in zip(axes[1:], shown):
            heading, of, _ = _GROUPS[group]
            for colour, (name, values) in zip(draw.SERIES, lines[group].items()):
                axis.plot(looked, values, color=colour, linewidth=1.4, label=label(name))
            axis.set_ylabel(f"{heading}, {of}")
            axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
        axes[-1].set(xlabel="seconds", xlim=(0, None))
        return figure

    series = [values for group in shown for values in lines[group].values()]
    columns = [("time", "s"), ("rate", unit)]
    columns += [(name, _GROUPS[group][1]) for group in shown for name in lines[group]]
    rows = [(when, rate, *(values[max(0, bisect_right(looked, when) - 1)] for values in series))
            for when, rate in zip(at, rates)]
    note = f"{point.board}, {point.device_name}: {figures(first)} {unit} at first, "
    note += f"{figures(last)} at the end. {verdict.capitalize()}: {why}. The rule: {rule}."
    title = f"{point.sample} {point.kernel} for {at[-1]:.0f} s"
    return Plot("", title, note, tuple(columns), rows, paint, wide=True)


def _numbers(values):
    """Return the values of a list as numbers or None each; an empty list of anything else."""
    known = isinstance(values, list) and len(values) <= _LONGEST
    return list(map(number, values)) if known else []


def _states(states):
    """Return when the machine was looked at, and {group: {name: values}}; a gap is None."""
    states = states if isinstance(states, dict) else {}
    looked, lines = _numbers(states.get("at_s")), {group: {} for group in _GROUPS}
    if None in looked:
        looked = []
    for group, (_, _, unit) in _GROUPS.items():
        table = states.get(group)
        for name, values in list(table.items())[:_MOST_LINES] if isinstance(table, dict) else ():
            values = _numbers(values)
            if looked and len(values) == len(looked):
                lines[group][text(name, 80)] = [None if v is None else v / unit for v in values]
    return looked, lines
