"""Answer one request of the host. The last event says that it is done, or why it is refused."""

from deploy.onboard import facts, helper, points, provision, runs, tree
from deploy.onboard.wire import serve

REQUESTS = {
    "sync": tree.sync, "run": runs.run, "fetch": runs.fetch, "clean": tree.clean,
    "points": points.points,
    "facts": facts.answer, "look": provision.look, "install": provision.install,
    "installed": provision.installed, "make": provision.make, "helper": helper.helper,
}


def main():
    serve(REQUESTS)
