"""What is fuzzed: for each target the inputs, and what is done with one in a process of its own."""

import contextlib
import json
import runpy
import sys
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from hypothesis import strategies as st

from common.errors import PASSED, WRONG_USAGE, UsageError
from deploy.experiments import journal
from dev.fuzz import words
from dev.fuzz.engine import MOST_MEMORY, ROOT
from report import archive
from report.errors import ReportError
from tools.__main__ import COMMANDS

SAMPLES = sorted(path.parent.name for path in (ROOT / "samples").glob("*/sample.toml"))
_EVIL = Path(__file__).with_name("evil.py")


@dataclass(frozen=True)
class Target:
    """`inputs` is a strategy; `act(value, work)` runs one in the folder `work` and returns a
    status. `share` is the target's part of all inputs, `memory` a bound in MiB or None."""

    name: str
    inputs: object
    act: Callable
    share: int
    memory: int | None = None


def run_py(sample, argv):
    """Run a sample."""
    sys.argv = [str(path := ROOT / "samples" / sample / "run.py"), *argv]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(str(path), run_name="__main__")
    return 0


def fab(argv):
    """Run fab with the fabfile of this checkout."""
    from fabric.main import program

    program.run(["fab", "--search-root", str(ROOT), *argv])
    return 0


def report(argv):
    """Make a page of results, or an archive."""
    from report.__main__ import main

    return main([str(word) for word in argv])


def tools(argv):
    """Run a tool."""
    from tools.__main__ import run

    return run(argv)


# Command lines of the samples.


def _options(sample):
    table = tomllib.loads((ROOT / "samples" / sample / "sample.toml").read_text())["options"]
    return [*table["values"], *table["words"], "--json", "--output", "--list", "--help"]


@st.composite
def _command_lines(draw):
    sample = draw(st.sampled_from(SAMPLES))
    argv = []
    for _ in range(draw(st.integers(0, 4))):
        name = draw(st.sampled_from(_options(sample)))
        value = draw(words.WORDS)
        argv += draw(st.sampled_from([[name, value], [f"{name}={value}"], [name], [value]]))
    size = "-n" if sample == "gemmbench" else "--size"
    small = ["--size", "8x8"] if sample == "64_bit_integer" else [size, "8"]
    return sample, argv if words.takes_long(argv) else [*small, "--repeat", "1", *argv]


def _sample_command_line(value, work):
    sample, argv = value
    if words.takes_long(argv):
        argv = ["--list"]
    return run_py(sample, _as_given(argv))


def _as_given(argv):
    """Return words as a program gets them that takes no bytes apart from UTF-8."""
    return [w.encode(errors="surrogateescape").decode(errors="replace") for w in argv]


# Images for 64_bit_integer.


def _images():
    made = []
    from PIL import Image

    for format in ("BMP", "PNG", "GIF", "TIFF", "PPM", "JPEG"):
        data = BytesIO()
        Image.new("RGB", (9, 7), (200, 30, 5)).save(data, format)
        made.append(words.mutated(data.getvalue()))
    return st.tuples(st.sampled_from(["a.bmp", "a\n.png", "\x1b[1m.gif", "-x.bmp"]),
                     st.one_of(st.binary(max_size=200), *made))


def _image(value, work):
    name, data = value
    (work / name).write_bytes(data)
    return run_py("64_bit_integer", ["--repeat", "1", f"./{name}"])


# Metadata of gemmbench.

_METADATA = {"name": "X", "file": "X.cl", "type": "S", "transA": "N", "transB": "N", "dj": 1,
             "di": 1, "opts": "-DX=1", "shape": "n"}
_KERNEL = """__kernel void gemm(__global const float *A, __global const float *B, __global float *C,
                   float alpha, float beta, uint n)
{ const size_t i = get_global_id(1), j = get_global_id(0); float s = 0;
  for (uint k = 0; k < n; k++) s += A[i * n + k] * B[k * n + j];
  C[i * n + j] = alpha * s + beta * C[i * n + j]; }"""


# Metadata that a kernel does not fit, and options that no compiler takes.
_PLAUSIBLE = st.fixed_dictionaries({
    "name": st.sampled_from(["X", "a b", "\x1b[1m", "x" * 300, "\u202e"]), "file": st.just("X.cl"),
    "type": st.sampled_from("SDHCZ"), "transA": st.sampled_from("NnTt"),
    "transB": st.sampled_from("NnTt"), "dj": st.integers(1, 64), "di": st.integers(1, 64),
    "opts": st.sampled_from(["", "-DX=1", "-cl-std=CL9", "-I/", "-Werror", '"', "-D'", "x" * 999]),
    "shape": st.sampled_from(["n", "n", "mnk"]),
})


