"""Tiles of a GEMM on a GPU: which of several is the fastest, and how many work-groups share one.

Work-groups run in rounds of as many as the device holds. A last round that is not full takes nearly
as long as a full one. So work-groups may share its tiles: each takes a part of K, beside whole
tiles if a compute unit has room for both, and the last of them, or another kernel, adds up what
they made. seconds() weighs this up; its numbers were fitted to times on an H200, and only ratios of
them matter elsewhere.
"""

from typing import NamedTuple

_AT_ONCE = 2  # work-groups of a full round on a compute unit, for what is shared
MOST_ADDED = 2**16  # sums in all parts of a tile that the last of its work-groups adds up
_LEAST = 128  # k's that are worth a work-group
_SLAB = 32  # k's that matrix units take at a time
_PEAK = 2.4e11  # float32 multiplications of a compute unit in a second
_BANDWIDTH = 2.4e12  # bytes in a second
_LAUNCH = 3.6e-6  # seconds that a launch takes on the device
_ENQUEUE = 8e-6  # and on the host, which works ahead
_TIE = 0.02  # share of the device's work that is added: or tiles tie if memory or the host limits


class Costs(NamedTuple):
    """What it costs a kernel if work-groups are few, or share tiles.

    With n work-groups, fewer than a Tile's `at_once`, a compute unit takes (n / at_once) ** few of
    the time for `at_once`. After `counting` seconds a work-group knows that it is the last one of a
    tile. It then reads `adding` bytes of parts in a second. All work-groups together write and read
    `moving` bytes of parts in a second.
    """

    few: float
    counting: float
    adding: float
    moving: float


_COSTS = Costs(0.5, 5e-7, 8.8e10, 3.7e12)
# Of kernel 13 in single precision without a batch, to whose times these numbers were fitted.
_COSTS_OF_WARPS = Costs(0.6, 8e-7, 4e10, 5e12)


class Tile(NamedTuple):
    """Parameters of a kernel (TSM x TSN and more), and how fast it is with them.

    With `at_once` work-groups a compute unit reaches the share `rate` of _PEAK; Costs says how much
    time it takes with fewer. It may hold more: all these numbers were fitted. To begin and to end a
    tile costs as much as `start` k's, to begin and to end a launch as `once`.
    """

    params: dict
    at_once: int
    rate: float
    start: int
    once: int = 0
    costs: Costs = _COSTS


def _tiles(names, *rows, costs=_COSTS):
    return [Tile(dict(zip(names, values)), *speed, costs=costs) for values, *speed in rows]


