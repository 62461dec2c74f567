"""What every sample promises to tools: --check-only, --describe, --keep, sample.toml, `code`."""

import json
import re
import shutil
import subprocess
import sys

import pyopencl as cl
import pytest
from fake_drivers import build

from common import constraints, manifest, record
from common.errors import UsageError
from tests.conftest import sample_module

# Those whose run.py has the three options already.
DESCRIBED = manifest.names()


@pytest.mark.parametrize("name", manifest.names())
def test_every_sample_toml_says_what_tools_need(name):
    found = manifest.read(name)
    assert found.tools.metric in ("gflops", "gbytes_per_s")
    assert found.tools.small
    ((option, values),) = found.tools.axes
    assert option in found.options["values"]
    assert len(values) > 1
    assert found.tools.small[0] in found.options["values"]


@pytest.mark.parametrize("name", DESCRIBED)
def test_a_description_names_the_kernels_of_the_axes(recorded, name):
    done, (item,) = recorded(name, "--describe")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert (item.variant, item.status, item.timing) == ("describe", "passed", {})
    assert item.device["platform"]
    assert item.code == manifest.code_digest(name)
    kernels = item.params["kernels"]
    ((option, values),) = manifest.read(name).tools.axes
    assert [kernel["options"] for kernel in kernels] == [[option, value] for value in values]
    for kernel in kernels:
        if kernel["space"]:
            space = constraints.Space(**kernel["space"])
            limits = {"local_mem_size": 1 << 24, "max_work_group_size": 4096, "itemsize": 4,
                      **{f"max_work_items_{n}": 4096 for n in range(3)}}
            assert not constraints.broken(space, space.defaults, limits)
            assert set(kernel["flags"]) == set(space.defaults) == set(space.values)
            assert set(kernel["flags"].values()) <= manifest.read(name).options["values"]


def test_without_json_a_description_is_printed(run_sample):
    done = run_sample("sgemm", "--describe")
    assert json.loads(done.stdout)["variant"] == "describe"


@pytest.mark.parametrize("name", DESCRIBED)
def test_check_only_checks_and_takes_no_times(recorded, name):
    small = manifest.read(name).tools.small
    done, records = recorded(name, *small, "--check-only")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Launches:" not in done.stdout
    for item in records:
        assert item.status == "passed"
        assert not item.timing.get("host_s")
        assert item.check["error_over_bound"] <= 1
        assert item.metrics == {}


