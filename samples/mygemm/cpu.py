"""The rung 12, for CPUs: its tile follows the registers, its blocks the caches, shares the cores.

A parameter that is 0 is left to the plan, which knows the device and the size.
"""

import platform
from pathlib import Path

from launch import (
    REAL,
    VECTORS,
    Plan,
    Rung,
    at_least,
    broken,
    divides,
    is_vector,
    local_fits,
    require,
)

from common.device import type_of

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")  # where Linux tells of them; OpenCL does not
_UNTOLD = {1: 32 * 2**10, 2: 512 * 2**10}  # bytes for a core, where nobody tells
_PACKED = 5 / 8  # of the L2 for the panels: rows of A, B and C that come and go need some as well
_NARROWEST = 16  # bytes of a vector register
_MANY, _FEW = 12, 6  # rows of a tile, of 2 vectors each, where there are 32 registers or 16
_ROW = 1 / 24  # of the L1 for a row of A's panel: _MANY of them take half of it
_WORTH = 2**21  # floating-point operations that are worth waking another core for


def cache_bytes(level, caches=CACHES):
    """Return how many bytes of data cache of that level a core of this machine has for itself."""
    for index in caches.glob("index*"):
        try:
            names = ("level", "type", "size", "shared_cpu_map")
            found, holds, size, sharing = ((index / name).read_text().strip() for name in names)
            if int(found) == level and holds != "Instruction" and size.endswith("K"):
                cores = int(sharing.replace(",", ""), 16).bit_count()
                return int(size[:-1]) * 2**10 // max(cores, 1)
        except (OSError, ValueError):
            continue
    return _UNTOLD[level]


def _bytes(params, dtype):
    WIDTH, MR, KC, NC = (params[name] for name in ("WIDTH", "MR", "KC", "NC"))
    return (KC * NC + MR * (KC + WIDTH)) * dtype.itemsize


def _rules(params, limits, dtype):
    WIDTH, NR = params["WIDTH"], params["NR"]
    return broken(
        at_least(params, 1, "GROUPS"), is_vector(params, "WIDTH") if WIDTH else None
    ) or broken(
        divides(params, "WIDTH", "NR") if WIDTH else None,
        divides(params, "WIDTH", "KC") if WIDTH else None,
        divides(params, "NR", "NC") if NR else None,
        local_fits(params, limits, _bytes(params, dtype), "WIDTH", "MR", "KC", "NC"),
    )


def _plan(problem, params, limits, device):
    cpu, dtype = type_of(device) == "cpu", problem.dtype
    native = getattr(device, f"native_vector_width_{REAL[dtype]}")
    widest = min(max(native, _NARROWEST // dtype.itemsize), VECTORS[-1])
    memory = limits.local_mem_size
    if cpu:
        memory = min(memory, int(cache_bytes(2) * _PACKED))
    wishes = list(_wishes(params, widest, memory, dtype))
    used = next((wish for wish in wishes if not _rules(wish, limits, dtype)), wishes[0])
    require(PACKED, used, limits, dtype)
    defines = {"REAL": REAL[dtype], **used, **({"PREFETCH": 1} if cpu else {})}
    shape = _shape(problem.size, used, device.max_compute_units)
    return Plan(defines, shape, (1, 1), local_bytes=_bytes(used, dtype))


def _wishes(params, widest, memory, dtype):
    """Give the parameters with those that are 0 filled in, the fastest first.

    The sums of a tile, 2 vectors in a row, leave a few of the vector registers free: of 32 where
    vectors have 64 bytes (AVX-512) and on AArch64, else of 16. Panels take at most `memory`. Where
    that is little they are less deep, so that B's still has many columns, and narrower at last.
    """
    widths = [params["WIDTH"]] if params["WIDTH"] else [n for n in VECTORS[::-1] if n <= widest]
    for width in widths:
        many = width * dtype.itemsize == 64 or platform.machine() in ("aarch64", "arm64")
        MR, NR = params["MR"] or (_MANY if many else _FEW), params["NR"] or 2 * width
        depth = int(cache_bytes(1) * _ROW) // dtype.itemsize
        while depth >= width:
            KC = params["KC"] or depth // width * width
            room = memory // dtype.itemsize - MR * (KC + width)
            NC = params["NC"] or max(room // KC // NR, 1) * NR
            if params["KC"] or 4 * NC >= KC or depth < 2 * width:
                yield {**params, "WIDTH": width, "MR": MR, "NR": NR, "KC": KC, "NC": NC}
            depth //= 2


def _shape(size, params, cores):
    """Return how many work-groups go over the columns and the rows of C.

    The largest share shall be the least work for each k: an element of C is a multiplication, one
    of A that is packed costs as much as about WIDTH of them, and one of B twice that.
    """
    most = max(1, min(cores * params["GROUPS"], size.flop() // _WORTH))

    def work(shape):
        width, height = (
            -(-n // (groups * unit)) * unit
            for n, groups, unit in zip((size.N, size.M), shape, (params["NR"], params["MR"]))
        )
        packed = 2 * width + height * -(-width // params["NC"])
        return width * height + params["WIDTH"] * packed, shape[0] * shape[1]

    shapes = ((x, y) for x in range(1, most + 1) for y in range(1, most // x + 1))
    return min(shapes, key=work)


PACKED = Rung(
    12, "packed", {"WIDTH": 0, "MR": 0, "NR": 0, "KC": 0, "NC": 0, "GROUPS": 1},
    {"WIDTH": VECTORS, "MR": (4, 6, 8, 12), "NR": (8, 16, 32, 48), "KC": (96, 176, 352, 512),
     "NC": (48, 96, 192, 384, 768), "GROUPS": (1, 2, 4)},
    _rules, _plan,
)  # fmt: skip
