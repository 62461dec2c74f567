"""What gemmbench prints of a point: a line for each question that a reader may ask of a result."""

from statistics import mean, median

from outside import REACH

from common.machine import power, state
from common.timing import figures

_PASSED = {"clean": f"trap pages within {REACH} KiB of A, B and C were not touched"}


def heading(meta, size, total, local):
    """Return the lines that say what is computed, and how it is launched."""
    groups = f"work-groups of {local[0]} x {local[1]}" if local else "work-groups by the driver"
    return [
        f"\n{meta.name}",
        f"  computes      {meta.line()}",
        f"  size          {size}, NDRange {total[0]} x {total[1]}, {groups}",
    ]


def inputs(drawn, args):
    """Return the line of the inputs."""
    kind = "whole numbers" if args.data == "integer" else "in [-0.5, 0.5]"
    scalars = f"alpha {number(drawn.alpha)}, beta {number(drawn.beta)}"
    return f"  inputs        {scalars}, {kind}, seed {args.seed}"


def number(value):
    """Return alpha or beta as text."""
    if value.dtype.kind == "c":
        return f"({value.real:.6g} {value.imag:+.6g}i)"
    return f"{value:.6g}"


def tolerance(meta, args):
    """Return the rule of the check."""
    if args.eps is not None:
        return f"at most {args.eps:g} for every element"
    if args.data == "integer":
        return "none: every sum is a whole number that the type can hold"
    factor = "(K + 1)" if meta.dtype.kind == "c" else "K"
    return f"2 * {factor} * eps({meta.sums}) * (|alpha| |A||B| + |beta| |C|) for each element"


def clocks(states, pin):
    """Return the lines on the machine's state: before the timed runs, and what moved since."""
    lines = [f"  machine       {state.line(states[0])}"]
    known = states[0]["clocks_hz"]
    held = "not pinned" + (", see --pin" if known else "")
    if pin:
        held = f"pinned to {'their maximum' if pin == 'max' else f'{pin} MHz'}"
    lines.append(f"  clocks        {held}")
    return lines + [f"  throttled     {text}" for text in state.moved(states)]


def times(taken, build_s, verbose):
    """Return the lines of the times of the kernel's event: medians, and with `verbose` each run."""
    stages = (("queued", taken.queued_s), ("wait", taken.wait_s), ("run", taken.run_s),
              ("host", taken.host_s))  # fmt: skip
    shown = ", ".join(f"{name} {ms(median(values))}" for name, values in stages)
    lines = [f"  times         {shown} (medians); build {ms(build_s)}"]
    if verbose:
        lines.append("  run times     " + " ".join(map(ms, taken.run_s)))
    return lines


def ms(seconds):
    """Return a time in milliseconds."""
    return f"{figures(seconds * 1e3)} ms"


def statistics(times, flop):
    """Return the statistics of the rates of the timed runs, in GFLOPS; spread is range / median.

    The median is the rate of the median time, as in every sample.
    """
    middle, low, high = times.rate(flop / 1e9)
    rates = [flop / 1e9 / seconds for seconds in times.seconds()]
    return {
        "min": low, "max": high, "mean": mean(rates), "median": middle,
        "range": high - low, "spread": (high - low) / middle, "repeats": len(rates),
    }  # fmt: skip


def rates(values, times):
    """Return the line of the statistics."""
    names = ("median", "mean", "min", "max", "range")
    shown = ", ".join(f"{name} {figures(values[name])}" for name in names)
    by_host = times.seconds() is times.host_s
    clock = ", by the host's clock: the driver's shows nothing" if by_host else ""
    return (
        f"  GFLOPS        {shown}, spread {values['spread']:.1%}, {values['repeats']} runs{clock}"
    )


def transfers(flop, run_s, upload_s, download_s):
    """Return the line on what the rate leaves out."""
    whole = flop / 1e9 / (run_s + upload_s + download_s)
    return (
        f"  transfers     not counted above: {ms(upload_s)} to the device, {ms(download_s)} back; "
        f"with them {figures(whole)} GFLOPS"
    )


def energy(measured, wanted):
    """Return the lines on the energy of a launch."""
    if not wanted:
        return ["  energy        not measured, see --energy"]
    lines = power.lines(measured) or ["this machine shows no power sensor that can be read"]
    return [f"  energy        {line}" for line in lines]


def verdict(check, touched, fence, rule):
    """Return the lines that say whether the result is right, and what was touched besides."""
    error = f"largest error {check.max_abs_error:.3g}, {check.error_over_bound:.3g} of its bound"
    lines = [f"  tolerance     {rule}"]
    if touched:
        lines += [f"OUTSIDE: {text}" for text in touched]
    else:
        lines.append(
            f"  outside       nothing seen; {_PASSED.get(fence, f'no trap pages: {fence}')}"
        )
    if check.reason is None:
        return [*lines, f"MATCH: {error}"]
    return [*lines, f"MISMATCH: {check.reason}; {error}"]