@pytest.mark.parametrize("name", DESCRIBED)
def test_build_only_enqueues_nothing(recorded, tmp_path, name):
    """Not even the small program that tells whether a driver works: this one cannot run it."""
    env = {"OCL_ICD_VENDORS": str(build(tmp_path, "LAUNCH=abort()"))}
    done, records = recorded(name, *manifest.read(name).tools.small, "--build-only", env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    for item in records:
        assert (item.status, item.check, item.device["name"]) == ("built", {}, "Fake GPU")
        assert set(item.metrics["kernel"]) == {"private", "local", "limit", "multiple"}
        assert item.timing["build_s"] >= 0
        assert f"{item.variant}: built in " in done.stdout


def test_what_the_device_cannot_do_is_not_built(recorded):
    args = ("--kernel", "all", "--size", "8x8", "--limits", "embedded", "--build-only")
    done, items = recorded("64_bit_integer", *args)
    assert (done.returncode, [item.status for item in items]) == (
        77,
        ["unsupported"] * 3 + ["built"],
    )
    assert items[0].reason == "the device has no cl_khr_int64_base_atomics"


@pytest.mark.parametrize(
    ("sample", "kernel", "wanted"),
    [
        ("mygemm", "01_naive", ("1,4", ["01_naive", "04_wide"])),
        ("64_bit_integer", "01_long_vectors",
         ("all", ["long_vectors", "many_vectors", "work_group", "two_stages"])),
    ],
)
def test_a_kernel_that_does_not_build_is_a_result(recorded, project, sample, kernel, wanted):
    file = project / f"samples/{sample}/kernels/{kernel}.cl"
    file.write_text(file.read_text() + "no C\n")
    done, items = recorded(sample, "--kernel", wanted[0], "--build-only", root=project)
    assert done.returncode == 1
    assert [item.variant for item in items] == wanted[1]
    assert [item.status for item in items] == ["failed", *["built"] * (len(items) - 1)]
    assert f"{kernel}.cl does not build: line" in items[0].reason


def test_what_drivers_make_is_kept(run_sample, tmp_path):
    done = run_sample("sgemm", "--size", 8, "--check-only", "--keep", tmp_path / "kept")
    assert done.returncode == 0, done.stderr
    (about,) = (tmp_path / "kept").glob("*.json")
    assert about.name == "0-sgemm.json"
    kept = json.loads(about.read_text())
    assert kept["file"] == "samples/sgemm/sgemm.cl"
    assert set(kept["kernels"]) == {"sgemm_dot4", "sgemm_row4", "sgemm_tile4x4"}
    assert kept["kernels"]["sgemm_dot4"]["limit"] >= 64
    assert about.with_suffix(".bin").stat().st_size > 100
    assert about.with_suffix(".log").exists()
    done = run_sample("sgemm", "--size", 8, "--check-only", "--keep", tmp_path / "kept")
    assert len(list((tmp_path / "kept").iterdir())) == 6  # nothing is lost


def test_a_folder_that_cannot_be(refused, tmp_path):
    (tmp_path / "file").touch()
    said = refused("sgemm", "--size", 8, "--keep", tmp_path / "file" / "kept")
    assert "Not a directory" in said


# The digest of the code.


def test_the_digest_is_of_what_runs(project):
    def digest(*also):
        manifest.code_digest.cache_clear()
        return manifest.code_digest("sgemm", also, project)

    first = digest()
    assert first == manifest.code_digest("sgemm")
    for path, counts in (("samples/sgemm/README.md", False), ("samples/sgemm/notes.txt", False),
                         ("samples/mygemm/run.py", False), ("samples/sgemm/sgemm.cl", True),
                         ("common/timing.py", True), ("common/machine/state.py", True),
                         ("common/planning/tiles.py", False)):
        before = digest()
        with open(project / path, "a") as file:
            file.write("\n")
        assert (digest() != before) is counts, path
    theirs = project / "theirs.cl"
    theirs.write_text("a")
    assert digest(str(theirs)) != digest()
    assert digest("nowhere.cl") is None
    (project / "samples/sgemm/more.py").write_text("if 1:\n    from common.planning import tiles\n")
    before = digest()
    (project / "common/planning/tiles.py").write_text("")
    assert digest() != before
    assert manifest.code_digest("nonesuch") is None


def test_a_board_gives_the_same_digest(tmp_path):
    """It has the files that are shipped, and maybe no tomllib."""
    from deploy import samples

    for path, file in samples.shipped(samples.load()).items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, tmp_path / path)
    line = (
        "import sys; sys.modules['tomllib'] = None\n"
        "from common import manifest; print(manifest.code_digest('mygemm'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", line], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == manifest.code_digest("mygemm")


def test_older_records_have_no_code():
    item = record.Record("s", "k", "passed")
    assert '"code"' not in item.to_line()
    (again,) = record.parse([item.to_line()], "f")
    assert again.code is None
    item.code = "abc"
    (again,) = record.parse([item.to_line()], "f")
    assert again.code == "abc"
    (wrong,) = record.parse([item.to_line().replace('"abc"', "3")], "f")
    assert wrong == "f:1: code has the wrong type"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('metric = 3', "metric must be a string"),
        ('axes = {"--x" = []}', "axes of --x: no value"),
        ('axes = {"--x" = "*.none"}', "there is no '\\*.none'"),
        ('axes = {"--x" = "/etc/*"}', "is outside the sample's folder"),
        ('axes = 3', "sample.toml"),
        ("more = 3", "unknown key more"),
    ],
)
def test_a_table_of_tools_that_cannot_be_used(tmp_path, line, message):
    folder = tmp_path / "samples" / "s"
    folder.mkdir(parents=True)
    text = f'description = "x"\nfiles = ["run.py"]\n[tools]\n{line}\n[cases.a]\nargs = []\n'
    (folder / "sample.toml").write_text(text + "timeout = 3\n")
    (folder / "run.py").touch()
    with pytest.raises(UsageError, match=message):
        manifest.read("s", tmp_path)


@pytest.mark.parametrize(("sample", "size"), [
    ("sgemm", ("--size", 8)), ("gemm_intel", ("-s", 8)), ("gemmbench", ("-n", 8)),
    ("64_bit_integer", ("--size", "8x8")),
])
def test_a_result_that_is_another_after_the_timed_launches_is_wrong(
        run_here, monkeypatch, sample, size):
    run, enqueue, launches = sample_module(sample, "run"), cl.enqueue_nd_range_kernel, []
    skipped = None

    def launch(queue, *args):
        launches.append(args)
        return cl.enqueue_marker(queue) if len(launches) == skipped else enqueue(queue, *args)

    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", launch)
    args = (*size, "--repeat", 1)
    status, _, errors = run_here(run.main, *args, options=run.options())
    assert status == 0, errors
    skipped = len(launches)
    launches.clear()
    status, said, _ = run_here(run.main, *args, options=run.options())
    assert status == 1
    why = "a launch after the timed ones gave another result than the first"
    assert re.search(rf"(FAILED|MISMATCH): {why}", said)
