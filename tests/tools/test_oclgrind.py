"""Samples under Oclgrind: no data races, out-of-bounds accesses or uninitialised values.

And each of these would be seen.
"""

import re
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    shutil.which("oclgrind") is None, reason="Oclgrind is not installed (Debian: oclgrind)"
)
SMALL = {
    "sgemm": ("--size", "9x10x7", "--kernel", "all"),
    "64_bit_integer": ("--size", "32x8", "--kernel", "all"),
    "gemmbench": ("-f", "SGEMM_N?_1x1,*_local,SGEMM_NT_4x2_barrier,DGEMM_NN_2x2_mnk,HGEMM_NT_4x1",
                  "-n", 10, "-lws", "1,1", "--check-only"),
    # The tiles divide nothing: tails, copies and two stages all run.
    "mygemm": ("--size", "9x10x21", "--kernel", "1,2,3,4,5,6,7,9,10,11,12", "--check-only",
               "--TS", 4, "--WPT", 2, "--WIDTH", 2, "--TSDK", 4, "--TSM", 8, "--TSN", 8, "--TSK", 4,
               "--WPTM", 2, "--WPTN", 2),
    "gemm_intel": ("-s", 10, "--tile-size-M", 2, "--tile-group-M", 4, "--tile-size-N", 3,
                   "--tile-size-K", 2, "--validation"),
}  # fmt: skip
# Those whose kernels read nothing that was not written through common/buffers.py.
ALL_WRITTEN = ("sgemm", "gemm_intel", "gemmbench")


@pytest.fixture
def under_oclgrind(run_sample, tmp_path):
    """Run a sample on Oclgrind; gives the finished process and what Oclgrind has found."""
    program = Path(shutil.which("oclgrind")).resolve()
    env = {
        "OCL_ICD_VENDORS": str(program.parents[1] / "lib/oclgrind/liboclgrind-rt-icd.so"),
        "OCLGRIND_LOG": str(tmp_path / "log"), "OCLGRIND_DATA_RACES": "1",
        "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",
    }  # fmt: skip

    def run(name, **more):
        args = (*SMALL[name], "--repeat", 1, "--warmup", 0)
        if name in ALL_WRITTEN:
            env["OCLGRIND_UNINITIALIZED"] = "1"
        done = run_sample(name, *args, env=env, **more)
        return done, (tmp_path / "log").read_text()

    return run


@pytest.mark.parametrize("name", SMALL)
def test_a_sample_is_clean(under_oclgrind, name):
    done, found = under_oclgrind(name)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Oclgrind" in done.stdout
    assert found == ""


@pytest.mark.parametrize("kernel", ["03_work_group", "04_two_stages"])
def test_a_removed_barrier_is_a_race(under_oclgrind, project, kernel):
    path = project / "samples/64_bit_integer/kernels" / f"{kernel}.cl"
    text = path.read_text()
    assert text.count("barrier(CLK_LOCAL_MEM_FENCE);") == 1
    path.write_text(text.replace("barrier(CLK_LOCAL_MEM_FENCE);", ""))
    _, found = under_oclgrind("64_bit_integer", root=project)
    assert re.search(rf"data race at local memory.*\n\tKernel: {kernel[3:]}", found)


@pytest.mark.parametrize("kernel", ["09_prefetch", "10_any_size"])
def test_a_kernel_without_its_last_barrier_is_a_race(under_oclgrind, project, kernel):
    path = project / "samples/mygemm/kernels" / f"{kernel}.cl"
    head, _, tail = path.read_text().rpartition("barrier(CLK_LOCAL_MEM_FENCE);")
    path.write_text(head + tail)
    _, found = under_oclgrind("mygemm", root=project)
    assert "data race at local memory" in found


def test_a_read_out_of_bounds_is_seen(under_oclgrind, project):
    path = project / "samples/sgemm/sgemm.cl"
    text = path.read_text()
    assert "for (; k + 4 <= K; k += 4)" in text
    path.write_text(text.replace("for (; k + 4 <= K; k += 4)", "for (; k < K; k += 4000)"))
    text = path.read_text().replace("vload4(0, A + k)", "vload4(0, A + k + 4000)")
    path.write_text(text)
    assert "Invalid read" in under_oclgrind("sgemm", root=project)[1]


def test_the_first_element_beyond_a_buffer_is_seen(under_oclgrind, project):
    """No band lies there: Oclgrind would take it for part of the buffer."""
    path = project / "samples/sgemm/sgemm.cl"
    head, entry, body = path.read_text().partition("__kernel void sgemm_dot4(")
    arguments, brace, body = body.partition("{")
    read = "const volatile float gone = ((volatile __global const float *)A)[M * K];"
    path.write_text(f"{head}{entry}{arguments}{brace} {read} {body}")
    assert "Invalid read of size 4" in under_oclgrind("sgemm", root=project)[1]


def test_a_value_that_was_never_written_is_seen(under_oclgrind, project):
    path = project / "samples/sgemm/run.py"
    text = path.read_text()
    assert text.count("buffer.write(matrix)") == 1
    path.write_text(text.replace("buffer.write(matrix)", "pass"))
    assert "ninitialized" in under_oclgrind("sgemm", root=project)[1]
