"""Building kernels: what a failed build shows."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import fake_drivers
import pyopencl as cl
import pytest

from common import program
from common.errors import OpenCLFailure
from common.program import build
from tests.conftest import ROOT, sample_module


def test_a_syntax_error_names_file_and_line_and_shows_the_source(queue, tmp_path, capfd):
    path = tmp_path / "broken.cl"
    path.write_text("__kernel void f(__global float *x)\n{\n    x[0] = undeclared_thing;\n}\n")
    with pytest.raises(
        OpenCLFailure, match=r"broken\.cl does not build: line 3: .*undeclared"
    ) as e:
        build(queue.context, path)
    assert "    3 |     x[0] = undeclared_thing;" in e.value.log
    assert "\n" not in str(e.value)
    assert capfd.readouterr().err == ""  # the driver's own remarks are kept away


def test_a_work_group_size_of_0_is_the_drivers_failure(queue, tmp_path, monkeypatch):
    (tmp_path / "f.cl").write_text("kernel void f(global int *x) { *x = 1; }")
    kernel = cl.Kernel(build(queue.context, tmp_path / "f.cl"), "f")
    assert program.group_limit(kernel) > 0
    monkeypatch.setattr(cl.Kernel, "get_work_group_info", lambda *_: 0)
    with pytest.raises(OpenCLFailure, match="a work-group size of 0 for the kernel f"):
        program.group_limit(kernel)


def test_the_current_folder_survives_a_build(queue, tmp_path, monkeypatch):
    """Else the file of --json would be another one."""
    before = cl._cl._Program.build

    def build_elsewhere(*args):
        os.chdir("/")
        before(*args)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cl._cl._Program, "build", build_elsewhere)
    (tmp_path / "f.cl").write_text("kernel void f(global int *x) { *x = 1; }")
    (tmp_path / "g.cl").write_text("no C")
    build(queue.context, tmp_path / "f.cl")
    assert Path.cwd() == tmp_path
    with pytest.raises(OpenCLFailure):
        build(queue.context, tmp_path / "g.cl")
    assert Path.cwd() == tmp_path


@pytest.fixture
def build_only(monkeypatch):
    """As with --build-only."""
    monkeypatch.setattr(program.mesa, "listen", lambda: None)  # it changes the environment
    program.ask(None, True)
    yield
    program.ask(None, False)


@pytest.mark.parametrize("text", ["__kernel void f() {}", "no C"])
def test_a_time_limit_ends_with_the_build(queue, tmp_path, build_only, text):
    (tmp_path / "f.cl").write_text(text)
    with suppress(OpenCLFailure):
        build(queue.context, tmp_path / "f.cl")
    assert signal.getitimer(signal.ITIMER_PROF) == (0, 0)


def test_an_error_of_mesa_is_one_whatever_the_build_returns(
    queue, tmp_path, build_only, monkeypatch
):
    (tmp_path / "f.cl").write_text("__kernel void f() {}")
    monkeypatch.setattr(program.mesa, "error", lambda said: "MESA: error: export failed")
    with pytest.raises(OpenCLFailure, match=r"f\.cl: MESA: error: export failed") as e:
        build(queue.context, tmp_path / "f.cl")
    assert (e.value.exit_status, e.value.record_status) == (77, "unsupported")


def test_what_mesa_says_is_in_the_report_and_kept(queue, tmp_path, build_only, monkeypatch, capsys):
    (tmp_path / "f.cl").write_text("__kernel void f() {} __kernel void g() {}")
    program.ask(tmp_path, True)
    monkeypatch.setattr(
        program.mesa,
        "kernels",
        lambda said: {"f": ({"instructions": 7, "load_store": 2.0}, "NOP\n")},
    )
    built = build(queue.context, tmp_path / "f.cl")
    made = program.report("naive", cl.Kernel(built, "f"))
    assert made["metrics"]["compiler"]["instructions"] == 7
    assert (tmp_path / made["metrics"]["compiler"]["listing"]).read_text() == "NOP\n"
    assert set(made["metrics"]["kernel"]) == {"private", "local", "limit", "multiple"}
    assert "7 instructions, most of load_store" in capsys.readouterr().out
    assert "compiler" not in program.report("other", cl.Kernel(built, "g"))["metrics"]


@pytest.mark.parametrize(
    "line",
    [
        "<kernel>:3:5: error: use of undeclared identifier 'y'",  # NVIDIA, Mali
        "3:5: error: use of undeclared identifier 'y'",  # Intel
        "error: /tmp/x.cl:3:5: use of undeclared identifier 'y'",  # PoCL
    ],
)
def test_logs_of_other_compilers(line):
    log = f"Build on device:\n{line}\n1 error generated.\n"
    assert program.first_error(log) == "line 3: use of undeclared identifier 'y'"
    assert "    3 | third" in program.with_source(log, {Path("x.cl"): "first\nsecond\nthird\n"})


@pytest.mark.parametrize("log", [5_000_000 * "\n", 20_000 * "1:1: error: odd\n", 10**7 * "x"])
def test_a_log_without_an_end_is_cut(log):
    start = time.monotonic()
    shown = program.with_source(log, {Path("x.cl"): "first\n"})
    assert time.monotonic() - start < 5
    assert len(shown) < 70_000
    assert len(shown.splitlines()) < 500
    assert shown.endswith(f"\n... and so on: the compiler's log has {len(log):,} characters")


def test_of_a_log_without_an_end_the_beginning_is_printed(run_sample, tmp_path):
    vendors = fake_drivers.build(tmp_path, "BUILD=return -11", "LINES=5000000")
    start = time.monotonic()
    env = {"OCL_ICD_VENDORS": str(vendors)}
    done = run_sample("sgemm", "-p", "fake", "--size", 8, env=env)
    assert time.monotonic() - start < 20
    assert done.returncode == 3
    assert done.stdout.count("\n") < 250
    assert "... and so on: the compiler's log has 5,000," in done.stdout
    assert done.stderr.startswith("run.py: error: sgemm.cl does not build: ")


@pytest.mark.parametrize("number", ["0", 5000 * "9"])
def test_a_log_may_name_lines_that_are_not_there(number):
    log = f"x.cl:{number}:1: error: odd"
    assert program.with_source(log, {Path("x.cl"): "first\n"}) == log
    assert program.first_error(log)


def test_lines_of_a_file_behind_another_are_its_own(queue, tmp_path):
    first, second = tmp_path / "first.cl", tmp_path / "second.cl"
    first.write_text("/* one\n * two\n * three */\n")
    second.write_text("__kernel void f(__global int *out)\n{\n    *out = unknown;\n}\n")
    with pytest.raises(OpenCLFailure, match=r"second\.cl does not build: line 3: ") as failure:
        build(queue.context, second, before=(first,))
    assert "*out = unknown" in failure.value.log
    log = "first.cl:2:1: error: x\nsecond.cl:2:1: error: x"
    shown = program.with_source(log, {first: "a\nb = 1;\n", second: "c\nd = 2;\n"})
    assert shown.splitlines()[1::2] == ["    2 | b = 1;", "    2 | d = 2;"]


def test_a_compiler_that_fails_before_the_source():
    log = "Build on device:\n\nerror: unknown target CPU 'generic'\nDevice failed to build\n"
    assert program.first_error(log).startswith("unknown target CPU 'generic' (see docs/boards.md")
    assert "names no line" in program.first_error("something else\n")


def test_defines_reach_the_kernel(queue, tmp_path):
    path = tmp_path / "defined.cl"
    path.write_text("#if WIDTH != 4\n#error width\n#endif\n__kernel void f(int x) {}\n")
    assert build(queue.context, path, {"WIDTH": 4})
    with pytest.raises(OpenCLFailure, match="line 2"):
        build(queue.context, path, {"WIDTH": 8})


def test_a_type_that_is_an_extension_is_enabled(queue, tmp_path):
    path = tmp_path / "double.cl"
    path.write_text("__kernel void f(__global REAL *x) { *x = x[1] * 0.1; }\n")
    for real, enabled in (("float", False), ("double", True)):
        built = build(queue.context, path, {"REAL": real}, ["-cl-std=CL1.1"])
        source = built.get_info(cl.program_info.SOURCE)
        assert ("#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n" in source) is enabled
    path.write_text("\n__kernel void f(__global REAL *x) { *x = y; }\n")
    with pytest.raises(OpenCLFailure, match="line 2"):  # of the file
        build(queue.context, path, {"REAL": "double"})


def test_a_program_that_cannot_be_kept_whole_leaves_no_json(queue, tmp_path, monkeypatch):
    """By which tools find it. A disk may be full, or a tool end the sample."""
    path = ROOT / "samples/sgemm/sgemm.cl"
    program.ask(tmp_path, False)
    try:
        with monkeypatch.context() as broken:
            broken.setattr(program.json, "dumps", lambda _: "\udc00")  # which no file takes
            with pytest.raises(UnicodeEncodeError):
                build(queue.context, path)
        assert {"0-sgemm.bin", "0-sgemm.log"} == {each.name for each in tmp_path.iterdir()}
        build(queue.context, path)
        assert (tmp_path / "0-sgemm.json").stat().st_size > 0
    finally:
        program.ask(None, False)


def test_nothing_is_built_that_some_mali_drivers_refuse(queue):
    info = cl.program_build_info.OPTIONS
    built = build(queue.context, ROOT / "samples/sgemm/sgemm.cl", {"WIDTH": 4})
    assert built.get_build_info(queue.device, info).split() == ["-DWIDTH=4"]  # no -I


# They are about what no OpenCL 1.1 has: shuffles, inline PTX, images read without a sampler,
# half precision. Elsewhere their status is 77.
BEYOND = ("08_shuffles", "14_matrix_units", "15_", "23_mali", "24_mali", "25_mali", "26_mali")
KERNELS = sample_module("mygemm", "special").KERNELS
PARTS = {"no_tail", *(name for kernel in KERNELS for name in kernel.before)}  # built with others
SOURCES = [
    path for path in sorted(ROOT.glob("samples/**/*.cl"))
    if path.stem not in PARTS and not path.name.startswith(BEYOND)
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", SOURCES, ids=lambda p: p.name)
def test_an_opencl_1_1_compiler_takes_it(queue, path):
    before = [each.path(name) for each in KERNELS if each.file == path for name in each.before]
    assert build(queue.context, path, options=["-cl-std=CL1.1"], before=before)


def test_a_missing_file(queue, tmp_path):
    with pytest.raises(OpenCLFailure, match=r"the kernel gone\.cl: .*: No such file"):
        build(queue.context, tmp_path / "gone.cl")


def test_a_driver_that_says_nothing():
    with program.quiet_driver() as said:
        pass
    assert said == [""]