def _metadata_inputs():
    table = st.one_of(words.altered(_METADATA), _PLAUSIBLE, _PLAUSIBLE).map(_json)
    odd = st.sampled_from(["*", "**", "?.json", "[", "all", "../X.json", "a" * 300])
    name = st.one_of(st.just("X.json"), st.just("X"), odd)
    return st.tuples(st.one_of(table, table, st.binary(max_size=60)), name)


def _json(value):
    return json.dumps(value).encode()


def _sorted(value):
    return json.dumps(value, sort_keys=True).encode() + b"\n"


def _metadata(value, work):
    data, name = value
    (work / "X.json").write_bytes(data)
    (work / "X.cl").write_text(_KERNEL)
    return run_py("gemmbench", ["--kernels", ".", "-f", name, "-n", "8", "--repeat", "1"])


# Records, and runs as folders, for the report.

_RECORD = {
    "schema": 1, "sample": "sgemm", "variant": "dot4", "status": "passed", "reason": None,
    "params": {"size": "8x8x8", "alpha": 1.0}, "device": {"name": "D", "type": "cpu"},
    "environment": {"machine": "x86_64"}, "argv": ["run.py", "--size", "8"],
    "timing": {"queued_s": [1e-5], "wait_s": [1e-5], "run_s": [1e-4], "host_s": [2e-4],
               "warmup": 1},
    "metrics": {"gflops": 1.5, "flop_convention": "2*M*N*K"},
    "check": {"max_abs_error": 0.0, "error_over_bound": 0.1},
    "started": "2026-01-02T03:04:05.678+00:00",
}
_PLAN = {"run": "20260102T030405.678Z", "cases": [{"sample": "sgemm", "case": "golden"}],
         "deployed": {}, "env": {}, "folder": "x", "python": "python3"}
_OUTCOME = {"sample": "sgemm", "case": "golden", "argv": ["run.py"], "started": 1.0, "clock": 1.0,
            "seconds": 2.0, "exit_status": 0, "reason": None}
_LINES = st.lists(
    st.one_of(words.altered(_RECORD).map(_json), words.altered(_RECORD).map(_json),
              st.binary(max_size=40)),
    max_size=4,
).map(b"\n".join)
_RUNS = st.tuples(
    _LINES, words.altered(_PLAN).map(_json), words.altered(_OUTCOME).map(_json), st.booleans()
)


def _write_run(value, work):
    lines, plan, outcome, _ = value
    run = work / "results" / "board" / "20260102T030405.678Z"
    (run / "sgemm").mkdir(parents=True)
    (run / "plan.json").write_bytes(plan)
    (run / "ended.json").write_text("{}")
    (run / "sgemm" / "golden.jsonl").write_bytes(lines)
    (run / "sgemm" / "golden.outcome.json").write_bytes(outcome)
    (run / "sgemm" / "golden.log").write_text("a log\n")
    return run


def _records(value, work):
    run = _write_run(value, work)
    if value[3]:
        return report(["--export", "out.zip", run])
    return report(["-o", "page.html", "results"])


# Records for the tools, and those of a sweep. With so little time no sample comes to run.

_POINT = {"board": "b", "ended": "passed", "exit_status": 0, "key": "0" * 32, "limit_s": 60.0,
          "metric": 1.5, "options": ["--size", "8"], "seconds": 1.0}
_JOURNALED = {**_RECORD, "code": "0" * 64, "params": {"point": _POINT}}
_JOURNAL = st.tuples(
    st.lists(words.altered(_JOURNALED).map(_sorted), max_size=3).map(b"".join),
    st.one_of(st.just(b""), st.binary(max_size=40), words.mutated(_sorted(_JOURNALED))),
    st.booleans(),
)
_TOOL_WORDS = st.sampled_from(["--axis", "--limit", "--kernel", "--folder",
    "--guards", "-D", "--trust", "--json", "--",
    "--size", "x.jsonl", "x.jsonl:1", *SAMPLES])
_TOOL_LINES = st.tuples(
    st.sampled_from(COMMANDS), st.lists(st.one_of(_TOOL_WORDS, words.WORDS), max_size=6)
)


def _journal(value, work):
    path, swept = work / "j.jsonl", value[2]
    path.write_bytes(b"".join(value[:2]))
    if not swept:
        return tools(["replay", "j.jsonl:1", "--limit", "0.02"])
    try:
        print(len(list(journal.read(path, whole=False))), "points")
    except UsageError as error:
        print(error)
        return WRONG_USAGE
    return PASSED


def _tool_line(value, work):
    tool, argv = value
    return tools([tool, "--limit", "0.02", *_as_given(argv)])


# Archives that others send.

