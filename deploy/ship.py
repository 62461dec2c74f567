"""Copy the samples to a board, and delete them there."""

import io
import tarfile

from deploy import samples
from deploy.link import sense
from deploy.onboard import limits
from deploy.screen import shortened


def deploy(board):
    """Make the board's copy equal to this checkout; only what differs travels."""
    files = samples.shipped(samples.load())
    session = board.start("sync", limits.COPY, manifest=samples.hashes(files))
    event = session.event()
    if event["event"] == "want":
        with sense(event):
            wanted = {path: files[path] for path in event["paths"]}
        size = _send(session, wanted.items())
        board.say(f"copying {len(wanted)} files, {size / 1024:.1f} KiB compressed")
        event = session.event()
    with sense(event):
        sent, kept = event["sent"], event["files"] - event["sent"]
        board.say(f"deployed: {sent:d} files copied, {kept:d} unchanged")


def _send(session, files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for path, file in files:
            archive.add(file, arcname=path, recursive=False)
    payload = data.getvalue()
    session.send(b"%d\n" % len(payload))
    session.send(payload)
    return len(payload)


def clean(board, discard):
    """Delete what was deployed. Results that were never collected stay, unless `discard`."""
    event = board.start("clean", limits.CLEAN, discard=discard).event()
    with sense(event):
        board.say(f"cleaned {shortened(event['folder'])}")