# Of kernels for warps, and for matrix units, whose rate is higher.
WARP_NAMES = ("TSM", "TSN", "TSK", "WPTM", "WPTN", "SLICES", "EARLY")
_ALIGNED = _tiles(
    WARP_NAMES,
    ((128, 128, 8, 16, 8, 1, 1), 2, 0.92, 75),
    ((192, 64, 8, 12, 8, 1, 0), 3, 0.74, 15),
    ((192, 48, 8, 8, 12, 1, 0), 4, 0.73, 25),
    ((96, 96, 8, 4, 12, 1, 1), 2, 0.7, 25),
    ((128, 64, 8, 8, 8, 1, 1), 3, 0.81, 25),
    ((64, 128, 16, 8, 8, 1, 0), 3, 0.87, 70),
    ((64, 128, 8, 8, 8, 3, 0), 1, 0.78, 85),
    ((64, 128, 8, 8, 8, 1, 0), 3, 0.78, 10),
    ((96, 48, 8, 4, 12, 2, 0), 2, 0.63, 50),
    ((96, 48, 8, 4, 12, 1, 0), 4, 0.7, 55),
    ((64, 64, 16, 8, 4, 2, 1), 2, 0.71, 40),
    ((64, 64, 8, 8, 8, 2, 1), 3, 0.75, 40),
    ((64, 32, 8, 8, 8, 4, 1), 3, 0.75, 205),
    ((32, 64, 16, 4, 8, 2, 1), 3, 0.66, 75),
    ((32, 64, 8, 4, 8, 4, 0), 2, 0.64, 110),
    ((32, 32, 32, 4, 4, 2, 1), 3, 0.52, 75),
    ((32, 32, 16, 4, 4, 4, 1), 1, 0.43, 95),
    ((32, 32, 16, 4, 4, 2, 1), 3, 0.46, 55),
    ((32, 16, 16, 4, 4, 4, 1), 4, 0.34, 90),
    costs=_COSTS_OF_WARPS,
)
_UNALIGNED = _tiles(
    WARP_NAMES,
    ((128, 128, 8, 16, 8, 1, 0), 2, 0.83, 30),
    ((96, 96, 8, 4, 12, 1, 0), 2, 0.66, 45),
    ((128, 64, 8, 8, 8, 1, 1), 3, 0.72, 20),
    ((64, 128, 16, 8, 8, 1, 1), 3, 0.84, 55),
    ((64, 128, 8, 8, 8, 1, 1), 3, 0.76, 25),
    ((96, 48, 8, 4, 12, 1, 1), 4, 0.66, 45),
    ((64, 64, 16, 4, 8, 2, 1), 2, 0.68, 55),
    ((64, 64, 8, 8, 4, 2, 1), 2, 0.68, 70),
    ((96, 32, 8, 12, 4, 2, 0), 3, 0.64, 70),
    ((64, 32, 16, 8, 4, 2, 1), 3, 0.66, 85),
    ((32, 64, 16, 4, 8, 2, 1), 2, 0.59, 30),
    ((32, 64, 8, 4, 8, 2, 1), 4, 0.62, 55),
    ((32, 32, 16, 4, 4, 4, 1), 2, 0.53, 110),
    ((32, 32, 16, 4, 4, 2, 1), 3, 0.51, 50),
    ((32, 16, 16, 4, 4, 4, 1), 4, 0.39, 155),
    costs=_COSTS_OF_WARPS,
)
_ALIGNED_BATCH = _tiles(
    WARP_NAMES,
    ((128, 128, 8, 16, 8, 1, 0), 2, 0.91, 65),
    ((128, 64, 8, 16, 8, 1, 0), 4, 0.77, 30),
    ((64, 128, 8, 8, 8, 1, 0), 3, 0.77, 10),
    ((64, 64, 8, 8, 8, 1, 0), 6, 0.66, 15),
    ((64, 64, 32, 8, 4, 1, 0), 2, 0.63, 40),
    ((32, 64, 16, 4, 4, 1, 0), 4, 0.63, 60),
    ((32, 32, 8, 4, 4, 1, 0), 8, 0.44, 30),
    ((32, 32, 16, 4, 4, 1, 0), 6, 0.57, 45),
    ((32, 32, 16, 4, 4, 4, 0), 4, 0.55, 80),
)
_UNALIGNED_BATCH = _tiles(
    WARP_NAMES,
    ((128, 128, 8, 16, 8, 1, 0), 3, 0.81, 40),
    ((128, 64, 8, 8, 8, 1, 0), 3, 0.74, 20),
    ((64, 128, 8, 8, 8, 1, 0), 3, 0.74, 15),
    ((64, 64, 8, 8, 8, 1, 0), 6, 0.76, 40),
    ((64, 64, 8, 8, 4, 1, 1), 3, 0.6, 15),
    ((32, 32, 8, 4, 4, 1, 1), 8, 0.43, 10),
    ((32, 32, 16, 4, 4, 2, 1), 4, 0.47, 100),
    ((32, 32, 16, 4, 4, 4, 1), 3, 0.51, 115),
)
DOUBLE = _tiles(
    WARP_NAMES,
    ((64, 128, 8, 8, 8, 1, 0), 2, 0.4, 40),
    ((64, 64, 8, 8, 8, 1, 0), 3, 0.39, 40),
    ((64, 64, 8, 8, 8, 2, 0), 2, 0.37, 60),
    ((32, 32, 8, 4, 8, 4, 0), 2, 0.28, 60),
    ((32, 16, 16, 4, 4, 2, 0), 4, 0.17, 60),
)
MODEST = _tiles(WARP_NAMES, ((64, 64, 16, 4, 4, 1, 1), 2, 0.5, 60))
SPLIT_ITEMS = 256
_KEPT = 4  # most chunks of a line that one of them keeps
UNIT_NAMES = ("TSM", "TSN", "WARP_M", "WARP_N", "STAGES", "DIRECT")
UNITS = _tiles(
    UNIT_NAMES,
    ((64, 128, 32, 64, 4, 0), 2, 2.66, 160),
    ((64, 64, 32, 32, 4, 0), 3, 2.36, 70),
    ((32, 64, 16, 32, 4, 0), 3, 1.66, 50),
    ((32, 32, 16, 16, 4, 0), 3, 1.15, 40),
)
DIRECT = _tiles(
    UNIT_NAMES,
    ((128, 64, 32, 64, 2, 1), 2, 0.81, 30),
    ((64, 128, 32, 64, 2, 1), 2, 0.91, 25),
    ((64, 64, 64, 16, 2, 1), 2, 0.62, 20),
    ((32, 64, 32, 16, 2, 1), 2, 0.42, 10),
    ((32, 64, 16, 32, 2, 1), 2, 0.46, 35),
    ((64, 32, 32, 32, 2, 1), 4, 0.47, 20),
    ((32, 128, 32, 32, 2, 1), 2, 0.6, 15),
    ((128, 16, 64, 16, 2, 1), 4, 0.28, 0),
    ((16, 64, 16, 32, 2, 1), 6, 0.35, 30),
    ((32, 32, 16, 16, 2, 1), 3, 0.35, 15),
)
WARPGROUP_NAMES = ("TSN", "KC", "STAGES", "SLICES", "DIRECT", "SWAPPED")
WARPGROUPS = _tiles(  # of which a compute unit holds one work-group, or several with DIRECT
    WARPGROUP_NAMES,
    ((128, 0, 4, 1, 0, 0), 1, 4.5, 245, 80),
    ((64, 0, 6, 1, 0, 0), 1, 3.77, 150, 120),
    ((64, 32, 2, 1, 1, 0), 2, 0.94, 25),
    ((64, 32, 2, 2, 1, 0), 1, 0.86, 80),
    ((32, 32, 2, 2, 1, 0), 2, 0.73, 80),
    ((32, 32, 2, 1, 1, 0), 2, 0.58, 10),
    ((64, 32, 2, 2, 1, 1), 2, 0.69, 100),
)


def single(batch, aligned):
    """Return the tiles for float32, where all rows are `aligned` or not.

    A `batch` has tiles of its own, small ones too: its products fill the device together.
    """
    if batch > 1:
        return _ALIGNED_BATCH if aligned else _UNALIGNED_BATCH
    return _ALIGNED if aligned else _UNALIGNED


def count(size, params):
    """Return how many tiles C has, including partial ones."""
    return -(-size.M // params["TSM"]) * -(-size.N // params["TSN"])


def shared(size, params, units):
    """Return how many tiles work-groups share: all, or the last ones that would not fill a round.

    `units` are the device's compute units. With SPLITS 1 there are none.
    """
    if params["SPLITS"] == 1:
        return 0
    tiles, full = count(size, params), (1 if "KC" in params else _AT_ONCE) * units
    return tiles % full if tiles > full else tiles


def last_adds(params):
    """Return 1 if the last work-group of those that share a tile adds up their parts, or 0.

    Work-groups of kernel 15 that go from tile to tile (KC, not DIRECT) do not.
    """
    stays = "KC" in params and not params["DIRECT"]
    splits = params.get("SPLITS", 1)
    return int(splits > 1 and splits * params["TSM"] * params["TSN"] <= MOST_ADDED and not stays)


def groups(size, params, units):
    """Return how many work-groups a launch has."""
    return count(size, params) + (params["SPLITS"] - 1) * shared(size, params, units)


def best(size, tiles, units, itemsize, before=0, batch=1, adds=True):
    """Return (seconds, parameters) of the fastest of the `tiles`; SPLITS is among the parameters.

    `itemsize` is that of an element, `before` the seconds of what is launched first. Products of a
    `batch` do not share tiles. `adds` tells whether the last work-group may add up parts.
    """
    found = []
    for tile in tiles:
        alone = {**tile.params, "SPLITS": 1}
        last = shared(size, {**alone, "SPLITS": 2}, units) if batch == 1 else 0
        most = size.K // _LEAST
        tried = {1}
        if last:
            rounds = {n * units // last for n in range(1, 5)}  # parts that fill the device n times
            # The most parts that K allows, and the most that the last work-group adds up itself.
            ends = most, MOST_ADDED // (alone["TSM"] * alone["TSN"])
            tried |= {*range(2, 13), *rounds, *(min(end, max(rounds)) for end in ends)}
        for splits in sorted(n for n in tried if n == 1 or 1 < n <= most):
            params = {**alone, "SPLITS": splits}
            time = seconds(size, tile, params, units, itemsize, before, batch, adds)
            found.append((time, params))
    return min(found, key=lambda pair: pair[0])


def split(size, params, units):
    """Return by name in how many PARTS split() takes K, the work-items of a work-group, and KEPT.

    It takes 8 lines, and has as many work-items as those have chunks, up to SPLIT_ITEMS.
    """
    parts = params["SPLITS"] if shared(size, params, units) == count(size, params) else 1
    slabs = -(-size.K * params["PART_BITS"] // 512)
    chunks = 4 * -(-slabs // parts)
    items = min(SPLIT_ITEMS, 8 << (chunks - 1).bit_length())
    return {"PARTS": parts, "SPLIT_ITEMS": items, "KEPT": min(-(-8 * chunks // items), _KEPT)}


def seconds(size, tile, params, units, itemsize, before=0, batch=1, adds=True):
    """Return about how long a GEMM takes, or a batch of them, with the arguments of best()."""
    (M, N, K), splits, last = size, params["SPLITS"], shared(size, params, units)
    area, adds = params["TSM"] * params["TSN"], adds and last_adds(params)

    def rounds(number):
        full, rest = divmod(number, units * tile.at_once)
        return full + (-(-rest // units) / tile.at_once) ** tile.costs.few

    step = params["TSK"] * params["SLICES"] if "TSK" in params else _SLAB * params.get("SLICES", 1)
    deep = [-(-k // step) * step + tile.start for k in (K, -(-K // splits))]  # k's come in steps
    numbers = batch * count(size, params) - last, last * splits  # whole tiles, and parts
    if all(numbers) and sum(numbers) <= units * tile.at_once:
        # All run at once. When the parts are done, the whole tiles go on alone.
        depth = rounds(sum(numbers)) * deep[1] + rounds(numbers[0]) * (deep[0] - deep[1])
    else:  # one after the other, although parts would fill places that are free at the end
        depth = sum(rounds(number) * k for number, k in zip(numbers, deep))
    depth += tile.once
    time = depth * tile.at_once * area * itemsize / 4 / (tile.rate * _PEAK)
    traffic = batch * (M * K + K * N + M * N) * itemsize / _BANDWIDTH
    least = _ENQUEUE * (1 + (before > 0) + (splits > 1 and not adds))
    parts = splits * area * itemsize
    moving = 2 * last * parts / tile.costs.moving
    if adds:
        before += tile.costs.counting + parts / tile.costs.adding + moving
    elif splits > 1:
        before += _LAUNCH + moving
    return max(_LAUNCH + before + max(time, traffic), least) + _TIE * (time + before)
