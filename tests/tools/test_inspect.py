"""tools inspect: the driver's own files are found, counted and kept."""

import json
import re

import pytest

from common.errors import UsageError
from tools import command, inspect
from tools.__main__ import run

NUMBERS = {"private": 0, "local": 512, "limit": 256, "multiple": 32}


def kept(folder, platform, binary, log="", kernels=("gemm",), file="samples/s/06_k.cl"):
    """Write what --keep writes of one program."""
    folder.mkdir(exist_ok=True)
    about = {"file": file, "defines": {"TS": 8}, "options": [], "platform": platform,
             "device": "d", "kernels": dict.fromkeys(kernels, NUMBERS)}
    (folder / "0-k.json").write_text(json.dumps(about))
    (folder / "0-k.bin").write_bytes(binary)
    (folder / "0-k.log").write_text(log)
    return folder


def test_nvidias_ptx_is_counted(tmp_path):
    ptx = b".version 8.7\n.target sm_90\n.entry gemm(\n)\n{\n fma.rn.f32 %f1, %f2, %f3, %f4;\n}\n\0"
    log = "Compiling entry function 'gemm' for 'sm_90'\nUsed 40 registers\n"
    found = {}
    inspect.look(kept(tmp_path / "k", "NVIDIA CUDA", ptx, log), tmp_path, found)
    ((key, one),) = found.items()
    assert key == ("06_k", "gemm", '{"TS": 8}')
    assert one.numbers == {**NUMBERS, "registers": 40, "spills": None}
    assert one.counts["PTX"] == {"fma": 1}
    assert (tmp_path / "k" / "0-k.ptx").read_bytes() == ptx.rstrip(b"\0")
    lines = inspect.report(found)
    assert lines[1].split() == ["registers", "private", "spills", "local", "work-group", "limit",
                                "multiple"]
    assert lines[2].split() == ["06_k", "gemm", "40", "0", "-", "512", "256", "32"]
    assert lines[6].split()[:4] == ["06_k", "gemm", "PTX", "1"]


def test_other_binaries_are_kept_and_not_counted(tmp_path):
    found = {}
    inspect.look(kept(tmp_path / "k", "ARM Platform", b"\x7fELF"), tmp_path, found)
    (one,) = found.values()
    assert one.counts == {}
    assert one.lacking == ["this driver's binary is not text: no instructions are counted"]
    assert inspect.report(found)[-1] == one.lacking[0]


def test_what_is_of_no_sample_is_left_out(tmp_path):
    found, file = {}, "common/probe.cl"
    inspect.look(kept(tmp_path / "k", "x", b"", file=file), tmp_path, found)
    assert found == {}
    assert inspect.report(found) == ["No kernel was built."]


def test_the_same_kernel_with_other_defines_is_told_apart():
    one = inspect.Kernel(NUMBERS)
    kernels = {("06_k", "gemm", '{"TS": 8}'): one, ("06_k", "gemm", '{"TS": 16}'): one,
               ("sgemm_dot", "dot", "{}"): one}
    table = "\n".join(inspect.report(kernels))
    labels = re.findall(r"^(06_k gemm TS=8|06_k gemm TS=16|sgemm_dot)  ", table, re.M)
    assert labels == ["06_k gemm TS=8", "06_k gemm TS=16", "sgemm_dot"]


@pytest.mark.usefixtures("assembly")
def test_a_sample_on_pocl(tmp_path, capsys):
    args = ["--folder", str(tmp_path / "i"), "--", "--kernel", "row4"]
    status = run(["inspect", "sgemm", *args, "-p", "Portable"])
    said = capsys.readouterr()
    assert status == 0, said.err
    table = [line.split() for line in said.out.splitlines()]
    row = next(row for row in table if row[:3] == ["sgemm", "sgemm_row4", "assembly"])
    assert int(row[3]) > 0  # fma
    names = {path.name for path in (tmp_path / "i" / "kernel-row4").iterdir()}
    assert {"0-sgemm.bin", "0-sgemm.json", "0-sgemm.log", "0-sgemm-sgemm_row4.s"} <= names


def test_files_that_it_did_not_make_are_not_lost(tmp_path, capsys):
    """Neither in a folder of a label, nor beside it; its own of a run before are replaced."""
    mine = tmp_path / "kernel-row4" / "thesis.txt"
    mine.parent.mkdir()
    mine.write_text("years of work")
    words = ["inspect", "sgemm", "--folder", str(tmp_path), "--", "--kernel", "dot4", "row4"]
    assert run(words) == 2
    said = f"{tmp_path} has files of others, as kernel-row4: give another --folder"
    assert capsys.readouterr().err == f"tools: error: {said}\n"
    assert [path.name for path in tmp_path.rglob("*")] == ["kernel-row4", "thesis.txt"]
    mine.rename(tmp_path / "thesis.txt")
    mine.parent.rmdir()
    assert run(words) == 2
    assert f"{tmp_path} has files of others, as thesis.txt: " in capsys.readouterr().err
    assert [path.name for path in tmp_path.rglob("*")] == ["thesis.txt"]
    parent = tmp_path / "sgemm-inspect"
    for folder in (parent / "board", parent, parent):  # the board's is no folder of others
        made, _ = command.folders(folder, ["--kernel dot4", "--kernel row4"])
        assert [path.name for path in made.iterdir()] == [".inspect"]
        (made / "0-sgemm.bin").touch()


def test_a_folder_is_of_one_run_at_a_time(tmp_path):
    first = command.folders(tmp_path, ["--kernel dot4", "--kernel row4"])
    (next(first) / "0-sgemm.bin").touch()
    with pytest.raises(UsageError, match=f"another run uses {tmp_path}: give another --folder"):
        next(command.folders(tmp_path, ["--kernel dot4"]))
    assert (tmp_path / "kernel-dot4" / "0-sgemm.bin").exists()
    first.close()
    made = next(command.folders(tmp_path, ["--kernel dot4"]))
    assert [path.name for path in made.iterdir()] == [".inspect"]


def test_files_that_cannot_be_copied_are_one_line(tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "0-sgemm.bin").symlink_to("nowhere")
    with pytest.raises(UsageError, match=rf"^cannot write to {tmp_path}/kept: .*No such file"):
        command.copy(tmp_path / "made", tmp_path / "kept")


def test_bad_input(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert run(["inspect", "sgemm", "--folder", str(tmp_path / "file" / "x")]) == 2
    assert "cannot write to" in capsys.readouterr().err
    for option, said in (("--folder", "give a path"), ("--gpu", "give the name of a GPU")):
        assert run(["inspect", "sgemm", option, ""]) == 2
        assert f"argument {option}: {said}: it is empty" in capsys.readouterr().err
