"""The plots of matrix multiplication, each with its numbers as a table."""

from statistics import median

from common.text import figures
from report import draw
from report.draw import FADED, INK, MUTED, PAPER, Plot, label

GFLOPS = ("GFLOPS", "")
_RATES = (GFLOPS, ("10th percentile", "GFLOPS"), ("90th percentile", "GFLOPS"), ("launches", ""))


def _rates(gemm):
    rate = gemm.rate
    return rate.median, rate.low, rate.high, rate.count


def _plot(where, title, *more):
    return Plot(draw.slug(title, where), where, title, *more)


def _title(of, title):
    return f"{of}{title}" if of else title[0].upper() + title[1:]


def _bars(rates):
    """Return what error bars reach down and up."""
    return [[r.median - r.low for r in rates], [r.high - r.median for r in rates]]


def over_size(where, of, series):
    """GFLOPS over the order, a line for each kernel. `series` is [(name, Gemms by size)]."""

    def paint():
        figure, axes = draw.canvas()
        for number, (name, gemms) in enumerate(series):
            colour, marker = draw.colour(number)
            rates = [g.rate for g in gemms]
            middles = [r.median for r in rates]
            axes.errorbar([g.order for g in gemms], middles, _bars(rates), color=colour,
                          marker=marker, capsize=2.5, elinewidth=1, label=label(name),
                          zorder=1 if colour == FADED else 3)  # fmt: skip
        draw.powers_of_2(axes.xaxis, [g.order for _, gemms in series for g in gemms])
        axes.set(xlabel="order n", ylabel="GFLOPS", ylim=(0, None))
        _legend(axes)
        return figure

    rows = [(name, g.size_text, *_rates(g)) for name, gemms in series for g in gemms]
    note = "Medians; bars from the 10th to the 90th percentile of the launches."
    if any(len(set(g.size)) > 1 for _, gemms in series for g in gemms):
        note += " M x N x K is drawn at the order of the square product with as many operations."
    columns = (("kernel", ""), ("size", "M, N, K"), *_RATES)
    return _plot(where, f"{of}GFLOPS over size", note, columns, rows, paint)


def _legend(axes):
    handles, names = axes.get_legend_handles_labels()
    shown = len(draw.SERIES)
    if len(names) > shown:
        names[shown] = f"and {len(names) - shown} slower"
        handles, names = handles[: shown + 1], names[: shown + 1]
    figure = axes.figure
    figure.legend(handles, names, loc="outside lower center", ncols=3, columnspacing=1.2,
                  handlelength=1.6)  # fmt: skip


def kernels(where, of, steps):
    """Each kernel at one size as a bar. `steps` are Gemms, the baseline libraries last.

    With a library, a bar is the interleaved ratio to it, by the host's clock. GFLOPS of a kernel
    are by the device's clock, those of most libraries are not. Without a library a bar is GFLOPS.
    """
    libraries = [gemm for gemm in steps if gemm.is_library]
    if libraries:
        best = max(libraries, key=lambda each: (_timed_beside(each, steps), each.gflops))
    else:
        best = max(steps, key=lambda gemm: gemm.gflops)
    against = f"{best.name}" if libraries else "the fastest"
    size = steps[0].size_text
    shares = [_ratio(gemm, best) if libraries else 100 * gemm.gflops / best.gflops
              for gemm in steps]  # fmt: skip

    def paint():
        figure, axes = draw.canvas(height=0.9 + 0.3 * len(steps))
        scales = [(share or 0) / g.gflops if libraries else 1 for share, g in zip(shares, steps)]
        middles, lows, highs = ([scale * getattr(g.rate, name) for scale, g in zip(scales, steps)]
                                for name in ("median", "low", "high"))  # fmt: skip
        reach = [[m - low for m, low in zip(middles, lows)],
                 [high - m for m, high in zip(middles, highs)]]  # fmt: skip
        colours = [draw.SERIES[1 if gemm.is_library else 0] for gemm in steps]
        axes.barh(range(len(steps)), middles, xerr=reach, height=0.66, color=colours,
                  error_kw={"ecolor": INK, "capsize": 2, "elinewidth": 1})  # fmt: skip
        for at, (gemm, share, high) in enumerate(zip(steps, shares, highs)):
            percent = "not in its rounds" if share is None else f"{share:.0f}%"
            axes.annotate(f"{figures(gemm.gflops)} \u00b7 {percent}", (high, at), (6, 0),
                          textcoords="offset points", va="center", fontsize=9.5)  # fmt: skip
        axes.set_yticks(range(len(steps)), [label(gemm.name) for gemm in steps])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        what = f"GFLOPS at {size}"
        if libraries:
            what = f"percent of {label(against)} at {size}; labels: GFLOPS"
        axes.set(xlabel=what)
        axes.set_xlim(0, 1.35 * max(highs))
        return figure

    rows = [(gemm.name, *_rates(gemm), share) for gemm, share in zip(steps, shares)]
    columns = (("kernel", ""), *_RATES, (f"of {against}", "%"))
    note = "Medians; bars from the 10th to the 90th percentile. "
    if libraries:
        note += (
            f"Percent of {against}: interleaved, by the host's clock. GFLOPS are by the "
            "device's clock if it has one: do not compare them with those of a library."
        )
    else:
        note += f"Percent of {against}."
    return _plot(where, _title(of, f"kernels at {size}"), note, columns, rows, paint)


