"""tools check: our kernels are clean under Oclgrind, and what is broken on purpose is caught."""

import shutil
import subprocess
import sys

import pytest
from stub import Stub

from common import manifest
from common.constraints import Space
from common.errors import UsageError
from common.record import Record
from tests.conftest import ROOT, exhaustive_but
from tools import check

needs_oclgrind = pytest.mark.skipif(
    shutil.which("oclgrind") is None, reason="Oclgrind is not installed (Debian: oclgrind)"
)


@pytest.fixture
def run():
    """Run `tools check`; gives the finished process."""

    def run(*args, root=ROOT, **more):
        return subprocess.run(
            [sys.executable, "-m", "tools", "check", *map(str, args)],
            cwd=root, timeout=200, capture_output=True, text=True, check=False, **more,
        )

    return run


@pytest.fixture
def changed(project, run):
    """Check a kernel of a sample that is changed in one place."""

    def change(path, right, wrong, *args):
        path = project / "samples" / path
        text = path.read_text()
        assert right in text
        path.write_text(text.replace(right, wrong, 1))
        return run(path.relative_to(project / "samples").parts[0], *args, root=project)

    return change


# The other kernels of gemmbench share their sources; 8, 13 and 14 of mygemm need what is not here.
SOME = {
    "gemmbench": ("-f", "SGEMM_N?_1x1,*_local", "SGEMM_NT_4x2_barrier", "DGEMM_NN_2x2_mnk",
                  "HGEMM_NT_4x1"),
    "mygemm": ("--kernel", *range(1, 8), *range(9, 13)),
}


@needs_oclgrind
@pytest.mark.parametrize("name", exhaustive_but(["sgemm", "gemmbench"], manifest.names()))
def test_a_sample_is_clean(run, name):
    done = run(name, *(("--", *SOME[name]) if name in SOME else ()))
    assert done.returncode == 0, done.stdout + done.stderr
    *rows, last = done.stdout.splitlines()
    axis = SOME[name][1:] if name in SOME else manifest.read(name).tools.axes[0][1]
    assert len(rows) == len(axis)
    assert all(row.endswith("  clean") for row in rows)
    assert last == f"{len(rows)} clean"


@needs_oclgrind
@pytest.mark.exhaustive
def test_what_is_read_from_an_image_is_not_called_uninitialised(run):
    done = run("mygemm", "--", "--kernel", "24")
    assert done.stdout.splitlines()[-1] == "1 clean", done.stdout


@needs_oclgrind
@pytest.mark.parametrize(("early", "size", "right", "text"), [
    *((early, size, "", "") for early in (0, 1) for size in ("40x1x65", "40x37x1")),  # as it is
    (1, "40x1x65", "(e) < NARROW ? (e) : 0", "(e)"),  # of rows of B that are short
    (0, "40x1x65", "k0 + STEP < last", "k0 < last"),  # after the last whole step
    (0, "40x37x1", "whole_steps ? begin + slice * TSK + K_A : 0", "begin + slice * TSK + K_A"),
    (1, "40x1x65", "min(k, K - WIDTH_A)", "k"),
    (1, "40x1x65", "B + min(k, K - 1)", "B + k"),
])
def test_13_loads_beyond_a_row_but_not_beyond_b(changed, early, size, right, text):
    shape = ("--TSM", 32, "--TSN", 32, "--TSK", 8, "--WPTM", 4, "--WPTN", 8, "--EARLY", early)
    done = changed("mygemm/kernels/13_warps.cl", right or "EARLY", text or "EARLY",
                   "--", "--kernel", 13, *shape, "--size", size)
    assert done.stdout.splitlines()[-1] == ("1 clean" if text == right else "1 failed"), done.stdout
    assert ("out-of-bounds read" in done.stdout) == (text != right)


@needs_oclgrind
def test_12_shares_its_groups_by_atomics_alone(run):
    done = run("mygemm", "--", "--kernel", 12, "--STEAL", 1, "--GROUPS", 2, "--WIDTH", 16,
               "--size", "260x130x64")
    assert done.stdout.splitlines()[-1] == "1 clean", done.stdout


