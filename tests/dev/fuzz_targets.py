"""What is fuzzed: for each target the inputs, and what is done with one in a process of its own."""

import contextlib
import json
import runpy
import sys
import zipfile
from collections.abc import Callable
from io import BytesIO
from typing import NamedTuple

from fabric.main import program
from hypothesis import strategies as st
from PIL import Image

from common import manifest
from common.errors import PASSED, WRONG_USAGE, UsageError
from common.text import complain, one_line
from deploy.experiments import records
from report import archive
from report.__main__ import main as report
from tests.conftest import ROOT
from tests.dev import fuzz_words as words
from tools.__main__ import COMMANDS
from tools.__main__ import run as tools

SAMPLES = manifest.names()


class Target(NamedTuple):
    """`inputs` is a strategy; `act(value, work)` runs one in the folder `work` and returns a
    status. `share` is the target's part of all inputs."""

    name: str
    inputs: object
    act: Callable
    share: int


def run_py(sample, argv):
    """Run a sample."""
    sys.argv = [str(path := ROOT / "samples" / sample / "run.py"), *argv]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")


def fab(argv):
    """Run fab with the fabfile of this checkout."""
    program.run(["fab", "--search-root", str(ROOT), *argv])


def _json(value):
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def _like(table):
    """Return the strategy of JSON lines like that of a table."""
    return words.altered(table).map(_json)


# Command lines of the samples.


@st.composite
def _command_lines(draw):
    sample, argv = draw(st.sampled_from(SAMPLES)), []
    found = manifest.read(sample).options
    options = [*sorted(found["values"] | found["words"]), "--json", "--output", "--list", "--help"]
    for _ in range(draw(st.integers(0, 4))):
        name, value = draw(st.sampled_from(options)), draw(words.WORDS)
        argv += draw(st.sampled_from([[name, value], [f"{name}={value}"], [name], [value]]))
    if words.takes_long(argv):
        return sample, ["--list"]
    small = {"gemmbench": ("-n", "8"), "64_bit_integer": ("--size", "8x8")}
    return sample, [*small.get(sample, ("--size", "8")), "--repeat", "1", *argv]


# Images for 64_bit_integer.


def _images():
    made = []
    for kind in ("BMP", "PNG", "GIF", "TIFF", "PPM", "JPEG"):
        data = BytesIO()
        Image.new("RGB", (9, 7), (200, 30, 5)).save(data, kind)
        made.append(words.mutated(data.getvalue()))
    names = st.sampled_from(["a.bmp", "a\n.png", "\x1b[1m.gif", "-x.bmp"])
    return st.tuples(names, st.binary(max_size=200) | st.one_of(made))


def _image(value, work):
    name, data = value
    (work / name).write_bytes(data)
    return run_py("64_bit_integer", ["--repeat", "1", f"./{name}"])


# Metadata of gemmbench.

_KERNELS = ROOT / "samples" / "gemmbench" / "kernels"
_METADATA = json.loads((_KERNELS / "SGEMM_NN_1x1.json").read_text())
# Metadata that a kernel does not fit, and options that no compiler takes.
_PLAUSIBLE = st.fixed_dictionaries({
    "file": st.just("1x1.cl"),
    "name": st.sampled_from(["X", "a b", "\x1b[1m", "x" * 300, "\u202e"]),
    "type": st.sampled_from("SDHCZ"), "dj": st.integers(1, 64), "di": st.integers(1, 64),
    "transA": st.sampled_from("NnTt"), "transB": st.sampled_from("NnTt"),
    "opts": st.sampled_from(["", "-DX=1", "-cl-std=CL9", "-I/", "-Werror", '"', "-D'", "x" * 999]),
    "shape": st.sampled_from(["n", "n", "mnk"]),
}).map(_json)
_METADATA_FILES = st.tuples(
    _like(_METADATA) | _PLAUSIBLE | _PLAUSIBLE | st.binary(max_size=60),
    st.sampled_from(["X.json", "X", "*", "**", "?.json", "[", "all", "../X.json", "a" * 300]),
)


def _metadata(value, work):
    data, name = value
    (work / "X.json").write_bytes(data)
    (work / "1x1.cl").write_bytes((_KERNELS / "1x1.cl").read_bytes())
    return run_py("gemmbench", ["--kernels", ".", "-f", name, "-n", "8", "--repeat", "1"])


# Records, and runs as folders, for the report.

with open(ROOT / "results" / "reference" / "pocl-mygemm.jsonl", encoding="utf-8") as _file:
    _RECORD = next(each for each in map(json.loads, _file) if each["status"] == "passed")
