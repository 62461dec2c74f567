"""Bad input: one clear line on stderr, the documented exit status, never a traceback."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from common import cli
from common.isolation import Progress
from tests.conftest import ROOT, sample_module

BAD = {
    "size 0": (["--size", "0"], "'0' is not a size: every order must be from 1 to"),
    "size -1": (["--size", "-1"], "'-1' is not a size"),
    "size 10^9": (["--size", "1000000000"], "choose a smaller size"),
    "a size that fits no device": (["--size", "200000x200000x1"], "choose a smaller size"),
    "size as text": (["--size", "big"], "'big' is not a size: give an order such as 1024"),
    "unknown device": (["-d", "adreno"], "no device 'adreno': choose from [0]"),
    "unknown platform": (["-p", "9"], "no platform '9': choose from [0]"),
    "unknown type": (["-t", "fpga"], "invalid choice: 'fpga'"),
    "no such type here": (["-t", "acc"], "no device of type acc"),
    "unknown kernel": (["--kernel", "fast"], "invalid choice: 'fast'"),
    "unknown option": (["--sise", "4"], "unrecognized arguments: --sise 4"),
    "-- as a value": (["--size=--"], "--size=--: no option takes -- as its value"),
    "an abbreviated option": (["--siz", "4"], "unrecognized arguments"),
    "repeat 0": (["--repeat", "0"], "'0' is not a whole number from 1 to"),
    "warmup -1": (["--warmup", "-1"], "'-1' is not a whole number from 0 to"),
    "seed 2^32": (["--seed", "4294967296"], "from 0 to 4294967295"),
    "alpha 1e39": (["--alpha", "1e39"], "'1e39' is not a number that float32 can hold"),
    "a result that overflows": (["--size", "8", "--alpha", "3e38"], "overflows float32"),
    "an empty device": (["-d", ""], "no device ''"),
    "alpha nan": (["--alpha", "nan"], "'nan' is not a number that float32"),
    "beta text": (["--beta", "x"], "'x' is not a number that float32"),
    "unknown profile": (["--limits", "mali"], "invalid choice: 'mali'"),
    "integers that round": (["--data", "integer", "--alpha", "0.5"], "needs whole --alpha"),
    "an empty --json": (["--json", ""], "argument --json: give a path: it is empty"),
    "an empty --keep": (["--keep", ""], "argument --keep: give a path: it is empty"),
    "--json in no folder": (["--json", "/no/such/folder/x"], "cannot write records to /no/such"),
    "--json a folder": (["--json", "/tmp"], "cannot write records to /tmp: Is a directory"),
}


def one_line(text):
    assert "Traceback" not in text
    lines = text.strip().splitlines()
    assert len(lines) == 1, text
    return lines[0]


@pytest.mark.parametrize("case", BAD)
def test_bad_input(run_here, case):
    args, message = BAD[case]
    sample = sample_module("sgemm", "run")
    status, _, said = run_here(sample.main, *args, options=sample.options())
    assert message in one_line(said)
    assert said.startswith("run.py: error: ")
    assert status == 2


def test_a_kernel_with_a_syntax_error(run_sample, project):
    path = project / "samples/sgemm/sgemm.cl"
    path.write_text(path.read_text().replace("float sum = 0.0f;", "float sum = 0.0f", 1))
    done = run_sample("sgemm", "--size", 4, root=project)
    assert done.returncode == 3
    assert "sgemm.cl does not build: line " in one_line(done.stderr)
    assert "expected ';'" in done.stdout  # the whole log, with the source
    assert "float sum = 0.0f\n" in done.stdout


def test_a_missing_kernel_file(run_sample, project):
    (project / "samples/sgemm/sgemm.cl").unlink()
    done = run_sample("sgemm", root=project)
    assert done.returncode == 3
    assert "the kernel sgemm.cl: cannot read " in one_line(done.stderr)


def test_no_icd(run_sample, tmp_path):
    done = run_sample("sgemm", env={"OCL_ICD_VENDORS": str(tmp_path / "none.icd")})
    assert done.returncode == 3
    assert "no OpenCL platform" in one_line(done.stderr)
    assert "sudo apt install pocl-opencl-icd, or your GPU's driver" in done.stderr
    assert "fab doctor" in done.stderr


def test_an_icd_that_names_a_broken_library(run_sample, tmp_path):
    (tmp_path / "bad.icd").write_text(str(tmp_path / "libmali.so"))
    done = run_sample("sgemm", env={"OCL_ICD_VENDORS": str(tmp_path / "bad.icd")})
    assert done.returncode == 3
    assert "no OpenCL platform" in one_line(done.stderr)


def test_a_wrong_pyopencl_ctx(run_sample):
    done = run_sample("sgemm", env={"PYOPENCL_CTX": "adreno"})
    assert done.returncode == 2
    assert "no platform 'adreno'" in one_line(done.stderr)


def test_what_stopped_it_is_recorded(run_sample, tmp_path):
    path = tmp_path / "records.jsonl"
    run_sample("sgemm", "--size", "4", "--json", path)
    run_sample("sgemm", "-d", "adreno", "--json", path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["status"] for line in lines] == ["passed", "error"]
    assert lines[1]["reason"].startswith("no device 'adreno'")
    run_sample("sgemm", "--size", "0", "--json", path)
    assert json.loads(path.read_text().splitlines()[2])["reason"].startswith("argument --size")


@pytest.mark.parametrize("missing", ["numpy", "pyopencl"])
def test_a_missing_package(run_sample, tmp_path, missing):
    (tmp_path / f"{missing}.py").write_text(f"raise ImportError('No module named {missing}')")
    done = run_sample("sgemm", env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 3
    assert "No module named" in one_line(done.stderr)
    assert missing in done.stderr
    assert "docs/boards.md" in done.stderr


@pytest.mark.parametrize("sample", sorted(p.name for p in (ROOT / "samples").iterdir()))
def test_a_sample_without_common(run_sample, project, sample):
    shutil.rmtree(project / "common")
    done = run_sample(sample, root=project)
    assert done.returncode == 3
    assert "no folder common" in one_line(done.stderr)


def test_output_that_cannot_be_written(run_sample):
    command = f"{sys.executable} samples/sgemm/run.py --size 4"
    for redirection, status in ((">/dev/full", 2), (">&-", 0), ("2>&-", 0)):
        done = subprocess.run(
            ["bash", "-c", f"{command} {redirection}"], cwd=ROOT, capture_output=True, text=True,
            check=False, timeout=60,
        )
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("path", "closed"), [("/dev/stdout", ">&-"), ("/dev/stderr", "2>&-"),
                                               ("/proc/self/fd/1", ">&-")])
def test_records_for_a_stream_that_is_closed(path, closed):
    command = f"{sys.executable} samples/sgemm/run.py --size 4 --repeat 1 --json"
    for redirection, status in ((f"{path} {closed}", 2), (f"{path} >/dev/null 2>&1", 0),
                                (f"/dev/null {closed}", 0)):
        done = subprocess.run(["bash", "-c", f"{command} {redirection}"], cwd=ROOT, timeout=60,
                              capture_output=True, text=True, check=False)
        assert done.returncode == status
        if status and closed == ">&-":
            assert f"cannot write records to {path}: it is closed" in one_line(done.stderr)


@pytest.mark.parametrize("words", [
    ("64_bit_integer", ""), ("gemmbench", "--kernels", ""), ("mygemm", "--tuned", "")])
def test_an_empty_path_is_not_this_folder(run_sample, words):
    done = run_sample(*words)
    assert done.returncode == 2
    assert "give a path: it is empty" in one_line(done.stderr)


def test_a_kernel_that_is_no_text(run_sample, project):
    (project / "samples/sgemm/sgemm.cl").write_bytes(b"\xff\xfe")
    done = run_sample("sgemm", root=project)
    assert done.returncode == 3
    assert "is not text in UTF-8" in one_line(done.stderr)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk(run_sample):
    done = run_sample("sgemm", "--size", "4", "--json", "/dev/full")
    assert done.returncode == 2
    lost = "cannot write records to /dev/full: No space left on device"
    assert lost in one_line(done.stderr)
    done = run_sample("sgemm", "--size", "4", "--platform", "none", "--json", "/dev/full")
    first, second = done.stderr.splitlines()  # two things went wrong
    assert done.returncode == 2
    assert "no platform 'none'" in first
    assert second == f"run.py: error: {lost}"


def test_a_reader_that_goes_away(run_sample):
    shell = f"{sys.executable} samples/sgemm/run.py --size 4 --repeat 3 | true"
    done = subprocess.run(
        ["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stderr == ""


def test_list_and_help(run_sample):
    done = run_sample("sgemm", "--list")
    assert done.returncode == 0
    assert done.stdout.startswith("Platforms (")
    assert "[0]" in done.stdout
    done = run_sample("sgemm", "--help")
    assert done.returncode == 0
    assert "exit status: 0 passed, 1 wrong result" in done.stdout
    assert "python samples/sgemm/run.py --size 640x48x1000" in done.stdout


@pytest.mark.parametrize(("options", "said"), [
    ([], "Device: x\nit is busy\n"), (["--check-only"], "Device: x\n"),
    (["--build-only"], "Device: x\n"),
])
def test_a_busy_machine_is_named_where_something_is_timed(monkeypatch, capsys, options, said):
    monkeypatch.setattr(cli.state, "busy", lambda: "it is busy")
    monkeypatch.setattr(cli.device, "summary", lambda about: ["Device: x"])
    args = cli.parser("sgemm", "").parse_args(options)
    args.progress = Progress()
    cli.show(args, {})
    assert capsys.readouterr().out == said
