"""Drivers that go wrong, built from fake_driver.c; and one that works, to go on with."""

import shutil
import subprocess
from pathlib import Path

import pytest

CC = shutil.which("cc") or shutil.which("gcc")
# How each goes wrong, as the compiler is told, and what the suite must say of it.
WRONG = {
    "aborts": ("BUILD=abort()", "crashes while building a small program (SIGABRT)"),
    "hangs": ("LAUNCH=hang()", "hangs: no answer in 5 s while running a small program"),
    "garbage": ("UNUSED", "computes wrong results: fma of float vectors"),
}
PRINTS = 'LOAD=write(1, "[fake] loaded", 13)'
NO_LIMIT = {
    "UNITS": "reports 0 compute units",
    "GROUP": "reports a work-group size of 0",
    "SIDE": "reports work-item sizes of 64 x 0 x 64",
    "MEMORY": "reports 0 bytes of global memory",
    "ALLOCATION": "reports 0 bytes as the largest allocation",
    "LOCAL": "reports 0 bytes of local memory",
}
AT_LOAD = {
    "aborts": ("LOAD=abort()", "crashes while loading the drivers (SIGABRT)"),
    "hangs": ("LOAD=hang()", "hangs: no answer in 5 s while loading the drivers"),
}
PATIENCE = {"OPENCL_SAMPLES_PROBE_SECONDS": "5"}


def build(folder, *defines):
    """Build a fake driver into a folder; return the folder of ICD files that names it."""
    if CC is None:
        pytest.skip("there is no C compiler (Debian: gcc)")
    vendors = folder / "vendors"
    vendors.mkdir()
    library = folder / "libfake.so"
    source = Path(__file__).with_name("fake_driver.c")
    flags = ["-shared", "-fPIC", "-w", *(f"-D{define}" for define in defines)]
    command = [CC, *flags, "-o", library, source]
    subprocess.run(command, check=True)
    (vendors / "0-fake.icd").write_text(f"{library}\n")
    return vendors


def add_working(vendors):
    """Add what this machine has to the folder of ICD files: one of it works."""
    from common import icd

    for number, library in enumerate(icd.libraries().values(), 1):
        (vendors / f"{number}-works.icd").write_text(f"{library}\n")
