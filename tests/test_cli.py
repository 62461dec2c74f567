"""Bad input: one clear line on stderr, the documented exit status, never a traceback."""

import json
import os

import pytest

BAD = {
    "size 0": (["--size", "0"], 2, "'0' is no size: every order must be from 1 to"),
    "size -1": (["--size", "-1"], 2, "'-1' is no size"),
    "size 10^9": (["--size", "1000000000"], 2, "choose a smaller --size"),
    "a size that fits no device": (["--size", "200000x200000x1"], 2, "choose a smaller --size"),
    "size as text": (["--size", "big"], 2, "'big' is no size: give an order such as 1024"),
    "unknown device": (["-d", "adreno"], 2, "no device 'adreno', there is: [0]"),
    "unknown platform": (["-p", "9"], 2, "no platform '9', there is: [0]"),
    "unknown type": (["-t", "fpga"], 2, "invalid choice: 'fpga'"),
    "no such type here": (["-t", "acc"], 2, "no device of type acc"),
    "unknown kernel": (["--kernel", "fast"], 2, "invalid choice: 'fast'"),
    "unknown option": (["--sise", "4"], 2, "unrecognized arguments: --sise 4"),
    "an option cut short": (["--siz", "4"], 2, "unrecognized arguments"),
    "repeat 0": (["--repeat", "0"], 2, "'0' is no whole number from 1 up"),
    "warmup -1": (["--warmup", "-1"], 2, "'-1' is no whole number from 0 up"),
    "seed 2^32": (["--seed", "4294967296"], 2, "from 0 to 4294967295"),
    "alpha nan": (["--alpha", "nan"], 2, "'nan' is no finite number"),
    "beta text": (["--beta", "x"], 2, "'x' is no finite number"),
    "unknown profile": (["--limits", "mali"], 2, "invalid choice: 'mali'"),
    "integers that round": (["--data", "integer", "--alpha", "0.5"], 2, "needs whole --alpha"),
    "--json in no folder": (["--json", "/no/such/folder/x"], 2, "cannot write records to /no/such"),
    "--json a folder": (["--json", "/tmp"], 2, "cannot write records to /tmp: Is a directory"),
}


def one_line(text):
    assert "Traceback" not in text
    lines = text.strip().splitlines()
    assert len(lines) == 1, text
    return lines[0]


@pytest.mark.parametrize("case", BAD)
def test_bad_input(run_sample, case):
    args, status, message = BAD[case]
    done = run_sample("sgemm", *args)
    assert message in one_line(done.stderr)
    assert done.stderr.startswith("run.py: error: ")
    assert done.returncode == status


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
    assert "cannot read the kernel sgemm.cl" in one_line(done.stderr)


def test_no_icd(run_sample, tmp_path):
    done = run_sample("sgemm", env={"OCL_ICD_VENDORS": str(tmp_path / "none.icd")})
    assert done.returncode == 3
    assert "no OpenCL platform" in one_line(done.stderr)
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


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_disk(run_sample):
    done = run_sample("sgemm", "--size", "4", "--json", "/dev/full")
    assert done.returncode == 2
    assert "cannot write records to /dev/full: No space left on device" in one_line(done.stderr)


def test_a_reader_that_goes_away(run_sample):
    import subprocess
    import sys

    from conftest import ROOT

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
