"""Answer one request of the host: sync, run, fetch or clean. The last event is done or refused."""

from deploy.onboard.runs import fetch, run
from deploy.onboard.tree import clean, sync
from deploy.onboard.wire import serve


def main():
    serve({"sync": sync, "run": run, "fetch": fetch, "clean": clean})
