"""Run one case under its time limit, and end all that it started."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from itertools import accumulate

from deploy.onboard import limits
from deploy.onboard.folder import write_json

GRACE = 2.0  # seconds between asking a process group to end and killing it


def run_case(wire, case, tree, target, env):
    """Run one case under its time limit in a process group of its own; return its outcome.

    case["arrays"] asks for what its kernels put out, too.
    """
    home = os.path.join(target, case["sample"])
    os.makedirs(home, exist_ok=True)
    base = os.path.join(home, case["case"])
    script = os.path.join("samples", case["sample"], "run.py")
    command = [sys.executable, script] + case["args"] + ["--json", base + ".jsonl"]
    if case["arrays"]:
        command += ["--output", base + ".npz"]
    started = time.time()
    clock = time.monotonic()
    with open(base + ".log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=tree, env=env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        reason = follow(wire, process, log, clock + case["timeout"])
        if not end_group(process):
            reason = "%s; the process cannot be killed" % reason
    with contextlib.suppress(OSError):
        if os.path.getsize(base + ".npz") > limits.ARRAYS:
            os.unlink(base + ".npz")
    status = process.returncode
    if reason is None and status is not None and status < 0:
        names = {s.value: s.name for s in signal.Signals}
        reason = "killed by %s" % names.get(-status, "signal %d" % -status)
    outcome = {
        "sample": case["sample"], "case": case["case"], "argv": command[1:], "started": started,
        "clock": clock,  # the monotonic one: a board's date may be set while a run goes on
        "seconds": time.monotonic() - clock, "exit_status": status, "reason": reason,
    }
    write_json(base + ".outcome.json", outcome)
    return outcome


def first_records(path):
    """Return the lines of a case's records that fit FIRST_RECORDS, and whether all did.

    It is their size as JSON that counts, in which a character may take six.
    """
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            lines = file.read(limits.FIRST_RECORDS + 1).split("\n")
    except OSError:
        return [], True
    if not lines[-1]:
        lines.pop()
    sizes = accumulate(len(json.dumps(line)) for line in lines)
    fitting = [line for line, size in zip(lines, sizes) if size <= limits.FIRST_RECORDS]
    return fitting, len(fitting) == len(lines)


class Output:
    """What a case prints: kept in its log, up to limits.LOG, and passed on line by line."""

    def __init__(self, wire, pipe, log):
        self.wire, self.pipe, self.log = wire, pipe, log
        self.room, self.rest, self.open = limits.LOG, b"", True

    def read(self):
        """Pass on what is there now."""
        data = os.read(self.pipe, limits.LONGEST_PRINTED)
        self.open = bool(data)
        data, self.room = data[: self.room], max(0, self.room - len(data))
        with contextlib.suppress(OSError):  # a full disk costs the log, not the case
            self.log.write(data)
            self.log.flush()
        lines = (self.rest + data).split(b"\n")
        self.rest = lines.pop()
        if len(self.rest) > limits.LONGEST_PRINTED:
            lines, self.rest = lines + [self.rest], b""
        self.send(lines)

    def finish(self):
        """Pass on what is left, without waiting for more."""
        while self.open and self.room and select.select([self.pipe], [], [], 0)[0]:
            self.read()
        self.send([self.rest] if self.rest else [])

    def send(self, lines):
        if lines:
            self.wire.emit("lines", text=[line.decode("utf-8", "replace") for line in lines])


def follow(wire, process, log, deadline, stops=True):
    """Pass on what the process prints until it ends; return why it must be ended, or None.

    It goes on to its end, whatever the host says, if not `stops`.
    """
    output = Output(wire, process.stdout.fileno(), log)
    try:
        while process.poll() is None:
            if time.monotonic() >= deadline:
                return "timeout"
            # Often enough to see the end of a process whose child keeps the output open.
            if select.select([output.pipe] if output.open else [], [], [], 0.1)[0]:
                output.read()
            if output.room == 0:
                return "printed more than %d bytes" % limits.LOG
            if stops and wire.line(0) == b"stop":
                return "stopped"
        return None
    finally:
        output.finish()


def end_group(process):
    """End what is left of the process group; tell whether the process itself is gone."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if sign == signal.SIGTERM and process.poll() is not None:
            continue
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    process.stdout.close()
    return process.poll() is not None