_RUN, _CASE = "20260102T030405.678Z", {"sample": "sgemm", "case": "golden"}
_PLAN = {"run": _RUN, "cases": [_CASE], "deployed": {}, "env": {}, "folder": "x", "python": "p"}
_OUTCOME = {**_CASE, "argv": ["run.py"], "started": 1.0, "clock": 1.0, "seconds": 2.0,
            "exit_status": 0, "reason": None}
_LINE = _like(_RECORD) | _like(_RECORD) | st.binary(max_size=40)
_LINES = st.lists(_LINE, max_size=4).map(b"".join)
_RUNS = st.tuples(_LINES, _like(_PLAN), _like(_OUTCOME), st.booleans())


def _write_run(value, work):
    run = work / "results" / "board" / _RUN
    (run / "sgemm").mkdir(parents=True)
    names = ("sgemm/golden.jsonl", "plan.json", "sgemm/golden.outcome.json")
    for name, data in (*zip(names, value), ("ended.json", b"{}"), ("sgemm/golden.log", b"a log\n")):
        (run / name).write_bytes(data)
    return run


def _records(value, work):
    run = _write_run(value, work)
    return report(["--export", "out.zip", str(run)] if value[3] else ["-o", "page.html", "results"])


# Records for the tools, and those of a sweep. With so little time no sample comes to run.

_POINT = {"board": "b", "ended": "passed", "exit_status": 0, "key": "0" * 32, "limit_s": 60.0,
          "metric": 1.5, "options": ["--size", "8"], "seconds": 1.0}
_JOURNALED = {**_RECORD, "code": "0" * 64, "params": {"point": _POINT}}
_OF_GPU = {**_RECORD, "device": {**_RECORD["device"], "type": "gpu"}}  # `keep` leaves out CPUs
_JOURNAL = st.tuples(
    st.lists(_like(_JOURNALED), max_size=3).map(b"".join),
    st.binary(max_size=40) | words.mutated(_json(_JOURNALED)),
    st.booleans(),
)
_KEPT = st.tuples(st.just(_json(_OF_GPU)), _like({**_OF_GPU, "variant": "another"}))
_TOOL_WORDS = st.sampled_from(["--limit", "--kernel", "--folder",
    "-D", "--trust", "--",
    "--size", "x.jsonl", "x.jsonl:1", *SAMPLES])
_LIMITED = sorted({*COMMANDS} - {"keep"})  # it runs nothing
_TOOL_LINES = st.tuples(
    st.sampled_from([[name, "--limit", "0.02"] for name in _LIMITED] + [["keep"]]),
    st.lists(_TOOL_WORDS | words.WORDS, max_size=6),
)


def _journal(value, work):
    whole, last, swept = value
    path = work / "j.jsonl"
    path.write_bytes(whole + last)
    if not swept:
        return tools(["replay", "j.jsonl:1", "--limit", "0.02"])
    try:
        print(len(list(records.read(path, whole=False))), "points")
    except UsageError as error:
        complain(f"fab: error: {one_line(error)}")  # as fab does
        return WRONG_USAGE
    return PASSED


def _kept(lines, work):
    (work / "k.jsonl").write_bytes(b"".join(lines))
    return tools(["keep", "k.jsonl", "--tuned", "tuned"])


# Archives that others send.

_MEMBERS = st.sampled_from([
    "run/plan.json", "run/ended.json", "run/sgemm/golden.jsonl", "README.txt", "../x",
    "/tmp/opencl-x", "run/sgemm/../../x", "run/sgemm/golden.log", "a" * 300, "run/a/b.outcome.json",
])
_KEYS = ["format", "version", "files", "board", "run", "data", "kernels", "machine", "code", "made"]
_ARCHIVES = st.tuples(
    _RUNS,
    st.dictionaries(st.sampled_from(_KEYS), words.DATA, max_size=2),  # other values in the manifest
    st.dictionaries(_MEMBERS, st.binary(max_size=50) | _LINES, max_size=2),
    st.none() | st.integers(0, 10**6),  # where bytes are changed, if any are
)


def _archive(value, work):
    """Pack a run as we do, change what the archive holds or its bytes, and look at it."""
    run, manifest, members, at = value
    path, content = work / "friend.zip", {}
    with contextlib.suppress(UsageError):  # of a run that cannot be packed: the members alone
        archive.pack(_write_run(run, work), "friend", path)
        with zipfile.ZipFile(path) as whole:
            content = {name: whole.read(name) for name in whole.namelist()}
        content["manifest.json"] = _json(json.loads(content["manifest.json"]) | manifest)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as changed:
        for name, data in {**content, **members}.items():
            changed.writestr(name, data)
    if at is not None:
        data = bytearray(path.read_bytes())
        data[at % len(data)] ^= 0x81
        path.write_bytes(data)
    return report(["-o", "page.html", path.name])


