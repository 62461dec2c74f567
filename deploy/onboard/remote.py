"""Answer one request of the host: sync, run, fetch or clean. The last event is done or refused."""

import json
import sys

from deploy.onboard.runs import fetch, run
from deploy.onboard.tree import clean, sync
from deploy.onboard.wire import Refused, Wire


def main():
    request = json.loads(sys.stdin.buffer.readline().decode())
    # The host sends no more until it is greeted: nothing is left in Python's buffer.
    wire = Wire(sys.stdin.fileno(), sys.stdout.fileno())
    # A login script may have printed anything, without a newline at its end.
    wire.emit("hello", before=b"\n", token=request["token"])
    try:
        {"sync": sync, "run": run, "fetch": fetch, "clean": clean}[request["do"]](wire, request)
    except Refused as error:
        wire.emit("refused", reason=str(error))
    except OSError as error:
        where = error.filename or "the folder of the samples"
        wire.emit("refused", reason="%s: %s" % (where, error.strerror or error))
