"""What several test files use: the project's commands, OpenCL, and a real SSH server."""

import faulthandler
import importlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FAB = ROOT / "tests" / "bin" / "fab"
SHIPPED = ("common", "deploy", "report", "samples", "tools", "fabfile.py", "fabric.yaml",
           "boards.toml", "README.md")

sys.path.insert(0, str(ROOT))
os.environ["PATH"] = f"{ROOT / 'tests/bin'}:{os.environ['PATH']}"  # its ssh
os.environ["TEST_PYTHON"] = sys.executable  # of its fab
# Tests have home folders of their own, but need not try drivers, build kernels and look for fonts
# anew in each.
os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
os.environ.setdefault("POCL_CACHE_DIR", str(Path.home() / ".cache" / "pocl" / "kcache"))
os.environ.setdefault("MPLCONFIGDIR", str(Path.home() / ".cache" / "matplotlib"))


def pytest_configure(config):
    """Keep the real stderr, for what is said when a test hangs."""
    global real_stderr
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        real_stderr = os.dup(2)
    # A suite that starts in the background, or under nohup, would pass on that these are ignored.
    for number, handler in ((signal.SIGINT, signal.default_int_handler),
                            (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_collection_modifyitems(items):
    """Give exhaustive tests ten minutes, unless they have a time limit of their own.

    Those that may take longest come first: no other process waits for them at the end.
    """
    for item in items:
        if item.get_closest_marker("exhaustive") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))
    limits = {item: item.get_closest_marker("timeout") for item in items}
    items.sort(key=lambda item: -limits[item].args[0] if limits[item] else 0)


def pytest_timeout_set_timer(settings):
    """End the process of a test that hangs in a driver: no signal reaches Python there.

    One that hangs elsewhere fails at its limit by pytest-timeout's signal, and its process goes on.
    """
    faulthandler.dump_traceback_later(settings.timeout + 10, exit=True, file=real_stderr)


def pytest_timeout_cancel_timer():
    """Take back what pytest_timeout_set_timer has set up."""
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """In CI, which installs all that tests need, a test that is skipped has failed.

    The emulated board comes later there. What one driver lacks, another one has, such as fp16. No
    package gives a machine more cores.
    """
    report = (yield).get_result()
    why = str(report.longrepr)
    optional = any(reason in why for reason in
                   ("it takes minutes: ", "the device has no", "the machine has only"))
    if report.skipped and os.environ.get("CI") and not optional:
        report.outcome = "failed"
        report.longrepr = f"skipped, but CI must run it: {report.longrepr}"


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    """No device choice, driver or key of the tester's own: the tests say what they want."""
    from_make = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    for name in ("PYOPENCL_CTX", "OCL_ICD_VENDORS", "BOARDS_TOML", "SSH_AUTH_SOCK", *from_make):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def queue():
    """A queue on the host's OpenCL device. Without one the tests fail: that is their point."""
    from common import device

    return device.open_queue(device.choose())


@pytest.fixture
def assembly():
    """Skip a test of the assembly of PoCL's kernels where PoCL or objdump is missing."""
    from common import device
    from common.errors import UsageError

    if shutil.which("objdump") is None:
        pytest.skip("objdump is not installed")
    try:
        device.choose("Portable")
    except UsageError:
        pytest.skip("PoCL is not installed")


@pytest.fixture
def run_sample():
    """Start a sample as a user does; gives the finished process with its text.

    With `change`, these lines of Python replace names of its module `run` before it starts.
    """

    def run(name, *args, root=ROOT, python=sys.executable, env=None, timeout=200, change=None):
        command, more = command_of(name, root, change)
        return subprocess.run(
            [python, *command, *map(str, args)],
            cwd=root, env={**os.environ, **(env or {}), **more}, timeout=timeout,
            capture_output=True, text=True, check=False,
        )

    return run


def command_of(name, root=ROOT, change=None):
    """Return the arguments that let Python start a sample, and the environment that they need."""
    if not change:
        return [f"samples/{name}/run.py"], {}
    code = ("import sys\nsys.argv[0] = 'run.py'\nimport run\nfrom common import cli\n"
            f"{change}\ncli.run(run.main, run.options())")
    return ["-c", code], {"PYTHONPATH": f"{root}:{root}/samples/{name}"}


@pytest.fixture
def run_here(monkeypatch, capsys):
    """Call a sample's main() in this process; gives its exit status, stdout and stderr."""
    from common import buffers, cli, isolation, program

    monkeypatch.setattr(isolation, "enter", lambda *_: None)

    def call(main, *args, options=None):
        args = list(map(str, args))
        monkeypatch.setattr(sys, "argv", ["run.py", *args])
        with pytest.raises(SystemExit) as ended:
            cli.run(main, options or cli.parser("stub", "A stub."), args)
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        return ended.value.code, said.out, said.err

    yield call
    program.ask(None, False)
    buffers.guard_with("bands")


@pytest.fixture
def refused(run_here):
    """Call a sample with options that it refuses; gives the line on stderr."""

    def call(name, *args, **defaults):
        run = sample_module(name, "run")
        options = run.options()
        options.set_defaults(**defaults)
        status, _, said = run_here(run.main, *args, options=options)
        assert status == 2
        assert said.startswith("run.py: error: ")
        assert said.count("\n") == 1
        return said

    return call


