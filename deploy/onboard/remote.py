"""Answer one request of the host. The last event says that it is done, or why it is refused."""

import json
import signal
import sys
import threading

from deploy.onboard import facts, helper, points, provision, runs, tree
from deploy.onboard.wire import BEAT, Refused, Wire

REQUESTS = {
    "sync": tree.sync, "run": runs.run, "fetch": runs.fetch, "clean": tree.clean,
    "points": points.points,
    "facts": facts.answer, "look": provision.look, "install": provision.install,
    "installed": provision.installed, "make": provision.make, "helper": helper.helper,
}
LOOKS = ("facts", "look")  # they change nothing, and may wait minutes for a driver that hangs


def interrupt(wire):
    """Interrupt the main thread as soon as the host says that it may stop, or is gone."""
    while not wire.lost and wire.line(BEAT) != b"stop":
        pass
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def main():
    request = json.loads(sys.stdin.buffer.readline().decode())
    # The host sends no more until it is greeted: nothing is left in Python's buffer.
    wire = Wire(sys.stdin.fileno(), sys.stdout.fileno())
    # A login script may have printed anything, without a newline at its end.
    wire.emit("hello", before=b"\n", token=request["token"])
    threading.Thread(target=wire.beat, daemon=True).start()
    if request["do"] in LOOKS:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # who started sshd may ignore it
        threading.Thread(target=interrupt, args=[wire], daemon=True).start()
    try:
        REQUESTS[request["do"]](wire, request)
    except KeyboardInterrupt:
        wire.emit("refused", reason="stopped")
    except Refused as error:
        wire.emit("refused", reason=str(error))
    except OSError as error:
        where = error.filename or "the folder of the samples"
        wire.emit("refused", reason="%s: %s" % (where, error.strerror or error))
