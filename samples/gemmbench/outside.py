"""Does a kernel touch what lies outside of its matrices, even where the result is right?

Three looks, each sharper than the one before:
1. Between and around the matrices lies NaN. What is read there spoils the result, as a rule.
2. A kernel may drop a NaN: fmax(NaN, x) is x. So it runs again amid large numbers, once positive
   and once negative, and must give the same bits.
3. It may drop whatever it reads. On a CPU's device the matrices then lie against pages that may not
   be touched, in a process of its own: see fence.py.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from common import device as devices
from common.device import type_of
from common.errors import OpenCLFailure
from common.text import signal_name

_PROGRAM = Path(__file__).with_name("fence.py")
REACH = 1024  # KiB of trap pages behind and before a matrix: a multiple of every page size
_PATIENCE = 600  # seconds
_TRAPPED = (-signal.SIGSEGV, -signal.SIGBUS)
_CRASHED = (*_TRAPPED, -signal.SIGILL, -signal.SIGFPE, -signal.SIGABRT)


def large(dtype):
    """Return a number larger than what a GEMM of ours gives, for elements of that type."""
    return 3e4 if dtype == np.float16 else 1e30


def read_by_value(run, first, dtype):
    """Return what shows that values from outside went into the result, or None.

    `run(around)` runs the kernel with the values of `around` (by A, B, C) around its matrices, NaN
    where it names none, and returns C. `first` is C of a run with NaN everywhere.
    """
    number = large(dtype)
    if all(_equal(run(dict.fromkeys("ABC", n)), first) for n in (number, -number)):
        return None
    if not _equal(run({}), first):
        return "two runs give different results: work-items race"
    guilty = []
    for name in "ABC":
        ones = dict.fromkeys("ABC", 1.0)
        alone = [run({**ones, name: value}) for value in (1.0, number, -number)]
        if not all(_equal(alone[0], result) for result in alone):
            guilty.append(name)
    return f"the result depends on what lies outside of {' and '.join(guilty) or 'the matrices'}"


def _equal(a, b):
    return a.tobytes() == b.tobytes()


def fence(chosen, meta, size, lws, seed):
    """Run the kernel once between trap pages; return `clean`, `touched`, or why that cannot be.

    Raises OpenCLFailure where the kernel crashes without them: it would end this process as well.
    """
    if type_of(chosen) != "cpu" or not sys.platform.startswith("linux"):
        return "not for this type of device"
    platforms = devices.platforms()
    platform = next(n for n, p in enumerate(platforms) if p == chosen.platform)
    number = devices.devices(chosen.platform).index(chosen)
    job = {"metadata": str(meta.path), "size": list(size), "lws": lws, "seed": seed,
           "platform": platform, "device": number}  # fmt: skip
    try:
        done = subprocess.run(
            [sys.executable, _PROGRAM, json.dumps(job)], timeout=_PATIENCE,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no end within {_PATIENCE} s"
    ran = done.stdout.split()
    if done.returncode in _CRASHED and "built" in ran and "ready" not in ran:
        raise OpenCLFailure(f"crashed: {signal_name(-done.returncode)}")
    if done.returncode in _TRAPPED and "ready" in ran:
        # The last thing the program does is to step into a trap itself: that shows they work.
        return "clean" if "clean" in ran else "touched"
    if done.returncode == 0 and "clean" in ran:
        return "this device does not work in the host's memory"
    return (done.stderr.strip().splitlines() or [f"ended with status {done.returncode}"])[-1]
