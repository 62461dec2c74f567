"""Start a sample in a separate process with a time limit: a driver may hang or crash."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

from common import manifest, record, stopping
from common.errors import UNSUPPORTED, WRONG_USAGE, OpenCLFailure, Unsupported, UsageError
from common.text import printable, signal_name

_TAIL = 65536  # bytes of what a sample says on stderr
# The kernel ends a point whose tool was killed: it would take the time of another.
_ENDS_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")
_PATIENT = ("OPENCL_SAMPLES_PROBE_SECONDS=300", "python3")  # a driver's start is emulated, too
_running, _lock = set(), Lock()


@dataclass
class Outcome:
    """How a run ended.

    `status` is the exit status, negative for a signal, None where it took too long. `reason` says
    what went wrong where the records do not.
    """

    status: int | None
    records: list = field(default_factory=list)
    reason: str | None = None
    seconds: float = 0.0

    @property
    def why(self):
        """The first reason of its records, or else its own."""
        return next((item.reason for item in self.records if item.reason), self.reason)


def run(sample, options, limit_s, env=None, board=None):
    """Run a sample with the options, at most `limit_s` seconds; return the Outcome.

    `env` are variables beside those of this process. The sample is killed with all that it started.
    It runs in the project's folder on the emulated `board` of that name, if one is given, which
    sees nothing else of this machine.
    """
    kind = tempfile.TemporaryFile
    script = [str(manifest.ROOT / "samples" / sample / "run.py")]
    if board:
        script = ["-m", "dev.emulate", "run", board, "--", *_PATIENT, f"samples/{sample}/run.py"]
        kind = partial(tempfile.NamedTemporaryFile, dir=shared_folder())
    # Files without a name: nothing is left of them, even after SIGKILL.
    with kind() as saved, tempfile.TemporaryFile() as said:
        json = f"/dev/fd/{saved.fileno()}"
        asked = on_board(saved.name) if board else json
        command = [*_ENDS_WITH_PARENT, sys.executable, *script, *options]
        started = time.monotonic()
        with _lock:  # no fork of another thread may keep the files open
            process = subprocess.Popen(
                [*command, "--json", asked], pass_fds=[saved.fileno()], stderr=said,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
                cwd=manifest.ROOT if board else None, env={**os.environ, **(env or {})},
            )
            _running.add(process)
        try:
            status = process.wait(limit_s)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            _end(process)
        seconds = time.monotonic() - started
        records, errors = record.sort(record.scan(json))
        return Outcome(status, records, _reason(status, limit_s, said, records, errors), seconds)


def shared_folder():
    """Return a folder that an emulated board sees as well, by the name on_board()."""
    folder = manifest.ROOT / ".emulated"  # where the boards themselves are kept
    folder.mkdir(exist_ok=True)
    return folder


def on_board(path):
    """Return the name of a file, in the project's folder, on the emulated board of run()."""
    return os.path.relpath(path, manifest.ROOT)


def _end(process):
    """Kill a run with all of its group, where it has not ended."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    with _lock:
        _running.discard(process)


@contextmanager
def pool(workers):
    """Return threads that run samples. If the block ends early, as by Ctrl-C, so do their runs."""
    threads = ThreadPoolExecutor(workers)
    try:
        yield threads
    except BaseException:
        threads.shutdown(wait=False, cancel_futures=True)  # what runs elsewhere is not ours to end
        here = list(_running)
        for process in here:
            _end(process)
        if here:
            threads.shutdown()  # they delete what the runs left, before folders of the block go
        raise
    threads.shutdown()


def in_order(threads, do, items):
    """Start do(item) for all items in the threads of a pool; yield what each returns, in order."""
    for future in [threads.submit(do, item) for item in items]:
        stopping.wait(lambda seconds, each=future: wait([each], seconds).done)
        yield future.result()


def _reason(status, limit_s, said, records, errors):
    """Return what went wrong where no record can say it, else None."""
    if status is None:
        return f"killed: it did not end within {limit_s:g} s"
    if errors:
        return f"its records cannot be read: {errors[0]}"
    told = status == 0 or any(item.status != "passed" for item in records)
    if records and told and status >= 0:
        return None
    said.seek(0, os.SEEK_END)
    said.seek(max(0, said.tell() - _TAIL))
    lines = said.read().decode(errors="replace").strip().splitlines()
    last = printable(lines[-1].removeprefix("run.py: error: ")) if lines else ""
    if status < 0:
        return f"killed by {signal_name(-status)}" + (f": {last}" if last else "")
    return last or f"ended with status {status} and left no record"


def described(sample, done):
    """Return the record of --describe in the Outcome of such a run.

    Raises UsageError where the sample takes the options for none of its own, Unsupported where
    the device lacks something, OpenCLFailure for any other failure.
    """
    found = [item for item in done.records if item.variant == "describe"]
    if found and done.status == 0:
        return found[-1]
    why = done.why or "no description"
    kind = {WRONG_USAGE: UsageError, UNSUPPORTED: Unsupported}.get(done.status, OpenCLFailure)
    raise kind(f"{sample}: {why}")