@needs_oclgrind
@pytest.mark.parametrize(
    ("kernel", "file"),
    [
        ("work_group", "02_many_vectors"),
        pytest.param("two_stages", "03_two_stages", marks=pytest.mark.exhaustive),
    ],
)
def test_a_removed_barrier_is_a_race_with_file_and_line(changed, kernel, file):
    path = f"64_bit_integer/kernels/{file}.cl"
    done = changed(path, "barrier(CLK_LOCAL_MEM_FENCE);", "", "--", "--kernel", kernel)
    assert done.returncode == 1
    assert " x data race" in done.stdout
    assert f" in {kernel}, {file}.cl:" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 failed"


@needs_oclgrind
@pytest.mark.parametrize("kernel", exhaustive_but(["09_prefetch"], ["09_prefetch", "10_any_size"]))
def test_a_kernel_without_its_last_barrier_is_a_race(changed, kernel):
    path = f"mygemm/kernels/{kernel}.cl"
    text = (ROOT / "samples" / path).read_text()
    head, _, tail = text.rpartition("barrier(CLK_LOCAL_MEM_FENCE);")
    done = changed(path, text, head + tail, "--", "--kernel", int(kernel[:2]))
    assert done.returncode == 1
    assert " x data race" in done.stdout


@needs_oclgrind
@pytest.mark.exhaustive
def test_a_barrier_that_not_all_reach_is_caught(changed):
    line = "barrier(CLK_LOCAL_MEM_FENCE);"
    done = changed("64_bit_integer/kernels/02_many_vectors.cl", line,
                   f"if (get_local_id(0)) {line}", "--", "--kernel", "work_group")
    assert "divergence" in done.stdout
    assert done.returncode == 1


@needs_oclgrind
@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        (
            "float4 sum4 = (float4)(0.0f);",
            "float4 sum4 = (float4)(0 * (A[5000] > 0));",
            "out-of-bounds read",
        ),
        # The first element beyond the buffer: a band there would hide it.
        (
            "int k = 0;",
            "const volatile float gone = ((volatile __global const float *)A)[M * K]; int k = 0;",
            "out-of-bounds read",
        ),
        ("store(sum", "C[5000] = 1; store(sum", "out-of-bounds write"),
        ("float4 sum4 = (float4)(0.0f);", "float4 sum4;", "uninitialised value"),
    ],
)
def test_what_a_kernel_may_not_touch_is_caught(changed, right, wrong, kind):
    text = (ROOT / "samples/sgemm/sgemm.cl").read_text()
    before, _, after = text.partition("__kernel void sgemm_dot4")
    after = after.replace(right, wrong, 1)
    done = changed("sgemm/sgemm.cl", text, f"{before}__kernel void sgemm_dot4{after}",
                   "--", "--kernel", "dot4")
    assert done.returncode == 1
    assert f" x {kind}" in done.stdout, done.stdout
    assert " in sgemm_dot4, sgemm.cl:" in done.stdout


@needs_oclgrind
def test_a_buffer_that_was_never_written_is_seen(changed):
    args = ("--", "--kernel", "dot4")
    done = changed("sgemm/run.py", "buffer.write(matrix)", "pass", *args)
    assert " x uninitialised value" in done.stdout, done.stdout


@needs_oclgrind
def test_a_wrong_result_and_a_kernel_that_does_not_build(changed, run, project):
    done = changed("sgemm/sgemm.cl", " + beta * *C", " + *C", "--", "--kernel", "dot4")
    assert done.returncode == 1
    assert "failed: " in done.stdout
    assert "elements are wrong" in done.stdout
    path = project / "samples/sgemm/sgemm.cl"
    path.write_text(path.read_text().replace("int k = 0", "int k k = 0", 1))
    done = run("sgemm", "--", "--kernel", "dot4", root=project)
    assert done.returncode == 3
    assert "error: sgemm.cl does not build" in done.stdout


def test_without_oclgrind_it_says_what_to_install(run, tmp_path):
    (tmp_path / "setpriv").symlink_to(shutil.which("setpriv"))
    done = run("sgemm", env={"PATH": str(tmp_path)})
    assert done.returncode == 77
    assert done.stderr == "tools: error: sgemm: Oclgrind is not installed: apt install oclgrind\n"


