"""The plots of matrix multiplication, each with its numbers as a table."""

from statistics import median

from common.stats import grouped
from common.text import figures
from report import draw
from report.draw import FADED, INK, LONGEST_NAME, MUTED, PAPER, Plot, label

_BARS = "Medians; bars from the 10th to the 90th percentile of the launches."
_SHOWN_PARAMETERS = 6  # of a landscape
_SHOWN_RATES = 60  # of each value of a parameter: a plot of all of them would be a blot


def _row(gemm, **more):
    """Return the row of a table on a Gemm: `more`, its rates, and its parameters."""
    rate, unit = gemm.rate, gemm.unit
    return {**more, unit: rate.median, f"10th percentile, {unit}": rate.low,
            f"90th percentile, {unit}": rate.high, "launches": rate.count,
            "parameters": " ".join(gemm.point.words)}


def _reach(gemms, scales):
    """Return how far an error bar reaches below and above each median, times its scale."""
    return [[scale * (g.rate.median - g.rate.low) for g, scale in zip(gemms, scales)],
            [scale * (g.rate.high - g.rate.median) for g, scale in zip(gemms, scales)]]


def over_size(series, shared):
    """GFLOPS over the order. `series` is [(name, Gemms by size)]: a line for each.

    `shared` are the parameters, as words, of every kernel that has several sets of them.
    """
    every = [(name, g) for name, gemms in series for g in gemms]
    unit = every[0][1].unit

    def paint():
        figure, axes = draw.canvas(height=2.9)
        for number, (name, gemms) in enumerate(series):
            colour, marker = draw.colour(number)
            axes.errorbar([g.order for g in gemms], [g.gflops for g in gemms],
                          _reach(gemms, [1] * len(gemms)), color=colour, marker=marker,
                          capsize=2.5, elinewidth=1, label=label(name, LONGEST_NAME),
                          zorder=1 if colour == FADED else 3)
        draw.powers_of_2(axes, [g.order for _, g in every])
        axes.set(xlabel="order n", ylabel=unit, ylim=(0, None))
        draw.legend(axes)
        return figure

    rows = [_row(g, kernel=name, size=g.size_text) for name, g in every]
    note = f"{_BARS} A line has one set of parameters, except those that follow the size."
    if shared:
        note += f" Of kernels with several sets it has {' '.join(shared)}."
    if any(len(set(g.size)) > 1 for _, g in every):
        note += " M x N x K is drawn at the order of the square product with as many operations."
    return Plot(f"{unit} over size", note, rows, paint)


def kernels(steps):
    """Each kernel at one size as a bar. `steps` are Gemms, the baseline libraries last.

    With a library, a bar is the interleaved ratio to it, by the host's clock. GFLOPS of a kernel
    are by the device's clock, those of most libraries are not. Without a library a bar is the
    share of the fastest kernel's GFLOPS.
    """
    libraries = [gemm for gemm in steps if gemm.point.is_library]
    size, unit = steps[0].size_text, steps[0].unit
    # Of several libraries the one in whose rounds most were timed, else the fastest kernel.
    best = max(libraries or steps, key=lambda each: (
        sum(_ratio(gemm, each) is not None for gemm in steps), each.gflops))
    shares = [_ratio(gemm, best) if libraries else 100 * gemm.gflops / best.gflops
              for gemm in steps]
    how = (f", interleaved, by the host's clock. {unit} are of all runs, and by the device's clock "
           "if it has one: compare the percentages only.") if libraries else ", the fastest."

    def paint():
        figure, axes = draw.canvas(height=0.9 + 0.3 * len(steps))
        scales = [(share or 0) / gemm.gflops for share, gemm in zip(shares, steps)]
        reach = _reach(steps, scales)
        colours = [draw.SERIES[1 if gemm.point.is_library else 0] for gemm in steps]
        bars = axes.barh(range(len(steps)), [share or 0 for share in shares], xerr=reach,
                         height=0.66, color=colours,
                         error_kw={"ecolor": INK, "capsize": 2, "elinewidth": 1})
        percent = ["not in its rounds" if share is None else f"{share:.0f}%" for share in shares]
        texts = [f"{figures(g.gflops)} \u00b7 {text}" for g, text in zip(steps, percent)]
        axes.bar_label(bars, texts, padding=6, fontsize=9.5)
        draw.rows(axes, [gemm.name for gemm in steps])
        axes.set(xlabel=f"percent of {label(best.name)} at {size}; labels: {unit}",
                 xlim=(0, 1.35 * max((share or 0) + up for share, up in zip(shares, reach[1]))))
        return figure

    rows = [_row(gemm, **{"kernel": gemm.name, f"% of {best.name}": share})
            for gemm, share in zip(steps, shares)]
    note = f"{_BARS} Each kernel has its fastest parameters. Percent of {best.name}{how}"
    return Plot(f"Kernels at {size}", note, rows, paint)


def _ratio(gemm, best):
    """Return the rate in percent of that of `best`, in the same rounds; None: not known."""
    if gemm is best:
        return 100.0
    measured = gemm.point.metric(f"ratios.{best.name}")
    return measured and 100 * measured


