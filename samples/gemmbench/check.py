"""Run kernels under Oclgrind, a simulator that sees data races and every access out of bounds.

python samples/gemmbench/run.py check                        our kernels, at small orders
python samples/gemmbench/run.py check --kernels DIR -f NAME.json --orders 16,20
python samples/gemmbench/run.py check -f '*_local' -D ROOM=16         with a macro of the kernel's

Oclgrind is a package of Debian and others. Each kernel runs in a process of its own.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import metadata
import options

from common import cli, gemm
from common.errors import PASSED, WRONG_RESULT, Unsupported, UsageError
from common.record import Record

_PROBE = Path(__file__).with_name("probe.py")
_RUNTIME = ("lib/oclgrind", "lib64/oclgrind", "lib")  # where the runtime is, from its bin folder up
# What Oclgrind calls the kinds of what it finds, as its messages begin.
_KINDS = {
    "race": re.compile(r"\S* ?data race"),
    "read": re.compile(r"Invalid read"),
    "write": re.compile(r"Invalid write"),
    "uninitialised": re.compile(r"Uninitiali[sz]ed"),
    "divergence": re.compile(r"Work-group divergence"),
}
_NO_MESSAGE = re.compile(r"Oclgrind: \d+ errors generated")


def parser():
    """Return the parser of `check`."""
    result = cli.bare_parser("gemmbench", __doc__)
    cli.add_inputs(result)
    cli.add_json(result)
    add = result.add_argument
    add("-f", "--file", metavar="NAME", default="all",
        help="metadata of kernels: A,B or 'SGEMM_*' (default %(default)s)")  # fmt: skip
    add("--kernels", type=Path, metavar="DIR", default=options.KERNELS,
        help="folder of the kernels (default: the one beside run.py)")  # fmt: skip
    add("--orders", type=options.listed(gemm.parse_size), metavar="N,...", default="16,19",
        help="small ones: 64 takes seconds each (default %(default)s)")  # fmt: skip
    add("-lws", "--local-size", dest="lws", type=options.local_size, metavar="J,I",
        help="by default the largest of at most 4 x 4 that divides the work-items")  # fmt: skip
    add("-D", "--define", action="append", default=[], type=_macro, metavar="NAME=VALUE",
        help="a macro for the kernels, such as fewer elements of local memory")  # fmt: skip
    add("--limit", type=options.positive, metavar="S", default=120,
        help="seconds that a kernel may take (default %(default)s)")  # fmt: skip
    result.set_defaults(seed=12345)
    return result


def _macro(text):
    if not re.fullmatch(r"[A-Za-z_]\w*(=[\w.+-]*)?", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME or NAME=VALUE")
    return text


def main(args):
    """Check every kernel at every order; print a line each; return the exit status."""
    runtime = find_runtime()
    jobs = []
    for meta in metadata.find(args.kernels, args.file.split(",")):
        sizes = [size for size in args.orders if meta.shape == "mnk" or len(set(size)) == 1]
        jobs += [(meta, sizes)] if sizes else []
    if not jobs:
        raise UsageError("--orders: these kernels take square matrices only")
    width = max(len("kernel"), *(len(meta.name) for meta, _ in jobs))
    print(f"{'kernel':<{width}}  {'size':<9}  {'group':<5}  result  Oclgrind")
    bad = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        probes = pool.map(lambda job: probe(runtime, *job, args), jobs)
        for (meta, sizes), outcomes in zip(jobs, probes):
            for size, outcome in zip(sizes, outcomes):
                bad += report(args, meta, size, width, *outcome)
    print(f"{bad} not clean" if bad else "all clean")
    return WRONG_RESULT if bad else PASSED


def report(args, meta, size, width, local, result, found):
    """Print the line of one kernel at one size, and record it; tell whether it is not clean."""
    said = ", ".join(f"{n} x {kind}" for kind, n in Counter(found.values()).items())
    problem = said or (None if result == "right" else f"the result is {result}")
    row = f"{meta.name:<{width}}  {size!s:<9}  {local:<5}  {result:<6}  {said or 'clean'}"
    print(row, flush=True)
    for message in list(found)[:1]:
        print(f"    the first: {brief(message, meta.source.name)}", flush=True)
    cli.save(args, Record(
        "gemmbench", meta.name, "failed" if problem else "passed", problem,
        params={"check": "Oclgrind", "kernel_sha256": meta.digest(), "size": str(size),
                "local": local, "seed": args.seed, "defines": args.define},
        environment=cli.environment(),
    ))  # fmt: skip
    return problem is not None


def brief(message, name):
    """Return a message in a line: what was found, and the lines of the kernel's source."""
    places = re.findall(r"At line (\d+).*\n\s*(.*)", message)
    where = " and ".join(f"{name}:{number}: {code}" for number, code in places)
    return message.splitlines()[0] + (f", {where}" if where else "")


def find_runtime():
    """Return Oclgrind's OpenCL runtime, a library for the ICD loader, or raise Unsupported."""
    program = shutil.which("oclgrind")
    for folder in _RUNTIME if program else ():
        library = Path(program).resolve().parents[1] / folder / "liboclgrind-rt-icd.so"
        if library.exists():
            return library
    raise Unsupported("Oclgrind is not installed: apt install oclgrind")


def probe(runtime, meta, sizes, args):
    """Return (local size, result, messages with their kinds) of each size, in a new process."""
    with tempfile.TemporaryDirectory(prefix="gemmbench-") as folder:
        log = Path(folder, "log")
        job = {"metadata": str(meta.path), "sizes": [list(size) for size in sizes],
               "seed": args.seed, "lws": args.lws, "log": str(log),
               "defines": args.define}  # fmt: skip
        env = {**os.environ, "OCL_ICD_VENDORS": str(runtime), "OCLGRIND_LOG": str(log),
               "OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNINITIALIZED": "1",
               "OCLGRIND_MAX_ERRORS": "1000000"}  # fmt: skip
        # Optimised, a read whose value is dropped would be gone; and version 21.10 crashes on sums
        # over lanes that the compiler has made one instruction of.
        env["OCLGRIND_BUILD_OPTIONS"] = "-cl-opt-disable"
        try:
            done = subprocess.run(
                [sys.executable, _PROBE, json.dumps(job)], env=env, timeout=args.limit,
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            problem = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
            lines = done.stdout.splitlines()
        except subprocess.TimeoutExpired as late:
            problem = f"no end within {args.limit:g} s"
            lines = (late.stdout or b"").decode().splitlines()
        text = log.read_bytes() if log.exists() else b""
        results, start = [], 0
        for item in map(json.loads, lines):
            messages = text[start : item["log_end"]].decode(errors="replace")
            start = item["log_end"]
            results.append((item["local"], item["result"], sort(messages)))
        lost = ("-", "none", {problem: "no result"})
        return results + [lost] * (len(sizes) - len(results))


def sort(log):
    """Return the messages of a log, each with its kind: a key of _KINDS, or `other`.

    The first line of a message begins at the left, the others with a tab.
    """
    found = {}
    for number, block in enumerate(re.split(r"\n(?=\S)", log)):
        message = block.strip()
        if message and not _NO_MESSAGE.match(message):
            kind = next((kind for kind, sign in _KINDS.items() if sign.match(message)), "other")
            found[message if message not in found else f"{message}\n({number})"] = kind
    return found
