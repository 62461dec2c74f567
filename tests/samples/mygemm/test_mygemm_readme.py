"""The README of mygemm: its program is the sample in short, and runs."""

import re
import subprocess
import sys

from tests.conftest import ROOT


def test_the_program_builds_launches_and_checks_kernel_6():
    text = (ROOT / "samples" / "mygemm" / "README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.S)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True,
                          text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
