"""Run cases one by one, and hand their results over."""

import io
import os
import shutil
import signal
import sys
import tarfile

from deploy.onboard.cases import first_records, run_case
from deploy.onboard.environment import recorded, variables
from deploy.onboard.folder import grab, locked, place, require_ours, waiting, write_json
from deploy.onboard.tree import hashes
from deploy.onboard.wire import PATIENCE


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
        wire.emit("tree", differ=sum(have.get(path) != wanted[path] for path in wanted))
        target = place(folder, "results", request["run"])
        os.makedirs(target)
        made = recorded(folder)
        python, env = made["python"] or sys.executable, dict(made["env"], **request["env"])
        try:
            plan = dict(request, deployed=have, python=python, env=env)
            write_json(os.path.join(target, "plan.json"), plan)
        except OSError:
            shutil.rmtree(target, ignore_errors=True)  # nothing ran: nothing to collect
            raise
        with open(os.path.join(target, "plan.json")) as plan:
            grab(plan)  # held while the run is going on: see still_running
            try:
                run_cases(wire, request, tree, target, python)
            except OSError as error:  # a full disk: what was done so far comes home all the same
                wire.emit("broken", reason=error.strerror or str(error))
    hand_over(wire, folder, request["run"])
    wire.emit("done")


def run_cases(wire, request, tree, target, python):
    folder = request["folder"]
    own = {"PYTHONUNBUFFERED": "1", "PYTHONPYCACHEPREFIX": place(folder, "cache", "python")}
    env = variables(folder, dict(own, **request["env"]))
    stopped = False
    for number, case in enumerate(request["cases"], 1):
        if stopped:
            break
        wire.emit("start", number=number, of=len(request["cases"]), **case)
        outcome = run_case(wire, case, tree, target, python, env)
        stopped = outcome["reason"] == "stopped"
        # For a user who watches; what counts comes in the archive.
        path = os.path.join(target, case["sample"], case["case"] + ".jsonl")
        records, whole = first_records(path)
        wire.emit("end", records=records, whole=whole, **outcome)
    write_json(os.path.join(target, "ended.json"), {"stopped": stopped})


def fetch(wire, request):
    """Hand over every run whose results are still here."""
    folder = request["folder"]
    require_ours(folder)
    for name in waiting(folder):
        hand_over(wire, folder, name)
    wire.emit("done")


def hand_over(wire, folder, name):
    """Send a run as a tar archive; delete it when the host says that it is stored."""
    target = place(folder, "results", name)
    complete = not still_running(target)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        archive.add(target, arcname=".")
    payload = data.getvalue()
    wire.emit("archive", payload, run=name, bytes=len(payload), complete=complete)
    answer = wire.line(PATIENCE)
    while answer == b"stop":  # it came too late to stop anything
        answer = wire.line(PATIENCE)
    if answer == b"stored" and complete:
        shutil.rmtree(target, ignore_errors=True)  # another collect may have been quicker


def still_running(target):
    try:
        with open(os.path.join(target, "plan.json")) as plan:
            return not grab(plan)
    except OSError:
        return False
