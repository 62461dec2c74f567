"""Blocks of a packed GEMM for a CPU: its tile follows the registers, its panels the caches, and the
work-groups share its cores.

F. Van Zee and R. van de Geijn, BLIS: A Framework for Rapidly Instantiating BLAS Functionality,
2015.
"""

import platform
from functools import lru_cache
from heapq import heapreplace

from common.device import of_amd, type_of
from common.gemm import REAL
from common.machine.caches import cache_bytes, speeds

_VECTORS = (16, 8, 4, 2, 1)
_FEW_BLOCKS = 2  # times the local memory that B takes, from which on panels are in global memory
_PACKED = 5 / 8  # of the L2 for the panels: rows of A, B and C that come and go need some as well
_NARROWEST = 16  # bytes of a vector register
_MANY, _FEW = 12, 6  # rows of a tile, of 2 vectors each, where there are 32 registers or 16
_MOST = 13  # rows of one with AVX-512, except on AMD's CPUs
_LOW, _LESS = 8, 0.965  # rows of one of 3 vectors; its work, at most, relative to one of 2
_NARROW = 1.4  # time of a tile without its last vector, relative to its share of a whole one's
_ROW = 1 / 24  # of the L1 for a row of A's panel: _MANY of them take half of it
_STAYS = 2**23  # bytes of C of a batch that may stay in a cache
_MORE = 4  # times as many shares as cores, at most, where the cores differ
_PRODUCTS = 16  # of a batch, which a work-group computes one after the other, at most
_GROUPS = 16  # work-groups for each core, at least, where each computes several products
_IN_PLACE = 1 / 8  # of the L2 for A and B of a small product, which are read where they are
_SMALL = ((4, 2), (6, 2), (5, 2), (3, 2), (8, 1), (4, 1))  # rows and vectors of its tile
_WORTH = 2**21  # floating-point operations that are worth waking another core for; see _worth()
_ADDING = 32  # multiplications that take as long as an element of a part: its core works alone
_ENOUGH_ROWS = 12  # times WIDTH: rows of a share from which on others take over some of them
_GAIN = 0.9  # of the time, at most, with work-groups that share k's


def blocks(given, problem, limits, device):
    """Give WIDTH, MR, NR, KC, NC and GLOBAL by name, those `given` among them, the fastest first.

    On a CPU panels take a part of the L2, in GLOBAL memory if a large B would need more local
    memory than there is. A tile has MR x NR sums, 2 vectors in a row, and leaves a few of the
    vector registers free: of 32 where vectors have 64 bytes (AVX-512) and on AArch64, else of 16.
    With AVX-512 a tile has one row more, which was faster on a Xeon and not measured on AMD's CPUs;
    with two more, compilers move values between registers. There a tile has 3 vectors in a row if
    that is less work, as for a C of 33 to 48 columns. Where memory is little, panels (MR x KC of A,
    KC x NC of B) are less deep, so that B's still has many columns, and narrower at last.
    """
    itemsize, (M, N, K) = problem.dtype.itemsize, problem.size
    native = getattr(device, f"native_vector_width_{REAL[problem.dtype]}")
    memory, cpu = limits.local_mem_size, type_of(device) == "cpu"
    wide = max(given.get("WIDTH", 0), native) * itemsize == 64
    avx512 = cpu and native * itemsize == 64
    outside = given.get("GLOBAL", 0)
    if cpu:
        panels = int(cache_bytes(2) * _PACKED)
        large = memory < panels and N * K * itemsize > _FEW_BLOCKS * memory
        outside = given.get("GLOBAL", int(large and problem.batch == 1))
        memory = panels if outside else min(memory, panels)
        # Vectors that are longer than rows of A and C are put together from single elements.
        native = min(native, 1 << (max(N, K).bit_length() - 1))
        # A tiny C leaves fewer lanes of half a vector idle. Where M is large, whole vectors were
        # faster all the same: they pack A.
        if avx512 and max(M, N) <= native // 2:
            native //= 2
    widest = min(max(native, _NARROWEST // itemsize), _VECTORS[0])
    for width in [given["WIDTH"]] if "WIDTH" in given else [n for n in _VECTORS if n <= widest]:
        if cpu and _equal_shares(given) and not given.get("GLOBAL"):
            yield from ({**blocks, **given} for blocks in _small(problem, width))
        MR, NR = _tile(given, problem, width, wide, avx512, device)
        depth = int(cache_bytes(1) * _ROW) // itemsize
        while depth >= width:
            KC = given.get("KC", depth // width * width)
            room = memory // itemsize - MR * (KC + width)
            NC = given.get("NC", max(room // KC // NR, 1) * NR)
            if "KC" in given or 4 * NC >= KC or depth < 2 * width:
                yield {"WIDTH": width, "MR": MR, "NR": NR, "KC": KC, "NC": NC, "GLOBAL": outside}
            depth //= 2


def _tile(given, problem, width, wide, avx512, device):
    """Return MR and NR, those `given` among them: as many sums as registers hold."""
    many = wide or platform.machine() in ("aarch64", "arm64")
    most = _MOST if avx512 and not of_amd(device) else _MANY if many else _FEW
    tiles = [_sides(problem.size, width, most)]
    if avx512 and wide and given.get("MR", 0) <= _LOW:
        tiles.append(_sides(problem.size, width, _LOW, 3))
    tiles = [tile for tile in tiles if given.get("NR", tile[1]) == tile[1]] or tiles[:1]
    more = {"GROUPS": 1, **{name: given[name] for name in ("GROUPS", "STEAL") if name in given}}
    MR, NR = _least(tiles, problem, width, more, device)
    return given.get("MR", MR), given.get("NR", NR)


def _sides(size, width, most, vectors=2):
    """Return MR and NR: `vectors` and `most` rows, or less, so that few are beyond a small C."""
    panels = -(-size.M // most)
    return -(-size.M // panels), width * min(vectors, -(-size.N // width))


def _least(tiles, problem, width, more, device):
    """Return the first of the `tiles`, or one with which the largest share is clearly less work.

    `more` are GROUPS, and STEAL if it is given.
    """
    def work(tile):
        params = {"WIDTH": width, "MR": tile[0], "NR": tile[1], "NC": max(tile[1], problem.size.N)}
        return _shares(problem, {**params, **more}, device)[0]

    best = min(tiles, key=work)
    return best if work(best) < _LESS * work(tiles[0]) else tiles[0]


def _small(problem, width):
    """Give blocks for products that are read in place, if the problem has such.

    A vector has `width` elements. A tile has few rows: each row of A needs an address of its own.
    """
    _, N, K = problem.size
    for rows, vectors in _SMALL:
        params = {"WIDTH": width, "MR": rows, "NR": vectors * width,
                  "KC": -(-K // width) * width, "NC": N, "GLOBAL": 0}
        if _in_place(problem, params):
            yield params


def _in_place(problem, params):
    """Tell whether the products of a batch are better read from A and B than from panels."""
    (M, N, K), (lda, ldb, _) = problem.size, problem.leading
    room = (M * lda + K * ldb) * problem.dtype.itemsize
    panels = params["KC"] < K or params["NC"] < N or params["GLOBAL"]
    whole = M % params["MR"] == N % params["NR"] == 0 and _equal_shares(params)
    return problem.batch > 1 and not panels and whole and room <= cache_bytes(2) * _IN_PLACE


def _equal_shares(params):
    """Tell whether each work-group has a share of C, and all k's of it."""
    return params.get("SPLITS", 1) == 1 and not params.get("STEAL")


def more(problem, params, limits, device):
    """Return (defines, build options) of a kernel with the parameters of blocks()."""
    if type_of(device) != "cpu":
        return {}, ()
    if not _in_place(problem, params):
        return {"PREFETCH": 1}, ()
    (M, N, K), (lda, ldb, ldc) = problem.size, problem.leading
    groups = _GROUPS * len(_at_work(problem, params, device)[0])
    found = {
        "IN_PLACE": 1, "SIZE_M": M, "SIZE_N": N, "SIZE_K": K, "SIZE_LDA": lda, "SIZE_LDB": ldb,
        "SIZE_LDC": ldc, "BATCH": problem.batch,
        "PRODUCTS": max(1, min(_PRODUCTS, problem.batch // groups)),
    }
    # A matrix is prefetched with what is between its rows: not if that is most of it.
    if lda < 2 * K and ldb < 2 * N:
        found["PREFETCH"] = 1
    size_of_c = problem.batch * M * N * problem.dtype.itemsize
    if problem.dtype.itemsize > 2 and size_of_c > _STAYS:  # clang stores no half past a cache
        found["STREAM"] = 1
    return found, ()


def splits(problem, params, device):
    """Return how many work-groups share the k's of each share of C, on a CPU.

    More than one where C alone does not keep the cores busy, and where its shares would pack the
    same rows of A or columns of B. Not more than cores and their work are worth, and no part of K
    is shorter than a panel.
    """
    if type_of(device) != "cpu" or problem.batch > 1 or params.get("STEAL"):
        return 1
    most = min(_at_work(problem, params, device)[1], _worth(problem, params, splits=2),
               problem.size.K // params["KC"])
    alone, *_ = _shares(problem, params, device)
    times = {count: _shares(problem, params, device, count)[0] for count in range(2, most + 1)}
    best = min(times, key=times.get, default=1)
    return best if best > 1 and times[best] < _GAIN * alone else 1


def steal(problem, params, device):
    """Return 1 if work-groups that are done take over work from others, on a CPU; else 0.

    Then a core that is faster computes more. Cores of one kind differ too: two threads, maybe of
    two virtual machines, share the units of a core, and a core may have other work to do.
    """
    if type_of(device) != "cpu":
        return params.get("STEAL", 0)
    each, _ = _at_work(problem, params, device)
    *_, shape = _shares(problem, params, device, params["SPLITS"])
    return _steal(problem, params, each, shape, params["SPLITS"])


def groups(problem, params, device):
    """Return how many work-groups go over the columns and the rows of C: at most GROUPS for each
    compute unit of a device, or for each core of a CPU that this process runs on. SPLITS of them
    share the k's of each share of C, and go over its rows as well.
    """
    *_, (across, down) = _shares(problem, params, device, params["SPLITS"])
    return across, down * params["SPLITS"]


def _at_work(problem, params, device):
    """Return (speeds of the cores, or of compute units, and the most work-groups for a product).

    Where cores differ in speed, up to _MORE times as many are made, if they do not take over work:
    OpenCL does not let a program choose which core makes which work-group, but a core that is done
    takes another. So a big core makes several while a little one makes one, and the last one to end
    counts.
    """
    units = device.max_compute_units
    each = speeds()[:units] if type_of(device) == "cpu" else (1.0,) * units
    more = _MORE if len(set(each)) > 1 else 1
    return each, max(1, len(each) * params["GROUPS"] * more // problem.batch)


def _work(size, params, shape=(1, 1)):
    """Return the time of the tiles in the largest share of C, and that of packing, for each k.

    The unit is a multiplication. An element of A that is packed takes as long as about WIDTH of
    them, one of B twice that. The last tile in a row leaves out a vector if it can.
    """
    WIDTH, MR, NR = (params[name] for name in ("WIDTH", "MR", "NR"))
    across, down = shape
    columns, height = -(-size.N // (across * WIDTH)) * WIDTH, -(-size.M // (down * MR)) * MR
    whole, rest = divmod(columns, NR)
    last = min(NR, _NARROW * (NR - WIDTH)) if 0 < rest <= NR - WIDTH else NR * (rest > 0)
    packed = 2 * columns + height * -(-columns // params["NC"])
    return int((whole * NR + last) * height), WIDTH * packed


def _worth(problem, params, splits):
    """Return how many work-groups are worth waking cores for. If `splits` of them share k's,
    packing counts as well: for a tiny C it is most of the work."""
    shared = 2 * sum(_work(problem.size, params)) * problem.size.K
    return (shared if splits > 1 else problem.size.flop()) // _WORTH


def _shares(problem, params, device, splits=1):
    """Return (time, work-groups, shares of C over its columns and rows), the fastest.

    The time is that of the largest share, in multiplications. The last of `splits` work-groups also
    adds up the parts, alone. `params` are of blocks().
    """
    size, (each, most) = problem.size, _at_work(problem, params, device)
    uneven = len(set(each)) > 1
    most = max(1, min(most, _worth(problem, params, splits)) // splits)

    def time(shape):
        area, packing = _work(size, params, shape)
        count = shape[0] * shape[1] * splits
        rounds = 1 if splits == 1 else -(-count // len(each))
        if uneven and _steal(problem, params, each, shape, splits):
            rounds = count / sum(sorted(each)[:count])  # all end at about the same time
        elif uneven:
            rounds = last_end(count * problem.batch, each)
        adding = splits * area * _ADDING if splits > 1 else 0
        return rounds * (area + packing) * -(-size.K // splits) + adding, count

    across, down = -(-size.N // params["NR"]), -(-size.M // params["MR"])
    shapes = ((x, y) for x in range(1, min(most, across) + 1)
              for y in range(1, min(most // x, down) + 1))
    return min((*time(shape), shape) for shape in shapes)


def _steal(problem, params, each, shape, splits):
    """Return what steal() does, for shares of a `shape`. `each` are the speeds of the cores."""
    groups, rows = shape[0] * shape[1], problem.size.M // shape[1]
    if "STEAL" in params:
        return params["STEAL"]
    if problem.batch > 1 or splits > 1 or not 1 < groups <= len(each) * params["GROUPS"]:
        return 0
    return int(rows >= _ENOUGH_ROWS * params["WIDTH"])


@lru_cache(maxsize=None)
def last_end(count, speeds):
    """Return when the last of `count` equal shares ends, if a core that is free takes the next.

    The fastest core takes 1 for a share. Of cores that are free at once, the slowest is the first.
    """
    free = [(0.0, speed) for speed in sorted(speeds)]
    for _ in range(count):
        at, speed = free[0]
        heapreplace(free, (at + 1 / speed, speed))
    return max(free)[0]
