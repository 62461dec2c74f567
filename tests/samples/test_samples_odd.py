"""Odd names, numbers, files and streams: one printable line, a documented status, never a hang."""

import io
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from common import device, drivers, gemm, outputs, program, record, text
from common.errors import OpenCLFailure, UsageError
from tests.conftest import ROOT, sample_module

NINES = "9" * 5000
# A new line, an escape sequence, a bell, a change of the direction, half of a character.
ODD = "a\nb\r\x1b[2J\x07\u202e\udcff"
SAMPLES = ("sgemm", "gemm_intel", "64_bit_integer")


def fails(error):
    def main(_):
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "status"),
    [(UsageError(ODD), 2), (OpenCLFailure(ODD), 3), (ValueError(ODD), 3), (MemoryError(ODD), 3),
     (RecursionError(ODD), 3), (OSError(28, ODD), 2)],
)
def test_an_error_is_one_printable_line(run_here, tmp_path, error, status):
    path = tmp_path / "records.jsonl"
    code, _, said = run_here(fails(error), "--json", path)
    assert code == status
    assert said.count("\n") == 1
    assert said[:-1].isprintable()
    (kept,) = record.read(path)
    assert kept.reason.isprintable()


def test_what_is_unforeseen_says_how_to_see_where(run_here):
    code, _, said = run_here(fails(KeyError("x")))
    assert (code, said) == (3, "run.py: error: unforeseen KeyError: 'x' (--debug shows where)\n")


def test_a_long_error_keeps_its_beginning_and_its_end():
    said = text.one_line(f"begins {'x ' * 9000}ends")
    assert len(said) < 1100
    assert said.startswith("begins x")
    assert said.endswith("x ends")


def test_a_compilers_log_cannot_steer_the_terminal(run_here):
    error = OpenCLFailure("no")
    error.log = "one\x1b[2J\n  two\x07"
    assert run_here(fails(error))[1] == "one?[2J\n  two?\n"


@pytest.mark.parametrize("option", ["--seed", "--repeat", "--warmup"])
@pytest.mark.parametrize("value", [NINES, "-1", "", "1e3", "٣", "0x10", "9" * 19, " 1", "1_0"])
def test_whole_numbers_of_the_shared_options(run_here, option, value):
    code, _, said = run_here(lambda _: 0, f"{option}={value}")
    assert code == 2
    assert "is not a whole number from " in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("value", [NINES, f"1x1x{NINES}", "-1", "", "x", "1x", "²", "1" * 19])
@pytest.mark.parametrize("sample", SAMPLES)
def test_sizes(run_here, sample, value):
    options = sample_module(sample, "run").options()
    code, _, said = run_here(lambda _: 0, f"--size={value}", options=options)
    assert code == 2
    assert "is not a size" in said or "is not a whole number from 1" in said
    assert "invalid" not in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("context", [NINES, f"0:{NINES}", ODD, ":", "::", "0:0:0", ",", " ", "-1"])
def test_pyopencl_ctx(run_here, monkeypatch, context):
    monkeypatch.setenv("PYOPENCL_CTX", context)
    code, _, said = run_here(lambda _: device.choose() and 0)
    assert code in (0, 2)
    assert code == 0 or (said.count("\n") == 1 and said[:-1].isprintable())


def test_what_a_driver_calls_itself_cannot_steer_the_terminal(monkeypatch):
    monkeypatch.setattr(device, "survey", lambda: [
        {"name": ODD, "version": ODD, "problem": None,
         "devices": [{"name": ODD, "type": "cpu", "problem": ODD}]}])
    lines = device.listing()
    assert len(lines) == 5
    assert all(map(str.isprintable, lines))