def _timed_beside(library, steps):
    """Return how many of the steps were timed in the same rounds as the library."""
    return sum(_ratio(gemm, library) is not None for gemm in steps)


def _ratio(gemm, best):
    """Return the rate in percent of that of `best`, in the same rounds; None: not known."""
    if gemm is best:
        return 100.0
    measured = gemm.point.metric(f"ratios.{best.name}")
    return measured and 100 * measured


def roofline(where, series, peak_gflops, peak_gbytes):
    """The roof that was measured, and every kernel and size as a point under it.

    A record's own ceiling is of that size, whose matrices a cache may hold: it goes before the
    roof, which is that of main memory.
    """
    every = [g for _, gemms in series for g in gemms]
    ridge = peak_gflops / peak_gbytes

    def paint():
        figure, axes = draw.canvas()
        low = min([g.intensity for g in every] + [ridge]) / 2
        high = max([g.intensity for g in every] + [ridge]) * 2
        axes.plot([low, ridge, high], [low * peak_gbytes, peak_gflops, peak_gflops], color=INK)
        axes.annotate(f"{figures(peak_gflops)} GFLOPS", (high, peak_gflops), (-2, 4), ha="right",
                      textcoords="offset points", fontsize=9.5)  # fmt: skip
        axes.annotate(f"{figures(peak_gbytes)} GB/s", (low, low * peak_gbytes), (14, -6),
                      textcoords="offset points", fontsize=9.5)  # fmt: skip
        if own := sorted({(g.intensity, _ceiling(g)) for g in every if _ceiling(g)}):
            axes.plot(*zip(*own), "_", color=INK, markersize=14, label="ceiling at that size")
        for number, (name, gemms) in enumerate(series):
            colour, marker = draw.colour(number)
            axes.plot([g.intensity for g in gemms], [g.gflops for g in gemms], color=colour,
                      marker=marker, linewidth=0.8, label=label(name))  # fmt: skip
        axes.set(xscale="log", yscale="log", ylabel="GFLOPS",
                 xlabel="operations per byte that must be moved")  # fmt: skip
        draw.plain_numbers(axes.xaxis, axes.yaxis)
        _legend(axes)
        return figure

    rows = []
    for name, gemms in series:
        for g in gemms:
            roof = _ceiling(g) or min(peak_gflops, g.intensity * peak_gbytes)
            rows.append((name, g.size_text, g.intensity, g.gflops, roof,
                         100 * g.gflops / roof))  # fmt: skip
    note = (
        f"The roof was measured: {figures(peak_gflops)} GFLOPS, {figures(peak_gbytes)} GB/s. "
        "Operations per byte count A and B read once, C read and written once: the least "
        "possible. The slope is that of main memory: "
    )
    if any(map(_ceiling, every)):
        note += "a dash is the ceiling of a size by the memory or the cache that holds it."
    else:
        note += "points above it had their matrices in a cache."
    columns = (("kernel", ""), ("size", "M, N, K"), ("operations per byte", ""), GFLOPS,
               ("roof", "GFLOPS"), ("of the roof", "%"))  # fmt: skip
    return _plot(where, "Roofline", note, columns, rows, paint)


def _ceiling(gemm):
    """Return the GFLOPS that its own record gives as the most for this size, or None.

    It is the peak, or what the fastest memory that holds the matrices gives.
    """
    if ceiling := gemm.point.metric("ceiling_gflops"):
        return ceiling
    peak, near = map(gemm.point.metric, ("peak_gflops", "near_gbytes_per_s"))
    return min(peak, gemm.intensity * near) if peak and near else None


def local_sizes(where, of, gemms):
    """GFLOPS by the two sides of the work-group, as a heat map."""
    title = _title(of, f"local sizes of {_of(gemms)}")
    axes = ("work-items in dimension 0", "in dimension 1")
    return _heat(
        where, title, axes, {g.local: g for g in gemms}, lambda g: "x".join(map(str, g.local))
    )


def clocks(where, of, gemms):
    """GFLOPS by the order and the clock at which the device was held, as a heat map."""
    title = _title(of, f"orders and clocks of {gemms[0].name}")
    return _heat(where, title, ("order n", "clock in MHz"), {(g.order, g.clock): g for g in gemms},
                 lambda g: f"{g.size_text} at {g.clock} MHz")  # fmt: skip


