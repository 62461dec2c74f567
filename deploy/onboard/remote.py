"""Answer one request of the host. The last event says that it is done, or why it is refused."""

import json
import sys
import threading

from deploy.onboard import facts, helper, points, provision, runs, tree
from deploy.onboard.wire import Refused, Wire

REQUESTS = {
    "sync": tree.sync, "run": runs.run, "fetch": runs.fetch, "clean": tree.clean,
    "points": points.points,
    "facts": facts.answer, "look": provision.look, "install": provision.install,
    "installed": provision.installed, "make": provision.make, "helper": helper.helper,
}


def main():
    request = json.loads(sys.stdin.buffer.readline().decode())
    # The host sends no more until it is greeted: nothing is left in Python's buffer.
    wire = Wire(sys.stdin.fileno(), sys.stdout.fileno())
    # A login script may have printed anything, without a newline at its end.
    wire.emit("hello", before=b"\n", token=request["token"])
    threading.Thread(target=wire.beat, daemon=True).start()
    try:
        REQUESTS[request["do"]](wire, request)
    except Refused as error:
        wire.emit("refused", reason=str(error))
    except OSError as error:
        where = error.filename or "the folder of the samples"
        wire.emit("refused", reason="%s: %s" % (where, error.strerror or error))