@pytest.fixture
def recorded(run_sample, tmp_path):
    """Start a sample with --json; gives the finished process and its records."""
    from common import record

    def run(name, *args, **more):
        path = tmp_path / "records.jsonl"
        path.unlink(missing_ok=True)
        done = run_sample(name, *args, "--json", path, **more)
        return done, record.read(path) if path.exists() else []

    return run


def broken_kernels(folder, names, right, wrong):
    """Copy mygemm's kernels into a folder, one of them with `wrong` for `right`; return the copy.

    It is the only file of these `names`, which may be patterns, that has `right`.
    """
    kernels = shutil.copytree(ROOT / "samples/mygemm/kernels", folder / "kernels")
    (path,) = (path for name in names for path in kernels.glob(f"{name}.cl")
               if right in path.read_text())
    path.write_text(path.read_text().replace(right, wrong))
    return kernels


def exhaustive_but(kept, values):
    """Return the values of a test's parameter: those that are not in `kept` marked exhaustive."""
    mark = pytest.mark.exhaustive
    return [v if v in kept else pytest.param(v, marks=mark) for v in values]


def sample_module(sample, name):
    """Return a module of a sample: one beside its run.py, whose names are all different, or that.

    The samples' folders are on the path (pyproject.toml). There are several run.py.
    """
    if name != "run":
        return importlib.import_module(name)
    return _run_of(sample)


@cache
def _run_of(sample):
    path = ROOT / "samples" / sample / "run.py"
    spec = importlib.util.spec_from_file_location(f"run_of_{sample}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def project(tmp_path):
    """A copy of the project that a test may change, with its own results/ and local board."""
    copy = tmp_path / "project"
    copy.mkdir()
    for name in SHIPPED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture
def fab(project, tmp_path):
    """Run fab in the copied project, with a home folder of its own; gives the finished process."""

    def run(*args, env=None, timeout=200):
        return subprocess.run(
            [FAB, *map(str, args)],
            cwd=project, timeout=timeout, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, env={**os.environ, "HOME": str(tmp_path), **(env or {})},
        )

    return run


@pytest.fixture(scope="module")
def walk_through(tmp_path_factory):
    """A fresh copy of the project that is set up: .venv is the one that runs the tests."""
    copy = tmp_path_factory.mktemp("readme") / "opencl-samples"
    wanted = shutil.ignore_patterns(
        ".git", ".venv", ".board", ".emulated", "results", "__pycache__", ".*_cache"
    )
    shutil.copytree(ROOT, copy, ignore=wanted)
    shutil.copytree(ROOT / "results" / "reference", copy / "results" / "reference")
    (copy / ".venv").mkdir()
    for part in Path(sys.prefix).iterdir():
        (copy / ".venv" / part.name).symlink_to(part)
    for mark in ("ready", "launcher"):  # what it marks is done
        (copy / ".venv" / mark).unlink(missing_ok=True)
        (copy / ".venv" / mark).touch()
    return copy


@pytest.fixture
def board(tmp_path):
    """This machine as a board of its own; not by way of fab."""
    from deploy.boards import Settings
    from deploy.fleet import Board
    from deploy.link import LocalLink

    settings = Settings(folder=str(tmp_path / "board"))
    return Board("test", settings, LocalLink(sys.executable))


@pytest.fixture
def ssh_server(tmp_path):
    """Start SSH servers on loopback: call it with a name for each; they end with the test."""
    from tests.ssh_server import SSHD, SshServer

    if SSHD is None:
        pytest.skip("sshd is not installed (Debian: openssh-server)")
    servers = []

    def start(name="server"):
        servers.append(SshServer(tmp_path / name))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def odroid(ssh_server, tmp_path):
    """An SSH server that the user's ssh configuration knows as `odroid`; `firefly` is it too."""
    server = ssh_server("odroid")
    folder = tmp_path / ".ssh"
    folder.mkdir(mode=0o700)
    text = server.host_block("odroid firefly") + server.host_block("behind", ProxyJump="odroid")
    (folder / "config").write_text(text)
    return server


@pytest.fixture
def stub(project):
    """Replace the copied project's samples by small ones that say what a test needs said."""
    for sample in (project / "samples").iterdir():
        shutil.rmtree(sample)

    def add(name, code="", cases=("only",), timeout=60):
        folder = project / "samples" / name
        folder.mkdir()
        head = "import argparse, sys, time\nsys.path.insert(0, sys.path[0] + '/../..')\n"
        head += "from common.record import Record, append\np = argparse.ArgumentParser()\n"
        head += "p.add_argument('--json'); p.add_argument('--case')\n"
        head += "p.add_argument('--number', type=int); p.add_argument('--list', action='version')\n"
        head += "p.version = ''; args = p.parse_args()\n"
        tail = f"\nappend(args.json, Record('{name}', args.case, 'passed'))\n"
        (folder / "run.py").write_text(head + code + tail)
        toml = 'description = "a stub"\nfiles = ["run.py"]\n'
        for case in cases:
            toml += f'[cases.{case}]\nargs = ["--case", "{case}"]\ntimeout = {timeout}\n'
        (folder / "sample.toml").write_text(toml)
        return folder

    return add


@pytest.fixture
def boards_toml(project):
    """Write the copied project's boards.toml."""
    return (project / "boards.toml").write_text