def _heat(where, title, names, cells, said):
    """A heat map of Gemms by (x, y); `said(gemm)` names a cell in the table."""
    across, down = (sorted({place[side] for place in cells}) for side in (0, 1))
    rates = {place: g.gflops for place, g in cells.items()}

    def paint():
        figure, axes = draw.canvas(height=0.9 + 0.36 * len(down))
        values = [[rates.get((x, y), float("nan")) for x in across] for y in down]
        axes.pcolormesh(values, cmap="viridis", edgecolors=PAPER, linewidth=1.5)
        middle = (min(rates.values()) + max(rates.values())) / 2
        for (x, y), rate in rates.items():
            place = across.index(x) + 0.5, down.index(y) + 0.5
            axes.text(*place, f"{rate:.3g}", ha="center", va="center", fontsize=9,
                      color="black" if rate > middle else "white")  # fmt: skip
        axes.set_xticks([i + 0.5 for i in range(len(across))], [f"{x:g}" for x in across])
        axes.set_yticks([i + 0.5 for i in range(len(down))], [f"{y:g}" for y in down])
        axes.tick_params(length=0)
        axes.grid(visible=False)
        axes.set(xlabel=names[0], ylabel=names[1])
        return figure

    ranked = sorted(cells.values(), key=lambda g: -g.gflops)
    rows = [(said(g), *_rates(g)) for g in ranked]
    note = "The best GFLOPS of each; brighter is faster. An empty cell was not run, or failed."
    return _plot(where, title, note, (("", ""), *_RATES), rows, paint)


def _of(gemms):
    return f"{gemms[0].name} at {gemms[0].size_text}"


def landscape(where, of, gemms):
    """GFLOPS over each parameter that was varied: what was tried, and the best of each value."""
    found = _by_effect(gemms)
    names = list(found)

    def paint():
        columns = min(3, len(names))
        lines = -(-len(names) // columns)
        figure, grid = draw.canvas(height=0.6 + 1.7 * lines, rows=lines, columns=columns,
                                   squeeze=False, sharey=True)  # fmt: skip
        for axes, name in zip(grid.flat, names):
            tried = found[name]
            for at, rates in enumerate(tried.values()):
                shown = _thinned(rates)
                axes.plot([at] * len(shown), shown, "_", color=MUTED, alpha=0.5, markersize=9)
            axes.plot([max(rates) for rates in tried.values()], color=draw.SERIES[0], marker="o")
            axes.set_xticks(range(len(tried)), [label(value)[:8] for value in tried])
            axes.set_title(label(name)[:24])
            axes.set_ylim(0, None)
        for axes in grid.flat[len(names) :]:
            axes.set_visible(False)
        for axes in grid[:, 0]:
            axes.set_ylabel("GFLOPS")
        return figure

    rows = [(name, value, len(rates), max(rates), median(rates), min(rates))
            for name in names for value, rates in found[name].items()]  # fmt: skip
    fastest = max(gemms, key=lambda g: g.gflops)
    chosen = " ".join(f"{name}={fastest.choices.get(name)}" for name in names)
    note = (
        f"{len(gemms)} combinations, each a dash; the line connects the best of each value. "
        f"Fastest: {chosen}, {figures(fastest.gflops)} GFLOPS."
    )
    columns = (("parameter", ""), ("value", ""), ("tried", ""), ("best", "GFLOPS"),
               ("median", "GFLOPS"), ("worst", "GFLOPS"))  # fmt: skip
    return _plot(where, _title(of, f"tuning of {_of(gemms)}"), note, columns, rows, paint)


def _by_effect(gemms, most=6):
    """Return the rates by value of each parameter that varies: see _by_value().

    First come those on which the rate depends most.
    """
    tried = [(g.choices, g.gflops) for g in gemms]
    found, effects = {}, {}
    for name in sorted({name for choices, _ in tried for name in choices}):
        rates = _by_value(tried, name)
        best = list(map(max, rates.values()))
        if len(best) > 1:
            found[name], effects[name] = rates, max(best) - min(best)
    return {name: found[name] for name in sorted(effects, key=effects.get, reverse=True)[:most]}


def _by_value(tried, name):
    """Return the rates by the parameter's values, numbers in their order."""
    found = {}
    for choices, rate in tried:
        found.setdefault(choices.get(name, "-"), []).append(rate)
    return dict(sorted(found.items(), key=lambda item: _natural(item[0])))


def _thinned(rates, most=60):
    """Return some of many rates, evenly chosen by rank: a plot of all of them would be a blot."""
    order, steps = sorted(rates), min(len(rates) - 1, most)
    return [order[i * (len(order) - 1) // max(steps, 1)] for i in range(steps + 1)]


def _natural(value):
    try:
        return 0, float(value), value
    except ValueError:
        return 1, 0.0, value
