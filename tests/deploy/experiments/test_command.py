"""Tools whose samples run on a board: `fab inspect` and `fab check`."""

import shutil

import pytest

needs_oclgrind = pytest.mark.skipif(shutil.which("oclgrind") is None, reason="no Oclgrind")


@needs_oclgrind
def test_a_race_on_a_board_is_found_here_with_file_and_line(fab, project):
    path = project / "samples/64_bit_integer/kernels/02_many_vectors.cl"
    path.write_text(path.read_text().replace("barrier(CLK_LOCAL_MEM_FENCE);", "", 1))
    # The board's own device is none of Oclgrind's.
    (project / "boards.toml").write_text('[local]\nplatform = "Portable"\n')
    done = fab("check", "64_bit_integer", "--", "--kernel", "work_group", "two_stages")
    assert (done.returncode, done.stderr) == (1, "")
    assert "--kernel work_group --work-group " in done.stdout
    assert " x data race" in done.stdout
    assert " in work_group, 02_many_vectors.cl:" in done.stdout
    assert done.stdout.splitlines()[-1] == "1 failed, 1 clean"


def test_a_board_without_oclgrind_says_what_to_install(fab, project):
    (project / "boards.toml").write_text('[local.env]\nPATH = "/nowhere"\n')
    done = fab("check", "sgemm")
    assert (done.returncode, done.stderr) == (77, "")
    last = done.stdout.splitlines()[-1]
    assert last == "sgemm: Oclgrind is not installed: apt install oclgrind"


@pytest.mark.usefixtures("assembly")
def test_what_a_driver_made_on_a_board_is_counted_here(fab, project):
    done = fab("inspect", "sgemm", "--", "--kernel", "row4", "-p", "Portable")
    assert (done.returncode, done.stderr) == (0, "")
    table = [line.split() for line in done.stdout.splitlines()]
    row = next(row for row in table if row[:3] == ["sgemm", "sgemm_row4", "assembly"])
    assert int(row[3]) > 0  # fma
    names = {path.name for path in (project / "sgemm-inspect/local/kernel-row4").iterdir()}
    assert {"0-sgemm.bin", "0-sgemm.json", "0-sgemm-sgemm_row4.s"} <= names


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("check", "none"), "no sample 'none'"),
        (("check", "sgemm", "--", "--keep", "x"), "sgemm: '--keep' cannot be run on a board"),
        (("inspect", "sgemm", "--", "--kernel", "dot4", "/x"), "'/x' cannot be run on a board"),
        (("run", "sgemm", "--", "--nosuch"), "'--nosuch' cannot be run on a board: there is no s"),
        (("run", "sgemm", "--", "--size=/x"), "'--size=/x' cannot be run on a board: give a num"),
        (("check", "sgemm", "--define", "2X"), "'2X' is not NAME or NAME=VALUE"),
        (("inspect", "sgemm", "--limit", "x"), "--limit"),
        (("inspect", "sgemm", "--folder", ""), "--folder: give a path: it is empty"),
    ],
)
def test_what_cannot_be_is_said_before_anything_travels(fab, project, line, message):
    (project / "boards.toml").write_text('[local]\npython = "/no/python"\n')
    done = fab(*line)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stdout
    assert message in done.stderr


def test_options_that_the_only_board_refuses_are_one_error(fab, project):
    done = fab("sweep", "sgemm", "--", "--kernel", "nope")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith("fab: error: sgemm: argument --kernel: invalid choice: 'nope'")
    assert done.stdout.splitlines()[-1].startswith("deployed: ")