@needs_oclgrind
def test_the_exit_status_says_what_came_of_the_points(tmp_path, monkeypatch, capsys):
    stub = Stub(tmp_path, monkeypatch, capsys)
    for do, status, said in (("refuse", 2, "1 refused"), ("wrong", 1, "1 failed"),
                             ("lack", 77, "1 unsupported"), ("silent", 3, "1 error")):
        ended, out, _ = stub("check", "stub", "--", "--kernel", "1", "--do", do)
        assert (ended, out.splitlines()[-1]) == (status, said)
    ended, out, _ = stub("check", "stub", "--", "--kernel", "1", "--do", "refuse", "wrong")
    assert (ended, out.splitlines()[-1]) == (1, "1 refused, 1 failed")


def test_bad_input(run):
    done = run("sgemm", "-D", "2X=1")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "'2X=1' is not NAME or NAME=VALUE" in done.stderr


LOG = """
Read-write data race at local memory address 0x1000000000004
@Kernel: k

@First entity:  Global(0,0,0) Local(0,0,0) Group(0,0,0)
@  store i32 1
@At line 7 (column 9) of input.cl:
@  a[i] = 1;

@Second entity: Global(1,0,0) Local(1,0,0) Group(0,0,0)
@  load i32
@At line 9 (column 3) of input.cl:
@  b = a[0];

Invalid read of size 4 at global memory address 0x3000000001000
@Kernel: k
@Entity: Global(0,0,0) Local(0,0,0) Group(0,0,0)
@  load
@At line 12 (column 8) of input.cl:
@  x = A[n];

Invalid read of size 4 at global memory address 0x3000000001004
@Kernel: k
@Entity: Global(1,0,0) Local(1,0,0) Group(0,0,0)
@  load
@At line 12 (column 8) of input.cl:
@  x = A[n];

Something new
@Kernel: other

Oclgrind: 4 errors generated
""".replace("@", "\t")


def test_messages_are_counted_by_kernel_file_and_line():
    assert check.messages(LOG, {"k": "k.cl"}) == {
        ("data race", "Read-write data race in k, k.cl:7: a[i] = 1; and k.cl:9: b = a[0];"): 1,
        ("out-of-bounds read", "Invalid read in k, k.cl:12: x = A[n];"): 2,
        ("other", "Something new in other"): 1,
    }
    assert check.messages("", {}) == {}


def test_an_order_between_work_groups_that_oclgrind_does_not_know_is_no_race():
    """Where both say volatile, and one reads, fences and atomics order them."""
    half = LOG.replace("at local", "at global").replace("store i32", "store volatile i32")
    ordered = half.replace("load i32", "load volatile i32")
    others = half, ordered.replace("at global", "at local"), ordered.replace("Read-w", "Write-w")
    assert [len(check.messages(log, {})) for log in (ordered, *others)] == [2, 3, 3, 3]


def test_kernels_with_parameters_run_with_small_ones():
    space = Space({"TS": 32, "WPT": 8}, {"TS": [2, 4, 16, 32], "WPT": [1, 2, 8]},
                  ("TS % WPT == 0",), ("TS", "TS // WPT"))
    limits = {"local_mem_size": 9999, "max_work_group_size": 999,
              "max_work_item_sizes": [999, 999]}
    kernel = {"name": "k", "options": ["--kernel", "2"], "space": vars(space),
              "flags": {"TS": "--tile"}}
    item = Record("s", "describe", "passed", params={"kernels": [kernel]},
                  device={"name": "d", "type": "cpu", "limits": limits})
    small = check.small_parameters(item, ["--kernel", "2"], set())
    assert small == ("--tile", "4", "--WPT", "2")  # 8 work-items; with 2 they would be 2
    assert check.small_parameters(item, ["--kernel", "3"], set()) == ()
    assert check.small_parameters(item, ["--kernel", "2"], {"--tile"}) == ()


def test_kernels_that_do_not_run_cannot_be_checked():
    with pytest.raises(UsageError, match="omit --build-only"):
        check.main(["sgemm", "--", "--build-only"])
