"""What happened in time: the cases of a run, and the rate of a kernel over minutes.

The timeline of a run is from the outcomes of its cases and their records; a long run's rates, with
clocks and temperatures, are in metrics.sustained.
"""

from bisect import bisect_right
from datetime import datetime

from matplotlib.patches import Patch

from common.stats import grouped, number
from common.text import figures
from report import draw
from report.draw import FADED, INK, SERIES, Plot, label
from report.values import text

MOST_TIMELINES = 12  # of the boards that ran last
_LONGEST = 2000  # values of one line
_MOST_LINES = len(SERIES)
_GROUPS = {  # of the machine's states: heading with its unit, and what 1 unit is in the record
    "clocks_hz": ("clock, MHz", 1e6),
    "temperatures_c": ("temperature, °C", 1),
    "power_w": ("power, W", 1),
}
_START_UP, _SET_UP, _LAUNCHES = "python, imports, s", "build, inputs, check, s", "timed launches, s"
_PHASES = {_START_UP: FADED, _SET_UP: SERIES[7], _LAUNCHES: SERIES[0]}
_STAGES = {"queued, ms": SERIES[1], "wait, ms": SERIES[3], "run, ms": SERIES[2]}


def timelines(phases):
    """Return a Plot for each board: the newest run with the most cases.

    `phases` are the Reader's, by Source.
    """
    runs = grouped(phases, lambda source: source.run)
    best = {run.board: run for run in sorted(runs, key=lambda run: (len(runs[run]), run.name))}
    newest = sorted(best.values(), key=lambda run: run.name, reverse=True)[:MOST_TIMELINES]
    return [_timeline(run, cases) for run in newest if (cases := _cases(runs[run], phases))]


def _cases(sources, phases):
    """Return the cases of a run in their order, each as a row of the plot's table."""
    outcomes = [(source, outcome) for source in sources if (outcome := _outcome(source))]
    clock = "clock" if all("clock" in outcome for _, outcome in outcomes) else "started"
    first = min((outcome[clock] for _, outcome in outcomes), default=0)
    rows = []
    for source, outcome in outcomes:
        stages, wall = phases[source].stages, outcome["seconds"]
        launches = min(stages["host_s"], wall)
        start_up = _seconds_between(outcome["started"], phases[source].started)
        if start_up is not None and not 0 <= start_up <= wall - launches:
            start_up = None  # it is not known, and part of the set-up
        times = start_up, wall - launches - (start_up or 0), launches
        rows.append({
            "case": f"{source.sample} {source.case}", "starts at, s": outcome[clock] - first,
            "wall, s": wall, **dict(zip(_PHASES, times)),
            **{f"{name}, ms": 1e3 * stages[f"{name}_s"] for name in ("queued", "wait", "run")},
            "set-up, %": 100 * (1 - launches / wall),
        })
    return sorted(rows, key=lambda row: row["starts at, s"])


def _outcome(source):
    """Return the outcome of a case if its times are numbers, else None."""
    outcome = source.outcome
    times = {key: number(outcome.get(key)) for key in ("started", "seconds", "clock")}
    times = {key: time for key, time in times.items() if time is not None}
    return times if "started" in times and times.get("seconds", 0) > 0 else None


def _seconds_between(epoch, iso):
    try:
        return datetime.fromisoformat(iso).timestamp() - epoch
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def _timeline(run, cases):
    """Return the Plot of the cases of a run: a bar for each, and what its launches consist of."""
    wall = max(case["starts at, s"] + case["wall, s"] for case in cases)
    launches = sum(case[_LAUNCHES] for case in cases)
    stages = _STAGES if launches else {}  # --build-only enqueues nothing

    def paint():
        figure, grid = draw.canvas(
            width=8.4, height=1.3 + 0.24 * len(cases), columns=2 if stages else 1, sharey=True,
            width_ratios=(3, 1) if stages else None, squeeze=False,
        )
        left, right = grid[0, 0], grid[0, -1]
        for at, case in enumerate(cases):
            _bar(left, at, case["starts at, s"], case, _PHASES)
            if stages:
                total = sum(map(case.get, stages)) or 1
                _bar(right, at, 0, {name: 100 * case[name] / total for name in stages}, stages)
        draw.rows(left, [case["case"] for case in cases])
        left.set(xlabel="seconds of wall time")
        if stages:
            right.grid(axis="y", visible=False)
            right.set(xlabel="% of the launches", xlim=(0, 100))
        patches = [Patch(color=colour, label=name.rpartition(",")[0])
                   for name, colour in (_PHASES | stages).items()]
        figure.legend(handles=patches, loc="outside lower center", ncols=6, columnspacing=1.2,
                      handlelength=1)
        return figure

    note = f"{wall:.1f} s of wall time"
    note += (
        f", of which {1 - launches / wall:.1%} was set-up. The timed launches took "
        f"{launches:.3g} s. Right: the time of the launches, by the device's events."
    ) if stages else "; nothing was timed."
    return Plot(f"Timeline of {run.board}/{run.name}", note, cases, paint, wide=True)


def _bar(axes, at, start, lengths, colours):
    """Draw a bar of several parts, from `start` on."""
    for name, colour in colours.items():
        axes.barh(at, lengths[name] or 0, left=start, color=colour, height=0.7)
        start += lengths[name] or 0


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
    looked, groups = _states(table.get("states"))

    def paint():
        rows = 1 + len(groups)
        figure, grid = draw.canvas(width=8.4, height=1 + 1.5 * rows, rows=rows, sharex=True,
                                   squeeze=False)
        axes = grid[:, 0]
        axes[0].plot(at, rates, color=INK, linewidth=1, marker=".", markersize=3)
        axes[0].set(ylabel=unit, ylim=(0, None))
        for axis, (heading, lines) in zip(axes[1:], groups.items()):
            for colour, (name, values) in zip(SERIES, lines.items()):
                axis.plot(looked, values, color=colour, linewidth=1.4, label=label(name))
            axis.set_ylabel(heading)
            axis.legend(loc="upper left", bbox_to_anchor=(1, 1))
        axes[-1].set(xlabel="seconds", xlim=(0, None))
        return figure

    rows = []
    for when, rate in zip(at, rates):
        before = max(0, bisect_right(looked, when) - 1)
        rows.append({"time, s": when, f"rate, {unit}": rate, **{
            f"{name}: {heading}": values[before]
            for heading, lines in groups.items() for name, values in lines.items()}})
    note = f"{point.board}, {point.device_name}: {figures(first)} {unit} at first, "
    note += f"{figures(last)} at the end. {verdict.capitalize()}: {why}. The rule: {rule}."
    title = f"{point.sample} {point.kernel} for {at[-1]:.0f} s"
    return Plot(title, note, rows, paint, wide=True)


def _numbers(values):
    """Return the values of a list as numbers or None each; an empty list of anything else."""
    known = isinstance(values, list) and len(values) <= _LONGEST
    return list(map(number, values)) if known else []


def _states(states):
    """Return when the machine was looked at, and {heading: {name: values}}; a gap is None."""
    states = states if isinstance(states, dict) else {}
    looked, groups = _numbers(states.get("at_s")), {}
    looked = [] if None in looked else looked
    for key, (heading, unit) in _GROUPS.items():
        table = states.get(key)
        for name, values in list(table.items())[:_MOST_LINES] if isinstance(table, dict) else ():
            values = _numbers(values)
            if looked and len(values) == len(looked):
                lines = groups.setdefault(heading, {})
                lines[text(name, 80)] = [None if v is None else v / unit for v in values]
    return looked, groups
