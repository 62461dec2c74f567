"""The timeline of a run, from the outcomes of its cases and their records."""

from dataclasses import dataclass
from datetime import datetime

from matplotlib.patches import Patch

from common.stats import number
from report import draw
from report.disk import object_in
from report.draw import FADED, SERIES, Plot

MOST_TIMELINES = 12  # of the boards that ran last
_STAGES = SERIES[1], SERIES[3], SERIES[2]  # queued, wait, run


@dataclass(frozen=True)
class Case:
    """One case of a run, in seconds.

    `at` counts from the start of the run. `start_up` is python and its imports; None where it is
    not known. `launches` is the host's time around the timed launches, and `queued`, `wait`
    and `run` what the device's events say of them.
    """

    sample: str
    name: str
    at: float
    wall: float
    start_up: float | None
    launches: float
    queued: float
    wait: float
    run: float

    @property
    def set_up(self):
        """All but the timed launches."""
        return self.wall - self.launches


@dataclass(frozen=True)
class Timeline:
    """The cases of one run in their order, and its wall time in seconds."""

    run: object
    cases: list
    wall: float

    @property
    def launches(self):
        return sum(case.launches for case in self.cases)

    @property
    def set_up_share(self):
        """The share of the wall time that was not spent in timed launches."""
        return 1 - self.launches / self.wall


def timelines(phases):
    """Return a Timeline for each board: of its run with the most cases, the newest of these.

    `phases` are the Collector's, by Source.
    """
    runs = {}
    for source in phases:
        runs.setdefault(source.run, []).append(source)
    best = {}
    for run, sources in runs.items():
        known = best.get(run.board)
        if known is None or (len(sources), run.name) > (len(runs[known]), known.name):
            best[run.board] = run
    chosen = sorted(best.values(), key=lambda run: run.name, reverse=True)[:MOST_TIMELINES]
    lines = (_timeline(run, runs[run], phases) for run in chosen)
    return [line for line in lines if line]


def _timeline(run, sources, phases):
    outcomes = {source: _outcome(source) for source in sources}
    outcomes = {source: outcome for source, outcome in outcomes.items() if outcome}
    if not outcomes:
        return None
    clock = "clock" if all("clock" in o for o in outcomes.values()) else "started"
    first = min(outcome[clock] for outcome in outcomes.values())
    cases = []
    for source, outcome in outcomes.items():
        seen, at, wall = phases[source], outcome[clock] - first, outcome["seconds"]
        launches = min(seen.stages["host_s"], wall)
        start_up = _seconds_between(outcome.get("started"), seen.started)
        if start_up is not None and not 0 <= start_up <= wall - launches:
            start_up = None
        stages = (seen.stages[name] for name in ("queued_s", "wait_s", "run_s"))
        cases.append(Case(source.sample, source.case, at, wall, start_up, launches, *stages))
    cases.sort(key=lambda case: case.at)
    return Timeline(run, cases, max(case.at + case.wall for case in cases))


def _outcome(source):
    """Return the outcome of a case if its times are numbers, else None."""
    value = object_in(source.path.with_suffix(".outcome.json"))
    times = {key: number(value.get(key)) for key in ("started", "seconds", "clock")}
    times = {key: time for key, time in times.items() if time is not None}
    return times if {"started", "seconds"} <= set(times) and times["seconds"] > 0 else None


def _seconds_between(epoch, iso):
    try:
        return datetime.fromisoformat(iso).timestamp() - epoch
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def plot(line):
    """Return the Plot of a Timeline: a bar for each case, and what its launches consist of."""
    names = [f"{case.sample} {case.name}" for case in line.cases]

    def paint():
        figure, (left, right) = draw.canvas(
            width=8.4, height=1.3 + 0.24 * len(names), columns=2, sharey=True,
            width_ratios=(3, 1),
        )  # fmt: skip
        for at, case in enumerate(line.cases):
            start = case.at
            for seconds, colour in _phases(case):
                left.barh(at, seconds, left=start, color=colour, height=0.7)
                start += seconds
            total, start = case.queued + case.wait + case.run, 0.0
            for seconds, colour in zip((case.queued, case.wait, case.run), _STAGES):
                right.barh(at, 100 * seconds / total if total else 0, left=start, color=colour,
                           height=0.7)  # fmt: skip
                start += 100 * seconds / total if total else 0
        left.set_yticks(range(len(names)), [draw.label(name) for name in names])
        left.invert_yaxis()
        left.set(xlabel="seconds of wall time")
        right.set(xlabel="% of the launches", xlim=(0, 100))
        for axes in (left, right):
            axes.grid(axis="y", visible=False)
        keys = {"python, imports": FADED, "build, inputs, check": SERIES[7],
                "timed launches": SERIES[0], "queued": _STAGES[0], "wait": _STAGES[1],
                "run": _STAGES[2]}  # fmt: skip
        patches = [Patch(color=colour, label=name) for name, colour in keys.items()]
        figure.legend(handles=patches, loc="outside lower center", ncols=6, columnspacing=1.2,
                      handlelength=1)  # fmt: skip
        return figure

    rows = [
        (name, case.at, case.wall, case.start_up, case.wall - case.launches - (case.start_up or 0),
         case.launches, case.queued * 1e3, case.wait * 1e3, case.run * 1e3,
         100 * case.set_up / case.wall)
        for name, case in zip(names, line.cases)
    ]  # fmt: skip
    columns = (("case", ""), ("starts at", "s"), ("wall", "s"), ("python, imports", "s"),
               ("build, inputs, check", "s"), ("timed launches", "s"), ("queued", "ms"),
               ("wait", "ms"), ("run", "ms"), ("set-up", "%"))  # fmt: skip
    note = (
        f"{line.wall:.1f} s of wall time, of which {line.set_up_share:.1%} was set-up. The "
        f"timed launches took {line.launches:.3g} s. Right: the time of the launches, by the "
        "device's events."
    )
    title = line.run.label
    name, heading = draw.slug("timeline", title), f"Timeline of {title}"
    return Plot(name, title, heading, note, columns, rows, paint, wide=True)


def _phases(case):
    """Return (seconds, colour) of a case's phases in their order."""
    start_up = case.start_up or 0.0
    rest = case.wall - start_up - case.launches
    return (start_up, FADED), (rest, SERIES[7]), (case.launches, SERIES[0])
