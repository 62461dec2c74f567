"""A matrix and a vector: parameters of dot products and of sums of rows, and their time on a GPU.

What is here for a GPU was measured on an H200.
"""

from common.constraints import VECTORS

_WORTH = 2**18  # elements that are worth waking another core for
_RUN, _IN_L1 = 512, 2048  # elements of a row of B to read at least, and sums to keep at most
_LAUNCH, _BANDWIDTH = 4e-6, 3.6e12  # of a launch on the device, and bytes in a second
_OF_A_ROW, _OF_A_COLUMN = 6e9, 8e8  # bytes in a second that C's rows and columns are good for
_ITEMS = 256
_FEW, _SOME, _MANY = 2**11, 2**12, 2**13  # columns of C


def seconds(size, itemsize, batch=1):
    """Return about how long a batch takes. Where C is short, little is on its way at a time."""
    M, N, K = size
    rate = min(_BANDWIDTH, batch * (M * _OF_A_ROW if N == 1 else N * _OF_A_COLUMN))
    return _LAUNCH + batch * M * N * K * itemsize / rate


def dots(size):
    """Return the parameters of dot products on a GPU; long rows, or few, want more work-items."""
    few = size.M < 4096 or size.K > 8192
    return {"WIDTH": 4, "ROWS": 4, "LANES": _ITEMS if few else _ITEMS // 2}


def sums(size, itemsize):
    """Return the parameters of row sums on a GPU: a work-group has all of 1024 work-items.

    Few columns of C are taken by 16, so that all compute units have some, many by 64. From _SOME
    on, a work-item loads as many rows together as K has for all slices, up to 256 bytes of a
    column.
    """
    lanes, columns, unroll = (16, 16, 16) if size.N <= _FEW else (16, 32, 8)
    if size.N > _MANY:
        lanes, columns = 64, 64
    elif size.N > _SOME:
        lanes, columns = 32, 32
        most = min(256 // itemsize, max(8, 2 * size.K * lanes // 1024))
        unroll = max(n for n in (8, 16, 32, 64) if n <= most)
    return {"WIDTH": 1, "UNROLL": unroll, "LANES": lanes, "SLICES": 1024 // lanes, "NC": columns}


def cores(size, native, units):
    """Return how many of a CPU's cores to wake, and how many elements a vector has."""
    M, N, K = size
    return min(units, 1 + max(M, N) * K // _WORTH), max(1, min(native, max(VECTORS)))


def columns(N, cores, width):
    """Return how many columns of B a core sums up at a time."""
    cores = min(cores, -(-N // _RUN))
    return min(-(-N // (cores * width)) * width, _IN_L1)