def roofline(series, peak_gflops, peak_gbytes):
    """The roof that was measured, and every kernel and size as a point under it.

    A record's own ceiling is of that size, whose matrices a cache may hold: it goes before the
    roof, which is that of main memory.
    """
    every = [(name, g, g.point.metric("ceiling_gflops")) for name, gemms in series for g in gemms]
    own = sorted({(g.intensity, ceiling) for _, g, ceiling in every if ceiling})
    ridge = peak_gflops / peak_gbytes

    def paint():
        figure, axes = draw.canvas(height=2.9)
        ends = [g.intensity for _, g, _ in every] + [ridge]
        low, high = min(ends) / 2, max(ends) * 2
        axes.plot([low, ridge, high], [low * peak_gbytes, peak_gflops, peak_gflops], color=INK,
                  label=f"{figures(peak_gflops)} GFLOPS, {figures(peak_gbytes)} GB/s")
        if own:
            axes.plot(*zip(*own), "_", color=INK, markersize=14, label="ceiling at that size")
        for number, (name, gemms) in enumerate(series):
            colour, marker = draw.colour(number)
            axes.plot([g.intensity for g in gemms], [g.gflops for g in gemms], color=colour,
                      marker=marker, linewidth=0.8, label=label(name, LONGEST_NAME))
        axes.set(xscale="log", yscale="log", ylabel="GFLOPS",
                 xlabel="operations per byte that must be moved")
        draw.numbers(axes)
        draw.legend(axes, 2 if own else 1)
        return figure

    rows = []
    for name, g, ceiling in every:
        roof = ceiling or min(peak_gflops, g.intensity * peak_gbytes)
        rows.append({
            "kernel": name, "size": g.size_text, "operations per byte": g.intensity,
            "GFLOPS": g.gflops, "roof, GFLOPS": roof, "% of the roof": 100 * g.gflops / roof,
        })
    last = ("a dash is the ceiling of a size by the memory or the cache that holds it." if own
            else "points above it had their matrices in a cache.")
    note = (
        f"The roof was measured: {figures(peak_gflops)} GFLOPS, {figures(peak_gbytes)} GB/s. "
        "Operations per byte count A and B read once, C written once, and read if beta is not 0: "
        f"the least possible. The slope is that of main memory: {last}"
    )
    return Plot("Roofline", note, rows, paint)


def heat(title, names, cell, cells):
    """A heat map of Gemms by (x, y); `cell` is the format of a cell's name in the table."""
    across, down = (sorted({place[side] for place in cells}) for side in (0, 1))
    ranked = sorted(cells.items(), key=lambda item: -item[1].gflops)

    def paint():
        figure, axes = draw.canvas(height=0.9 + 0.36 * len(down))
        rates = {place: g.gflops for place, g in ranked}
        values = [[rates.get((x, y), float("nan")) for x in across] for y in down]
        axes.pcolormesh(values, cmap="viridis", edgecolors=PAPER, linewidth=1.5)
        middle = (ranked[0][1].gflops + ranked[-1][1].gflops) / 2
        for (x, y), rate in rates.items():
            colour = "black" if rate > middle else "white"
            axes.text(across.index(x) + 0.5, down.index(y) + 0.5, f"{rate:.3g}", ha="center",
                      va="center", fontsize=9, color=colour)
        axes.set_xticks([i + 0.5 for i in range(len(across))], [f"{x:g}" for x in across])
        axes.set_yticks([i + 0.5 for i in range(len(down))], [f"{y:g}" for y in down])
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.set(xlabel=names[0], ylabel=names[1])
        return figure

    rows = [_row(g, cell=cell.format(*place)) for place, g in ranked]
    unit = ranked[0][1].unit
    note = f"The best {unit} of each; brighter is faster. An empty cell was not run, or failed."
    return Plot(title, note, rows, paint)


def landscape(title, gemms):
    """GFLOPS over each parameter that was varied: what was tried, and the best of each value."""
    found, unit = _by_effect(gemms), gemms[0].unit
    names = list(found)

    def paint():
        columns = min(3, len(names))
        lines = -(-len(names) // columns)
        figure, grid = draw.canvas(height=0.6 + 1.7 * lines, rows=lines, columns=columns,
                                   squeeze=False, sharey=True)
        for axes, (name, tried) in zip(grid.flat, found.items()):
            for at, rates in enumerate(tried.values()):
                # Evenly chosen by rank.
                shown = sorted(rates)[:: -(-len(rates) // _SHOWN_RATES)]
                axes.plot([at] * len(shown), shown, "_", color=MUTED, alpha=0.5, markersize=9)
            axes.plot([max(rates) for rates in tried.values()], color=draw.SERIES[0], marker="o")
            axes.set_xticks(range(len(tried)), [label(value)[:8] for value in tried])
            axes.set(title=label(name)[:24], ylim=(0, None))
        for axes in grid.flat[len(names) :]:
            axes.set_visible(False)
        for axes in grid[:, 0]:
            axes.set_ylabel(unit)
        return figure

    rows = [{"parameter": name, "value": value, "tried": len(rates), f"best, {unit}": max(rates),
             f"median, {unit}": median(rates), f"worst, {unit}": min(rates)}
            for name in names for value, rates in found[name].items()]
    fastest = max(gemms, key=lambda g: g.gflops)
    chosen = " ".join(f"{name}={fastest.choices.get(name)}" for name in names)
    note = (
        f"{len(gemms)} combinations, each a dash; the line connects the best of each value. "
        f"Fastest: {chosen}, {figures(fastest.gflops)} {unit}."
    )
    return Plot(title, note, rows, paint)


def _by_effect(gemms):
    """Return the rates by value, numbers in their order, of each parameter that varies.

    First come those on which the rate depends most.
    """
    tried = [(g.choices, g.gflops) for g in gemms]
    effects = {}
    for name in sorted({name for choices, _ in tried for name in choices}):
        rates = grouped(tried, lambda each, name=name: each[0].get(name, "-"))
        rates = {value: [rate for _, rate in rates[value]] for value in sorted(rates, key=_natural)}
        best = list(map(max, rates.values()))
        if len(best) > 1:
            effects[name] = max(best) - min(best), rates
    ranked = sorted(effects.items(), key=lambda item: -item[1][0])
    return {name: rates for name, (_, rates) in ranked[:_SHOWN_PARAMETERS]}


def _natural(value):
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value
