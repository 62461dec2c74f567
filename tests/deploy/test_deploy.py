"""Deploy, run and collect over a real SSH connection to a server of the test's own."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from common import record
from tests.conftest import FAB

UNSUPPORTED = "append(args.json, Record('e', 'x', 'unsupported', 'no fp64')); sys.exit(77)"


def records(project, host):
    """Return every record that came home from `host`, by (sample, case)."""
    found = {}
    for path in sorted(project.glob(f"results/{host}/*/*/*.jsonl")):
        found.setdefault((path.parent.name, path.stem), []).extend(record.read(path))
    return found


def commands(server):
    """Return how many commands were started on the server so far."""
    return server.log().count("Starting session: command")


def processes_with(text):
    """Return the ids of processes whose command line contains `text`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue
            if text.encode() in line and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def until(condition, seconds=20):
    """Wait until `condition()` holds; fail if it does not in time."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
    return value


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_the_whole_way_with_the_real_samples(fab, odroid, project):
    done = fab("deploy", "--host", "odroid", "run-all", "--verbose", timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sgemm golden" in done.stdout
    assert "PASSED: largest error" in done.stdout  # the sample's own words, streamed
    came = records(project, "odroid")
    assert {("sgemm", "documented"), ("sgemm", "golden"), ("sgemm", "odd")} <= set(came)
    statuses = {item.status for items in came.values() for item in items}
    assert statuses <= {"passed", "unsupported"}  # mygemm has kernels for GPUs only
    assert not list((odroid.home / "opencl-samples" / "results").iterdir())  # nothing left behind
    table = done.stdout[done.stdout.index("error/bound") :]
    for word in ("golden", "tile4x4", "passed", "ms", "GFLOPS"):
        assert word in table


def test_a_second_deploy_transfers_nothing_in_one_round_trip(fab, odroid, project):
    first = fab("deploy", "--host", "odroid")
    assert first.returncode == 0, first.stderr
    assert " 0 unchanged" in first.stdout
    before = commands(odroid)
    again = fab("deploy", "--host", "odroid")
    assert "deployed: 0 files copied" in again.stdout
    assert commands(odroid) == before + 1

    (project / "common" / "rng.py").write_text("# changed\n")
    third = fab("deploy", "--host", "odroid")
    assert "deployed: 1 files copied" in third.stdout
    there = odroid.home / "opencl-samples" / "current"
    assert (there / "common" / "rng.py").read_text() == "# changed\n"


def test_a_changed_file_is_mended_and_a_deleted_one_deleted(fab, odroid, project, stub):
    stub("one")
    gone = stub("gone")
    fab("deploy", "--host", "odroid")
    there = odroid.home / "opencl-samples" / "current"
    (there / "common" / "rng.py").write_text("# scribble\n")
    assert (there / "samples" / "gone" / "run.py").exists()
    for file in gone.iterdir():
        file.unlink()
    gone.rmdir()
    assert fab("deploy", "--host", "odroid").returncode == 0
    assert (there / "common" / "rng.py").read_bytes() == (project / "common/rng.py").read_bytes()
    assert not (there / "samples" / "gone").exists()
    assert len(list((odroid.home / "opencl-samples" / "trees").iterdir())) == 1


def test_a_failure_does_not_stop_the_run(fab, odroid, project, stub):
    stub("a_crashes", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    stub("b_exits", "print('half a line', end=''); sys.exit(3)")
    stub("c_lies", "append(args.json, Record('c_lies', 'x', 'passed')); sys.exit(1)")
    stub("d_scrawls", "open(args.json, 'w').write('{\"schema\": 1, \"sam\\n')")
    stub("e_unsupported", UNSUPPORTED)
    stub("f_passes")
    done = fab("deploy", "--host", "odroid", "run-all")
    assert done.returncode == 1
    came = {sample: items for (sample, _), items in records(project, "odroid").items()}
    assert came["a_crashes"][0].reason == "killed by SIGSEGV"
    assert came["b_exits"][0].reason == "ended with status 3 and left no record: half a line"
    assert came["c_lies"][-1].status == "error"
    assert "cannot be read" in came["d_scrawls"][-1].reason
    assert came["e_unsupported"][0].status == "unsupported"
    assert came["f_passes"][0].status == "passed"
    assert "half a line" in done.stdout
    assert "killed by SIGSEGV" in done.stdout


def test_unsupported_alone_is_no_failure(fab, odroid, stub):
    stub("e", UNSUPPORTED)
    assert fab("deploy", "--host", "odroid", "run-all").returncode == 0


def test_a_wrong_kernel_fails_the_run(fab, odroid, project):
    kernel = project / "samples" / "sgemm" / "sgemm.cl"
    kernel.write_text(kernel.read_text().replace("beta, &C[(size_t)i", "0.0f, &C[(size_t)i"))
    assert fab("deploy", "--host", "odroid").returncode == 0
    done = fab("run", "sgemm", "--case", "golden", "--host", "odroid")
    assert done.returncode == 1
    statuses = [item.status for item in records(project, "odroid")["sgemm", "golden"]]
    assert statuses == ["failed", "passed", "passed"]


def test_a_result_that_differs_from_expected_json_fails(fab, odroid, project):
    path = project / "samples" / "sgemm" / "expected.json"
    expected = json.loads(path.read_text())
    expected["golden"]["output_sha256"] = "0" * 64
    path.write_text(json.dumps(expected))
    done = fab("deploy", "--host", "odroid", "run", "sgemm", "--case", "golden")
    assert done.returncode == 1
    assert "the output is not that of expected.json" in done.stdout


def test_a_hanging_case_is_stopped_with_its_whole_process_group(fab, odroid, project, stub):
    mark = f"child-of-{os.getpid()}-{time.monotonic_ns()}"
    stub("hangs", f"""
import subprocess, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('before the hang', flush=True)
subprocess.run([sys.executable, '-c', 'import time; time.sleep(300)', '{mark}'])
""", timeout=1)
    stub("later")
    start = time.monotonic()
    done = fab("deploy", "--host", "odroid", "run-all")
    assert time.monotonic() - start < 20
    assert done.returncode == 1
    came = records(project, "odroid")
    assert came["hangs", "only"][0].status == "error"
    assert came["hangs", "only"][0].reason == "timeout"
    assert came["later", "only"][0].status == "passed"
    assert "before the hang" in done.stdout
    assert processes_with(mark) == []


def test_time_limit_device_and_environment_come_from_boards_toml(
    fab, odroid, project, stub, boards_toml
):
    boards_toml(
        '[odroid]\ntime_limit = 1\nfolder = "a b; touch hit"\nplatform = "ARM; x"\n'
        "[odroid.env]\nRUSTICL_ENABLE = \"pan frost; 'x'\"\n"
    )
    folder = stub("one", timeout=60)
    code = (folder / "run.py").read_text()
    code = code.replace("p.parse_args()", "p.parse_known_args()[0]")
    code += "\nimport os\nprint(sys.argv[3:4], os.environ['RUSTICL_ENABLE'])\ntime.sleep(30)\n"
    (folder / "run.py").write_text(code)
    done = fab("deploy", "--host", "odroid", "run-all")
    assert "['--platform=ARM; x'] pan frost; 'x'" in done.stdout
    assert records(project, "odroid")["one", "only"][-1].reason == "timeout"
    assert (odroid.home / "a b; touch hit" / "current").exists()
    assert not (odroid.home / "hit").exists()


def test_a_lost_connection_leaves_the_records_for_collect(fab, odroid, project, stub):
    flag = project / "go"
    wait = f"import os\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.05)"
    stub("a_quick")
    stub("b_slow", "print('waiting', flush=True)\n" + wait)
    stub("c_after")
    fab("deploy", "--host", "odroid")
    running = start_run_all(odroid, project, "--verbose")
    results = odroid.home / "opencl-samples" / "results"
    until(lambda: list(results.glob("*/b_slow/only.log")))
    for line in iter(running.stdout.readline, ""):
        if "waiting" in line:
            break
    drop_connections(odroid)
    output = running.communicate(timeout=30)[0]
    assert running.returncode == 3
    assert "fab collect --host odroid" in output
    assert not list(project.glob("results/odroid/*/*/*.jsonl"))

    early = fab("collect", "--host", "odroid")  # the board is still at work
    assert early.stdout.endswith(" is still running: collect again\n")
    assert not list(project.glob("results/odroid/*/*/*.jsonl"))

    flag.touch()
    until(lambda: list(results.glob("*/ended.json")))
    late = fab("collect", "--host", "odroid")
    assert late.returncode == 0
    shown = [line.split()[:3] for line in late.stdout.splitlines() if " only " in line]
    assert shown == [[name, "only", "passed"] for name in ("a_quick", "b_slow", "c_after")]
    came = records(project, "odroid")
    assert {name for name, _ in came} == {"a_quick", "b_slow", "c_after"}
    statuses = {item.status for items in came.values() for item in items}
    assert statuses <= {"passed", "unsupported"}  # mygemm has kernels for GPUs only
    assert not list(results.iterdir())
    assert "nothing to collect" in fab("collect", "--host", "odroid").stdout


def start_run_all(server, project, *options):
    """Start `fab run-all --host odroid` in the copied project; gives the running process."""
    return subprocess.Popen(
        [FAB, "run-all", "--host", "odroid", *options], cwd=project,
        env={**os.environ, "HOME": str(server.folder.parent)}, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )


def drop_connections(server):
    """Kill the processes of the server that hold its connections, as a lost network would."""
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    for child in children.split():
        os.kill(int(child), signal.SIGKILL)


def test_a_board_that_lost_power_gets_every_case_a_record(fab, odroid, project, stub):
    stub("a_quick")
    stub("b_kills", "import os, signal; os.kill(os.getppid(), signal.SIGKILL); time.sleep(1)")
    stub("c_never")
    done = fab("deploy", "--host", "odroid", "run-all")
    assert done.returncode == 3
    until(lambda: "still running" not in fab("collect", "--host", "odroid").stdout)
    came = records(project, "odroid")
    assert came["a_quick", "only"][0].status == "passed"
    assert came["c_never", "only"][0].reason == "not run: the run was interrupted"


def test_ctrl_c_stops_the_case_on_the_board(fab, odroid, project, stub):
    mark = f"sleeper-{os.getpid()}-{time.monotonic_ns()}"
    stub("slow", f"import subprocess\nsubprocess.run(['sleep', '300.{os.getpid()}'])  # {mark}")
    stub("z_next")
    fab("deploy", "--host", "odroid")
    running = start_run_all(odroid, project)
    until(lambda: processes_with(f"sleep 300.{os.getpid()}"))
    running.send_signal(signal.SIGINT)
    output = running.communicate(timeout=30)[0]
    assert running.returncode == 130, output
    assert "Traceback" not in output
    until(lambda: not processes_with(f"sleep 300.{os.getpid()}"))
    came = records(project, "odroid")
    assert came["slow", "only"][0].reason == "stopped"
    assert came["z_next", "only"][0].reason == "not run: the run was stopped"


def test_two_at_once_on_one_board_the_second_is_told_who_holds_it(fab, odroid, project, stub):
    flag = project / "go"
    stub("slow", f"import os\nwhile not os.path.exists({str(flag)!r}): time.sleep(0.05)")
    fab("deploy", "--host", "odroid")
    running = start_run_all(odroid, project)
    until(lambda: list((odroid.home / "opencl-samples" / "results").glob("*/slow/only.log")))
    second = fab("deploy", "--host", "odroid")
    flag.touch()
    running.communicate(timeout=30)
    assert running.returncode == 0
    assert second.returncode == 3
    assert "in use" in second.stderr
    assert "@" in second.stderr


def test_run_without_deploy_says_what_to_do(fab, odroid):
    done = fab("run-all", "--host", "odroid")
    assert done.returncode == 3
    assert "deploy first" in done.stderr


def test_run_says_when_the_board_has_other_files(fab, odroid, project, stub):
    stub("one")
    fab("deploy", "--host", "odroid")
    (project / "common" / "rng.py").write_text("# newer\n")
    done = fab("run-all", "--host", "odroid")
    assert "differs from this checkout; deploy again" in done.stdout


def test_clean_deletes_what_was_deployed_and_nothing_else(fab, odroid, stub):
    stub("one")
    folder = odroid.home / "opencl-samples"
    fab("deploy", "--host", "odroid")
    (folder / "results" / "20200101T000000.000Z").mkdir(parents=True)
    refused = fab("clean", "--host", "odroid")
    assert refused.returncode == 3
    assert "not collected: 20200101T000000.000Z" in refused.stderr
    (folder / "note.txt").write_text("mine")
    assert fab("clean", "--host", "odroid", "--discard").returncode == 0
    assert [path.name for path in folder.iterdir()] == ["note.txt"]
    assert fab("clean", "--host", "odroid").returncode == 3  # nothing there is ours any more


def test_a_folder_with_other_files_is_never_taken(fab, odroid, boards_toml):
    (odroid.home / "photos").mkdir()
    (odroid.home / "photos" / "one.jpg").write_text("x")
    boards_toml('[odroid]\nfolder = "photos"\n')
    done = fab("deploy", "--host", "odroid")
    assert done.returncode == 3
    assert "has other files" in done.stderr
    assert [path.name for path in (odroid.home / "photos").iterdir()] == ["one.jpg"]


def test_python_missing_on_the_board(fab, odroid, boards_toml):
    boards_toml('[odroid]\npython = "~/venv/bin/python; touch hit"\n')
    done = fab("deploy", "--host", "odroid")
    assert done.returncode == 3
    assert "its python cannot be started" in done.stderr
    assert not (odroid.home / "hit").exists()


def test_a_board_that_prints_without_end_is_given_up(fab, odroid, boards_toml):
    (odroid.home / "chatty").write_text("#!/bin/sh\nexec yes hello\n")
    (odroid.home / "chatty").chmod(0o755)
    boards_toml('[odroid]\npython = "~/chatty"\n')
    done = fab("doctor", "--host", "odroid")
    assert done.returncode == 3
    assert "it sends without end: 10000 lines that are not messages" in done.stderr


@pytest.mark.exhaustive
def test_a_users_own_module_does_not_stand_in_for_pythons(fab, odroid, stub):
    stub("one")
    for name in ("shutil", "random", "numpy"):
        (odroid.home / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    assert fab("deploy", "--host", "odroid", "run-all", "doctor").returncode == 0


@pytest.mark.exhaustive
def test_results_that_cannot_be_written_here_cost_one_board_only(
    fab, odroid, ssh_server, tmp_path, project, stub
):
    stub("one")
    firefly = ssh_server("firefly")
    blocks = odroid.host_block("odroid") + firefly.host_block("firefly")
    (tmp_path / ".ssh" / "config").write_text(blocks)
    (project / "results").mkdir()
    (project / "results" / "odroid").write_text("a file is in the way")
    done = fab("-H", "odroid,firefly", "deploy", "run-all")
    assert done.returncode == 3
    assert "the records stay on the board" in done.stderr
    assert "fab collect --host odroid" in done.stderr
    assert "1 of 1 passed" in done.stdout
    (project / "results" / "odroid").unlink()
    assert fab("collect", "--host", "odroid").returncode == 0
    assert records(project, "odroid")["one", "only"][0].status == "passed"


def test_what_a_board_sends_cannot_steer_the_terminal_or_the_table(fab, odroid, project, stub):
    stub("one", "args.case = '[red]\\x1b[31m[/nope]'; print('\\x1b]0;title\\x07')")
    done = fab("deploy", "--host", "odroid", "run-all", "--verbose")
    assert done.returncode == 0, done.stderr
    assert "\x1b]" not in done.stdout
    assert "\x1b[31m" not in done.stdout
    assert "[red]?[31m[/nope]" in done.stdout


@pytest.mark.exhaustive
def test_odd_names_in_the_boards_results_are_passed_over(fab, odroid, project, stub):
    stub("one")
    fab("deploy", "--host", "odroid")
    results = odroid.home / "opencl-samples" / "results"
    results.mkdir()
    (results / "a file").touch()
    (results / "20200101T000000.000Z").mkdir()
    (results / "20200101T000000.000Z" / "plan.json").write_text("")
    done = fab("collect", "--host", "odroid")
    assert done.returncode == 1
    assert "the run has no plan" in done.stdout
    assert fab("clean", "--host", "odroid").returncode == 0
    assert not results.exists()


def test_a_login_script_that_greets_does_no_harm(fab, odroid, stub, boards_toml):
    stub("one")
    greeter = odroid.home / "my python"
    noise = """echo 'Welcome to odroid!'; echo 7; echo '{"event": "start"}'; printf '> '"""
    greeter.write_text(f'#!/bin/sh\n{noise}\nexec python3 "$@"\n')
    greeter.chmod(0o755)
    boards_toml('[odroid]\npython = "~/my python"\n')
    assert fab("deploy", "--host", "odroid", "run-all").returncode == 0
