"""A matrix and a vector: parameters of dot products and of sums of rows, and their time on a GPU.

The numbers for GPUs were measured on an H200.
"""

import math
from typing import NamedTuple

from common.constraints import VECTORS
from common.device import amd_family, type_of
from common.gemm import REAL
from common.machine.caches import all_bytes
from common.planning import nvidia

DOTS = {"WIDTH": 4, "ROWS": 4, "LANES": 64, "TEAMS": 1, "SPLITS": 1}  # of kernel 16, by default
SUMS = {"WIDTH": 1, "UNROLL": 8, "LANES": 32, "SLICES": 16, "NC": 32, "SPLITS": 1}

_WORTH = 2**18  # elements of a matrix that are worth waking another core for
_SHORT = 48  # elements of a row that takes less time to read than to add up
_VECTORS = 4  # a row that is not whole vectors, and has fewer, takes vectors of half the length
_BUSY = 3 / 4  # of the cores' time: with less, cores share the k's of each row, not the rows
_NARROW = 64  # columns of C, of which a core has few sums
_RUN, _IN_L1 = 512, 2048  # elements of a row of B to read at least, and sums to keep at most
_WHOLE = 2**14  # bytes of the sums of a row that a core keeps where cores share K: half of an L1
_DEEP = 128  # rows of B that a core reads, at least, for each row of sums that the last one adds up
_LINE, _PAGE, _LARGE = 64, 2**12, 2**24  # bytes: the last of a matrix that is larger than the L2s
_LAUNCH, _BANDWIDTH = 5e-6, 4.3e12  # seconds of a launch on the device, and bytes in a second
_OF_A_ROW, _OF_A_COLUMN = 2e10, 6e9  # bytes in a second of one that no others share
_FEW, _MANY = 2**11, 2**14  # columns of C


# Work-groups that share a row or columns.
_SHARING = 1.7e-6  # seconds that it costs to store parts and to add them up
_LONG = 6e-6  # seconds of a row or a column that is worth sharing
_AT_ONCE, _SHARED = 2, 64  # work-groups that a compute unit gets, and columns of C that they share


class _Core(NamedTuple):
    """How a core of a CPU reads a matrix fast: 8 rows of A at a time, except as said here."""

    alone: int  # elements at most, above _SHORT, of a row that is read alone
    filled: float  # if A has more than this share of the bytes of the caches
    by_four: range  # elements of rows that are read 4 at a time
    near: int  # bytes by which rows may miss whole pages, and still evict each other from the L1
    halved: int  # a row of so many vectors of floats is read in vectors of half the length
    ragged: int = 0  # so are rows of up to so many floats if they do not all begin on cache lines
    by_page: bool = False  # whether a small B is read page by page, if its rows are whole pages


_CORE = _Core(alone=2**10, filled=1 / 2, by_four=range(_SHORT + 1, 112), near=0, halved=0)
_ZEN_5 = _Core(alone=80, filled=1, by_four=range(0), near=3 * _LINE - 1, halved=2)
# Zen 3 is of Zen 4's family too. Its vectors are shorter than a line, so it reads as others do.
_ZEN_4 = _CORE._replace(halved=1, ragged=2**10, by_page=True)
_CORES = {25: _ZEN_4, 26: _ZEN_5}  # by the family of AMD's CPUs


def seconds(size, itemsize, units, batch=1):
    """Return about how long a batch takes on a GPU with so many compute `units`."""
    reading = batch * size.M * size.N * size.K * itemsize / _BANDWIDTH
    shared = _splits(size, itemsize, units, batch) > 1
    return _LAUNCH + reading + (_SHARING if shared else _alone(size, itemsize))


def _alone(size, itemsize):
    """Return how long a work-group takes for a row of A, or for a column of B."""
    return size.K * itemsize / (_OF_A_ROW if size.N == 1 else _OF_A_COLUMN)


def _splits(size, itemsize, units, batch):
    """Return how many work-groups share long rows or columns, where there are few of them."""
    if batch > 1 or size.N >= _FEW or _alone(size, itemsize) < _LONG:
        return 1
    return max(1, _AT_ONCE * units // (size.M * -(-size.N // _SHARED)))


def _power(least, most, at_most):
    """Return the largest power of two up to `at_most`, between two others."""
    return min(most, max(least, 1 << (max(1, int(at_most)).bit_length() - 1)))


def dots(size, itemsize, units, batch=1):
    """Return the parameters of dot products on a GPU.

    A work-item has about 16 elements of a row. Short rows want fewer work-items, of which several
    teams fill a work-group, and few rows want more.
    """
    rows, splits = batch * size.M, _splits(size, itemsize, units, batch)
    most = 1024 if splits == 1 else 512
    lanes = _power(2, _power(128, most, 4096 * units // rows), size.K // 16)
    return {"WIDTH": 4, "ROWS": _power(1, 4, -(-rows // units)), "LANES": lanes,
            "TEAMS": max(1, 128 // lanes), "SPLITS": splits}


def sums(size, itemsize, units, batch=1):
    """Return the parameters of row sums on a GPU: a work-group has up to 1024 work-items.

    Few columns of C are taken by 16, so that all compute units have some, many by 64. A work-item
    loads as many rows together as K has for all slices, up to 256 bytes of a column.
    """
    splits = _splits(size, itemsize, units, batch)
    lanes = _SHARED if splits > 1 else 64 if size.N >= _MANY else 32 if size.N > _FEW else 16
    depth = size.K // splits
    slices = _power(1, 1024 // lanes, depth // min(lanes, 32))

    def read(unroll):  # rows, including those that the last round lacks
        return -(-(depth // unroll) // slices) * slices * unroll

    most = min(depth, 256 // itemsize)
    fitting = [n for n in (16, 32, 64) if n <= most and read(n) <= 1.1 * depth]
    return {"WIDTH": 1, "UNROLL": max(fitting, default=8), "LANES": lanes, "SLICES": slices,
            "NC": lanes, "SPLITS": splits}


def _core(device):
    """Return the _Core of a CPU."""
    return _CORES.get(amd_family(device), _CORE)


def cores(problem, device):
    """Return how many of a CPU's cores to wake, and how many elements a vector has."""
    M, N, K = problem.size
    native = getattr(device, f"native_vector_width_{REAL[problem.dtype]}")
    units = max(1, device.max_compute_units // problem.batch)
    return min(units, 1 + max(M, N) * K // _WORTH), max(1, min(native, max(VECTORS)))


def columns(N, cores, width, most=_IN_L1):
    """Return how many columns of B a core sums up at a time, such that all cores have as many."""
    cores = min(cores, -(-N // _RUN))
    groups = cores * -(-N // (cores * most))
    return -(-N // (groups * width)) * width


def about(problem, device):
    """Return what `seconds`, `dots` and `sums` are asked with."""
    return problem.size, problem.dtype.itemsize, device.max_compute_units, problem.batch


def fills_caches(problem):
    """Tell whether a matrix is multiplied by a vector, and no cache of the machine holds it.

    Launches that overlap would share what they read from memory, so each would seem faster.
    """
    (M, N, K), itemsize = problem.size, problem.dtype.itemsize
    read = problem.batch * max(M, N) * K * itemsize
    return min(M, N) == 1 and read > (all_bytes() or math.inf)  # Linux may not tell


def start_dots(given, problem, limits, device):
    """Return the default parameters of kernel 16."""
    if type_of(device) == "cpu":
        (M, N, _), core = problem.size, _core(device)
        at_work, native = cores(problem, device)
        ROWS = _rows_of_dots(problem, core)
        width = _width_of_dots(problem, native, core, ROWS == 1)
        most = ROWS * -(-M // (ROWS * at_work))  # rows that a core gets
        SPLITS = at_work if N == 1 and _BUSY * most * at_work > M else 1
        rows_of_core = M if SPLITS > 1 else -(-M // at_work)
        ROWS = _power(1, ROWS, 2 * rows_of_core - 1)  # that number, rounded up to a power of two
        return {**DOTS, "WIDTH": width, "ROWS": ROWS, "LANES": 1, "SPLITS": SPLITS}
    return dots(*about(problem, device)) if nvidia.EXTENSION in limits.extensions else DOTS


def _width_of_dots(problem, native, core, filling):
    """Return how many elements of a row a _Core takes at a time; a vector has `native` ones.

    `filling` tells whether rows are read one after the other since A fills the caches.
    """
    K, itemsize = problem.size.K, problem.dtype.itemsize
    halved = K // native < _VECTORS and K % native > 0
    if itemsize == 4 and native * itemsize == _LINE:
        # Half or more of the vectors of a row that begins inside a line would be in two lines.
        ragged = _apart(problem) % native > 0 and core.ragged >= K and not filling
        halved = halved or ragged or core.halved * native == K
    width = native // 2 if halved else native
    return max(1, min(width, 1 << (K.bit_length() - 1)))


def _rows_of_dots(problem, core):
    """Return how many rows of A a _Core reads at a time, if A has as many."""
    (M, _, K), itemsize = problem.size, problem.dtype.itemsize
    # Rows read one after the other are one run of addresses. That is faster if A fills the caches,
    # but not for the shortest rows: most of their time is adding up.
    bytes_of_a = problem.batch * M * K * itemsize
    caches = all_bytes() or math.inf  # Linux may not tell
    if bytes_of_a > core.filled * caches and _SHORT < K <= core.alone:
        return 1
    # In a small A, 8 rows that are whole pages apart evict each other from the L1.
    beyond = problem.lda * itemsize % _PAGE
    apart = min(beyond, _PAGE - beyond) <= core.near and bytes_of_a < _LARGE
    return 4 if apart or K in core.by_four else 8


def start_sums(given, problem, limits, device):
    """Return the default parameters of kernel 17."""
    if type_of(device) == "cpu":
        (_, N, K), itemsize = problem.size, problem.dtype.itemsize
        at_work, width = cores(problem, device)
        width = min(width, 1 << (N - 1).bit_length())  # no longer than a narrow B needs
        # A vector that is narrower than a cache line returns to it: few rows are better there, and
        # not too many that are whole pages apart, since they evict each other from the L1.
        whole_lines = width * itemsize == _LINE
        large = N * K * itemsize >= _LARGE and whole_lines
        apart = problem.ldb * itemsize % _PAGE == 0
        # Rows that are left over are read one by one.
        rows = range(min(6, K), 9) if apart else range(min(8, K), 16)
        small = 8 if N <= _NARROW else 4
        UNROLL = min(rows, key=lambda count: K % count) if large else small
        page = _PAGE // itemsize
        in_pages = _core(device).by_page and whole_lines and apart and at_work * page <= N
        if in_pages and not large:
            NC = columns(N, at_work, width, page)
        # If C is one short row, each core takes a part of K, and reads whole rows of B.
        elif problem.size.M == 1 < at_work and N * itemsize <= _WHOLE and _DEEP * at_work**2 <= K:
            NC = columns(N, 1, width, N)
        else:
            NC = columns(N, at_work, width, 2 * _IN_L1 if large and not apart else _IN_L1)
        SPLITS = max(1, at_work // (problem.size.M * -(-N // NC)))
        return {**SUMS, "WIDTH": width, "UNROLL": UNROLL, "LANES": 1, "SLICES": 1, "NC": NC,
                "SPLITS": SPLITS}
    return sums(*about(problem, device)) if nvidia.EXTENSION in limits.extensions else SUMS


def more_dots(problem, params, limits, device):
    """Return what kernel 16 is built with beside the parameters."""
    return {"WIDTH_A": _width_a(problem, params["WIDTH"], params["WIDTH"])}, ()


def more_sums(problem, params, limits, device):
    """Return what kernel 17 is built with beside the parameters."""
    return {"WIDTH_A": _width_a(problem, 4, params["UNROLL"])}, ()


def _width_a(problem, width, step):
    """Return how many elements of A to load at a time: `width`, or 1 where addresses are odd.

    Loads begin at multiples of `step` in a row of A.
    """
    return width if _apart(problem) % width == step % width == 0 else 1


def _apart(problem):
    """Return by how many elements the rows of A are apart; 0 if there is only one."""
    return problem.lda if problem.size.M * problem.batch > 1 else 0
