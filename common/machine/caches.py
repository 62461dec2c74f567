"""The sizes of the caches of this machine's cores, from Linux; OpenCL does not give them."""

from pathlib import Path

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNTOLD = {1: 32 * 2**10, 2: 512 * 2**10}  # bytes for a core, where Linux does not tell


def cache_bytes(level, caches=CACHES):
    """Return how many bytes of data cache of that level, 1 or 2, a core has for itself.

    A cache that cores share counts in equal parts. `caches` is the folder where Linux tells.
    """
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