_MEMBERS = st.sampled_from([
    "run/plan.json", "run/ended.json", "run/sgemm/golden.jsonl", "README.txt", "../x",
    "/tmp/opencl-x", "run/sgemm/../../x", "run/sgemm/golden.log", "a" * 300, "run/a/b.outcome.json",
])
_KEYS = ["format", "version", "files", "board", "run", "licence", "machine", "code", "made"]
_ARCHIVES = st.tuples(
    _RUNS,
    st.dictionaries(st.sampled_from(_KEYS), words.DATA, max_size=2),  # other values in the manifest
    st.dictionaries(_MEMBERS, st.one_of(st.binary(max_size=50), _LINES), max_size=2),
    st.one_of(st.just(None), st.integers(0, 10**6)),  # where bytes are changed, if any are
)


def _archive(value, work):
    """Pack a run as we do, change what the archive holds or its bytes, and look at it."""
    run, manifest, members, at = value
    folder = _write_run(run, work)
    with contextlib.suppress(ReportError):  # of a run that cannot be packed: the members alone
        archive.pack(folder, "friend", work / "whole.zip")
    data = BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as changed:
        for name, content in {**_content(work / "whole.zip", manifest), **members}.items():
            changed.writestr(name, content)
    content = bytearray(data.getvalue())
    if at is not None:
        content[at % len(content)] ^= 0x81
    (work / "friend.zip").write_bytes(content)
    return report(["-o", "page.html", "friend.zip"])


def _content(path, manifest):
    if not path.exists():
        return {}
    with zipfile.ZipFile(path) as whole:
        content = {name: whole.read(name) for name in whole.namelist()}
    table = json.loads(content["manifest.json"]) | manifest
    return content | {"manifest.json": _json(table)}


# boards.toml, names of boards, and what a board sends.

_SETTINGS = {"folder": '"x"', "python": '"python3"', "env": '{A = "b"}', "time_limit": "60",
             "platform": '"p"', "type": '"cpu"', "skip": '["golden"]',
             "ssh_config": '"f"'}
_VALUES = st.one_of(
    st.sampled_from(list(_SETTINGS.values())),
    st.sampled_from(['""', "0", "-1", "true", "1e400", "9" * 5000, "[" * 3000, "{}", "[[1]]", "nan",
                     '"\\u0000"', '"\\n"', "1979-05-27", "'''"]),
    st.text(max_size=10),
)


@st.composite
def _boards_toml(draw):
    lines = []
    for name in draw(st.lists(st.one_of(st.sampled_from(["local", '"a b"', "x", '""']),
                                        st.text(max_size=6)), max_size=3)):
        lines.append(f"[{name}]")
        for key in draw(st.lists(st.sampled_from([*_SETTINGS, "unknown"]), max_size=3)):
            lines.append(f"{key} = {draw(_VALUES)}")
    return "\n".join(lines).encode(errors="surrogatepass")


def _boards(data, work):
    (work / "boards.toml").write_bytes(data)
    return fab(["list"])


_HOSTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from([":22", "a@", "@", "a@b@c", "-oProxyCommand=x", "a:0", "a:99999", "[::1", "::",
                     "a,,b", ",", "reference", "../x", "a" * 300, "\n", "a\x1b[1m", "a b"]),
).filter(lambda text: "\0" not in text)


def _host(name, work):
    """Name a board to tasks that reach none: results are looked for, nothing is connected to."""
    (work / "boards.toml").write_text("")
    name = name.encode(errors="replace").decode()
    return fab(["export", "--host", name])


_CASE = {"sample": "sgemm", "case": "golden"}
_RUN = "20260102T030405.678Z"
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
_TRAFFIC = st.tuples(
    st.sampled_from([["deploy"], ["run-all"], ["run", "sgemm"], ["collect"], ["doctor"], ["clean"],
                     ["provision", "--dry-run"], ["deploy", "run-all"]]),
    st.lists(st.one_of(
        _EVENTS.flatmap(words.altered).map(_json), _EVENTS.map(_json), st.binary(max_size=60)
    ), max_size=6).map(b"\n".join),
)


def _traffic(value, work):
    tasks, said = value
    (work / "said").write_bytes(said)
    program = work / "python"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{_EVIL}" "{work / "said"}"\n')
    program.chmod(0o755)
    settings = f"[local]\npython = {json.dumps(str(program))}\nfolder = {json.dumps(str(work))}\n"
    (work / "boards.toml").write_text(settings)
    return fab(tasks)


TARGETS = (
    Target("command lines", _command_lines(), _sample_command_line, 30),
    Target("images", _images(), _image, 8),
    Target("metadata", _metadata_inputs(), _metadata, 15),
    Target("records", _RUNS, _records, 12),
    Target("journals", _JOURNAL, _journal, 10),
    Target("tools", _TOOL_LINES, _tool_line, 8),
    Target("archives", _ARCHIVES, _archive, 8),
    Target("boards.toml", _boards_toml(), _boards, 10),
    Target("host names", _HOSTS, _host, 5),
    Target("board traffic", _TRAFFIC, _traffic, 12, MOST_MEMORY),
)
