"""The board's side of a deployment. Sent over the connection each time, never installed.

It needs only the standard library of Python 3.6, so that a board too old for the samples can still
say so. It reads one request, a line of JSON, from stdin and answers with lines of JSON on stdout:
events, the last of which is `done` or `refused`. Below the remote folder it keeps

    suite.json           marks the folder as ours: nothing is deleted from a folder without it
    lock                 held while a deploy, a run or a clean is going on; says by whom
    current -> trees/N   the deployed files; switched in one step when a copy is whole
    results/RUN/         records and logs that the host has not fetched yet
    cache/               compiled Python
"""

import contextlib
import fcntl
import hashlib
import io
import json
import os
import select
import selectors
import shutil
import signal
import subprocess
import sys
import tarfile
import time

MARKER = "suite.json"
BEAT = 5.0  # seconds between signs of life, so that the host can tell a slow board from a dead one
PATIENCE = 30.0  # seconds for the host to take what is sent, before it counts as gone
GRACE = 2.0  # seconds between asking a process group to end and killing it
LOG_LIMIT = 4 * 1024 * 1024  # bytes of output that are kept and sent per case


class Refused(Exception):
    """Why the request cannot be done: a line that a person can act on."""


class Wire:
    """Events to the host. Once the host is gone, they are dropped and the work goes on."""

    def __init__(self, stdin, out):
        self.stdin, self.out = stdin, out
        self.lost = False
        os.set_blocking(out, False)  # a network that swallows all must not stop the work

    def emit(self, event, payload=b"", **fields):
        if self.lost:
            return
        data = memoryview(json.dumps(dict(fields, event=event)).encode() + b"\n" + payload)
        try:
            while data and not self.lost:
                self.lost = not select.select([], [self.out], [], PATIENCE)[1]
                data = data if self.lost else data[os.write(self.out, data) :]
        except OSError:
            self.lost = True

    def answer(self):
        """Return the host's next line, empty where the host is gone."""
        return b"" if self.lost else self.stdin.readline().strip()


def place(folder, *parts):
    """Return a path below the remote folder, which is relative to the home folder."""
    home = os.path.expanduser("~")
    return os.path.join(home, os.path.expanduser(folder), *parts)


@contextlib.contextmanager
def locked(folder, holder):
    with open(place(folder, "lock"), "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.seek(0)
            raise Refused("the board is in use: " + (lock.read().strip() or "by someone unknown"))
        lock.seek(0)
        lock.truncate()
        lock.write("%s, process %d on the board" % (holder, os.getpid()))
        lock.flush()
        yield


def require_ours(folder):
    if not os.path.exists(place(folder, MARKER)):
        raise Refused("nothing is deployed in %s: deploy first" % place(folder))


# Deploy


def sync(wire, request):
    """Make the deployed tree equal to the request's manifest; ask only for what differs."""
    folder, manifest = request["folder"], request["manifest"]
    claim(folder)
    with locked(folder, request["holder"]):
        current = os.path.realpath(place(folder, "current"))
        have = hashes(current)
        wanted = sorted(path for path in manifest if have.get(path) != manifest[path])
        if wanted or set(have) - set(manifest):
            wire.emit("want", paths=wanted)
            replace_tree(wire, folder, current, manifest, wanted)
        wire.emit("done", sent=len(wanted), files=len(manifest))


def claim(folder):
    os.makedirs(place(folder), exist_ok=True)
    if not os.path.exists(place(folder, MARKER)):
        if os.listdir(place(folder)):
            raise Refused(
                "%s holds other files: name a folder of its own in boards.toml" % place(folder)
            )
        with open(place(folder, MARKER), "w") as marker:
            json.dump({"layout": 1}, marker)


def hashes(tree):
    found = {}
    for base, _, names in os.walk(tree):
        for name in names:
            path = os.path.join(base, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, tree)] = hashlib.sha256(file.read()).hexdigest()
    return found


