"""Select the points for each plot of matrix multiplication.

Nothing here knows a sample by name: docs/report.md says which values each plot needs.
"""

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import islice

from common.stats import grouped
from report import charts, gemm

FEWEST_STEPS = 3  # kernels of one size
FEWEST_TRIED = 8  # combinations of parameters, for a landscape
MOST_OF_A_KIND = 4  # heat maps, or landscapes, of one sample on one device


def plots(points):
    """Yield the Plots of every device, those of one device together."""
    devices = grouped(points, lambda p: (p.board, p.device_name))
    for (board, device), own in _largest_first(devices):
        gemms = [g for g in map(gemm.of_point, own) if g]
        for (precision, more), same in _largest_first(grouped(gemms, lambda g: g.kind)):
            peaks = _peaks([p for p in own if gemm.precision(p.params) == precision])
            where = f"{board}: {device}, {precision} precision{more}"
            yield from (replace(plot, where=where) for plot in _of_device(same, peaks))


def _of_device(gemms, peaks):
    samples, lines = grouped(gemms, lambda g: g.point.sample), []
    for sample, own in _largest_first(samples):
        of = f"{sample}: " if len(samples) > 1 else ""
        series, shared = _series(own)
        lines += [(f"{of}{name}", same) for name, same in series]
        found = _of_sample(own, series, shared)
        yield from (replace(plot, title=f"{of}{plot.title}") for plot in found)
    if peaks and gemms[0].intensity:
        yield charts.roofline(_ranked(lines), *peaks)


def _of_sample(gemms, series, shared):
    if any(len(same) > 1 for _, same in series):
        yield charts.over_size(series, shared)
    if len(steps := _steps(gemms)) >= FEWEST_STEPS:
        yield charts.kernels(steps)
    at_size = grouped(gemms, lambda g: f"{g.name} at {g.size_text}")
    for name, cells in _most(at_size, partial(_area, lambda g: g.local)):
        names = "work-items in dimension 0", "in dimension 1"
        yield charts.heat(f"Local sizes of {name}", names, "{}x{}", cells)
    kernels = grouped(gemms, lambda g: g.name)
    for name, cells in _most(kernels, partial(_area, lambda g: g.order_and_clock)):
        names = "order n", "clock in MHz"
        yield charts.heat(f"Orders and clocks of {name}", names, "{:g} at {} MHz", cells)
    for name, tried in _most(at_size, _landscape):
        yield charts.landscape(f"Tuning of {name}", tried)


def _series(gemms):
    """Return [(name, Gemms by size)] of each kernel, the fastest first, and what they share.

    The Gemms have one set of parameters. Of several sets it is the one of most sizes, of equals
    the fastest. The name has the parameters that other sets of the kernel lack, without those that
    all such names share: these are returned as words.
    """
    found, several = [], []
    for name, own in grouped(gemms, lambda g: g.name).items():
        sets = grouped(own, _set_of(own))
        by_size = {key: _fastest(same, lambda g: g.size).values() for key, same in sets.items()}
        best, same = max(by_size.items(), key=lambda item: (len(item[1]), _most_gflops(item[1])))
        apart = best - frozenset.intersection(*sets)
        several += [apart] if len(sets) > 1 else []
        found.append((name, apart, sorted(same, key=lambda g: g.order)))
    shared = frozenset.intersection(*several) if several else frozenset()
    lines = [(" ".join([name, *_words(apart - shared)]), same) for name, apart, same in found]
    return _ranked(lines), _words(shared)


def _words(pairs):
    return list(map("=".join, sorted(pairs)))


def _ranked(lines):
    return sorted(lines, key=lambda line: -_most_gflops(line[1]))


def _most_gflops(gemms):
    return max(g.gflops for g in gemms)


def _set_of(gemms):
    """Return a function of a Gemm: its parameters, as pairs, without those that follow the size.

    What differs between the sizes of one command was chosen by the sample: a leading dimension,
    or a tile.
    """

    def params(each):
        return {**each.choices, "local": str(each.point.params.get("local"))}

    follow = set()
    for same in grouped(gemms, lambda g: g.asked).values():
        if 1 < len(same) == len({g.size for g in same}):
            every = list(map(params, same))
            follow |= {name for name in every[0] if len({p.get(name) for p in every}) > 1}
    return lambda each: frozenset(kv for kv in params(each).items() if kv[0] not in follow)


def _steps(gemms):
    """Return the fastest of each kernel at the size that most have, by name, then the libraries."""
    best = _fastest(gemms, lambda g: (g.size, g.point.is_library, g.name))
    sizes = Counter(size for size, is_library, _ in best if not is_library)
    chosen = max(sizes, key=lambda size: (sizes[size], size), default=None)
    return [best[key] for key in sorted(best) if key[0] == chosen]


def _most(groups, pick):
    """Return (name, what `pick` makes of the group): of each kernel the largest, then fastest."""
    picked = [(name, found, same) for name, same in groups.items() if (found := pick(same))]
    picked.sort(key=lambda each: (len(each[1]), _most_gflops(each[2])), reverse=True)
    kernels = {}
    for name, found, same in picked:
        kernels.setdefault(same[0].name, (name, found))
    return islice(kernels.values(), MOST_OF_A_KIND)


def _area(place, gemms):
    """Return the fastest Gemm by place, where these make an area; else None."""
    fastest = _fastest(filter(place, gemms), place)
    across, down = ({each[side] for each in fastest} for side in (0, 1))
    return fastest if len(across) > 1 and len(down) > 1 else None


def _landscape(gemms):
    """Return the Gemms where many combinations of parameters were tried; else None."""
    tried = {frozenset(each.choices.items()) for each in gemms}
    return gemms if len(tried) >= FEWEST_TRIED else None


def _peaks(points):
    """Return the highest measured (GFLOPS, GB/s) of a device, or None."""
    peaks = [max([p.metric(name) or 0.0 for p in points], default=0.0)
             for name in ("peak_gflops", "peak_gbytes_per_s")]
    return peaks if min(peaks) > 0 else None


def _fastest(gemms, key):
    return {key(each): each for each in sorted(gemms, key=lambda g: g.gflops)}


def _largest_first(groups):
    """Return the (key, items) of groups: what was measured most is what a person looks for."""
    return sorted(groups.items(), key=lambda item: -len(item[1]))
