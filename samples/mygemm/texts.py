"""What mygemm prints: plain text, in columns."""

from statistics import median

from common.timing import figures

_OTHER_UNITS = ("14_matrix_units", "cublas")  # the ceiling is that of plain multiplications


def parameters(params):
    """Return the parameters as the options that give them."""
    return " ".join(f"--{name} {value}" for name, value in params.items())


def chosen(gemm):
    """Return the lines that say how a kernel is launched, and why not with its defaults."""
    params = parameters(gemm.params)
    local = " x ".join(map(str, gemm.plan.local_size))
    line = f"{gemm.rung.label}: {params}, work-groups of {local}"
    if gemm.plan.local_bytes:
        line += f", {gemm.plan.local_bytes} bytes of local memory"
    return [line, *([f"    not with the defaults: {gemm.choice.why}"] if gemm.choice.why else [])]


def milliseconds(seconds):
    """Return a time as text."""
    return f"{seconds * 1e3:.4g} ms"


def table(results, args, first, peers):
    """Return the lines that show the Results of one size side by side, with their ratios.

    `first` is the Result that the others are compared with, `peers` are those of libraries.
    """
    if not any(r.times for r in results):
        return columns(["", "", "error/bound"], [[r.name, r.status, error(r)] for r in results])
    best = max((p for p in peers if p.times), key=lambda p: p.gflops, default=None)
    compared = [r for r in (first, *peers) if r and r.times and len(results) > 1]
    marks = {r.name: "*" if r is best else "" for r in compared}
    head = [f"median of {args.repeat}", "time", "GFLOPS", "lowest", "best"]
    short = {r.name: r.name.split("_")[0] if r.gemm else r.name for r in compared}
    head += [f"to {short[r.name]}{marks[r.name]}" for r in compared]
    head += ["of ceiling", "error/bound"]
    rows = []
    for r in results:
        if r.times is None:
            rows.append([r.name, r.status, *[""] * (len(head) - 3), error(r)])
            continue
        seconds = r.problem.size.flop() / 1e9 / r.gflops
        ratios = [f"{r.ratios[o.name]:.2f}" for o in compared]
        share = f"{r.ratios['ceiling']:.1%}" if "ceiling" in r.ratios else "-"
        rates = map(figures, r.rates())
        rows.append([r.name, milliseconds(seconds), *rates, *ratios, share, error(r)])
    notes = []
    if best in compared:
        notes = [
            f"* {best.version}, the best peer here",
            f"Times of kernels are by the {_clock(results)}'s clock, of libraries by the host's.",
            "Ratios are by the host's, which counts launching as well: medians over the rounds.",
        ]
    return [*columns(head, rows), *notes, *_turns([r for r in results if r.times])]


def _clock(results):
    """Return whose clock gave the times of the kernels: the device's, if its driver has one."""
    times = [r.times for r in results if r.gemm and r.times]
    return "device" if all(each.seconds() is each.run_s for each in times) else "host"


def _turns(results):
    """Return the lines that say what a time is made of, where it is not that of one launch."""
    count, queues = (max(counts) for counts in zip(*(r.turn for r in results)))
    lines = []
    if count > 1:
        lines.append(f"Each time is of {count} launches back to back, divided by {count}.")
    if queues > 1:
        named = [r.name for r in results if r.version and r.turn.queues > 1]
        lines.append(
            f"Those of {' and '.join(['kernels', *named])} overlap: they are in {queues} command "
            "queues, each with a C of its own."
        )
        if named := [r.name for r in results if r.turn.queues == 1]:
            lines.append(f"Those of {' and '.join(named)} follow one another.")
    return lines


def error(result):
    """Return the largest error relative to its bound."""
    return f"{result.check.error_over_bound:.2g}" if result.check else "-"


def remarks(results, missing, peak, ceiling, verbose=False):
    """Return the lines below the table: what ended or split the runs, peers, and the ceiling.

    With `verbose` each time that was taken as well.
    """
    lines = []
    for r in results:
        if r.reason:
            lines.append(f"{r.name}: {r.status.upper()}: {r.reason}")
        elif r.gemm and r.bar and r.bar.steps and len(r.gemm.steps) > 1:
            parts = [
                f"{what} {milliseconds(median(times))}"
                for what, times in zip(r.gemm.steps, zip(*r.bar.steps))
            ]
            alone = ", alone" if r.turn.queues > 1 else ""
            lines.append(f"{r.name}{alone}: {', '.join(parts)}")
        if r.times and verbose:
            lines.append(f"{r.name}, each time: {' '.join(map(milliseconds, r.times.seconds()))}")
            if r.times.seconds() is not r.times.host_s:
                host = " ".join(map(milliseconds, r.times.host_s))
                lines.append(f"{r.name}, by the host's clock: {host}")
    lines += [f"no {name}: {reason}" for name, reason in missing.items()]
    if peak:
        lines.append(f"Ceiling: {ceiling}. Measured: {peak}")
    above = [r.name for r in results if r.ratios.get("ceiling", 0) > 1]
    if above := [name for name in above if name not in _OTHER_UNITS]:
        lines.append(
            f"Above the ceiling: {', '.join(above)}. It was measured at another moment, when this "
            "device was slower"
        )
    return lines


def columns(head, rows):
    """Return the lines of a table; the first column goes left, the others right."""
    widths = [max(len(row[n]) for row in (head, *rows)) for n in range(len(head))]
    lines = []
    for row in (head, *rows):
        cells = [text.rjust(width) for text, width in zip(row[1:], widths[1:])]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    return lines


def by_size(sizes, results):
    """Return the lines of tables kernel x size: GFLOPS, and the ratios of them."""
    cells = {(r.name, r.problem.size): r for r in results}
    names = list(dict.fromkeys(r.name for r in results))
    kernels = [n for n in names if any(cells[n, s].gemm for s in sizes if (n, s) in cells)]
    libraries = [r.name for r in results if r.version]
    views = {"GFLOPS": lambda r: figures(r.gflops)}
    if len(kernels) > 1:
        views[f"to {kernels[0]}"] = lambda r: _ratio(r, kernels[:1])
    views["to the best peer"] = lambda r: _ratio(r, libraries)
    views["of the ceiling"] = lambda r: f"{r.ratios['ceiling']:.1%}"
    lines = []
    for title, view in views.items():
        shown = names if title == "GFLOPS" else kernels
        rows = [[n, *(_cell(cells.get((n, s)), view) for s in sizes)] for n in shown]
        if any(set(row[1:]) != {"-"} for row in rows):
            lines += ["", *columns([title, *map(str, sizes)], rows)]
    return lines


def _ratio(result, names):
    return f"{min(result.ratios[name] for name in names if name in result.ratios):.2f}"


def _cell(result, view):
    try:
        return view(result) if result and result.times else "-"
    except (KeyError, ValueError):  # nothing to compare with
        return "-"
