"""A sample starts hardly later than OpenCL itself does."""

import os
import subprocess
import sys

import pytest

from common import icd
from tests.conftest import ROOT

BARE = [sys.executable, "-c", "import pyopencl; pyopencl.create_some_context(False)"]
SAMPLE = [sys.executable, "samples/sgemm/run.py", "--size", "64"]


def cpu_seconds(command, env):
    """Of the command, all its threads. Tests beside this one hardly change it, unlike the clock."""
    process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return usage.ru_utime + usage.ru_stime


@pytest.mark.exhaustive
def test_start_up_takes_at_most_1_4_times_the_processor_time_of_a_bare_context(tmp_path):
    env = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path)}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # a second start finds its modules compiled
    with icd.loader():  # a bare context with the same drivers
        bare_env = {**env, "OCL_ICD_VENDORS": os.environ.get("OCL_ICD_VENDORS", "")}
        for _ in range(2):
            cpu_seconds(BARE, bare_env)
            cpu_seconds(SAMPLE, env)
        times = [(cpu_seconds(SAMPLE, env), cpu_seconds(BARE, bare_env)) for _ in range(10)]
    sample, bare = map(min, zip(*times))
    assert sample <= 1.4 * bare, times