def replace_tree(wire, folder, current, manifest, wanted):
    """Unpack beside the deployed tree, check every file, then switch."""
    trees = place(folder, "trees")
    os.makedirs(trees, exist_ok=True)
    number = 1 + max([int(name) for name in os.listdir(trees) if name.isdigit()] or [0])
    incoming = os.path.join(trees, "incoming")
    shutil.rmtree(incoming, ignore_errors=True)
    try:
        for path in manifest:
            os.makedirs(os.path.dirname(os.path.join(incoming, path)), exist_ok=True)
        if wanted:
            unpack(wire.stdin, incoming, set(wanted))
        for path in set(manifest) - set(wanted):
            shutil.copy2(os.path.join(current, path), os.path.join(incoming, path))
        if hashes(incoming) != manifest:
            raise Refused("the copy does not match its checksums: deploy again")
    except BaseException:
        shutil.rmtree(incoming, ignore_errors=True)  # a full disk needs the room
        raise
    os.rename(incoming, os.path.join(trees, str(number)))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(place(folder, "next"))
    os.symlink(os.path.join("trees", str(number)), place(folder, "next"))
    os.replace(place(folder, "next"), place(folder, "current"))
    for name in os.listdir(trees):
        if name != str(number):
            shutil.rmtree(os.path.join(trees, name), ignore_errors=True)


def unpack(stream, target, wanted):
    size = int(stream.readline() or 0)
    data = io.BytesIO(stream.read(size))
    try:
        with tarfile.open(fileobj=data, mode="r:gz") as archive:
            for member in archive:
                # Names are compared, never trusted: a member that was not asked for ends it.
                if member.name not in wanted or not member.isfile():
                    raise Refused("the copy holds a file that was not asked for: " + member.name)
                path = os.path.join(target, member.name)
                with open(path, "wb") as file:
                    shutil.copyfileobj(archive.extractfile(member), file)
                os.chmod(path, 0o755 if member.mode & 0o100 else 0o644)
    except (tarfile.TarError, EOFError) as error:
        raise Refused("the copy broke off: %s" % error)


# Run


def run(wire, request):
    """Run the request's cases one by one, then hand over their records and logs.

    plan.json says what was asked for, and the SHA-256 of every file that was deployed then.
    """
    folder = request["folder"]
    require_ours(folder)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a lost connection does not end the run
    with locked(folder, request["holder"]):
        tree = os.path.realpath(place(folder, "current"))
        have = hashes(tree)
        differ = [
            path for path in request["manifest"] if have.get(path) != request["manifest"][path]
        ]
        wire.emit("tree", differ=len(differ))
        target = place(folder, "results", request["run"])
        os.makedirs(target)
        write_json(os.path.join(target, "plan.json"), dict(request, deployed=have))
        stopped = False
        for number, case in enumerate(request["cases"], 1):
            if stopped:
                break
            wire.emit("start", number=number, of=len(request["cases"]), **case)
            outcome = run_case(wire, case, tree, target, environment(folder, request["env"]))
            stopped = outcome["reason"] == "stopped"
            wire.emit("end", **outcome)
        write_json(os.path.join(target, "ended.json"), {"stopped": stopped})
        hand_over(wire, folder, request["run"])
    wire.emit("done")


def write_json(path, value):
    with open(path, "w") as file:
        json.dump(value, file, indent=1, sort_keys=True)


def environment(folder, extra):
    own = {"PYTHONUNBUFFERED": "1", "PYTHONPYCACHEPREFIX": place(folder, "cache", "python")}
    return dict(os.environ, **dict(own, **extra))


