"""Select the points for each plot of matrix multiplication.

Nothing here knows a sample by name. A point takes part when its records have what is drawn:

GFLOPS over size   metrics.gflops; params.size as n or MxNxK
kernels            of one size, beside the baseline libraries (params.library)
roofline           also metrics.peak_gflops and metrics.peak_gbytes_per_s in records of the device
local sizes        also params.local as 16x4 or [16, 4]
clocks             also params.pin, in MHz
tuning             also other parameters, of which many combinations were tried
"""

from report import charts, gemm

FEWEST_STEPS = 3  # kernels of one size
FEWEST_TRIED = 8  # combinations of parameters, for a landscape
MOST_OF_A_KIND = 4  # heat maps, or landscapes, of one sample on one device


def plots(points):
    """Yield the Plots of every device, those of one device together."""
    devices = _grouped(points, lambda p: (p.board, p.device_name))
    for (board, device), own in _largest_first(devices):
        gemms = [g for g in map(gemm.of_point, own) if g]
        for precision, same in _largest_first(_grouped(gemms, lambda g: g.precision)):
            where = f"{board}: {device}, {precision} precision"
            yield from _of_device(where, same)
            peaks = _peaks(p for p in own if gemm.precision(p.params) == precision)
            if peaks and same[0].intensity:
                yield charts.roofline(where, _series(_best(same)), *peaks)


def _of_device(where, gemms):
    samples = _grouped(gemms, lambda g: g.point.sample)
    for sample, own in _largest_first(samples):
        of = f"{sample}: " if len(samples) > 1 else ""
        best = _best(own)
        if len({g.order for g in best}) > 1:
            yield charts.over_size(where, of, _series(best))
        if len(steps := _steps(best)) >= FEWEST_STEPS:
            yield charts.kernels(where, of, steps)
        tried = _grouped(own, lambda g: (g.name, g.size)).values()
        yield from (charts.local_sizes(where, of, found) for found in _most(tried, _local_sizes))
        kernels = _grouped(own, lambda g: g.name).values()
        yield from (charts.clocks(where, of, found) for found in _most(kernels, _clocks))
        yield from (charts.landscape(where, of, found) for found in _most(tried, _landscape))


def _steps(best):
    """Return the kernels at the size that most have, by name, then the libraries."""
    sizes = _grouped([g for g in best if not g.is_library], lambda g: g.size)
    size, steps = max(sizes.items(), key=lambda kv: (len(kv[1]), kv[0]), default=(None, []))
    libraries = [g for g in best if g.is_library and g.size == size]
    return [*sorted(steps, key=lambda g: g.name), *sorted(libraries, key=lambda g: g.name)]


def _most(groups, pick):
    """Return what `pick` makes of the groups: of each kernel the largest, of equals the fastest."""
    picked = [found for found in map(pick, groups) if found]
    picked.sort(key=lambda found: (len(found), max(g.gflops for g in found)), reverse=True)
    kernels = {}
    for found in picked:
        kernels.setdefault(found[0].name, found)
    return list(kernels.values())[:MOST_OF_A_KIND]


def _local_sizes(gemms):
    """Return the fastest Gemm of each local size, where these make an area; else None."""
    return _area(gemms, lambda g: g.local)


def _clocks(gemms):
    """Return the fastest Gemm of each size and clock, where these make an area; else None."""
    return _area(gemms, lambda g: g.clock and (g.order, g.clock))


def _area(gemms, place):
    fastest = _fastest((g for g in gemms if place(g)), place)
    across, down = ({place(g)[side] for g in fastest} for side in (0, 1))
    return fastest if len(across) > 1 and len(down) > 1 else None


def _landscape(gemms):
    """Return the Gemms where many combinations of parameters were tried; else None."""
    tried = set()
    for each in gemms:
        tried.add(tuple(sorted(each.choices.items())))
        if len(tried) == FEWEST_TRIED:  # of very many, that is soon known
            return gemms
    return None


def _peaks(points):
    """Return the highest measured (GFLOPS, GB/s) of a device, or None."""
    points = list(points)
    peaks = [
        max((p.metric(name) or 0.0 for p in points), default=0.0)
        for name in ("peak_gflops", "peak_gbytes_per_s")
    ]
    return peaks if min(peaks) > 0 else None


def _best(gemms):
    """Return the fastest Gemm of each kernel and size."""
    return _fastest(gemms, lambda g: (g.point.sample, g.name, g.size))


def _fastest(gemms, key):
    found = {}
    for each in gemms:
        if key(each) not in found or each.gflops > found[key(each)].gflops:
            found[key(each)] = each
    return list(found.values())


def _series(gemms):
    """Return [(name, Gemms by size)], the fastest kernel first: these have colours."""
    kernels = _grouped(gemms, lambda g: (g.name, g.point.sample))
    named = [name for name, _ in kernels]
    series = [
        (name if named.count(name) == 1 else f"{sample} {name}", sorted(own, key=lambda g: g.order))
        for (name, sample), own in kernels.items()
    ]
    return sorted(series, key=lambda item: -max(g.gflops for g in item[1]))


def _largest_first(groups):
    """Return the (key, items) of groups: what was measured most is what a person looks for."""
    return sorted(groups.items(), key=lambda item: -len(item[1]))


def _grouped(items, key):
    groups = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
