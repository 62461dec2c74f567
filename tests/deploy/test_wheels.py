"""What is downloaded for a board: which wheels fit it, and which versions and digests they have."""

import pytest

from common.errors import UsageError
from deploy import wheels
from deploy.errors import BoardError
from deploy.link import sense
from deploy.provision import make_plan
from tests.deploy.test_provision import BARE, FOUND


def test_the_tags_of_wheels():
    tags = wheels.target(FOUND).tags
    assert tags[0] == "manylinux_2_31_aarch64"
    assert "manylinux_2_28_aarch64" in tags
    assert "manylinux2014_aarch64" in tags
    assert "manylinux_2_32_aarch64" not in tags
    assert wheels.target({**FOUND, "libc": ["musl", 1, 2]}).tags[0] == "musllinux_1_2_aarch64"
    # 32-bit programs on a 64-bit kernel, as on many a Raspberry Pi.
    assert wheels.target({**FOUND, "bits": 32}).tags[-1] == "linux_armv7l"


@pytest.mark.parametrize("libc", ["glibc", "musl"])
def test_a_c_library_of_an_absurd_version(libc):
    tags = wheels.target({**FOUND, "libc": [libc, 2, 200_000_000]}).tags
    assert len(tags) < 110
    assert tags[0].endswith("linux_2_99_aarch64")
    assert str(wheels.target({**FOUND, "libc": [libc, 2, 10**9]})).endswith(f"{libc} 2.99")


@pytest.mark.parametrize(
    "odd",
    [
        {"libc": ["glibc", 2, "31"]},
        {"libc": ["glibc", 2, True]},
        {"libc": ["glibc", 10**4000, 31]},
        {"libc": ["glibc", 2, -(10**9)], "machine": "x" * 10**6},
        {"libc": ["other", 2, 31]},
        {"libc": ["glibc", 2]},
        {"libc": None},
        {"machine": "../x"},
        {"machine": None},
        {"python": {"version": "3." + "9" * 4000}},
        {"python": {"version": "--index-url=x"}},
        {"bits": "32", "machine": ["x"]},
    ],
)
def test_a_board_that_cannot_be(odd):
    found = {**FOUND, **BARE, **odd}
    with pytest.raises(BoardError, match="it sends invalid data"), sense(found):
        make_plan(found, "there", system=False)


LOCK = """
numpy==2.4.6 \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
    # via
    #   opencl-samples (pyproject.toml)
    #   pyopencl
other==1 ; platform_machine == "x86_64" \\
    --hash=sha256:{c}
    # via numpy
pyopencl==2026.1 ; platform_machine == "x86_64" \\
    --hash=sha256:{c}
    # via opencl-samples (pyproject.toml)
pytest==9 \\
    --hash=sha256:{c}
    # via numpy-like
"""


def test_what_pip_may_install(tmp_path, monkeypatch):
    monkeypatch.setattr(wheels, "ROOT", tmp_path)
    digests = {name: name * 64 for name in "abc"}
    (tmp_path / "requirements.lock").write_text(LOCK.format(**digests))
    a, b, c = (f"--hash=sha256:{text}" for text in digests.values())
    assert wheels.pinned(["PyOpenCL"], "3.11").splitlines() == [
        f"numpy==2.4.6 {a} {b}",
        f"other==1 {c}",
        f"pyopencl==2026.1 {c}",
    ]
    with pytest.raises(BoardError, match=r"requirements\.lock has no pillow"):
        wheels.pinned(["Pillow"], "3.11")
    with pytest.raises(UsageError, match=r"cannot read .*/requirements-python3\.10\.lock"):
        wheels.pinned(["numpy"], "3.10")


@pytest.mark.parametrize("python", ["3.10", "3.11"])
def test_what_boards_get_is_locked_with_all_that_it_needs(python):
    names = ["numpy", "pyopencl", "Pillow", "intel-opencl-rt", "intel-cmplr-lib-rt"]
    lines = wheels.pinned(names, python).splitlines()
    assert [line.split("==")[0] for line in lines] == [
        "intel-cmplr-lib-rt", "intel-cmplr-lic-rt", "intel-opencl-rt", "numpy", "pillow",
        "platformdirs", "pyopencl", "pytools", "siphash24", "tbb", "tcmlib", "typing-extensions",
    ]
    assert all("--hash=sha256:" in line for line in lines)
