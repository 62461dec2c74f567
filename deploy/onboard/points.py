"""Run the points of a sweep one by one, as the host sends them.

points/KEY/ holds the result of a point until the host has stored it: where the host is lost, the
point that is running goes on, and the next host of the sweep gets it.
"""

import contextlib
import json
import os
import shutil
import signal
import tempfile

from deploy.onboard import limits
from deploy.onboard.cases import first_records, run_case
from deploy.onboard.environment import added, of_case
from deploy.onboard.folder import locked, place, require_ours
from deploy.onboard.runs import send_files
from deploy.onboard.wire import BEAT

KEPT = "points"


def points(wire, request):
    """Hand over the results that are still here; then run what comes until the host ends it.

    A line of the host is {"key", "sample", "args", "timeout", "stored", "env", "files"}: a point,
    and the keys of those that need not be kept any more. One without a key only says the latter.
    `env` are further variables. `files` is a folder of the host, or None: the files that the point
    writes there are sent after its result, and forgotten.
    """
    folder = request["folder"]
    require_ours(folder, "current")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a lost connection does not end the point
    with locked(folder, request["holder"]):
        kept = place(folder, KEPT)
        os.makedirs(kept, exist_ok=True)
        for key in sorted(os.listdir(kept)):
            hand_over(wire, kept, key)
        wire.emit("ready", env=added(folder, request["env"]))
        while not wire.lost:
            line = wire.line(BEAT)
            if line == b"stop":
                break
            if line is None:
                continue
            asked = json.loads(line.decode())
            for key in asked["stored"]:
                shutil.rmtree(os.path.join(kept, key), ignore_errors=True)
            if "key" in asked:
                run_point(wire, request, asked, kept)
    wire.emit("done")


def run_point(wire, request, asked, kept):
    folder, key = request["folder"], asked["key"]
    tree = os.path.realpath(place(folder, "current"))
    target = os.path.join(kept, key)
    shutil.rmtree(target, ignore_errors=True)
    with contextlib.ExitStack() as made:
        files = asked["files"] and made.enter_context(tempfile.TemporaryDirectory(dir=kept))

        def here(text):
            return text.replace(asked["files"], files) if files else text

        more = {name: here(value) for name, value in asked["env"].items()}
        env = of_case(folder, dict(request["env"], **more))
        args = [here(word) for word in asked["args"]]
        run_case(wire, dict(asked, args=args, case="point", arrays=False), tree, target, env)
        hand_over(wire, kept, key)
        if files:
            send_files(wire, files, limits.MADE, limits.MADE_KINDS)


def hand_over(wire, kept, key):
    """Send the result of a point; delete one that has none, since it did not end."""
    target = os.path.join(kept, key)
    try:
        (sample,) = os.listdir(target)
        base = os.path.join(target, sample, "point")
        with open(base + ".outcome.json") as file:
            outcome = json.load(file)
    except (OSError, ValueError):
        outcome = {"reason": "stopped"}
    if outcome["reason"] == "stopped":
        shutil.rmtree(target, ignore_errors=True)
    records, whole = first_records(os.path.join(target, outcome.get("sample", ""), "point.jsonl"))
    wire.emit("end", key=key, records=records, whole=whole, **outcome)
