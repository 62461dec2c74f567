"""What happened in time: the cases of a run, and the rate of a kernel over minutes.

The timeline of a run is from the outcomes of its cases and their records; a long run's rates, with
clocks and temperatures, are in metrics.sustained.
"""

from bisect import bisect_right
from datetime import datetime
from typing import NamedTuple

from matplotlib.patches import Patch

from common.files import object_in
from common.stats import grouped, number
from common.text import figures
from report import draw
from report.draw import FADED, INK, SERIES, Plot, label
from report.values import text

MOST_TIMELINES = 12  # of the boards that ran last
_LONGEST = 2000  # values of one line
_MOST_LINES = len(SERIES)
_GROUPS = {  # of the machine's states: heading, unit, and what 1 unit is in the record
    "clocks_hz": ("clock", "MHz", 1e6),
    "temperatures_c": ("temperature", "°C", 1),
    "power_w": ("power", "W", 1),
}
_PHASES = {"python, imports": FADED, "build, inputs, check": SERIES[7], "timed launches": SERIES[0]}
_STAGES = {"queued": SERIES[1], "wait": SERIES[3], "run": SERIES[2]}


class Case(NamedTuple):
    """One case of a run, in seconds.

    `at` counts from the start of the run. `start_up` is python and its imports; None where it is
    not known. `launches` is the host's time around the timed launches, and `stages` says by name
    how long they were queued, did wait and run, by the device's events.
    """

    name: str
    at: float
    wall: float
    start_up: float | None
    launches: float
    stages: dict

    @property
    def phases(self):
        """The seconds of each of _PHASES."""
        start_up = self.start_up or 0.0
        return start_up, self.wall - start_up - self.launches, self.launches


def timelines(phases):
    """Return (run, its Cases in their order) for each board: the newest run with the most cases.

    `phases` are the Reader's, by Source.
    """
    runs = grouped(phases, lambda source: source.run)
    best = {run.board: run for run in sorted(runs, key=lambda run: (len(runs[run]), run.name))}
    newest = sorted(best.values(), key=lambda run: run.name, reverse=True)[:MOST_TIMELINES]
    return [(run, cases) for run in newest if (cases := _cases(runs[run], phases))]


def _cases(sources, phases):
    outcomes = [(source, outcome) for source in sources if (outcome := _outcome(source))]
    clock = "clock" if all("clock" in outcome for _, outcome in outcomes) else "started"
    first = min((outcome[clock] for _, outcome in outcomes), default=0)
    cases = []
    for source, outcome in outcomes:
        seen, wall = phases[source], outcome["seconds"]
        launches = min(seen.stages["host_s"], wall)
        start_up = _seconds_between(outcome["started"], seen.started)
        if start_up is not None and not 0 <= start_up <= wall - launches:
            start_up = None
        stages = {name: seen.stages[f"{name}_s"] for name in _STAGES}
        name, at = f"{source.sample} {source.case}", outcome[clock] - first
        cases.append(Case(name, at, wall, start_up, launches, stages))
    return sorted(cases, key=lambda case: case.at)


def _outcome(source):
    """Return the outcome of a case if its times are numbers, else None."""
    value = object_in(source.path.with_suffix(".outcome.json"))
    times = {key: number(value.get(key)) for key in ("started", "seconds", "clock")}
    times = {key: time for key, time in times.items() if time is not None}
    return times if "started" in times and times.get("seconds", 0) > 0 else None


def _seconds_between(epoch, iso):
    try:
        return datetime.fromisoformat(iso).timestamp() - epoch
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def plot(run, cases):
    """Return the Plot of the Cases of a run: a bar for each, and what its launches consist of."""
    names = [case.name for case in cases]
    wall, launches = max(c.at + c.wall for c in cases), sum(c.launches for c in cases)
    stages = _STAGES if launches else {}  # --build-only enqueues nothing

    def paint():
        figure, grid = draw.canvas(
            width=8.4, height=1.3 + 0.24 * len(names), columns=2 if stages else 1, sharey=True,
            width_ratios=(3, 1) if stages else None, squeeze=False,
        )
        left, right = grid[0, 0], grid[0, -1]
        for at, case in enumerate(cases):
            _bar(left, at, case.at, case.phases, _PHASES)
            total = sum(case.stages.values()) or 1
            if stages:
                _bar(right, at, 0, [100 * s / total for s in case.stages.values()], stages)
        draw.rows(left, names)
        left.set(xlabel="seconds of wall time")
        if stages:
            right.grid(axis="y", visible=False)
            right.set(xlabel="% of the launches", xlim=(0, 100))
        patches = [Patch(color=colour, label=name) for name, colour in (_PHASES | stages).items()]
        figure.legend(handles=patches, loc="outside lower center", ncols=6, columnspacing=1.2,
                      handlelength=1)
        return figure

    rows = [
        (case.name, case.at, case.wall, case.start_up, *case.phases[1:],
         *(1e3 * seconds for seconds in case.stages.values()),
         100 * (1 - case.launches / case.wall))
        for case in cases
    ]
    columns = (("case", ""), ("starts at", "s"), ("wall", "s"), *((name, "s") for name in _PHASES),
               *((name, "ms") for name in _STAGES), ("set-up", "%"))
    note = f"{wall:.1f} s of wall time"
    note += (
        f", of which {1 - launches / wall:.1%} was set-up. The timed launches took "
        f"{launches:.3g} s. Right: the time of the launches, by the device's events."
    ) if stages else "; nothing was timed."
    return Plot("", f"Timeline of {run.label}", note, columns, rows, paint, wide=True)


def _bar(axes, at, start, lengths, colours):
    """Draw a bar of several parts, from `start` on."""
    for length, colour in zip(lengths, colours.values()):
        axes.barh(at, length, left=start, color=colour, height=0.7)
        start += length


# Long runs.


def long_runs(found):
    """Return the Plots of [(Point, metrics.sustained)]; what is no such table is left out."""
    return [made for point, table in found if (made := _long_run(point, table))]


def _long_run(point, table):
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
            for colour, (name, values) in zip(SERIES, lines[group].items()):
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
