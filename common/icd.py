"""Let the OpenCL loader find Intel's CPU runtime where pip put it.

The wheel intel-opencl-rt installs lib/libintelocl.so into the environment, and an ICD file that
names another, nonexistent path. The loader is given a folder of our own, with the right one.
"""

import contextlib
import os
import sys
import tempfile
from pathlib import Path

PLATFORM = "Intel(R) OpenCL"  # as that runtime calls itself
_SYSTEM = Path("/etc/OpenCL/vendors")
_CHOICES = ("OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH")  # where these are set, the user has chosen


def intel_library(prefix=sys.prefix):
    """Return the path of Intel's CPU runtime in the environment at `prefix`, or None."""
    path = Path(prefix, "lib", "libintelocl.so")
    return path if path.exists() else None


@contextlib.contextmanager
def pip_drivers(prefix=sys.prefix, system=_SYSTEM):
    """Let a loader that starts in this block see Intel's runtime of this environment as well.

    The loader reads its ICD files once, at the first question for platforms. The folder that it
    reads then holds the system's ICD files too, and is gone afterwards. Gives whether there is one.
    """
    library = intel_library(prefix)
    if library is None or any(os.environ.get(name) for name in _CHOICES):
        yield False
        return
    with tempfile.TemporaryDirectory(prefix="opencl-vendors-") as folder:
        for file in system.glob("*.icd"):
            Path(folder, file.name).symlink_to(file)
        Path(folder, "pip-intel-cpu.icd").write_text(f"{library}\n", encoding="utf-8")
        os.environ["OCL_ICD_VENDORS"] = folder
        try:
            yield True
        finally:
            del os.environ["OCL_ICD_VENDORS"]