# boards.toml, names of boards, and what a board sends.

_SETTINGS = {"folder": '"x"', "python": '"python3"', "env": '{A = "b"}', "time_limit": "60",
             "platform": '"p"', "type": '"cpu"', "skip": '["golden"]', "ssh_config": '"f"',
             "unknown": "1"}
_VALUES = st.sampled_from([
    *_SETTINGS.values(), '""', "0", "-1", "true", "1e400", "9" * 5000, "[" * 3000, "{}", "[[1]]",
    "nan", '"\\u0000"', '"\\n"', "1979-05-27", "'''",
]) | st.text(max_size=10)
_TABLES = st.dictionaries(
    st.sampled_from(["local", '"a b"', "x", '""']) | st.text(max_size=6),
    st.dictionaries(st.sampled_from(sorted(_SETTINGS)), _VALUES, max_size=3), max_size=3,
)
_HOSTS = st.text(st.characters(exclude_characters="\0"), max_size=12) | st.sampled_from([
    ":22", "a@", "@", "a@b@c", "-oProxyCommand=x", "a:0", "a:99999", "[::1", "::", "a,,b", ",",
    "reference", "../x", "a" * 300, "\n", "a\x1b[1m", "a b",
])


def _toml(tables):
    lines = []
    for name, table in tables.items():
        lines += [f"[{name}]", *map(" = ".join, table.items())]
    return "\n".join(lines)


def _boards(tables, work):
    (work / "boards.toml").write_text(_toml(tables), encoding="utf-8")
    return fab(["list"])


def _host(name, work):
    """Name a board to a task that reaches none: results are looked for, nothing is connected to."""
    (work / "boards.toml").touch()
    return fab(["export", "--host", name])


_EVENTS = st.sampled_from([
    {"event": "want", "paths": ["common/cli.py"]}, {"event": "done", "files": 1, "sent": 1},
    {"event": "done", "folder": "x"}, {"event": "tree", "differ": 0}, {"event": "beat"},
    {"event": "start", "number": 1, "of": 2, **_CASE}, {"event": "lines", "text": ["x", "\x1b[2J"]},
    {"event": "end", "records": ["{}"], "whole": True, "reason": None, "exit_status": 0,
     "seconds": 1.0, **_CASE}, {"event": "broken", "reason": "r"},
    {"event": "refused", "reason": "no\nno"}, {"event": "run", "run": _RUN, "complete": True},
    {"event": "run", "run": "../../x", "complete": False},
    {"event": "file", "path": "plan.json", "bytes": 2}, {"event": "file", "path": "x", "bytes": -1},
    {"event": "whole", "left": ["x"], "files": 1, "bytes": 9},
    {"event": "found", "packages": {}, "libc": ["glibc", 2, 36]}, {"event": "facts"},
])
_TASKS = ("deploy", "run-all", "run sgemm", "collect", "doctor", "clean", "provision --dry-run",
          "deploy run-all")
_TRAFFIC = st.tuples(
    st.sampled_from(_TASKS).map(str.split),
    st.lists(_EVENTS.flatmap(_like) | _EVENTS.map(_json) | st.binary(max_size=60), max_size=6),
)


# Greets as a board should, and then sends what was drawn.
_BOARD = """#!{python}
import json, sys
source, sink = sys.stdin.buffer, sys.stdout.buffer
for _ in range(2):  # the loader, and the modules
    source.read(int(source.readline()))
token = json.loads(source.readline())["token"]
sink.write(json.dumps({{"event": "hello", "token": token}}).encode() + b"\\n")
sink.write({said!r} + b"\\n")
"""


def _traffic(value, work):
    tasks, said = value
    program = work / "python"
    program.write_text(_BOARD.format(python=sys.executable, said=b"".join(said)))
    program.chmod(0o755)
    board = {"python": json.dumps(str(program)), "folder": json.dumps(str(work))}
    (work / "boards.toml").write_text(_toml({"local": board}))
    return fab(tasks)


TARGETS = (
    Target("command lines", _command_lines(), lambda value, _: run_py(*value), 30),
    Target("images", _images(), _image, 8),
    Target("metadata", _METADATA_FILES, _metadata, 15),
    Target("records", _RUNS, _records, 12),
    Target("journals", _JOURNAL, _journal, 10),
    Target("tools", _TOOL_LINES, lambda v, _: tools([*v[0], *v[1]]), 8),
    Target("kept records", _KEPT, _kept, 5),
    Target("archives", _ARCHIVES, _archive, 8),
    Target("boards.toml", _TABLES, _boards, 10),
    Target("host names", _HOSTS, _host, 5),
    Target("board traffic", _TRAFFIC, _traffic, 12),
)
