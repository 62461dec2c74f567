"""A sample on a board without wheels: 32-bit, Debian 11, Python 3.9: make test-debian11.

A short one; make test-armhf-bullseye takes the whole way of the README to that board.
"""

import os
import time

import pytest

from dev.emulate.board import Emulated
from tests.test_readme import shell

pytestmark = [
    pytest.mark.skipif("TEST_DEBIAN11" not in os.environ,
                       reason="it takes minutes: make test-debian11"),
    pytest.mark.timeout(1200),
]
HOST = "--host emulated-armhf-bullseye"


def test_packages_of_the_distribution_without_internet(walk_through, tmp_path):
    board = Emulated("armhf-bullseye", walk_through / ".emulated")
    try:
        for command, said in {
            "make board ARCH=armhf RELEASE=bullseye": "emulated-armhf-bullseye is up",
            f"fab provision {HOST}": "of debian bullseye for armhf: downloaded here, unpacked",
            f"fab deploy {HOST} run sgemm --case golden": "3 of 3 passed",
            f"fab clean {HOST}": "cleaned /home/board/opencl-samples",
        }.items():
            start = time.monotonic()
            done = shell(command, walk_through, tmp_path, timeout=600)
            print(f"{command}: {time.monotonic() - start:.1f} s\n{done.stdout}{done.stderr}")
            assert done.returncode == 0, command
            assert said in done.stdout
        assert not (board.folder / "home" / "opencl-samples").exists()
    finally:
        board.stop()
