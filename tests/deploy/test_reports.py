"""fab report and fab export: after a run, in one call or in several."""

import json
import re

import pytest
from report_data import LATER, item, make_run


@pytest.fixture
def ran(fab, stub, project):
    """A project whose one sample has run on `local`, with a failure."""
    failing = "if args.case == 'bad': sys.exit('it is broken')\n"
    stub("thing", failing, cases=("good", "bad"))
    assert fab("deploy", "run-all").returncode == 1
    return project


@pytest.mark.exhaustive
def test_run_report_and_export_in_one_call(fab, stub, project):
    stub("thing")
    done = fab("deploy", "run-all", "report", "export")
    assert (done.returncode, done.stderr) == (0, "")
    assert (project / "results" / "report.html").stat().st_size > 10_000
    (archive,) = (project / "results").glob("local-*.zip")
    assert f"results/{archive.name}: " in done.stdout
    # What was exported can be looked at, and compared with the results that it is of.
    done = fab("report", "--baseline", archive)
    assert "compared with" in done.stdout
    assert "1 unsure" in done.stdout  # the stub takes no times


def test_a_run_keeps_what_the_timeline_and_a_replay_need(ran):
    (plan,) = (ran / "results" / "local").glob("*/plan.json")
    assert "python" in json.loads(plan.read_text())["python"]
    outcomes = [json.loads(p.read_text()) for p in plan.parent.glob("thing/*.outcome.json")]
    first, second = sorted(outcomes, key=lambda o: o["clock"])
    assert second["clock"] >= first["clock"] + first["seconds"]


def test_the_page_tells_what_failed_and_how_long_it_took(fab, ran):
    page_path = ran / "results" / "of.html"
    done = fab("report", "--host", "local", "--output", page_path)
    assert (done.returncode, done.stderr) == (0, "")
    page = page_path.read_text()
    assert "ended with status 1 and left no record" in page
    assert "it is broken" in page  # from its log
    assert float(re.search(r"([\d.]+) s of wall time; nothing was timed", page)[1]) > 0


def test_a_regression_is_the_exit_status_of_fab(fab, stub, project, tmp_path):
    results = project / "results"
    old = make_run(results, item())
    make_run(results, item(times=(0.02, 0.021, 0.022)), name=LATER)
    args = ("report", "--host", "odroid", "--baseline", old)
    assert fab(*args).returncode == 0
    done = fab(*args, "--fail-on-regression", "--figures", tmp_path / "figures")
    assert done.returncode == 1
    assert "worse: odroid: sgemm speed dot4" in done.stdout
    assert list((tmp_path / "figures").glob("timeline-*.png"))


@pytest.mark.exhaustive
def test_export_names_the_run(fab, project):
    old = make_run(project / "results", item(), board="local")
    make_run(project / "results", item(), board="local", name=LATER)
    assert fab("export").returncode == 0
    assert (project / "results" / f"local-{LATER}.zip").exists()
    assert fab("export", "--run", old.name).returncode == 0
    assert (project / "results" / f"local-{old.name}.zip").exists()
    stopped = make_run(project / "results", item(), board="local", name="20990102T030405.678Z")
    (stopped / "ended.json").write_text('{"stopped": true}')
    done = fab("export")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        f"local: {stopped.name} is of a sweep, or was stopped: --run {stopped.name} packs it\n")
    assert not (project / "results" / f"local-{stopped.name}.zip").exists()
    (stopped / "ended.json").unlink()  # as a sweep leaves it
    assert fab("export").returncode == 0
    assert not (project / "results" / f"local-{stopped.name}.zip").exists()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (("export",), 2, "no run of local is in results/local"),
        (("-H", "odroid,firefly", "export"), 2, "no run of odroid is in results/odroid"),
        (("-H", "odroid", "report"), 2, "results/odroid does not exist"),
        (("report",), 2, "there are no results yet: `fab deploy run-all`"),
        (("report", "--host", "../x"), 2, "is not a host"),
        (("report", "--fail-on-regression"), 2, "needs --baseline"),
        (("report", "--baseline", ""), 2, "argument --baseline: give a path: it is empty"),
    ],
)
def test_bad_input_gets_one_line(fab, args, status, message):
    done = fab(*args)
    assert done.returncode == status
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr
