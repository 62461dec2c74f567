"""Run cases one by one, and send their results."""

import os
import shutil
import signal
import sys

from deploy.onboard import limits
from deploy.onboard.cases import first_records, run_case
from deploy.onboard.environment import added, of_case
from deploy.onboard.folder import grab, locked, place, require_ours, waiting, write_json
from deploy.onboard.tree import hashes

LEFT = ".left"  # after the name of a run: the rest of it
SHOWN_LEFT = 3  # files that the host names


def run(wire, request):
    """Run the request's cases one by one, then hand over their records and logs.

    plan.json says what was asked for, and the SHA-256 of every file that was deployed then.
    """
    folder = request["folder"]
    require_ours(folder, "current")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a lost connection does not end the run
    with locked(folder, request["holder"]):
        tree = os.path.realpath(place(folder, "current"))
        have, wanted = hashes(tree), request["manifest"]
        target = place(folder, "results", request["run"])
        os.makedirs(target)
        env = added(folder, request["env"])
        try:
            plan = dict(request, deployed=have, python=sys.executable, env=env)
            write_json(os.path.join(target, "plan.json"), plan)
        except OSError:
            shutil.rmtree(target, ignore_errors=True)  # nothing ran: nothing to collect
            raise
        with open(os.path.join(target, "plan.json")) as plan:
            grab(plan)  # held while the run is going on: see still_running
            wire.emit("tree", differ=sum(have.get(path) != wanted[path] for path in wanted))
            try:
                run_cases(wire, request, tree, target)
            except OSError as error:  # a full disk: the cases that ended are still fetched
                wire.emit("broken", reason=error.strerror or str(error))
    hand_over(wire, folder, request["run"])
    wire.emit("done")


def run_cases(wire, request, tree, target):
    env, stopped = of_case(request["folder"], request["env"]), False
    for number, case in enumerate(request["cases"], 1):
        if stopped:
            break
        wire.emit("start", number=number, of=len(request["cases"]), **case)
        outcome = run_case(wire, case, tree, target, env)
        stopped = outcome["reason"] == "stopped"
        # To be shown at once; all records follow with the run.
        path = os.path.join(target, case["sample"], case["case"] + ".jsonl")
        records, whole = first_records(path)
        wire.emit("end", records=records, whole=whole, **outcome)
    write_json(os.path.join(target, "ended.json"), {"stopped": stopped})


def fetch(wire, request):
    """Hand over every run whose results are still here, but those that are going on."""
    folder = request["folder"]
    require_ours(folder)
    for name in waiting(folder):
        if still_running(place(folder, "results", name)):
            wire.emit("running", run=name)
        else:
            hand_over(wire, folder, name)
    wire.emit("done")


def hand_over(wire, folder, name):
    """Send a run file by file; delete those when the host says that they are stored.

    What is too large stays, in a folder that no collect looks at.
    """
    target = place(folder, "results", name)
    wire.emit("run", run=name)
    sent, left = send_files(wire, target, limits.FILE, limits.KINDS)
    wanted = b"stored " + name.encode()
    answer = wire.line(limits.STORING)
    while answer is not None and not answer.startswith((b"stored ", b"kept ")):
        answer = wire.line(limits.STORING)  # a "stop" that came too late to stop anything
    if answer == wanted:
        forget(target, sent, left)


def send_files(wire, target, pattern, kinds):
    """Send the files of a folder; return what choose() does."""
    sent, left = choose(target, pattern, kinds)
    for path in list(sent):
        try:
            with open(os.path.join(target, path), "rb") as file:
                data = file.read(sent[path])
        except OSError:  # a broken card
            left[path] = sent.pop(path)
            continue
        wire.emit("file", data, path=path, bytes=len(data))
    wire.emit("whole", left=sorted(left)[:SHOWN_LEFT], files=len(left), bytes=sum(left.values()))
    return sent, left


def choose(target, pattern, kinds):
    """Return two tables of the files of a folder, size by path: those to send, and the others.

    The `pattern` is that of names that may be sent. Those of each kind, (the end of a name, the
    most bytes), are together, and the kinds in their order.
    """
    left = {}
    for base, _, names in os.walk(target):
        for name in names:
            path = os.path.join(base, name)
            left[os.path.relpath(path, target)] = os.lstat(path).st_size
    sent, room = {}, limits.LARGEST_RUN
    for ending, largest in kinds:
        for path in sorted(left):
            size = left[path]
            fits = path.endswith(ending) and pattern.fullmatch(path)
            if fits and size <= min(largest, room):
                sent[path], room = left.pop(path), room - size
    return sent, left


def forget(target, sent, left):
    """Delete what the host has stored. What was left is there for a person, not for a collect."""
    if left:
        for path in sent:
            os.unlink(os.path.join(target, path))
        os.rename(target, target + LEFT)
    else:
        shutil.rmtree(target, ignore_errors=True)  # another collect may have been quicker


def still_running(target):
    try:
        with open(os.path.join(target, "plan.json")) as plan:
            return not grab(plan)
    except OSError:
        return False
