"""The output of gemm_intel, in the format of the original."""

from common import device, stats
from common.text import printable

UNCHECKED = "Nothing was checked. Without --no-validation every element is compared with float64."


def choices(chosen, type_name, about):
    """Return the lines of platforms and devices that show which is used, and what `about` says."""
    lists = {
        "Platforms": (device.platforms(), chosen.platform),
        "Devices": (device.devices(chosen.platform, type_name), chosen),
    }
    lines = []
    for what, (items, used) in lists.items():
        lines.append(f"{what} ({len(items)}):")
        for number, item in enumerate(items):
            name = printable(item.name.strip())
            lines.append(f"    [{number}] {name}{' [Selected]' * (item == used)}")
    return lines + (device.summary(about) if about else [])


def heading(kernel, order, padded, stride_bytes):
    """Return the lines that say what runs, and how its matrices lie in memory."""
    M, N, K = padded
    which = "one" if M == N == K else "the largest"
    lines = [
        f"Running gemm_{kernel} kernel with matrix size: {order}x{order}",
        f"Memory row stride to ensure necessary alignment: {stride_bytes} bytes",
        f"Size of memory region for {which} matrix: {max(padded) * stride_bytes} bytes",
    ]
    return lines + [f"Padded to M = {M}, N = {N}, K = {K}"] * (max(padded) > order)


def verdict(check, result, expected):
    """Return the lines of the validation; `result` and `expected` are C by row and column."""
    if check.reason is None:
        return ["Validate output... PASSED", f"    {check.line()}"]
    i, j = check.first_wrong
    reference, calculated = expected[i, j], result[i, j]
    return [
        "Validate output... FAILED",
        f"    Reference: {reference:.9g}, calculated: {calculated:.9g}, "
        f"difference: {calculated - reference:.9g} at C[{i}][{j}]",
    ]


def summary(args, found, gflop):
    """Return the lines on a Measured: two for each iteration, and the rates by the host's clock."""
    times = found.times
    if not times.host_s:
        return ["Summary: no iterations, so nothing was run or checked"]
    if args.duration:
        return found.lines(args.verbose)
    seconds = stats.spread(times.host_s)
    rate = stats.rate([gflop / seconds.median], seconds)
    line = (f"Summary: median {rate.median:.6g} GFLOPS, best {rate.most:.6g}, "
            f"spread {rate.relative:.1%}, {rate.count} iterations after {times.warmup} to warm up")
    pairs = (f"Host time: {each:.6g} sec.\nHost perf: {gflop / each:.6g} GFLOPS"
             for each in times.host_s)
    return [*pairs, line, *(times.lines(verbose=True) if args.verbose else []), *found.energy]
