"""The caches and the speeds of the cores that this process runs on, from Linux; OpenCL does not
give them.
"""

import os
from functools import lru_cache
from pathlib import Path

from common.machine.sysfs import whole

CPUS = Path("/sys/devices/system/cpu")
_UNTOLD = {1: 32 * 2**10, 2: 512 * 2**10}  # bytes for a core, where Linux does not tell


@lru_cache(None)
def cache_bytes(level, cpus=CPUS):
    """Return how many bytes of data cache of that level, 1 or 2, a core has for itself.

    A cache that cores share counts in equal parts. Where cores differ, as big and little ones do,
    it is the least: work goes to any of them. `cpus` is the folder where Linux tells.
    """
    told = (size // max(bin(sharing).count("1"), 1) for core in os.sched_getaffinity(0)
            for found, size, sharing in _data(cpus / f"cpu{core}" / "cache") if found == level)
    return min(filter(None, told), default=_UNTOLD[level])


@lru_cache(None)
def speeds(cpus=CPUS):
    """Return how fast each core is, over the fastest one: all 1 where Linux does not tell.

    It tells for Arm's big and little cores, of code without vectors; with them little cores are
    slower still.
    """
    cores = sorted(os.sched_getaffinity(0))
    told = [whole(cpus / f"cpu{core}" / "cpu_capacity") for core in cores]
    return tuple(n / max(told) for n in told) if all(told) else (1.0,) * len(cores)


def all_bytes(cpus=CPUS):
    """Return how many bytes all data caches of this machine hold; 0 where Linux does not tell."""
    found = {each for caches in cpus.glob("cpu[0-9]*/cache") for each in _data(caches)}
    return sum(size for _, size, _ in found)


def _data(caches):
    """Yield (level, bytes, cores that share it as a bit mask) of each data cache of a core."""
    for index in caches.glob("index*"):
        try:
            names = ("level", "type", "size", "shared_cpu_map")
            level, holds, size, sharing = ((index / name).read_text().strip() for name in names)
            if holds != "Instruction" and size.endswith("K"):
                yield int(level), int(size[:-1]) * 2**10, int(sharing.replace(",", ""), 16)
        except (OSError, ValueError):
            continue
