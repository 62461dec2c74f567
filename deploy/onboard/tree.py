"""Make the deployed tree equal to the host's, or delete it."""

import contextlib
import hashlib
import io
import os
import shutil

from deploy.onboard.environment import RECORD
from deploy.onboard.folder import MARKER, claimed, kept, locked, new_in, place, require_ours, unpack
from deploy.onboard.wire import Refused


def sync(wire, request):
    """Make the deployed tree equal to the request's manifest; ask only for what differs."""
    folder, manifest = request["folder"], request["manifest"]
    with claimed(folder, request["holder"]):
        current = os.path.realpath(place(folder, "current"))
        have = hashes(current)
        wanted = sorted(path for path in manifest if have.get(path) != manifest[path])
        if wanted or set(have) - set(manifest):
            wire.emit("want", paths=wanted)
            replace_tree(wire, folder, current, manifest, wanted)
        wire.emit("done", sent=len(wanted), files=len(manifest))


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
    with new_in(place(folder, "trees")) as incoming:
        for path in manifest:
            os.makedirs(os.path.dirname(os.path.join(incoming, path)), exist_ok=True)
        if wanted:
            unpack(io.BytesIO(wire.payload()), incoming, set(wanted))
        for path in set(manifest) - set(wanted):
            shutil.copy2(os.path.join(current, path), os.path.join(incoming, path))
        if hashes(incoming) != manifest:
            raise Refused("the copy does not match its checksums: deploy again")
        os.sync()  # power that fails after the switch must not leave empty files behind it
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place(folder, "next"))
        os.symlink(os.path.relpath(incoming, place(folder)), place(folder, "next"))
        os.replace(place(folder, "next"), place(folder, "current"))
        os.sync()


def clean(wire, request):
    """Delete what was deployed, and the folder if nothing else is in it."""
    folder = request["folder"]
    require_ours(folder)
    with locked(folder, request["holder"]):
        names = kept(folder)
        if names and not request["discard"]:
            raise Refused("not collected: %s. Collect them, or add --discard" % ", ".join(names))
        for name in ("trees", "results", "points", "cache", "envs", "vendors"):
            if os.path.isdir(place(folder, name)):
                shutil.rmtree(place(folder, name))
        # The mark goes last: what is left of a clean that broke off is still ours.
        for name in ("current", "next", RECORD, RECORD + ".new", "lock", MARKER):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place(folder, name))
    with contextlib.suppress(OSError):
        os.rmdir(place(folder))  # stays where it holds files that are not ours
    wire.emit("done", folder=place(folder))
