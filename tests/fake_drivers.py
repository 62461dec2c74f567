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
AT_LOAD = {
    "aborts": ("LOAD=abort()", "crashes while loading the drivers (SIGABRT)"),
    "hangs": ("LOAD=hang()", "hangs: no answer in 5 s while loading the drivers"),
}
PATIENCE = {"OPENCL_SAMPLES_PROBE_SECONDS": "5"}


def build(folder, define):
    """Build a fake driver into a folder; return the folder of ICD files that names it."""
    if CC is None:
        pytest.skip("there is no C compiler (Debian: gcc)")
    vendors = folder / "vendors"
    vendors.mkdir()
    library = folder / "libfake.so"
    source = Path(__file__).with_name("fake_driver.c")
    command = [CC, "-shared", "-fPIC", "-w", "-D", define, "-o", library, source]
    subprocess.run(command, check=True)
    (vendors / "0-fake.icd").write_text(f"{library}\n")
    return vendors


def add_working(vendors):
    """Add what this machine has to the folder of ICD files: one of it works."""
    from common import icd

    for number, library in enumerate(icd.libraries().values(), 1):
        (vendors / f"{number}-works.icd").write_text(f"{library}\n")
