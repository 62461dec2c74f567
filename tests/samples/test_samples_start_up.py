"""A sample starts hardly later than OpenCL itself does."""

import os
import subprocess
import sys
import time

import pytest

from common import icd
from tests.conftest import ROOT

BARE = [sys.executable, "-c", "import pyopencl; pyopencl.create_some_context(False)"]
SAMPLE = [sys.executable, "samples/sgemm/run.py", "--size", "64"]


def seconds(command, env):
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


@pytest.mark.exhaustive
def test_start_up_is_at_most_one_and_a_half_times_that_of_a_bare_context(tmp_path):
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # a second start finds its modules compiled
    with icd.loader():  # a bare context with the same drivers
        bare_env = {**env, "OCL_ICD_VENDORS": os.environ.get("OCL_ICD_VENDORS", "")}
        for _ in range(2):
            seconds(BARE, bare_env)
            seconds(SAMPLE, env)
        # Interleaved, and the shortest of each: tests beside this one only make a start longer.
        times = [(seconds(SAMPLE, env), seconds(BARE, bare_env)) for _ in range(10)]
    sample, bare = map(min, zip(*times))
    assert sample <= 1.5 * bare, times
