"""Small runs for the tests of the report, as `fab` leaves them in results/."""

import json
from types import SimpleNamespace

from common import record
from common.record import Record
from report.__main__ import main

DEVICE = {"name": "Mali-T628", "type": "gpu", "platform": "ARM Platform", "driver": "1.1"}
ENVIRONMENT = {"host": "odroid", "kernel": "Linux 5.4", "governors": {"policy0": "performance"}}
RUN, LATER = "20260102T030405.678Z", "20260203T040506.789Z"


def item(kernel="dot4", status="passed", times=(0.010, 0.011, 0.012), sample="sgemm", **more):
    """Return a Record of a GEMM of order 512; `more` replaces its fields."""
    fields = {
        "params": {"size": "512", "seed": 1},
        "device": DEVICE,
        "environment": ENVIRONMENT,
        "timing": {"run_s": list(times), "host_s": [t + 0.001 for t in times],
                   "queued_s": [1e-5] * len(times), "wait_s": [2e-5] * len(times), "warmup": 1},
        "metrics": {"gflops": 0.2684 / sorted(times)[len(times) // 2]} if times else {},
        "check": {"error_over_bound": 0.01},
        "argv": [f"samples/{sample}/run.py", "--kernel", kernel, "--json", "/somewhere/x.jsonl"],
        "started": "2026-01-02T03:04:06.000+00:00",
    }
    reason = None if status == "passed" else "it is broken"
    return Record(sample, kernel, status, **{"reason": reason, **fields, **more})


def write(path, *items):
    """Append records to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    for each in items:
        record.append(path, each)
    return path


def make_run(results, *items, board="odroid", name=RUN, case="speed", **plan):
    """Write a run with one case; return its folder."""
    folder, sample = results / board / name, items[0].sample
    base = write(folder / sample / f"{case}.jsonl", *items)
    base.with_suffix(".log").write_text("it says\nmuch\n")
    outcome = {
        "sample": sample, "case": case, "argv": items[0].argv, "started": 1767323045.0,
        "clock": 100.0, "seconds": 4.0, "exit_status": 0, "reason": None,
    }
    base.with_suffix(".outcome.json").write_text(json.dumps(outcome))
    plan = {
        "run": name, "folder": "opencl-samples", "env": {}, "holder": "anna@desk",
        "token": "secret", "cases": [{"sample": sample, "case": case, "args": []}],
        "deployed": {"common/record.py": "0" * 64}, "python": "/usr/bin/python3", **plan,
    }
    (folder / "plan.json").write_text(json.dumps(plan))
    (folder / "ended.json").write_text('{"stopped": false}')
    return folder


def program(capsys, *args):
    """Call `python -m report`'s main(): gives what a finished process has. A process takes 1 s."""
    capsys.readouterr()
    status = main(list(map(str, args)))
    said = capsys.readouterr()
    return SimpleNamespace(returncode=status, stdout=said.out, stderr=said.err)