def test_a_fifo_without_a_reader_is_no_file_for_records(run_here, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    code, _, said = run_here(lambda _: 0, "--json", tmp_path / "fifo")
    assert code == 2
    assert "fifo: nobody reads from it" in said


def test_a_fifo_that_is_read_is_one(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    got = []
    reader = threading.Thread(target=lambda: got.append((tmp_path / "fifo").read_text()))
    reader.start()
    kept = record.Record("stub", None, "passed")
    while True:  # until it is opened there
        try:
            record.append(tmp_path / "fifo", kept)
            break
        except OSError:
            assert reader.is_alive()
    reader.join(10)
    assert got == [kept.to_line() + "\n"]


@pytest.mark.parametrize("path", ["/dev/null", "/dev/full", "fifo", "."])
def test_an_output_goes_to_a_file_only(run_here, tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    code, _, said = run_here(lambda _: 0, "--output", path)
    assert code == 2
    assert "cannot write the output to" in said
    with pytest.raises(OSError, match="not a file"):
        outputs.start(path)


def test_a_kernel_that_is_a_fifo_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "odd.cl")
    with pytest.raises(OpenCLFailure, match=r"the kernel odd.cl: .*it is a FIFO"):
        program.build(None, tmp_path / "odd.cl")


@pytest.mark.parametrize("kind", ["fifo", "folder", "/dev/zero", "none"])
def test_an_image_that_is_no_file(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    os.mkdir("folder")
    with pytest.raises(UsageError, match="cannot read"):
        sample_module("64_bit_integer", "luma").get(kind, None, None, 1)


def test_the_name_of_an_image_is_printed_as_one_line(tmp_path):
    luma = sample_module("64_bit_integer", "luma")
    (tmp_path / ODD).write_bytes(luma.DEFAULT.read_bytes())
    assert luma.get(tmp_path / ODD, None, None, 1)[1].isprintable()


def test_an_encoding_that_lacks_characters(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    text.open_streams()
    print("ä\udcff")
    stream.flush()
    assert stream.buffer.getvalue() == b"\\xe4\\udcff\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_go_nowhere(tmp_path, closed):
    """Else the next file that is opened, maybe of the driver, gets what is printed."""
    code = (
        "from common import text; text.open_streams(); import os, sys\n"
        f"kept = open({str(tmp_path / 'kept')!r}, 'w')\n"
        "print('out'); print('err', file=sys.stderr); os.write(1, b'1'); os.write(2, b'2')\n"
        "sys.exit(0 if kept.fileno() > 2 else 1)"
    )
    done = subprocess.run(
        ["bash", "-c", f'"{sys.executable}" -c "$0" {closed}', code],
        cwd=ROOT, capture_output=True, timeout=60, check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kept").read_text() == ""


@pytest.mark.parametrize("platform", [None, "portable"])
def test_a_home_that_cannot_be_written(run_sample, tmp_path, monkeypatch, platform):
    if platform and not any("Portable" in found.name for found in drivers.platforms()):
        pytest.skip("PoCL is not installed")
    monkeypatch.delenv("POCL_CACHE_DIR", raising=False)
    (tmp_path / "file").touch()
    home = {"HOME": str(tmp_path / "file"), "XDG_CACHE_HOME": "", "TMPDIR": str(tmp_path)}
    chosen = [] if platform is None else ["-p", platform]
    done = run_sample("sgemm", "--size", 4, "--repeat", 1, *chosen, env=home)
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [
        f"opencl-samples-{os.getuid()}"
    ]


def test_where_caches_are(tmp_path, monkeypatch):
    own, other = tmp_path / "own", tmp_path / f"opencl-samples-{os.getuid()}"
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def chosen(asked):
        monkeypatch.setenv("XDG_CACHE_HOME", str(asked))
        drivers.ensure_cache()
        return Path(os.environ["XDG_CACHE_HOME"])

    assert chosen(own) == own
    own.rename(other.with_name("elsewhere"))
    other.symlink_to("elsewhere")  # as somebody else could leave it
    assert chosen(tmp_path / "file") == tmp_path / "file"
    other.unlink()
    assert chosen(tmp_path / "file") == other
    assert other.stat().st_mode & 0o777 == 0o700


def test_values_that_are_nested_deeply_are_no_record(tmp_path):
    good = record.Record("stub", None, "passed", params={"a": [[[1]]]})
    deep = json.loads(good.to_line())
    for _ in range(200):
        deep["params"] = {"a": [deep["params"]]}
    (tmp_path / "r.jsonl").write_text(f"{json.dumps(deep)}\n{good.to_line()}\n")
    items = list(record.scan(tmp_path / "r.jsonl"))
    assert items[0].endswith("r.jsonl:1: its values are nested too deeply")
    assert items[1] == good


def test_sizes_that_are_right():
    assert gemm.parse_size("0012") == (12, 12, 12)
    assert gemm.parse_size("1X2x3") == (1, 2, 3)