def run_case(wire, case, tree, target, env):
    """Run one case under its time limit in a process group of its own; return its outcome."""
    home = os.path.join(target, case["sample"])
    os.makedirs(home, exist_ok=True)
    base = os.path.join(home, case["case"])
    script = os.path.join("samples", case["sample"], "run.py")
    command = [sys.executable, script] + case["args"] + ["--json", base + ".jsonl"]
    started = time.time()
    clock = time.monotonic()
    with open(base + ".log", "wb") as log:
        process = subprocess.Popen(
            command, cwd=tree, env=env, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        reason = follow(wire, process, log, clock + case["timeout"])
        if not end_group(process):
            reason = "%s; the process cannot be killed" % reason
    status = process.returncode
    if reason is None and status is not None and status < 0:
        reason = "killed by %s" % signal.Signals(-status).name
    outcome = {
        "sample": case["sample"], "case": case["case"], "argv": command[1:], "started": started,
        "seconds": time.monotonic() - clock, "exit_status": status, "reason": reason,
    }  # fmt: skip
    write_json(base + ".outcome.json", outcome)
    return outcome


def follow(wire, process, log, deadline):
    """Pass on what the process prints until it ends; return why it had to be ended, or None."""
    output = process.stdout.fileno()
    selector = selectors.DefaultSelector()
    selector.register(output, selectors.EVENT_READ)
    if not wire.lost:
        selector.register(wire.stdin.fileno(), selectors.EVENT_READ)
    room, rest = LOG_LIMIT, b""
    beat = time.monotonic() + BEAT
    while True:
        now = time.monotonic()
        if now >= deadline:
            return "timeout"
        if now >= beat:
            wire.emit("beat")
            beat = now + BEAT
        ready = [key.fd for key, _ in selector.select(min(deadline, beat, now + 0.2) - now)]
        if output in ready:
            data = os.read(output, 65536)
            if not data:
                # Its output is closed; the process itself may still be running.
                try:
                    process.wait(max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    return "timeout"
                break
            kept = data[:room]
            room -= len(kept)
            log.write(kept)
            log.flush()
            lines = (rest + kept).split(b"\n")
            rest = lines.pop()
            for line in lines:
                wire.emit("line", text=line.decode("utf-8", "replace"))
            if room == 0:
                return "printed more than %d bytes" % LOG_LIMIT
        elif process.poll() is not None:
            break  # it ended, but a child of it keeps its output open
        if wire.stdin.fileno() in ready:
            said = os.read(wire.stdin.fileno(), 4096)
            if said.startswith(b"stop"):
                return "stopped"
            selector.unregister(wire.stdin.fileno())  # the host is gone: carry on without it
            wire.lost = True
    if rest:
        wire.emit("line", text=rest.decode("utf-8", "replace"))
    return None


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


# Results


def fetch(wire, request):
    """Hand over every run whose results are still here."""
    folder = request["folder"]
    require_ours(folder)
    results = place(folder, "results")
    for name in sorted(os.listdir(results)) if os.path.isdir(results) else []:
        hand_over(wire, folder, name)
    wire.emit("done")


def hand_over(wire, folder, name):
    """Send a run as a tar archive; delete it when the host says that it is stored."""
    target = place(folder, "results", name)
    complete = os.path.exists(os.path.join(target, "ended.json")) or not in_use(folder)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(target, arcname=".")
    payload = data.getvalue()
    wire.emit("archive", payload, run=name, bytes=len(payload), complete=complete)
    if wire.answer() == b"stored" and complete:
        shutil.rmtree(target)


def in_use(folder):
    try:
        with locked(folder, "a look at the results"):
            return False
    except Refused:
        return True


def clean(wire, request):
    """Delete what was deployed, and the folder if nothing else is in it."""
    folder = request["folder"]
    require_ours(folder)
    with locked(folder, request["holder"]):
        results = place(folder, "results")
        kept = os.listdir(results) if os.path.isdir(results) else []
        if kept and not request["discard"]:
            raise Refused("%d runs are not collected: collect them, or add --discard" % len(kept))
        for name in ("trees", "results", "cache"):
            shutil.rmtree(place(folder, name), ignore_errors=True)
        for name in ("current", "next", MARKER, "lock"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place(folder, name))
    with contextlib.suppress(OSError):
        os.rmdir(place(folder))  # stays where it holds files that are not ours
    wire.emit("done", folder=place(folder))


def main():
    wire = Wire(sys.stdin.buffer, sys.stdout.fileno())
    request = json.loads(wire.stdin.readline().decode())
    try:
        {"sync": sync, "run": run, "fetch": fetch, "clean": clean}[request["do"]](wire, request)
    except Refused as error:
        wire.emit("refused", reason=str(error))
    except OSError as error:
        wire.emit("refused", reason="%s: %s" % (error.filename or "the board", error.strerror))


if __name__ == "__main__":
    main()
